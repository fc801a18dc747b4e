"""The weights of every head against those that Hugging Face's models tell with the same weights."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attendo.alignment.maps import watched
from tests.models.test_bert_references import bert, padded_batch
from tests.models.test_denoiser_references import SOURCE_LENGTHS, S, bart, t5
from tests.models.test_denoiser_references import B as N_PAIRS
from tests.models.test_denoiser_references import T as TARGET
from tests.models.test_denoiser_references import V as PIECES
from tests.models.test_gpt_references import LENGTHS, B, T, V, gpt2, llama
from tests.models.test_vision import both, pixels


def told(reference: Any, **inputs: Tensor) -> Any:
    """All that it says of a batch, with the weights of each layer as its own equation has them: [B, H, T, S]."""
    reference.set_attn_implementation("eager")
    with torch.inference_mode():
        return reference(**inputs, output_attentions=True)


def close(ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...], real_BT: Tensor | None = None) -> None:
    """Of the rows that are real."""
    for mine, other in zip(ours, theirs, strict=True):
        real = torch.ones(len(mine), mine.shape[2], dtype=torch.bool) if real_BT is None else real_BT
        rows = real[:, None].expand(mine.shape[:3])
        torch.testing.assert_close(mine[rows], other[rows], rtol=0, atol=1e-5)


@pytest.mark.parametrize("make", [gpt2, llama])
def test_language_models(make: Any) -> None:
    ours, theirs = make()
    torch.manual_seed(1)
    ids, real = torch.randint(0, V, (B, T)), torch.arange(T) < LENGTHS[:, None]
    found = watched(ours, lambda twin: twin(ids))
    close(found.decoder, told(theirs, input_ids=ids, attention_mask=real.long()).attentions, real)
    assert found.encoder == found.cross == ()


def test_bert() -> None:
    ours, theirs = bert()
    batch, real, segments = padded_batch()
    found = watched(ours, lambda twin: twin(batch))
    inputs = {"input_ids": batch.ids_BT, "attention_mask": real.long(), "token_type_ids": segments}
    close(found.encoder, told(theirs, **inputs).attentions, real)


def test_vision_transformer() -> None:
    ours, theirs = both()
    found = watched(ours, lambda twin: twin(pixels()))
    x = (pixels() - ours.encoder.patches.mean) / ours.encoder.patches.deviation
    close(found.encoder, told(theirs, pixel_values=x).attentions)


@pytest.mark.parametrize("make", [t5, bart])
def test_encoders_with_decoders(make: Any) -> None:
    ours, theirs = make()
    torch.manual_seed(1)
    source, target = torch.randint(3, PIECES, (N_PAIRS, S)), torch.randint(3, PIECES, (N_PAIRS, TARGET))
    real = torch.arange(S) < SOURCE_LENGTHS[:, None]
    found = watched(ours, lambda twin: twin(source, SOURCE_LENGTHS, target))
    expected = told(theirs, input_ids=source, attention_mask=real.long(), decoder_input_ids=target)
    close(found.encoder, expected.encoder_attentions, real)
    close(found.decoder, expected.decoder_attentions)
    close(found.cross, expected.cross_attentions)
