"""Cross-entropy with label smoothing, and the loss of a batch.

Suffixes: N real target positions, D d_model, V vocabulary.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from attendo.data.batch import Batch
from attendo.models.transformer import Transformer
from attendo.nn.masks import padding_mask
from attendo.training.settings import TrainingConfig


def label_smoothed_cross_entropy(logits_NV: Tensor, target_N: Tensor, smoothing: float) -> Tensor:
    """Σ_n [ (1 - ε) (-log p_n(y_n)) + ε / V Σ_v (-log p_n(v)) ], a sum over positions (Szegedy et al. 2015).

    With z the logits and lse = log Σ exp z, a position costs lse - (1 - ε) z_y - ε mean(z), and its gradient is
    softmax(z) - (1 - ε) onehot(y) - ε / V: written out, so that no tensor as large as the logits is made but the
    gradient itself.
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


def batch_loss(model: Transformer, batch: Batch, smoothing: float) -> Tensor:
    """The summed loss of a batch's real target positions; padding never reaches the output projection."""
    hidden_BTD = model.hidden(batch.source_BS, batch.source_lengths_B, batch.target_in_BT, batch.target_lengths_B)
    real_BT = padding_mask(batch.target_lengths_B, batch.target_out_BT.shape[1])[:, 0, 0]
    logits_NV = model.output(hidden_BTD[real_BT])
    return label_smoothed_cross_entropy(logits_NV.float(), batch.target_out_BT[real_BT], smoothing)


def build_loss(config: TrainingConfig) -> Callable[[Transformer, Batch], Tensor]:
    """What the training loop makes smaller: loss(model, batch), a sum over the batch's target tokens."""
    return lambda model, batch: batch_loss(model, batch, config.label_smoothing)
