"""Models of random weights with every part that a fast engine may know, the reference beside them, what is the same."""

import random
from typing import Any

import numpy as np
import pytest
import torch

from attendo import native
from attendo.bundle import weights_of
from attendo.decoding import beam
from attendo.decoding.search import Hypothesis, SearchOptions
from attendo.engines.torch_engine import TorchEngine
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import Transformer, build
from attendo.text.tokenizer import BOS, EOS, PAD, UNK

V_SOURCE, V_TARGET = 53, 47

PARTS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "halves": {"sinusoid_layout": "halves"},
    "odd size": {"d_model": 29, "d_key": 7, "d_value": 7},
    "no positions": {"positions": "none"},
    "concatenated": {"positions": "sinusoidal-concatenated"},
    "learned": {"positions": "learned", "n_positions": 211},
    "rotary": {"positions": "rotary"},
    "rotary, small keys": {"positions": "rotary", "d_key": 6, "d_value": 11},
    "shaw": {"positions": "shaw", "max_distance": 5, "d_key": 11, "d_value": 7},
    "t5": {"positions": "t5"},
    "t5, few": {"positions": "t5", "n_buckets": 12, "bucket_distance": 29, "share_layers": "groups"},
    "t5 of both": {"positions": "t5", "share_encoder_decoder": True, "n_encoder_layers": 3},
    "large keys": {"d_key": 13, "d_value": 5},
    "large values": {"d_key": 5, "d_value": 13},
    "dot": {"scoring": "dot"},
    "grouped": {"n_heads": 6, "n_key_heads": 2},
    "multi-query": {"n_heads": 6, "n_key_heads": 1, "d_key": 7, "d_value": 3},
    "value rank": {"value_rank": 7},
    "queries are keys": {"share_query_key": True},
    "pre": {"norm_place": "pre"},
    "sandwich": {"norm_place": "sandwich"},
    "rms": {"norm": "rmsnorm"},
    "rms, pre": {"norm": "rmsnorm", "norm_place": "pre"},
    "scale": {"norm": "scalenorm"},
    "scale, sandwich": {"norm": "scalenorm", "norm_place": "sandwich"},
    "gelu": {"activation": "gelu"},
    "silu": {"activation": "silu"},
    "swiglu": {"activation": "swiglu"},
    "one layer for all": {"share_layers": "all"},
    "groups": {"share_layers": "groups", "layers_per_group": 2},
    "encoder in decoder": {"share_encoder_decoder": True, "n_encoder_layers": 3, "positions": "shaw"},
    "groups in both": {"share_encoder_decoder": True, "n_encoder_layers": 3, "share_layers": "groups"},
    "tied": {"source_vocab_size": V_TARGET, "tie_embeddings": "all"},
    "tied target": {"tie_embeddings": "target"},
    "tied inputs": {"source_vocab_size": V_TARGET, "tie_embeddings": "inputs"},
    "as Marian": {"sinusoid_layout": "halves", "embedding_scale": "one", "activation": "gelu-tanh"},
    "as BART": {
        "positions": "learned",
        "n_positions": 211,
        "position_offset": 2,
        "embedding_norm": True,
        "embedding_scale": "one",
        "activation": "gelu",
    },
    "as M2M100": {"sinusoid_layout": "fairseq", "norm_place": "pre", "output_bias": False},
    "as T5": {
        "source_vocab_size": V_TARGET,
        "tie_embeddings": "all",
        "positions": "t5",
        "scoring": "dot",
        "norm": "rmsnorm",
        "norm_place": "pre",
        "norm_eps": 1e-4,
        "biases": False,
        "embedding_scale": "one",
        "output_scale": "root",
        "activation": "geglu",
    },
    "modern": {"positions": "rotary", "norm": "rmsnorm", "norm_place": "pre", "activation": "swiglu", "n_key_heads": 1},
}

OTHERS: dict[str, dict[str, Any]] = {
    "complex": {"positions": "complex"},
    "additive": {"scoring": "additive"},
    "window": {"span": "window"},
    "chunk": {"span": "chunk"},
    "branched": {"heads": "branched", "d_ff": 33},
    "batchnorm": {"norm": "batchnorm"},
    "relu2": {"activation": "relu2"},
    "scaled embeddings": {"norm": "scalenorm", "embedding_norm": True},
    "hidden text": {"n_extra": 3},
    "sources that end otherwise": {"read_end": False},
}


def config_of(parts: dict[str, Any]) -> TransformerConfig:
    sizes = {
        "source_vocab_size": V_SOURCE,
        "target_vocab_size": V_TARGET,
        "n_encoder_layers": 2,
        "n_decoder_layers": 3,
        "d_model": 30,
        "d_ff": 23,
        "n_heads": 3,
        "tie_embeddings": "none",
    }
    return TransformerConfig(**{**sizes, **parts})


def random_model(parts: dict[str, Any], *, seed: int = 3) -> Transformer:
    """Nothing is zero or one, and the logits are decided enough for hypotheses to differ and to end."""
    torch.manual_seed(seed)
    model = build(config_of(parts)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        model.output.weight.mul_(2)
    return model


def arrays(model: Transformer) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in weights_of(model).items()}


def reference(model: Transformer) -> TorchEngine:
    """In torch alone, as where nothing was compiled."""
    engine = TorchEngine(model, torch.device("cpu"), trained=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "name", lambda: None)
        engine._ways(0)
    return engine


def random_ids(seed: int, n: int, longest: int, vocab_size: int) -> list[list[int]]:
    generator = random.Random(seed)
    return [[generator.randrange(4, vocab_size) for _ in range(generator.randint(0, longest))] for _ in range(n)]


def close(expected: Any) -> Any:
    return pytest.approx(expected, rel=0, abs=1e-4)


SOURCES = random_ids(17, 61, 23, V_SOURCE)
LIMITS = [len(ids) + 29 for ids in SOURCES]


def ending_model(*, share: bool, seed: int = 7, eos: int = 5) -> Transformer:
    """Ends now and then. share: ids that never come have one of the probability; in a trained model it is tiny."""
    model = random_model({}, seed=seed)
    with torch.no_grad():
        model.output.bias[EOS] += eos
        if not share:
            model.output.bias[[PAD, BOS, UNK]] = -30
    return model


def assert_same(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    for some, others in zip(ours, theirs, strict=True):
        assert [one.ids for one in some] == [one.ids for one in others]
        assert [one.finished for one in some] == [one.finished for one in others]
        for one, other in zip(some, others, strict=True):
            assert one.log_prob == close(other.log_prob)
            assert one.score == close(other.score)
            if one.token_log_probs:
                assert one.token_log_probs == close(other.token_log_probs)


def assert_lost_by_a_tie(
    engine: TorchEngine,
    source: list[int],
    limit: int,
    options: SearchOptions,
    ids: tuple[int, ...],
    prefixes: list[list[int]] | None = None,
) -> None:
    """Where the reference first has no place for the prefix in its beam, the last that has one is as likely to 1e-4."""
    border: list[float] = []
    original = beam.best_candidates

    def best_candidates(*given: Any, **named: Any) -> Any:
        found = original(*given, **named)
        going_on = found.log_prob_BC[0][found.id_BC[0] != EOS]
        border.append(going_on[: options.beam][-1].item())
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam, "best_candidates", best_candidates)
        engine.search([source], [limit], options, prefixes=prefixes)
    log_probs = np.cumsum(engine.score([source], [ids])[0][:-1])
    below = [one - last for one, last in zip(log_probs, border, strict=False) if one < last + 1e-4]
    assert below
    assert below[0] > -1e-4


def assert_same_but_for_a_tie(
    found: list[list[Hypothesis]],
    expected: list[list[Hypothesis]],
    theirs: TorchEngine,
    limits: list[int],
    options: SearchOptions,
    prefixes: list[list[int]] | None = None,
) -> None:
    """Of SOURCES; one may be another, if it is as likely."""
    ids = [tuple([one.ids for one in several] for several in pair) for pair in zip(found, expected, strict=True)]
    same = [i for i, (some, others) in enumerate(ids) if some == others]
    assert len(same) >= len(SOURCES) - 1
    assert_same([found[i] for i in same], [expected[i] for i in same])
    for i in set(range(len(SOURCES))) - set(same):
        for one in set(ids[i][0]) - set(ids[i][1]):
            assert_lost_by_a_tie(theirs, SOURCES[i], limits[i], options, one, prefixes and [prefixes[i]])
