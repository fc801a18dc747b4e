"""The loss of what a batch asks: torch's cross-entropy, and the sum over the parts that processes compute."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attendo.data.text_batch import NOTHING, TextBatch, segments_batch
from attendo.models.bert import build_bert, build_classifier
from attendo.models.gpt import build
from attendo.models.settings import BertConfig, ClassifierConfig, GPTConfig
from attendo.training.loss import asked_loss
from tests.training.test_loss import written_out

V = 31
SIZES: dict[str, Any] = {"n_layers": 1, "d_model": 26, "d_ff": 17, "n_heads": 2}


def asked_batch() -> TextBatch:
    rng = np.random.default_rng(3)
    rows = [rng.integers(4, V, size) for size in (7, 2, 11, 5, 3)]
    batch = segments_batch(rows, [row[::-1] for row in rows], labels=[1, 0, 1, 1, 0])
    real = torch.arange(batch.ids_BT.shape[1]) < batch.lengths_B[:, None]
    asked = real & (torch.rand(batch.ids_BT.shape, generator=torch.Generator().manual_seed(1)) < 0.4)
    targets = torch.where(asked, batch.ids_BT.flip(1).clamp(min=1), NOTHING)
    return replace(batch, targets_BT=targets, label_weight=int(asked.sum()) / len(batch))


def test_ids_and_labels_together() -> None:
    torch.manual_seed(2)
    model, batch = build_bert(BertConfig(vocab_size=V, next_sentence=True, **SIZES)).eval(), asked_batch()
    assert batch.targets_BT is not None and batch.labels_B is not None
    assert model.pooler is not None and model.follows is not None
    asked = batch.targets_BT != NOTHING
    with torch.no_grad():
        ids = F.cross_entropy(model(batch)[asked], batch.targets_BT[asked])
        follows = model.follows(model.pooler(model.vectors(batch), batch.lengths_B))
        expected = ids + F.cross_entropy(follows, batch.labels_B)  # both means, as BERT's paper has it
        found = asked_loss(model, batch, 0.0) / batch.n_targets
        assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    assert batch.n_targets == int(asked.sum())


@pytest.mark.parametrize("kind", ["gpt", "bert", "classifier"])
@pytest.mark.parametrize("size", [2, 3, 7])
def test_parts_add_up(kind: str, size: int) -> None:
    torch.manual_seed(2)
    batch = asked_batch()
    model: torch.nn.Module
    if kind == "gpt":
        model = build(GPTConfig(vocab_size=V, **SIZES))
        batch = TextBatch(ids_BT=batch.ids_BT, lengths_B=batch.lengths_B, targets_BT=batch.targets_BT)
    elif kind == "bert":
        model = build_bert(BertConfig(vocab_size=V, next_sentence=True, **SIZES))
    else:
        model = build_classifier(ClassifierConfig(vocab_size=V, n_labels=2, pooling="mean", **SIZES))
        batch = replace(batch, targets_BT=None, label_weight=1.0)
    model.eval()
    parts = [part for rank in range(size) if len(part := batch.part(rank, size))]
    with torch.no_grad():
        together = sum(asked_loss(model, part, 0.1).item() for part in parts)
        assert together == pytest.approx(asked_loss(model, batch, 0.1).item(), abs=1e-4)
    assert sum(part.n_targets for part in parts) == batch.n_targets
    assert sum(part.n_tokens for part in parts) == batch.n_tokens


def test_r_drop_of_all_that_is_asked() -> None:
    """Two readings of the batch with different dropout: the paper's equation for the ids and for the labels."""
    torch.manual_seed(2)
    config = BertConfig(vocab_size=V, next_sentence=True, residual_dropout=0.3, **SIZES)
    model, batch = build_bert(config), asked_batch()
    torch.manual_seed(3)
    ours = asked_loss(model.train(), batch, 0.1, 5.0)
    torch.manual_seed(3)
    theirs = torch.zeros(())
    for vectors_ND, output, target_N, weight in model.predictions(batch.repeated(2)):
        both_2ND = vectors_ND.unflatten(0, (2, -1))
        assert (both_2ND[0] != both_2ND[1]).any()
        once_N = target_N[: len(target_N) // 2]
        theirs = theirs + weight * written_out((both_2ND, output.weight, output.bias), once_N, 0.1, 5.0)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    model.eval()
    assert asked_loss(model, batch, 0.1, 5.0).item() == pytest.approx(asked_loss(model, batch, 0.1).item(), rel=1e-5)
