"""Cross-entropy with label smoothing, and the loss of a batch.

Suffixes: N real target positions, P how often each is seen, R rows of one block, D d_model, V vocabulary.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from attendo import native
from attendo.data.batch import AnyBatch, Batch
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.prediction import Prediction
from attendo.native import kernels
from attendo.nn.embedding import OutputProjection, aligned_rows
from attendo.nn.masks import padding_mask
from attendo.training.settings import TrainingConfig

ROWS_AT_ONCE = 512  # target positions whose logits are held at the same time; by benchmarks/loss.py


def label_smoothed_cross_entropy(logits_NV: Tensor, target_N: Tensor, smoothing: float) -> Tensor:
    """Σ_n [ (1 - ε) (-log p_n(y_n)) + ε / V Σ_v (-log p_n(v)) ], a sum over positions (Szegedy et al. 2015).

    With z the logits and lse = log Σ exp z, a position costs lse - (1 - ε) z_y - ε mean(z), and its gradient is
    softmax(z) - (1 - ε) onehot(y) - ε / V: written out, so that no tensor as large as the logits is made but the
    gradient itself. The slow twin of `projected_cross_entropy`.
    """
    return _SmoothedCrossEntropy.apply(logits_NV, target_N, smoothing)


class _SmoothedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, logits_NV: Tensor, target_N: Tensor, smoothing: float) -> Tensor:
        lse_N = logits_NV.logsumexp(-1)
        chosen_N = logits_NV.gather(-1, target_N[:, None])[:, 0]
        ctx.save_for_backward(logits_NV, target_N, lse_N)
        ctx.smoothing = smoothing  # type: ignore[attr-defined]
        return (lse_N - (1 - smoothing) * chosen_N - smoothing * logits_NV.mean(-1)).sum()

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None, None]:
        logits_NV, target_N, lse_N = ctx.saved_tensors  # type: ignore[attr-defined]
        smoothing: float = ctx.smoothing  # type: ignore[attr-defined]
        result_NV = (logits_NV - lse_N[:, None]).exp_()
        result_NV -= smoothing / logits_NV.shape[-1]
        result_NV.scatter_add_(-1, target_N[:, None], torch.full_like(lse_N, smoothing - 1)[:, None])
        return result_NV.mul_(gradient), None, None


def projected_cross_entropy(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor,
    target_N: Tensor,
    smoothing: float,
    *,
    rows: int = ROWS_AT_ONCE,
) -> Tensor:
    """label_smoothed_cross_entropy(hidden Eᵀ + b, target, ε), with never more than `rows` rows of logits at a time.

    With G the gradient with respect to a block's logits, the block adds GE to the gradient of its rows of hidden, Gᵀ
    hidden to that of E, and Σ_n G_n to that of b. All this happens while the logits are there, in the forward pass:
    neither they nor G need be kept, and the backward pass only multiplies by the number that comes from above.
    """
    return _projected(hidden_ND[None], weight_VD, bias_V, target_N, smoothing, 0.0, rows)


def projected_r_drop(
    hidden_2ND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor,
    target_N: Tensor,
    smoothing: float,
    agreement: float,
    *,
    rows: int = ROWS_AT_ONCE,
) -> Tensor:
    """R-Drop (Liang et al. 2021): the model sees each batch twice, and dropout must not change what it says.

    With c the cost of `projected_cross_entropy` and p₁, p₂ the probabilities of both times, a position costs

        (c₁ + c₂) / 2 + α/4 (KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁)),

    which is half of the paper's, so that it is the ordinary cost where p₁ = p₂. `agreement` is α.
    """
    return _projected(hidden_2ND, weight_VD, bias_V, target_N, smoothing, agreement, rows)


def _projected(
    hidden_PND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor,
    target_N: Tensor,
    smoothing: float,
    agreement: float,
    rows: int,
) -> Tensor:
    inputs = (hidden_PND, weight_VD, bias_V)
    # Inside of `forward` torch does not tell any more whether gradients are on.
    training = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
    if kernels.serves(*inputs) and hidden_PND.shape[2] % native.lanes() == 0:
        return _NativeCrossEntropy.apply(*inputs, target_N, smoothing, agreement, training)
    return _ProjectedCrossEntropy.apply(*inputs, target_N, smoothing, agreement, rows, training)


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden_PND: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor,
        target_N: Tensor,
        smoothing: float,
        agreement: float,
        rows: int,
        training: bool,
    ) -> Tensor:
        # Matrices are multiplied in the precision that autocast asks for; softmax and sums are float32 at least.
        device = hidden_PND.device.type
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_PND.dtype
        high = torch.promote_types(low, torch.float32)
        low_PND, low_VD, low_V = hidden_PND.to(low), weight_VD.to(low), bias_V.to(low)
        (P, N, D), V = hidden_PND.shape, len(weight_VD)
        rows = max(1, rows // P)

        loss_N = hidden_PND.new_empty(N, dtype=high)
        logits_RV = aligned_rows(P * min(rows, N), V, low_PND)
        if training:
            hidden_gradient_PND = torch.empty_like(low_PND)
            weight_gradient_VD = torch.zeros_like(weight_VD, dtype=high)
            bias_gradient_V = torch.zeros_like(bias_V, dtype=high)

        for start in range(0, N, rows):
            block = slice(start, start + rows)
            x_RD = low_PND[:, block].reshape(-1, D)  # the block of each time, one after the other
            target_R1 = target_N[block].repeat(P)[:, None]
            z_RV = torch.addmm(low_V, x_RD, low_VD.t(), out=logits_RV[: len(x_RD)]).to(high)
            difference_RV = z_RV[: len(z_RV) // 2] - z_RV[len(z_RV) // 2 :] if P == 2 else None
            chosen_R1, mean_R1 = z_RV.gather(-1, target_R1), z_RV.mean(-1, keepdim=True)
            max_R1 = z_RV.amax(-1, keepdim=True)
            # One pass through the memory, over the logits themselves where torch's softmax goes row by row.
            p_RV = torch.softmax(z_RV, -1, out=z_RV if device == "cpu" else None)
            lse_R1 = max_R1 - p_RV.amax(-1, keepdim=True).log()  # the largest p is 1 / V at least: never log 0
            loss_R1 = lse_R1 - (1 - smoothing) * chosen_R1 - smoothing * mean_R1
            loss_N[block] = loss_R1.view(P, -1).mean(0)
            more_RV = None
            if difference_RV is not None:
                disagreement_R, more_RV = _disagreement(p_RV, lse_R1, difference_RV, training=training)
                loss_N[block] += agreement / 4 * disagreement_R
            if training:
                p_RV -= smoothing / V
                p_RV.scatter_add_(-1, target_R1, torch.full_like(lse_R1, smoothing - 1))
                if more_RV is not None:
                    p_RV.div_(2).add_(more_RV, alpha=agreement / 4)
                bias_gradient_V += p_RV.sum(0)
                gradient_RV = p_RV.to(low)
                hidden_gradient_PND[:, block] = torch.mm(gradient_RV, low_VD).view(P, -1, D)
                if low == high:
                    weight_gradient_VD.addmm_(gradient_RV.t(), x_RD)
                else:
                    weight_gradient_VD += gradient_RV.t() @ x_RD

        if training:
            ctx.save_for_backward(
                hidden_gradient_PND.to(hidden_PND.dtype),
                weight_gradient_VD.to(weight_VD.dtype),
                bias_gradient_V.to(bias_V.dtype),
            )
        return loss_N.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # type: ignore[attr-defined]
        return *(tensor * gradient.to(tensor.dtype) for tensor in saved), None, None, None, None, None


class _NativeCrossEntropy(torch.autograd.Function):
    """The same compiled, for training on one thread; it chooses the number of rows itself."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden_PND: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor,
        target_N: Tensor,
        smoothing: float,
        agreement: float,
        training: bool,
    ) -> Tensor:
        loss_N, gradients = kernels.cross_entropy(
            hidden_PND.contiguous(),
            weight_VD.contiguous(),
            bias_V.contiguous(),
            target_N.contiguous(),
            smoothing=smoothing,
            agreement=agreement,
            low=kernels.wants_bfloat16(),
            training=training,
        )
        ctx.save_for_backward(*gradients)
        return loss_N.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # type: ignore[attr-defined]
        return *(tensor * gradient for tensor in saved), None, None, None, None


def _disagreement(
    p_RV: Tensor, lse_R1: Tensor, difference_RV: Tensor, *, training: bool
) -> tuple[Tensor, Tensor | None]:
    """KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁) and its gradient; the upper half of p is p₁, and the difference is that of the logits.

    With d = log p₁ - log p₂ it is Σ (p₁ - p₂) d; with respect to the logits of p₁ its gradient is
    p₁ (d - KL(p₁ ‖ p₂)) + p₁ - p₂, and so the other way round.
    """
    (first_RV, second_RV), (first_R1, second_R1) = p_RV.chunk(2), lse_R1.chunk(2)
    d_RV = difference_RV.sub_(first_R1 - second_R1)
    one_R1 = (first_RV * d_RV).sum(-1, keepdim=True)
    other_R1 = -(second_RV * d_RV).sum(-1, keepdim=True)
    gradient_RV = None
    if training:
        apart_RV = first_RV - second_RV
        of_first_RV = (d_RV - one_R1).mul_(first_RV).add_(apart_RV)
        of_second_RV = d_RV.add_(other_R1).mul_(second_RV).add_(apart_RV).neg_()
        gradient_RV = torch.cat([of_first_RV, of_second_RV])
    return (one_R1 + other_R1)[:, 0], gradient_RV


def batch_loss(model: EncoderDecoder, batch: Batch, smoothing: float, agreement: float = 0.0) -> Tensor:
    """The summed loss of a batch's real target positions; padding never reaches the output projection.

    With an `agreement` above 0 it is that of R-Drop.
    """
    if agreement:
        batch = batch.repeated(2)
    hidden_BTD = model.hidden(batch.source_BS, batch.source_lengths_B, batch.target_in_BT, batch.target_lengths_B)
    real_BT = padding_mask(batch.target_lengths_B, batch.target_out_BT.shape[1])[:, 0, 0]
    return _cost(hidden_BTD[real_BT], model.output, batch.target_out_BT[real_BT], smoothing, agreement)


def asked_loss(model: nn.Module, batch: AnyBatch, smoothing: float, agreement: float = 0.0) -> Tensor:
    """The summed loss of all that a batch asks of a model: of ids at some positions, of labels of rows.

    `model.predictions` are its `Prediction`s. With an `agreement` above 0 it is that of R-Drop.
    """
    if agreement:
        batch = batch.repeated(2)
    asked: Iterable[Prediction] = model.predictions(batch)  # type: ignore[operator]
    costs = [
        weight * _cost(vectors_ND, output, target_N, smoothing, agreement)
        for vectors_ND, output, target_N, weight in asked
    ]
    return torch.stack(costs).sum()


def _cost(
    vectors_ND: Tensor, output: OutputProjection | nn.Linear, target_N: Tensor, smoothing: float, agreement: float
) -> Tensor:
    """That of R-Drop where the second half of the rows is the first half seen again, with an `agreement` above 0."""
    if not agreement:
        return projected_cross_entropy(vectors_ND, output.weight, output.bias, target_N, smoothing)
    hidden_2ND, target_2N = vectors_ND.unflatten(0, (2, -1)), target_N.unflatten(0, (2, -1))
    return projected_r_drop(hidden_2ND, output.weight, output.bias, target_2N[0], smoothing, agreement)


def build_loss(config: TrainingConfig) -> Callable[[nn.Module, AnyBatch], Tensor]:
    """What the training loop makes smaller: loss(model, batch), a sum over the batch's target tokens."""

    def loss(model: nn.Module, batch: AnyBatch) -> Tensor:
        if isinstance(batch, Batch):
            assert isinstance(model, EncoderDecoder)
            return batch_loss(model, batch, config.label_smoothing, config.r_drop)
        return asked_loss(model, batch, config.label_smoothing, config.r_drop)

    return torch.compile(loss, dynamic=True) if config.compile else loss
