"""BERT and the classifier against Hugging Face's with the same weights: logits over padded batches of two segments."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig as TheirConfig
from transformers import BertForPreTraining, BertForSequenceClassification

from attendo.data.text_batch import TextBatch
from attendo.models.bert import Bert, build_bert, build_classifier
from attendo.models.settings import BertConfig, ClassifierConfig
from tests.models.references import Tensors, filled, moved, weights_in

B, T, V, LAYERS, SIZE, D_FF, HEADS, LABELS = 5, 11, 31, 2, 39, 17, 3, 7
LENGTHS = torch.tensor([11, 4, 7, 2, 6])


def theirs_of(kind: type[nn.Module]) -> nn.Module:
    config = TheirConfig(
        vocab_size=V,
        hidden_size=SIZE,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=D_FF,
        max_position_embeddings=13,
        layer_norm_eps=1e-5,
        num_labels=LABELS,
    )
    torch.manual_seed(2)
    return moved(kind(config).eval())


def encoder_weights(theirs: Tensors) -> Tensors:
    embeddings = "bert.embeddings"
    weights = {
        "encoder.embedding.weight": theirs[f"{embeddings}.word_embeddings.weight"],
        "encoder.embedding.positions.weight": theirs[f"{embeddings}.position_embeddings.weight"],
        "encoder.embedding.segments.weight": theirs[f"{embeddings}.token_type_embeddings.weight"],
        "encoder.embedding.norm.weight": theirs[f"{embeddings}.LayerNorm.weight"],
        "encoder.embedding.norm.bias": theirs[f"{embeddings}.LayerNorm.bias"],
        "pooler.inner.weight": theirs["bert.pooler.dense.weight"],
        "pooler.inner.bias": theirs["bert.pooler.dense.bias"],
    }
    for i in range(LAYERS):
        for mine, name in (
            ("attention.query", "attention.self.query"),
            ("attention.key", "attention.self.key"),
            ("attention.value", "attention.self.value"),
            ("attention.output", "attention.output.dense"),
            ("attention_residual.norm", "attention.output.LayerNorm"),
            ("feed_forward.inner", "intermediate.dense"),
            ("feed_forward.outer", "output.dense"),
            ("feed_forward_residual.norm", "output.LayerNorm"),
        ):
            for what in ("weight", "bias"):
                weights[f"encoder.blocks.{i}.{mine}.{what}"] = theirs[f"bert.encoder.layer.{i}.{name}.{what}"]
    return weights


def padded_batch() -> tuple[TextBatch, Tensor, Tensor]:
    torch.manual_seed(1)
    ids, real = torch.randint(1, V, (B, T)), torch.arange(T) < LENGTHS[:, None]
    ids[~real] = 0
    segments = (torch.arange(T) >= (LENGTHS // 2)[:, None]).long()
    return TextBatch(ids_BT=ids, lengths_B=LENGTHS, segments_BT=segments), real, segments


SIZES: dict[str, Any] = {
    "vocab_size": V,
    "n_layers": LAYERS,
    "d_model": SIZE,
    "d_ff": D_FF,
    "n_heads": HEADS,
    "positions": "learned",
    "n_positions": 13,
    "activation": "gelu",
}


def bert() -> tuple[Bert, nn.Module]:
    """Ours and theirs."""
    reference = theirs_of(BertForPreTraining)
    theirs = weights_in(reference)
    head = "cls.predictions.transform"
    weights = encoder_weights(theirs) | {
        "head.inner.weight": theirs[f"{head}.dense.weight"],
        "head.inner.bias": theirs[f"{head}.dense.bias"],
        "head.norm.weight": theirs[f"{head}.LayerNorm.weight"],
        "head.norm.bias": theirs[f"{head}.LayerNorm.bias"],
        "output.bias": theirs["cls.predictions.bias"],
        "follows.weight": theirs["cls.seq_relationship.weight"],
        "follows.bias": theirs["cls.seq_relationship.bias"],
    }
    return filled(build_bert(BertConfig(**SIZES, next_sentence=True)).eval(), weights), reference


def test_what_is_behind_a_mask_and_whether_the_second_follows() -> None:
    model, reference = bert()
    batch, real, segments = padded_batch()
    with torch.no_grad():
        expected = reference(input_ids=batch.ids_BT, attention_mask=real.long(), token_type_ids=segments)
        torch.testing.assert_close(model(batch)[real], expected.prediction_logits[real], rtol=0, atol=1e-5)
        assert model.pooler is not None and model.follows is not None
        follows = model.follows(model.pooler(model.vectors(batch), batch.lengths_B))
        torch.testing.assert_close(follows, expected.seq_relationship_logits, rtol=0, atol=1e-5)


def test_the_classifier() -> None:
    reference = theirs_of(BertForSequenceClassification)
    theirs = weights_in(reference)
    labels = {"labels.weight": theirs["classifier.weight"], "labels.bias": theirs["classifier.bias"]}
    model = build_classifier(ClassifierConfig(**SIZES, n_labels=LABELS)).eval()
    filled(model, encoder_weights(theirs) | labels)
    batch, real, segments = padded_batch()
    with torch.no_grad():
        expected = reference(input_ids=batch.ids_BT, attention_mask=real.long(), token_type_ids=segments).logits
        torch.testing.assert_close(model(batch), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "max", "spans"])
def test_padding_has_no_part_in_what_stands_for_a_text(pooling: str) -> None:
    model = build_classifier(ClassifierConfig(**SIZES, n_labels=LABELS, pooling=pooling)).eval()  # type: ignore[arg-type]
    batch, _, _ = padded_batch()
    assert batch.segments_BT is not None
    with torch.no_grad():
        together = model(batch)
        for row, length in enumerate(LENGTHS.tolist()):
            alone = TextBatch(
                ids_BT=batch.ids_BT[row : row + 1, :length],
                lengths_B=LENGTHS[row : row + 1],
                segments_BT=batch.segments_BT[row : row + 1, :length],
            )
            torch.testing.assert_close(model(alone)[0], together[row], rtol=0, atol=1e-5)
