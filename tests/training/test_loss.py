import dataclasses
import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from attendo.data.batch import Batch, make_batch
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import Transformer, build
from attendo.nn.masks import padding_mask
from attendo.training.loss import (
    batch_loss,
    build_loss,
    label_smoothed_cross_entropy,
    projected_cross_entropy,
    projected_r_drop,
)
from attendo.training.settings import TrainingConfig

N, D, V = 11, 5, 17
SMOOTHINGS = (0.0, 0.1, 0.37)


def logits_and_targets() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    logits_NV = 3 * torch.randn(N, V, generator=generator)
    return logits_NV.requires_grad_(), torch.randint(0, V, (N,), generator=generator)


def small_model() -> Transformer:
    torch.manual_seed(3)
    return build(
        TransformerConfig(
            source_vocab_size=19,
            target_vocab_size=19,
            n_encoder_layers=2,
            n_decoder_layers=1,
            d_model=6,
            d_ff=7,
            n_heads=2,
            residual_dropout=0.0,
        )
    )


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_equals_torch_forward_and_gradient(smoothing: float) -> None:
    logits_NV, target_N = logits_and_targets()
    ours = label_smoothed_cross_entropy(logits_NV, target_N, smoothing)
    theirs = functional.cross_entropy(logits_NV, target_N, label_smoothing=smoothing, reduction="sum")
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    # The gradient that comes from above is not 1: a loss is a part of a mean.
    (our_gradient_NV,) = torch.autograd.grad(0.3 * ours, logits_NV)
    (their_gradient_NV,) = torch.autograd.grad(0.3 * theirs, logits_NV)
    torch.testing.assert_close(our_gradient_NV, their_gradient_NV, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_equals_the_written_out_equation(smoothing: float) -> None:
    logits_NV, target_N = logits_and_targets()
    total = 0.0
    for logits_V, target in zip(logits_NV.tolist(), target_N.tolist(), strict=True):
        lse = math.log(math.fsum(math.exp(z) for z in logits_V))
        costs_V = [lse - z for z in logits_V]
        total += (1 - smoothing) * costs_V[target] + smoothing / V * math.fsum(costs_V)
    ours = label_smoothed_cross_entropy(logits_NV, target_N, smoothing)
    assert ours.item() == pytest.approx(total, rel=1e-5)


def test_gradient_by_differences() -> None:
    logits_NV, target_N = logits_and_targets()
    exact_NV = logits_NV.detach().double().requires_grad_()
    assert torch.autograd.gradcheck(lambda z_NV: label_smoothed_cross_entropy(z_NV, target_N, 0.1), exact_NV)


def test_huge_logits_stay_finite() -> None:
    logits_NV = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    loss = label_smoothed_cross_entropy(logits_NV, torch.tensor([0]), 0.0)
    loss.backward()
    assert loss.item() == 0.0
    assert logits_NV.grad is not None
    assert logits_NV.grad.tolist() == [[0.0, 0.0, 0.0]]


# --- without the logits -----------------------------------------------------------------------------------------------


def hidden_and_projection(n: int, dtype: torch.dtype = torch.float64) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """hidden [n, D], E [V, D] and b [V], and targets [n]."""
    generator = torch.Generator().manual_seed(7)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()

    return (normal(n, D), normal(V, D), normal(V)), torch.randint(0, V, (n,), generator=generator)


def torchs_own(hidden_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, target_N: Tensor, smoothing: float) -> Tensor:
    logits_NV = functional.linear(hidden_ND, weight_VD, bias_V)
    return functional.cross_entropy(logits_NV, target_N, label_smoothing=smoothing, reduction="sum")


def relative_error(ours: Tensor, theirs: Tensor) -> float:
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    return float((ours - theirs).norm() / theirs.norm()) if theirs.numel() else 0.0


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 3, 4, 12, 13])  # of 12: blocks that divide it and do not, one block, more
def test_in_blocks_equals_torch(rows: int, smoothing: float, dtype: torch.dtype, tolerance: float) -> None:
    tensors, target_N = hidden_and_projection(12, dtype)
    ours = projected_cross_entropy(*tensors, target_N, smoothing, rows=rows)
    theirs = torchs_own(*tensors, target_N, smoothing)
    twin = label_smoothed_cross_entropy(functional.linear(*tensors), target_N, smoothing)
    assert ours.item() == pytest.approx(theirs.item(), rel=tolerance)
    assert ours.item() == pytest.approx(twin.item(), rel=tolerance)
    found, expected, expected_twin = (torch.autograd.grad(0.3 * loss, tensors) for loss in (ours, theirs, twin))
    assert max(map(relative_error, found, expected)) < tolerance
    assert max(map(relative_error, found, expected_twin)) < tolerance


def test_in_blocks_equals_torch_with_rows_of_many_vectors() -> None:
    """Softmax writes over what it reads: long rows go through the processor's vectors, and the rest behind them."""
    generator = torch.Generator().manual_seed(9)
    tensors = [torch.randn(*shape, generator=generator).requires_grad_() for shape in ((37, D), (4099, D), (4099,))]
    hidden_ND, weight_VD, bias_V = tensors
    target_N = torch.randint(0, 4099, (37,), generator=generator)
    ours = projected_cross_entropy(hidden_ND, weight_VD, bias_V, target_N, 0.1, rows=16)
    theirs = torchs_own(hidden_ND, weight_VD, bias_V, target_N, 0.1)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    found, expected = (torch.autograd.grad(loss, tensors) for loss in (ours, theirs))
    assert max(map(relative_error, found, expected)) < 1e-5


def test_no_position_costs_nothing() -> None:
    tensors, target_N = hidden_and_projection(0)
    loss = projected_cross_entropy(*tensors, target_N, 0.1)
    assert loss.item() == 0.0
    for tensor, gradient in zip(tensors, torch.autograd.grad(loss, tensors), strict=True):
        assert gradient.shape == tensor.shape
        assert not gradient.any()


def test_a_shared_weight_has_the_gradients_of_both_its_uses() -> None:
    (_, weight_VD, bias_V), target_N = hidden_and_projection(N)
    hidden_ND = functional.embedding(target_N.roll(1), weight_VD).tanh()
    ours = projected_cross_entropy(hidden_ND, weight_VD, bias_V, target_N, 0.1, rows=4)
    theirs = torchs_own(hidden_ND, weight_VD, bias_V, target_N, 0.1)
    (found,) = torch.autograd.grad(ours, weight_VD, retain_graph=True)
    (expected,) = torch.autograd.grad(theirs, weight_VD)
    assert relative_error(found, expected) < 1e-10


def test_micro_batches_add_up() -> None:
    """Two backward passes into the same `.grad`, of losses divided by the number of all their positions."""
    tensors, target_N = hidden_and_projection(N)
    hidden_ND, weight_VD, bias_V = tensors
    for part in (slice(0, 7), slice(7, N)):
        loss = projected_cross_entropy(hidden_ND[part], weight_VD, bias_V, target_N[part], 0.1, rows=3) / N
        loss.backward()
    expected = torch.autograd.grad(torchs_own(*tensors, target_N, 0.1) / N, tensors)
    for tensor, gradient in zip(tensors, expected, strict=True):
        assert tensor.grad is not None
        assert relative_error(tensor.grad, gradient) < 1e-10


def test_gradients_in_blocks_by_differences() -> None:
    tensors, target_N = hidden_and_projection(7)

    def loss(hidden_ND: Tensor, weight_VD: Tensor, bias_V: Tensor) -> Tensor:
        return projected_cross_entropy(hidden_ND, weight_VD, bias_V, target_N, 0.1, rows=3)

    assert torch.autograd.gradcheck(loss, tensors)


def test_without_gradients_there_is_only_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors, target_N = hidden_and_projection(N)
    hidden_ND, weight_VD, bias_V = tensors
    expected = torchs_own(*tensors, target_N, 0.1).item()
    monkeypatch.delattr(torch, "mm")  # what the gradient of hidden is computed with
    with torch.no_grad():
        silent = projected_cross_entropy(*tensors, target_N, 0.1, rows=3)
    constant = projected_cross_entropy(hidden_ND.detach(), weight_VD.detach(), bias_V.detach(), target_N, 0.1, rows=3)
    assert silent.item() == constant.item() == pytest.approx(expected, rel=1e-10)
    with pytest.raises(AttributeError, match="mm"):
        projected_cross_entropy(*tensors, target_N, 0.1, rows=3)


def test_in_blocks_huge_logits_stay_finite() -> None:
    """The target's probability is 0 in float32; its logarithm is not."""
    hidden_ND = torch.tensor([[1e4]], requires_grad=True)
    weight_VD = torch.tensor([[1.0], [-1.0], [0.0]])
    bias_V = torch.zeros(3, requires_grad=True)
    loss = projected_cross_entropy(hidden_ND, weight_VD, bias_V, torch.tensor([1]), 0.0)
    assert loss.item() == 2e4
    hidden_gradient_ND, bias_gradient_V = torch.autograd.grad(loss, (hidden_ND, bias_V))
    assert hidden_gradient_ND.tolist() == [[2.0]]
    assert bias_gradient_V.tolist() == [1.0, -1.0, 0.0]


def test_mixed_precision_is_that_of_the_logits_as_a_whole() -> None:
    """Rounded where torch rounds; softmax, sums and what comes out in float32."""
    tensors, target_N = hidden_and_projection(N, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = projected_cross_entropy(*tensors, target_N, 0.1, rows=4)
        theirs = label_smoothed_cross_entropy(functional.linear(*tensors).float(), target_N, 0.1)
    assert ours.dtype == torch.float32
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    exact = torchs_own(*tensors, target_N, 0.1)
    assert ours.item() != pytest.approx(exact.item(), rel=1e-5)  # it was in lower precision indeed
    found, expected = (torch.autograd.grad(loss, tensors) for loss in (ours, theirs))
    assert max(map(relative_error, found, expected)) < 1e-2


# --- R-Drop -----------------------------------------------------------------------------------------------------------


def two_hidden(n: int, dtype: torch.dtype = torch.float64) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """hidden [2, n, D], E [V, D] and b [V], and targets [n]."""
    (hidden_ND, weight_VD, bias_V), target_N = hidden_and_projection(2 * n, dtype)
    return (hidden_ND.detach().unflatten(0, (2, n)).requires_grad_(), weight_VD, bias_V), target_N[:n]


def written_out(tensors: tuple[Tensor, Tensor, Tensor], target_N: Tensor, smoothing: float, agreement: float) -> Tensor:
    """The paper's equations with torch's own parts, divided by two."""
    hidden_2ND, weight_VD, bias_V = tensors
    first_NV, second_NV = functional.linear(hidden_2ND, weight_VD, bias_V)
    costs = [
        functional.cross_entropy(logits_NV, target_N, label_smoothing=smoothing, reduction="sum")
        for logits_NV in (first_NV, second_NV)
    ]
    p, q = first_NV.log_softmax(-1), second_NV.log_softmax(-1)
    apart = [functional.kl_div(ours, theirs, reduction="sum", log_target=True) for ours, theirs in ((p, q), (q, p))]
    return (sum(costs) + agreement * sum(apart) / 2) / 2  # type: ignore[return-value]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [2, 5, 8, 200])
def test_r_drop_equals_the_papers_equation(rows: int, smoothing: float, dtype: torch.dtype, tolerance: float) -> None:
    tensors, target_N = two_hidden(N, dtype)
    ours = projected_r_drop(*tensors, target_N, smoothing, 5.0, rows=rows)
    theirs = written_out(tensors, target_N, smoothing, 5.0)
    assert ours.item() == pytest.approx(theirs.item(), rel=tolerance)
    found, expected = (torch.autograd.grad(0.3 * loss, tensors) for loss in (ours, theirs))
    assert max(map(relative_error, found, expected)) < tolerance


def test_r_drop_of_equal_predictions_is_the_ordinary_loss() -> None:
    (hidden_ND, weight_VD, bias_V), target_N = hidden_and_projection(N)
    twice_2ND = torch.stack([hidden_ND, hidden_ND])
    ours = projected_r_drop(twice_2ND, weight_VD, bias_V, target_N, 0.1, 5.0)
    ordinary = projected_cross_entropy(hidden_ND, weight_VD, bias_V, target_N, 0.1)
    assert ours.item() == pytest.approx(ordinary.item(), rel=1e-12)
    (found,), (expected,) = (torch.autograd.grad(loss, [hidden_ND]) for loss in (ours, ordinary))
    assert relative_error(found, expected) < 1e-10


def test_r_drop_without_gradients_is_the_same() -> None:
    tensors, target_N = two_hidden(N)
    expected = projected_r_drop(*tensors, target_N, 0.1, 5.0).item()
    with torch.no_grad():
        assert projected_r_drop(*tensors, target_N, 0.1, 5.0).item() == expected


def test_r_drop_of_a_batch_sees_it_twice() -> None:
    model = small_model()
    batch = make_batch([[5, 6, 7], [8, 9, 10, 11, 12]], [[13, 14], [15, 16, 17, 18]])
    assert batch_loss(model, batch, 0.1, 5.0).item() == pytest.approx(batch_loss(model, batch, 0.1).item(), rel=1e-5)
    dropping = build(dataclasses.replace(model.config, residual_dropout=0.5)).train()
    dropping.load_state_dict(model.state_dict())
    torch.manual_seed(3)
    ours = batch_loss(dropping, batch, 0.1, 5.0)
    torch.manual_seed(3)
    twice = batch.repeated(2)
    hidden = dropping.hidden(twice.source_BS, twice.source_lengths_B, twice.target_in_BT, twice.target_lengths_B)
    real_BT = padding_mask(twice.target_lengths_B, twice.target_out_BT.shape[1])[:, 0, 0]
    tensors = (hidden[real_BT].unflatten(0, (2, -1)), dropping.output.weight, dropping.output.bias)
    target_N = twice.target_out_BT[real_BT][: batch.n_targets]
    theirs = written_out(tensors, target_N, 0.1, 5.0)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    assert (tensors[0][0] != tensors[0][1]).any()


# --- of a batch -------------------------------------------------------------------------------------------------------


def test_a_batch_costs_what_its_logits_cost() -> None:
    """Loss and all gradients of the model, in which one weight is shared by both embeddings and the output."""
    model = small_model()
    batch = make_batch([[5, 6, 7], [8, 9, 10, 11, 12]], [[13, 14], [15, 16, 17, 18]])
    real_BT = padding_mask(batch.target_lengths_B, batch.target_out_BT.shape[1])[:, 0, 0]
    logits_BTV = model(batch.source_BS, batch.source_lengths_B, batch.target_in_BT)
    ours = batch_loss(model, batch, 0.1)
    theirs = functional.cross_entropy(
        logits_BTV[real_BT], batch.target_out_BT[real_BT], label_smoothing=0.1, reduction="sum"
    )
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    parameters = list(model.parameters())
    for a, b in zip(torch.autograd.grad(ours, parameters), torch.autograd.grad(theirs, parameters), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def padded(batch: Batch, source: int, target: int, id: int) -> Batch:
    """The same batch with more padding, which holds any id at all."""
    return Batch(
        source_BS=functional.pad(batch.source_BS, (0, source), value=id),
        source_lengths_B=batch.source_lengths_B,
        target_in_BT=functional.pad(batch.target_in_BT, (0, target), value=id),
        target_out_BT=functional.pad(batch.target_out_BT, (0, target), value=id),
        target_lengths_B=batch.target_lengths_B,
    )


def test_padding_never_counts() -> None:
    model = small_model()
    batch = make_batch([[5, 6, 7], [8, 9, 10, 11, 12]], [[13, 14], [15, 16, 17, 18]])
    wider = padded(batch, 3, 5, id=7)
    narrow, wide = batch_loss(model, batch, 0.1), batch_loss(model, wider, 0.1)
    assert narrow.item() == pytest.approx(wide.item(), rel=1e-6)
    parameters = list(model.parameters())
    for a, b in zip(torch.autograd.grad(narrow, parameters), torch.autograd.grad(wide, parameters), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_batch_costs_what_its_pairs_cost() -> None:
    model = small_model()
    sources, targets = [[5, 6, 7], [8, 9, 10, 11, 12], [4]], [[13, 14], [15, 16, 17, 18], [12, 11, 10]]
    together = batch_loss(model, make_batch(sources, targets), 0.1).item()
    alone = [batch_loss(model, make_batch([s], [t]), 0.1).item() for s, t in zip(sources, targets, strict=True)]
    assert together == pytest.approx(sum(alone), rel=1e-6)


def test_every_target_and_its_eos_counts() -> None:
    model = small_model()
    batch = make_batch([[5, 6, 7], [8, 9]], [[13, 14], [15]])
    logits_BTV = model(batch.source_BS, batch.source_lengths_B, batch.target_in_BT)
    expected = sum(
        functional.cross_entropy(logits_BTV[row, :length], batch.target_out_BT[row, :length], reduction="sum").item()
        for row, length in enumerate(batch.target_lengths_B.tolist())
    )
    assert batch.target_lengths_B.tolist() == [3, 2]
    assert batch_loss(model, batch, 0.0).item() == pytest.approx(expected, rel=1e-5)


def test_the_loss_of_a_run_smooths_as_its_settings_say() -> None:
    model = small_model()
    batch = make_batch([[5, 6, 7], [8, 9]], [[13, 14], [15]])
    for smoothing in (0.0, 0.3):
        loss = build_loss(TrainingConfig(label_smoothing=smoothing))
        assert loss(model, batch).item() == batch_loss(model, batch, smoothing).item()


def test_the_loss_of_a_run_with_r_drop() -> None:
    model = build(dataclasses.replace(small_model().config, residual_dropout=0.5)).train()
    batch = make_batch([[5, 6, 7], [8, 9]], [[13, 14], [15]])
    losses = []
    for loss in (build_loss(TrainingConfig(r_drop=5.0)), lambda model, batch: batch_loss(model, batch, 0.1, 5.0)):
        torch.manual_seed(1)
        losses.append(loss(model, batch).item())
    assert losses[0] == losses[1]


@pytest.mark.proof
def test_the_compiled_loss_is_the_loss() -> None:
    """In training too, where dropout draws its masks: only whether it runs is seen of those."""
    model = small_model().eval()
    batches = [make_batch([[5, 7], [11] * 9], [[13, 17, 5], [7]]), make_batch([[6] * 5], [[8] * 4])]
    plain, compiled = (build_loss(TrainingConfig(compile=compiled)) for compiled in (False, True))
    for batch in batches:
        ours, theirs = compiled(model, batch), plain(model, batch)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        parameters = list(model.parameters())
        torch.testing.assert_close(
            torch.autograd.grad(ours, parameters), torch.autograd.grad(theirs, parameters), rtol=1e-4, atol=1e-5
        )
    dropping = build(dataclasses.replace(model.config, residual_dropout=0.3)).train()
    loss = compiled(dropping, batches[0])
    loss.backward()
    assert loss.isfinite()
