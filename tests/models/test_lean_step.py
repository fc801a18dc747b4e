"""The lean step beside its slow twin, over all parts. Suffixes: B sentences, W prefixes of each, N = B * W rows."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attendo.models.settings import TransformerConfig
from attendo.models.transformer import Transformer, build
from attendo.nn.cache import DecoderCache
from tests.models.references import moved

B, S, W, V = 3, 11, 2, 31
STEPS = 7
SIZES: dict[str, Any] = {
    "source_vocab_size": V,
    "target_vocab_size": V,
    "n_encoder_layers": 1,
    "n_decoder_layers": 3,
    "d_model": 20,
    "d_ff": 24,
    "n_heads": 6,
    "d_key": 4,
    "d_value": 13,
}
PARTS: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm_place": "pre"},
    "sandwich": {"norm_place": "sandwich"},
    "rmsnorm": {"norm_place": "pre", "norm": "rmsnorm"},
    "scalenorm": {"norm": "scalenorm"},
    "batchnorm": {"norm": "batchnorm"},
    "gelu": {"activation": "gelu"},
    "swiglu": {"activation": "swiglu"},
    "learned": {"positions": "learned"},
    "complex": {"positions": "complex"},
    "rotary": {"positions": "rotary"},
    "shaw": {"positions": "shaw", "max_distance": 3},
    "t5": {"positions": "t5", "n_buckets": 4, "bucket_distance": 5},
    "unscaled": {"scoring": "dot"},
    "additive": {"scoring": "additive"},
    "grouped": {"n_key_heads": 2},
    "shared query and key": {"share_query_key": True},
    "value rank": {"value_rank": 5},
    "branched": {"heads": "branched"},
    "window": {"span": "window", "window": 2},
    "chunk": {"span": "chunk", "chunk": 2, "left_chunks": 1},
    "one layer": {"share_layers": "all"},
    "both stacks": {"n_encoder_layers": 3, "share_encoder_decoder": True},
}


def model_of(**parts: Any) -> Transformer:
    torch.manual_seed(1)
    return moved(build(TransformerConfig(**{**SIZES, **parts})).eval())


def walked(model: Transformer, lengths: list[int], *, lean: bool) -> tuple[list[Tensor], DecoderCache]:
    """The logits of every step: first a row for each sentence, then W, then W of fewer sentences."""
    generator = torch.Generator().manual_seed(5)
    step, logits = model.lean_step() if lean else model.step, []
    source_BS = torch.randint(4, V, (B, S), generator=generator)
    cache = model.encode(source_BS, torch.tensor(lengths))
    for t in range(STEPS):
        if t == 2:
            cache = cache.select(torch.arange(B).repeat_interleave(W))
        if t == 5:
            cache = cache.select(torch.tensor([1, 0, 5, 5]))
        n_rows = B if t < 2 else B * W if t < 5 else 4
        logits_NV, cache = step(torch.randint(4, V, (n_rows,), generator=generator), cache)
        logits.append(logits_NV)
    return logits, cache


@pytest.mark.parametrize("lengths", [[11, 4, 8], [11, 11, 11]], ids=["padded", "full"])
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS.keys())
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.float64, 1e-11)], ids=["single", "double"])
def test_the_lean_step_gives_the_numbers_of_the_step(
    parts: dict[str, Any], lengths: list[int], dtype: torch.dtype, close: float
) -> None:
    """Sums are made in another order, and rounding is that of the largest numbers."""
    model = model_of(**parts).to(dtype)
    with torch.inference_mode():
        (slow, expected), (quick, cache) = (walked(model, lengths, lean=lean) for lean in (False, True))
    assert len(quick) == len(slow) == STEPS
    for ours, theirs in zip(quick, slow, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=close, atol=close * max(1.0, theirs.abs().max().item()))
    assert (cache.length, cache.n_prefixes) == (expected.length, expected.n_prefixes) == (STEPS, W)
    for layer, other in zip(cache.layers, expected.layers, strict=True):
        assert layer.past is not None
        assert other.past is not None
        for name in ("keys_NHTK", "values_NHTK"):
            ours, theirs = getattr(layer.past, name), getattr(other.past, name)
            torch.testing.assert_close(ours, theirs, rtol=close, atol=close * max(1.0, theirs.abs().max().item()))


def test_what_the_rows_say_is_not_all_the_same() -> None:
    """Otherwise rows that were mixed up would go unnoticed."""
    with torch.inference_mode():
        (*_, last_NV), _ = walked(model_of(), [11, 4, 8], lean=True)
    assert torch.cdist(last_NV, last_NV).fill_diagonal_(torch.inf).min() > 0.01
