"""Pairs that helpers make of the pairs there are: which they are, and that a run with them repeats and resumes."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from attendo import run
from attendo.bundle import Bundle
from attendo.config import merge
from attendo.data.prepare import Prepared, open_prepared
from attendo.errors import BundleError, ConfigError, DataError
from attendo.recipe import choose
from attendo.tasks.diversity import helper_settings
from attendo.training.settings import TrainingConfig
from attendo.translator import Translator

from .tasks import made_up, reverse, tiny, unmeasured, write_task
from .test_resume import assert_same, stop

EPOCHS = 3.0
SPLIT = {"processes": 1, "threads": 1, "mixed_precision": "off"}
Rows = list[tuple[str, str]]


@pytest.fixture(scope="module", autouse=True)
def begun_at_once() -> Iterator[None]:
    with unmeasured():
        yield


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Validation pairs of their own: those that are held out depend on the direction."""
    folder = tmp_path_factory.mktemp("corpus")
    train, valid = (
        write_task(folder / name, made_up(n, seed=n), reverse) for name, n in (("train", 151), ("valid", 7))
    )
    return tiny(
        {**train, **{f"valid_{side}": path for side, path in valid.items()}},
        model={"residual_dropout": 0.1},
        training={**SPLIT, "steps": 12, "checkpoint_every": 5, "log_every": 1, "helper_epochs": EPOCHS, "diversify": 1},
    )


@pytest.fixture(scope="module")
def undisturbed(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return run.train(settings=settings, out=tmp_path_factory.mktemp("undisturbed") / "run")


def corpus_of(bundle: Bundle) -> Prepared:
    found = open_prepared(bundle.path.parent / ".cache" / bundle.data()["store"])
    assert found is not None
    return found


def texts_of(bundle: Bundle) -> Rows:
    corpus = corpus_of(bundle)
    sides = (corpus.tokenizers.source, corpus.store.source), (corpus.tokenizers.target, corpus.store.target)
    sources, targets = ([tokenizer.decode(side[i].tolist()) for i in range(len(side))] for tokenizer, side in sides)
    return list(zip(sources, targets, strict=True))


def translations_by_a_helper(data: dict[str, Any], texts: list[str], seed: int, out: Path) -> list[str]:
    """A run of its own with what `auto` chooses for so many passes."""
    chosen = merge(choose("auto", pairs=151, passes=EPOCHS), {"training": {"epochs": EPOCHS, **SPLIT}})
    helper = run.train(settings={**chosen, "data": data, "seed": seed}, preset="tiny", out=out)
    found = Translator.from_bundle(helper).translate_many(texts, split=False, check=False)
    return [translation.text for translation in found]


@pytest.mark.parametrize("rounds", [1, 2])
def test_each_text_has_further_counterparts(
    settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path, rounds: int
) -> None:
    bundle, data = undisturbed, settings["data"]
    if rounds == 2:
        bundle = run.train(settings=merge(settings, {"training": {"diversify": 2}}), out=tmp_path / "run")
    sources = made_up(151, seed=151)
    targets = [reverse(source) for source in sources]
    expected: Rows = list(zip(sources, targets, strict=True))
    for seed in range(1, rounds + 1):
        forward = translations_by_a_helper(data, sources, seed, tmp_path / f"forward-{seed}")
        backward = translations_by_a_helper({**data, "reverse": True}, targets, seed, tmp_path / f"backward-{seed}")
        expected += [*zip(sources, forward, strict=True), *zip(backward, targets, strict=True)]
    found = texts_of(bundle)
    encode = corpus_of(bundle).tokenizers.source.encode  # the same for both sides
    longest = max(len(encode(text)) for text in sources)
    assert found[:151] == expected[:151]
    assert len(set(found)) == len(found) > 151
    assert set(found) == {pair for pair in expected if all(0 < len(encode(text)) <= longest for text in pair)}
    facts = bundle.data()["diversified"]
    assert (facts["pairs"], facts["helpers"]) == (len(found) - 151, 2 * rounds)
    assert len(facts["helpers_bleu"]) == 2 * rounds


def test_what_is_held_out_stays_so(undisturbed: Bundle) -> None:
    valid = corpus_of(undisturbed).valid
    assert valid == [(source, reverse(source)) for source in made_up(7, seed=7)]


def test_a_run_is_the_same_whether_its_helpers_are_trained_or_were(
    settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path
) -> None:
    shutil.copytree(undisturbed.path.parent / ".cache", tmp_path / ".cache")
    assert_same(run.train(settings=settings, out=tmp_path / "again"), undisturbed)
    assert_same(run.train(settings=settings, out=tmp_path / "elsewhere" / "anew"), undisturbed)
    assert {path.name for path in tmp_path.iterdir()} == {".cache", "again", "elsewhere"}  # no helper is left


def test_stopped_and_resumed(settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "run"
    stop(lambda reporter: run.train(settings=settings, out=out, reporter=reporter), 8)
    assert_same(run.resume(out), undisturbed)


def test_stopped_while_a_helper_is_trained(settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "run"
    error = stop(lambda reporter: run.train(settings=settings, out=out, reporter=reporter), 2)
    assert "Give the same command once more" in str(error)
    assert not out.exists() and (tmp_path / "run.forward-1").exists()
    assert_same(run.train(settings=settings, out=out), undisturbed)


def test_what_is_in_the_way_of_a_helper_stays(settings: dict[str, Any], undisturbed: Bundle, tmp_path: Path) -> None:
    shutil.copytree(undisturbed.path, tmp_path / "run.forward-1")
    with pytest.raises(BundleError, match=r"run\.forward-1 exists already"):
        run.train(settings=settings, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_helper_of_another_length_is_in_the_way(settings: dict[str, Any], tmp_path: Path) -> None:
    stop(lambda reporter: run.train(settings=settings, out=tmp_path / "run", reporter=reporter), 2)
    with pytest.raises(BundleError, match=r"run\.forward-1 exists already"):
        run.train(settings=merge(settings, {"training": {"helper_epochs": EPOCHS + 1}}), out=tmp_path / "run")


def test_without_what_the_helpers_made_nothing_goes_on(settings: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "run"
    stop(lambda reporter: run.train(settings=settings, out=out, reporter=reporter), 8)
    shutil.rmtree(tmp_path / ".cache")
    with pytest.raises(DataError, match="the pairs that its helpers made are gone"):
        run.resume(out)


def test_two_processes_learn_from_them(settings: dict[str, Any], tmp_path: Path) -> None:
    together = run.train(settings=merge(settings, {"training": {"processes": 2}}), out=tmp_path / "run")
    assert together.data()["diversified"]["helpers"] == 2
    assert together.config.training.processes == 2
    assert all(torch.isfinite(tensor).all() for tensor in together.weights().values())


def test_passes_are_those_over_the_pairs_given(settings: dict[str, Any], tmp_path: Path) -> None:
    """Helpers give more to learn from, and no more time."""
    passes = merge(settings, {"training": {"steps": None, "epochs": 3}})
    alone = run.train(settings=merge(passes, {"training": {"diversify": 0}}), out=tmp_path / "alone")
    helped = run.train(settings=passes, out=tmp_path / "helped")
    assert helped.config.training.steps == alone.config.training.steps
    assert helped.read_log()[-1]["step"] == alone.read_log()[-1]["step"]
    assert len(corpus_of(helped).store) > len(corpus_of(alone).store)


def test_helpers_of_many_passes_have_none_themselves() -> None:
    training = TrainingConfig(diversify=1, helper_epochs=150)
    assert choose("auto", pairs=29_000, passes=150)["training"]["diversify"] == 1
    assert helper_settings(training, pairs=29_000, seed=1)["training"]["diversify"] == 0


def test_only_what_begins_with_nothing_has_helpers(settings: dict[str, Any], undisturbed: Bundle) -> None:
    with pytest.raises(ConfigError, match=r"^training\.diversify = 1: helpers begin with nothing"):
        run.train(settings={**settings, "model": {}, "adapt_from": str(undisturbed.path)})
