"""Every part beside every other: trained, stopped and resumed, translated with the cache and without, in any company.

Not all combinations of all parts, which are millions, but a set in which each value of each part meets each value of
every other part at least once, where the config lets them meet.
"""

import functools
import itertools
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from attendo import drafting, run
from attendo.bundle import Bundle, open_bundle
from attendo.config import from_dict, merge
from attendo.decoding.search import Hypothesis, SearchOptions
from attendo.engines.torch_engine import TorchEngine
from attendo.errors import ConfigError
from attendo.machine import choose_device
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import Transformer

from .tasks import made_up, reverse, write_task

MODEL: dict[str, tuple[Any, ...]] = {
    "positions": ("sinusoidal", "none", "sinusoidal-concatenated", "learned", "rotary", "shaw", "t5", "complex"),
    "scoring": ("scaled-dot", "dot", "additive"),
    "share_query_key": (False, True),
    "n_key_heads": (None, 2, 1),
    "value_rank": (None, 3),
    "span": ("full", "window", "chunk"),
    "heads": ("joined", "branched"),
    "norm": ("layernorm", "rmsnorm", "batchnorm", "scalenorm"),
    "norm_place": ("post", "pre", "sandwich"),
    "activation": ("relu", "gelu", "gelu-tanh", "silu", "swiglu", "geglu", "relu2"),
    "biases": (True, False),
    "share_layers": ("none", "groups", "all"),
    "share_encoder_decoder": (False, True),
    "tie_embeddings": ("all", "target", "inputs", "none"),
    "output_scale": ("one", "root"),
    "layer_drop": (0.0, 0.3),
    "attention_dropout": (0.0, 0.1),  # with it, training leaves the fused kernel
}
TRAINING: dict[str, tuple[Any, ...]] = {"ema": (0.0, 0.9)}
DECODING: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4, "n_best": 2},
    "diverse": {"beam": 4, "n_best": 2, "diversity_groups": 2},
    "sampled": {"sample": True, "temperature": 0.8, "top_k": 50, "top_p": 0.9, "n_best": 2},
    "no repetition": {"beam": 3, "no_repeat_ngram": 2},
    "prefix": {"beam": 3},
}
PARTS: dict[str, tuple[Any, ...]] = {**MODEL, **TRAINING, "decoding": tuple(DECODING)}

# Small, with sizes at which every part has something to do: distances beyond the last, windows narrower than a text.
SIZES = {
    "n_encoder_layers": 3,
    "n_decoder_layers": 3,
    "d_model": 16,
    "d_ff": 28,
    "n_heads": 4,
    "activation_dropout": 0.1,
}
BELONGING: dict[tuple[str, Any], dict[str, Any]] = {
    ("positions", "learned"): {"n_positions": 128},
    ("positions", "shaw"): {"max_distance": 3},
    ("positions", "t5"): {"n_buckets": 8, "bucket_distance": 7},
    ("span", "window"): {"window": 2},
    ("span", "chunk"): {"chunk": 2},
}
VOCABULARIES = {"source_vocab_size": 300, "target_vocab_size": 300}

Combination = dict[str, Any]
Meeting = tuple[str, Any, str, Any]


def model_settings(combination: Combination) -> dict[str, Any]:
    chosen = {key: value for key, value in combination.items() if key in MODEL}
    belonging = [BELONGING[part] for part in chosen.items() if part in BELONGING]
    return merge(SIZES, chosen, *belonging)


@functools.cache
def _permitted(chosen: tuple[tuple[str, Any], ...]) -> bool:
    try:
        from_dict(TransformerConfig, {**VOCABULARIES, **model_settings(dict(chosen))})
    except ConfigError:
        return False
    return True


def permitted(combination: Combination) -> bool:
    return _permitted(tuple(sorted((key, value) for key, value in combination.items() if key in MODEL)))


def meetings(combination: Combination) -> set[Meeting]:
    """The pairs of values that meet, parts in the order of PARTS."""
    names = [name for name in PARTS if name in combination]
    return {(a, combination[a], b, combination[b]) for a, b in itertools.combinations(names, 2)}


def all_meetings() -> set[Meeting]:
    """Those that the config permits, everything else being what it is by itself."""
    pairs = itertools.combinations(PARTS, 2)
    found = {(a, x, b, y) for a, b in pairs for x, y in itertools.product(PARTS[a], PARTS[b])}
    return {(a, x, b, y) for a, x, b, y in found if permitted({a: x, b: y})}


def covering_set() -> list[Combination]:
    """Greedily: begin with a pair that has not met, and give every other part the value with the most new meetings."""
    missing = sorted(all_meetings(), key=repr)
    random.Random(1).shuffle(missing)
    left, rows = set(missing), []
    for a, x, b, y in missing:
        if (a, x, b, y) not in left:
            continue
        row: Combination = {a: x, b: y}
        for name in [name for name in PARTS if name not in row]:
            choices = [value for value in PARTS[name] if permitted({**row, name: value})]
            row[name] = max(choices, key=lambda value: len(meetings({**row, name: value}) & left))
        left -= meetings(row)
        rows.append(row)
    return rows


COVERING = covering_set()
QUICK = 25  # rows in which every value stands, and nine tenths of the pairs meet; the others are proof


def test_every_two_parts_meet_or_are_refused() -> None:
    met = set().union(*(meetings(row) for row in COVERING))
    assert met >= all_meetings()
    assert all(permitted(row) for row in COVERING)


def test_most_of_them_meet_in_the_quick_tests() -> None:
    quick = COVERING[:QUICK]
    assert all({row[name] for row in quick} == set(values) for name, values in PARTS.items())
    assert len(set().union(*map(meetings, quick))) > 0.89 * len(all_meetings())


def test_refused_pairs_are_those_that_cannot_go_together() -> None:
    pairs = itertools.combinations(MODEL, 2)
    possible = {(a, x, b, y) for a, b in pairs for x, y in itertools.product(MODEL[a], MODEL[b])}
    assert possible - all_meetings() == {
        ("positions", "rotary", "scoring", "additive"),
        ("positions", "shaw", "scoring", "additive"),
        ("share_query_key", True, "n_key_heads", 2),
        ("share_query_key", True, "n_key_heads", 1),
        ("heads", "branched", "biases", False),
        ("heads", "branched", "share_encoder_decoder", True),
        ("norm", "batchnorm", "share_layers", "groups"),
        ("norm", "batchnorm", "share_layers", "all"),
    }


@pytest.mark.parametrize("name", [name for name in MODEL if isinstance(MODEL[name][0], str)])
def test_no_value_of_a_part_is_forgotten(name: str) -> None:
    for value in MODEL[name]:
        from_dict(TransformerConfig, {**VOCABULARIES, name: value})
    with pytest.raises(ConfigError, match="must be one of") as refused:
        from_dict(TransformerConfig, {**VOCABULARIES, name: "nothing"})
    assert all(value in MODEL[name] for value in str(refused.value).rpartition("one of ")[2].rstrip(".").split(", "))


# --- what must hold for each ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("corpus")
    sentences = made_up(63)
    valid = write_task(folder / "valid", sentences[60:], reverse)
    return {
        **write_task(folder / "train", sentences[:60], reverse),
        "valid_source": valid["source"],
        "valid_target": valid["target"],
        "max_length": 64,
    }


@pytest.fixture(scope="module", autouse=True)
def short_validations() -> Iterator[None]:
    """What a model of a few steps says hardly ever ends by itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drafting, "EXTRA_LENGTH", 3)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def train_six_steps(combination: Combination, corpus: dict[str, Any], path: Path) -> Bundle:
    settings = {
        "data": corpus,
        "tokenizer": {"vocab_size": 300},
        "model": model_settings(combination),
        "training": {
            "steps": 6,
            "batch_tokens": 64,
            "schedule": "inverse-sqrt",
            "learning_rate": 0.01,
            "warmup_steps": 4,
            "checkpoint_every": 3,
            "validate_every": 6,
            "stop_metric": "loss",
            "average": 0,
            **{key: value for key, value in combination.items() if key in TRAINING},
        },
    }
    return run.train(settings=settings, preset="tiny", out=path, device="cpu")


def resumed_from_the_middle(bundle: Bundle) -> Bundle:
    """A copy that knows nothing of the last three steps, trained to the end once more."""
    path = bundle.path.with_name(bundle.path.name + "-resumed")
    shutil.copytree(bundle.path, path)
    shutil.rmtree(path / "checkpoints" / "step-00000006")
    for name in ("scores.json", "weights.safetensors"):
        (path / name).unlink()
    return run.resume(path, device="cpu")


def search(engine: TorchEngine, decoding: str, sources: list[list[int]], *, batch_size: int) -> list[list[Hypothesis]]:
    options = from_dict(SearchOptions, DECODING[decoding])
    prefixes = [[source[0], source[-1]] for source in sources] if decoding == "prefix" else None
    limits = [len(source) + 5 for source in sources]
    return engine.search(sources, limits, options, prefixes=prefixes, batch_size=batch_size)


def same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for hypotheses, others in zip(found, expected, strict=True):
        assert [one.ids for one in hypotheses] == [one.ids for one in others]
        for one, other in zip(hypotheses, others, strict=True):
            assert one.token_log_probs == about(other.token_log_probs)


def about(log_probs: Sequence[float]) -> Any:
    """Each within what is rounded in the logits, which are as large as the least likely token's log-probability."""
    return pytest.approx(log_probs, rel=1e-5, abs=1e-4 * max(1.0, max(map(abs, log_probs)) / 100))


@pytest.mark.parametrize(
    "combination",
    [
        pytest.param(row, id=f"{i}-{row['positions']}-{row['scoring']}", marks=() if i < QUICK else pytest.mark.proof)
        for i, row in enumerate(COVERING)
    ],
)
def test_trains_resumes_and_translates_exactly(combination: Combination, corpus: dict[str, Any], runs: Path) -> None:
    number = COVERING.index(combination)
    bundle = train_six_steps(combination, corpus, runs / f"{number}")

    resumed = resumed_from_the_middle(bundle)
    for name in ("weights.safetensors", "scores.json", "checkpoints/step-00000006/state.safetensors"):
        assert (resumed.path / name).read_bytes() == (bundle.path / name).read_bytes(), name

    model = open_bundle(bundle.path).model()
    assert isinstance(model, Transformer)
    engine = TorchEngine(model, choose_device("cpu"))
    encode = bundle.tokenizers.source.encode
    sources = [encode(text) for text in made_up(5, seed=3, shortest=1, longest=5)]
    alone = search(engine, combination["decoding"], sources, batch_size=1)
    same(search(engine, combination["decoding"], sources, batch_size=len(sources)), alone)
    order = [3, 0, 2, 4, 1]
    shuffled = search(engine, combination["decoding"], [sources[i] for i in order], batch_size=3)
    same(shuffled, [alone[i] for i in order])

    # What the search said, step by step with the cache, is what the whole target gives at once, without one.
    for source, hypotheses in zip(sources, alone, strict=True):
        for one in hypotheses:
            whole = engine.score([source], [one.ids])[0]
            assert one.token_log_probs == about(whole)
    cache_is_exact(model)


def cache_is_exact(model: Transformer) -> None:
    """The same again for targets no search would find, and to the last digits, with nothing left at zero or one."""
    torch.manual_seed(5)
    model = model.double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        lengths_B = torch.tensor([11, 4, 8])
        source_BS, target_BT = torch.randint(300, (3, 11)), torch.randint(300, (3, 13))
        whole_BTV = model(source_BS, lengths_B, target_BT)
        cache = model.encode(source_BS, lengths_B)
        for place in range(13):
            logits_BV, cache = model.step(target_BT[:, place], cache)
            torch.testing.assert_close(logits_BV, whole_BTV[:, place], rtol=1e-9, atol=1e-9)
            if place == 6:
                order = torch.tensor([2, 0, 1])
                cache, target_BT, whole_BTV = cache.select(order), target_BT[order], whole_BTV[order]
