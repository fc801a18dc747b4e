import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from attendo.data.batch import Batch, make_batch
from attendo.models.transformer import Transformer, TransformerConfig, build
from attendo.training.loss import batch_loss, build_loss, label_smoothed_cross_entropy
from attendo.training.settings import TrainingConfig

N, V = 11, 17
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
