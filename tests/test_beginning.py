"""What embeddings begin with."""

from pathlib import Path
from typing import Any

import pytest
import torch

from attendo.config import from_dict
from attendo.data.cooccurrence import neighbours_vectors, related_vectors
from attendo.data.prepare import Prepared, prepare
from attendo.data.store import PairStore
from attendo.errors import ConfigError
from attendo.models.bert import TextEncoder
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.family import build_model
from attendo.models.settings import TranslationConfig
from attendo.recipe import DataConfig, RunConfig, TokenizerConfig
from attendo.reporting import Silent
from attendo.tasks import classify, masked
from attendo.tasks.task import Task
from attendo.tasks.translate import TASK
from attendo.text.corpus import CorpusFiles

from .tasks import made_up, reverse, write_task


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("corpus")
    files = write_task(folder, made_up(150), reverse)
    return prepare(
        CorpusFiles(source=files["source"], target=files["target"]),
        None,
        tokenizers=None,
        kind="bpe",
        vocab_size=None,
        joint=True,
        max_length=64,
        cache=folder / ".cache",
        reporter=Silent(),
    )


def config_of(prepared: Prepared, embeddings: str, **model: Any) -> RunConfig:
    size = prepared.tokenizers.source.vocab_size
    sizes = {"d_model": 26, "n_heads": 2, "d_ff": 17, "n_encoder_layers": 1, "n_decoder_layers": 1}
    return from_dict(
        RunConfig,
        {
            "data": {"source": "a.xx", "target": "a.yy"},
            "model": {"source_vocab_size": size, "target_vocab_size": size, **sizes, **model},
            "training": {"embeddings": embeddings},
        },
    )


def built(config: RunConfig) -> EncoderDecoder:
    assert isinstance(config.model, TranslationConfig)
    torch.manual_seed(3)
    return build_model(config.model)


@pytest.mark.parametrize(
    "model",
    [
        {"tie_embeddings": "all"},
        {"tie_embeddings": "target"},
        {"tie_embeddings": "none"},
        {"tie_embeddings": "none", "positions": "sinusoidal-concatenated"},
    ],
    ids=str,
)
def test_pieces_that_occur_have_related_vectors_and_others_stay_random(prepared: Prepared, model: Any) -> None:
    config = config_of(prepared, "related", **model)
    plain, related = built(config), built(config)
    TASK.begin(related, prepared, config)
    source, target, output = related.tables()
    assert isinstance(prepared.pairs, PairStore)
    vectors = related_vectors(
        prepared.pairs,
        source_size=len(source),
        target_size=len(target),
        shared=model["tie_embeddings"] == "all",
        d_model=source.shape[1],
    )
    for before, after, expected in zip(plain.tables(), (source, target, output), (*vectors, vectors[1]), strict=True):
        seen = expected.any(dim=1)
        assert 0 < seen.sum() < len(seen)
        assert torch.equal(after[seen], expected[seen])
        assert torch.equal(after[~seen], before[~seen])
    tables = {id(weight) for weight in (source, target, output)}
    others = [(a, b) for a, b in zip(plain.parameters(), related.parameters(), strict=True) if id(b) not in tables]
    assert all(torch.equal(a, b) for a, b in others)


def test_random_ones_stay_as_they_were_drawn(prepared: Prepared) -> None:
    config = config_of(prepared, "random")
    plain, begun = built(config), built(config)
    TASK.begin(begun, prepared, config)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), begun.parameters(), strict=True))


def test_what_cannot_have_them(prepared: Prepared) -> None:
    with pytest.raises(ConfigError, match=r"training\.embeddings"):
        config_of(prepared, "related", positions="complex", tie_embeddings="none")


@pytest.mark.parametrize("task", [masked.TASK, classify.TASK], ids=["masked", "classify"])
def test_models_of_one_text_can_have_them_as_well(task: Task, tmp_path: Path) -> None:
    lines = made_up(60)
    (tmp_path / "a.tsv").write_text("".join(f"{number % 3}\t{line}\n" for number, line in enumerate(lines)))
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line in lines))
    path = str(tmp_path / ("a.tsv" if task is classify.TASK else "a.txt"))
    settings = {
        "model": {"d_model": 28, "n_heads": 2, "d_ff": 17, "n_layers": 1},
        "training": {"embeddings": "related"},
    }
    data = from_dict(DataConfig, {"source": path, "max_length": 61})
    corpus = task.prepare(data, TokenizerConfig(vocab_size=300), None, tmp_path / ".cache", Silent())
    assert isinstance(corpus, Prepared)
    config = task.resolve(settings, "auto", data, corpus, None, speed=lambda: 1.0)
    torch.manual_seed(3)
    model = build_model(config.model)
    assert isinstance(model, TextEncoder)
    before_VD, weight_VD = model.encoder.embedding.weight.detach().clone(), model.encoder.embedding.weight
    task.begin(model, corpus, config)
    expected_VD = neighbours_vectors(corpus.store.source, size=len(weight_VD), d_model=28)
    seen_V = expected_VD.any(dim=1)
    assert 0 < seen_V.sum() < len(seen_V)
    assert torch.equal(weight_VD[seen_V], expected_VD[seen_V])
    assert torch.equal(weight_VD[~seen_V], before_VD[~seen_V])


def test_a_language_model_cannot() -> None:
    with pytest.raises(ConfigError, match=r"training\.embeddings .* translate, masked-language-model, classify"):
        from_dict(
            RunConfig,
            {
                "task": "language-model",
                "data": {"source": "a.txt"},
                "model": {"kind": "gpt", "vocab_size": 300},
                "training": {"embeddings": "related"},
            },
        )
