"""Whole runs, from text files to a bundle, with models that are tiny and tasks that are made up."""

import itertools
import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attendo
from attendo import pace, run
from attendo.bundle import Bundle, average_weights, load_weights, open_bundle
from attendo.config import merge, read_yaml
from attendo.data.store import open_store
from attendo.errors import BundleError, ConfigError, DataError, Interrupted, StorageError, TrainingError
from attendo.models.settings import TransformerConfig
from attendo.native.search import has_bytes
from attendo.pace import Pace
from attendo.recipe import RunConfig
from attendo.reporting import Silent
from attendo.run import resume, train
from attendo.tasks import translate
from attendo.training import loss
from attendo.training.schedule import build_schedule
from attendo.validation import Validator

from .tasks import WORDS, made_up, reverse, tiny, write_task


class Listener(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def losses(bundle: Bundle) -> list[float]:
    return [entry["loss"] for entry in bundle.read_log() if entry["event"] == "progress"]


# --- tasks learned end to end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "model", "steps", "enough"),
    [
        pytest.param(lambda text: text, {}, 250, 95, marks=pytest.mark.proof),  # reversing is harder
        (reverse, {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 48, "d_ff": 96, "n_heads": 4}, 250, 90),
    ],
    ids=["copy", "reverse"],
)
def test_a_task_is_learned(
    tmp_path: Path, task: Callable[[str], str], model: dict[str, Any], steps: int, enough: float
) -> None:
    sentences = made_up(2100, longest=4)
    unseen = sentences[2000:]
    data = write_task(tmp_path, sentences[:2000], task)
    settings = tiny(
        data,
        model={**model, "residual_dropout": 0.0},
        training={"steps": steps, "schedule": "cosine", "learning_rate": 0.008, "checkpoint_every": steps // 10},
    )
    bundle = train(settings=settings, out=tmp_path / "run")
    assert bundle.scores()["validation"]["bleu"]["score"] > enough

    translations = attendo.load(bundle.path).translate_many(unseen, beam=2)
    right = sum(found.text == task(source) for found, source in zip(translations, unseen, strict=True))
    assert right >= 0.8 * len(unseen)


GOLDEN_LOSSES = (
    6.166333,
    6.173994,
    6.107188,
    5.994888,
    5.898503,
    5.722433,
    5.550372,
    5.364485,
    5.169930,
    5.049069,
    4.835352,
    4.704042,
    4.572797,
    4.461605,
    4.311250,
    4.166859,
    4.108326,
    3.945643,
    3.776634,
    3.741776,
)


def test_golden_loss_curve(tmp_path: Path) -> None:
    """Refactoring keeps these numbers. Who changes them on purpose says why, and records them anew."""
    data = write_task(tmp_path, made_up(200), reverse)
    settings = tiny(
        data,
        tokenizer={"kind": "characters"},
        model={"residual_dropout": 0.1, "norm_place": "pre"},
        training={"steps": 20, "log_every": 1, "accumulate": 2, "clip_norm": 1.0},
        seed=7,
    )
    means = losses(train(settings=settings, out=tmp_path / "run"))
    # The log has running means; each step's own loss shows more.
    curve = [means[0], *((mean - 0.98 * before) / 0.02 for before, mean in itertools.pairwise(means))]
    assert curve == pytest.approx(GOLDEN_LOSSES, rel=1e-4)


# --- one run, looked at from all sides --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("finished")
    sources = made_up(300)
    data = write_task(folder, sources + sources[:40], reverse)  # some sources twice
    settings = tiny(
        data,
        training={
            "steps": 30,
            "checkpoint_every": 5,
            "validate_every": 10,
            "log_every": 2,
            "keep_checkpoints": 3,
            "average": 3,
        },
    )
    return train(settings=settings, out=folder / "runs" / "run")


def test_the_bundle_is_complete(finished: Bundle) -> None:
    assert {path.name for path in finished.path.iterdir()} == {
        "alignment.json",
        "bundle.json",
        "config.yaml",
        "tokenizer.json",
        "weights.safetensors",
        "data.json",
        "scores.json",
        "card.md",
        "log.jsonl",
        "report.html",
        "checkpoints",
        *([] if has_bytes() else ["ctranslate2"]),  # which then has scored it in int8
    }
    assert {path.name for path in finished.path.parent.iterdir()} == {"run", ".cache"}
    assert open_bundle(finished.path).config == finished.config


def test_the_log_tells_everything(finished: Bundle) -> None:
    entries = [json.loads(line) for line in (finished.path / "log.jsonl").read_text().splitlines()]
    steps = {event: [e["step"] for e in entries if e["event"] == event] for event in {e["event"] for e in entries}}
    assert steps == {
        "started": [-1],
        "progress": list(range(2, 31, 2)),
        "validation": [10, 20, 30],
        "average": [30],
        "finished": [30],
    }
    validation = next(entry for entry in entries if entry["event"] == "validation")
    assert {"bleu", "bleu_signature", "baseline_bleu", "loss", "perplexity", "samples", "epoch"} <= validation.keys()
    minutes = [entry["minutes"] for entry in entries if "minutes" in entry]
    assert minutes == sorted(minutes)


def test_card_report_and_scores_say_the_same(finished: Bundle) -> None:
    scores = finished.scores()
    bleu = scores["validation"]["bleu"]
    card, report = ((finished.path / name).read_text(encoding="utf-8") for name in ("card.md", "report.html"))
    for text in (card, report):
        assert f"{bleu['score']:.2f}" in text
        assert bleu["signature"] in text.replace("\\|", "|")
        assert scores["weights"] in text
    int8 = scores["int8"]["bleu"]
    assert f"| BLEU in int8 | {int8['score']:.2f} |" in card
    assert int8["signature"] == bleu["signature"]
    assert int8["score"] == pytest.approx(bleu["score"], abs=5)
    assert finished.data()["fingerprint"] in card
    assert "xx → yy" in card
    assert f"{finished.data()['parameters']['total']:,}" in card
    assert not re.search(r'(src|href)="https?:', report)  # self-contained


@pytest.mark.parametrize(
    "error", [ValueError("int8 is not supported\nby this CPU"), RuntimeError("no"), OSError("x"), ImportError("y")]
)
def test_a_fast_engine_that_fails_takes_no_results_of_a_finished_run(tmp_path: Path, monkeypatch, error) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    heard = Listener()
    monkeypatch.setattr(translate, "open_engine", fail)
    settings = tiny(write_task(tmp_path, made_up(60), reverse), training={"steps": 2})
    bundle = train(settings=settings, out=tmp_path / "run", reporter=heard)
    scores = bundle.scores()
    assert scores["validation"]["bleu"]["signature"]
    assert "int8" not in scores
    assert "| BLEU |" in (bundle.path / "card.md").read_text(encoding="utf-8")
    assert (bundle.path / "report.html").exists()
    assert bundle.read_log()[-1]["event"] == "finished"
    reason = " ".join(str(error).split())
    assert f"The model could not be scored in int8: {reason}" in heard.said


def test_validation_pairs_are_never_trained_on(finished: Bundle) -> None:
    cache = finished.path.parent / ".cache" / finished.data()["store"]
    valid = {source for source, _ in json.loads((cache / "store.json").read_text(encoding="utf-8"))["valid"]}
    opened = open_store(cache)
    assert opened is not None
    store = opened[0]
    trained = {finished.tokenizers.source.decode(store.source[i].tolist()) for i in range(len(store))}
    assert valid
    assert not valid & trained
    pairs = finished.data()["pairs"]
    assert (pairs["read"], pairs["kept"], pairs["held_out"]) == (340, len(store), 340 - len(store))


def test_the_best_checkpoint_and_the_last_are_kept(finished: Bundle) -> None:
    best = [e["step"] for e in finished.read_log() if e["event"] == "validation" and e["best"]][-1]
    assert finished.checkpoints() == sorted({best, 20, 25, 30})
    with_state = [step for step in finished.checkpoints() if (finished.checkpoint(step) / "state.safetensors").exists()]
    assert with_state == [25, 30]


def test_its_config_repeats_it_exactly(finished: Bundle, tmp_path: Path) -> None:
    again = train(settings=read_yaml(finished.path / "config.yaml"), out=tmp_path / "again")
    for name in ("weights.safetensors", "config.yaml", "tokenizer.json", "scores.json"):
        assert (again.path / name).read_bytes() == (finished.path / name).read_bytes(), name
    assert losses(again) == losses(finished)


def test_another_seed_gives_another_run(finished: Bundle, tmp_path: Path) -> None:
    again = train(settings={**read_yaml(finished.path / "config.yaml"), "seed": 2}, out=tmp_path / "again")
    assert losses(again)[0] != losses(finished)[0]


def test_a_finished_run_cannot_be_resumed(finished: Bundle) -> None:
    with pytest.raises(BundleError, match=r"has finished.*--from"):
        resume(finished.path)


def test_an_existing_folder_is_an_error(finished: Bundle) -> None:
    with pytest.raises(BundleError, match="exists already"):
        train(settings={"data": {"source": "a.xx", "target": "a.yy"}}, out=finished.path)


# --- averaging --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "error", "better"), [(41.0, 0.0, True), (40.0, 0.0, False), (39.5, 0.7, True), (39.2, 0.7, False)]
)
def test_the_average_is_taken_where_it_scores_better_or_nobody_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, score: float, error: float, better: bool
) -> None:
    """Which scores the two get with the beam is prepared. Validations on the way do not count, however high."""
    beam_scores = iter([40.0, score])
    validate, verdict = Validator.validate, translate.TranslationJudge.verdict
    monkeypatch.setattr(Validator, "validate", lambda *given: replace(validate(*given), score=50.0))
    monkeypatch.setattr(
        translate.TranslationJudge,
        "verdict",
        lambda *given: replace(verdict(*given), score=next(beam_scores), error=error),
    )
    data = write_task(tmp_path, made_up(100))
    settings = tiny(data, training={"steps": 8, "checkpoint_every": 2, "validate_every": 2, "average": 3})
    bundle = train(settings=settings, out=tmp_path / "run")
    averaged = average_weights(bundle, [4, 6, 8])
    expected = averaged if better else bundle.checkpoint_weights(2)  # the first of equals is the best
    weights = bundle.weights()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    assert bundle.scores()["weights"] == (
        "average of the 3 checkpoints from step 4 on" if better else "checkpoint of step 2"
    )


def test_no_average_is_tried_where_none_is_wanted(tmp_path: Path) -> None:
    data = write_task(tmp_path, made_up(100))
    bundle = train(
        settings=tiny(data, training={"steps": 4, "checkpoint_every": 1, "average": 0}), out=tmp_path / "run"
    )
    assert not [entry for entry in bundle.read_log() if entry["event"] == "average"]


# --- adapting ---------------------------------------------------------------------------------------------------------


def swapped(text: str) -> str:
    """Another task with the same words: each word is the one of the other end of the list."""
    return " ".join(WORDS[-1 - WORDS.index(word)] for word in text.split())


def adaptation(tmp_path: Path, base: Path, **training: Any) -> dict[str, Any]:
    data = write_task(tmp_path / "new", made_up(200, seed=9), swapped)
    return {"data": data, "adapt_from": str(base), "training": {"steps": 12, "batch_tokens": 512, **training}}


def test_adapting_keeps_tokenizer_and_model_and_learns_the_new_pairs(finished: Bundle, tmp_path: Path) -> None:
    bundle = train(settings=adaptation(tmp_path, finished.path), out=tmp_path / "adapted")
    assert (bundle.path / "tokenizer.json").read_bytes() == (finished.path / "tokenizer.json").read_bytes()
    assert bundle.config.model == finished.config.model
    assert bundle.config.tokenizer == finished.config.tokenizer
    assert bundle.config.adapt_from == str(finished.path)
    assert "adapted from" in (bundle.path / "card.md").read_text(encoding="utf-8")

    new = made_up(60, seed=10)
    before, after = (
        attendo.translator.perplexity(attendo.load(path).score(new, [swapped(text) for text in new]))
        for path in (finished.path, bundle.path)
    )
    assert after < before


def test_adapting_to_text_that_the_tokenizer_does_not_fit_is_warned_of(finished: Bundle, tmp_path: Path) -> None:
    fitting, foreign = Listener(), Listener()
    train(settings=adaptation(tmp_path, finished.path, steps=1), out=tmp_path / "fitting", reporter=fitting)
    assert not any("Warning" in text for text in fitting.said)
    settings = adaptation(tmp_path, finished.path, steps=1)
    lines = [f"Несколько слов на другом языке, и ещё число {number}" for number in range(30)]
    for side in ("source", "target"):
        path = tmp_path / f"foreign.{side}"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        settings["data"][side] = str(path)
    train(settings=settings, out=tmp_path / "foreign", reporter=foreign)
    (warning,) = (text for text in foreign.said if "fits this text badly" in text)
    assert "pieces, and had" in warning
    assert "characters that it does not know" in warning
    assert "without --from" in warning


def test_adapting_begins_with_the_old_weights(finished: Bundle, tmp_path: Path) -> None:
    settings = adaptation(tmp_path, finished.path, steps=1, learning_rate=1e-30)
    bundle = train(settings=settings, out=tmp_path / "adapted")
    old, new = finished.weights(), bundle.weights()
    assert all(torch.allclose(old[name], new[name], rtol=0, atol=1e-7) for name in old)


def test_adapting_refuses_another_tokenizer(finished: Bundle, tmp_path: Path) -> None:
    settings = {**adaptation(tmp_path, finished.path), "tokenizer": {"kind": "characters"}}
    with pytest.raises(ConfigError, match=r"tokenizer\.kind = 'characters'.*keeps its tokenizer"):
        train(settings=settings, out=tmp_path / "runs" / "adapted")
    assert not (tmp_path / "runs").exists()


def test_an_adaptation_is_repeated_by_its_config(finished: Bundle, tmp_path: Path) -> None:
    first = train(settings=adaptation(tmp_path, finished.path), out=tmp_path / "one")
    second = train(settings=read_yaml(first.path / "config.yaml"), out=tmp_path / "two")
    assert (first.path / "weights.safetensors").read_bytes() == (second.path / "weights.safetensors").read_bytes()


# --- how long ---------------------------------------------------------------------------------------------------------


def test_minutes_become_steps_that_are_kept(tmp_path: Path) -> None:
    data = write_task(tmp_path, made_up(100))
    bundle = train(settings=tiny(data, training={"minutes": 0.03, "schedule": "cosine"}), out=tmp_path / "run")
    training = open_bundle(bundle.path).config.training
    assert training.steps is not None
    assert training.minutes == 0.03
    assert max(entry["step"] for entry in bundle.read_log()) == bundle.scores()["steps"] <= training.steps
    # The rates that were used are a function of the step and of what the config says, not of the clock.
    schedule = build_schedule(training, d_model=bundle.config.model.d_model, steps=training.steps)
    logged = {entry["step"]: entry["lr"] for entry in bundle.read_log() if entry["event"] == "progress"}
    assert logged == {step: schedule(step) for step in logged}

    assert_repeated(bundle, tmp_path / "again")


def assert_repeated(bundle: Bundle, out: Path) -> None:
    """By its config, and by where the clock has ended it, if that is what has."""
    ended = {"training": {"last_step": bundle.scores()["steps"]}} if bundle.scores()["ended"] == "late" else {}
    again = train(settings=merge(read_yaml(bundle.path / "config.yaml"), ended), out=out)
    assert again.config.training.steps == bundle.config.training.steps
    assert again.scores()["ended"] == "finished"
    assert (again.path / "weights.safetensors").read_bytes() == (bundle.path / "weights.safetensors").read_bytes()


def foretold(seconds: float) -> Callable[..., Pace]:
    """A trial that finds so many seconds a step, whatever it really takes."""

    def find(_model: nn.Module, config: RunConfig, *_args: object, **_options: object) -> Pace:
        processes = config.training.processes or 1
        return Pace(replace(config.training, processes=processes, threads=1, mixed_precision="off"), seconds)

    return find


@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_whose_steps_take_longer_than_in_the_trial_ends_when_its_minutes_are_over(
    processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "find_pace", foretold(1e-5))
    monkeypatch.setattr(run, "speed_of_tiny", lambda *_, **__: 10_000.0)  # which takes most of so little time
    heard = Listener()
    training = {"minutes": 0.05, "schedule": "cosine", "processes": processes, "checkpoint_every": 20, "log_every": 7}
    settings = tiny(write_task(tmp_path, made_up(100)), training=training)
    bundle = train(settings=settings, out=tmp_path / "run", reporter=heard)
    scores, steps = bundle.scores(), bundle.config.training.steps
    assert steps is not None
    assert scores["ended"] == "late"
    assert scores["steps"] < steps
    assert scores["steps"] % 7 == 0
    validations = [entry["step"] for entry in bundle.read_log() if entry["event"] == "validation"]
    assert validations[-1] == scores["steps"]
    assert f"The 0.05 minutes are over after step {scores['steps']:,} of {steps:,}." in heard.said
    assert f"`training.last_step={scores['steps']}`" in (bundle.path / "card.md").read_text(encoding="utf-8")
    assert_repeated(bundle, tmp_path / "again")


def test_a_resumed_run_has_the_time_that_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped, and thought to have trained for an hour: there is time for the next line of the log alone."""
    data, out = write_task(tmp_path, made_up(100)), tmp_path / "run"
    training = {"minutes": 30.0, "schedule": "cosine", "log_every": 5, "validate_every": 10, "checkpoint_every": 10}
    monkeypatch.setattr(run, "find_pace", foretold(0.1))
    log = Bundle.log

    def interrupting(bundle: Bundle, entry: dict[str, Any]) -> None:
        log(bundle, {**entry, "minutes": 60.0} if entry["event"] == "validation" else entry)
        if entry["event"] == "validation":
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched, pytest.raises(Interrupted):
        patched.setattr(Bundle, "log", interrupting)
        train(settings=tiny(data, training=training), out=out)
    bundle = resume(out)
    assert bundle.config.training.steps is not None
    assert (bundle.scores()["steps"], bundle.scores()["ended"]) == (15, "late")


def test_epochs_become_steps(tmp_path: Path) -> None:
    data = write_task(tmp_path, made_up(110))
    bundle = train(settings=tiny(data, training={"epochs": 2.5, "accumulate": 2}), out=tmp_path / "run")
    last = [entry for entry in bundle.read_log() if entry["event"] == "progress"][-1]
    assert last["step"] == bundle.config.training.steps
    assert last["epoch"] == pytest.approx(2.5, abs=0.5)


def test_early_stopping_on_loss(tmp_path: Path) -> None:
    """With a rate that does nothing no validation after the first is better."""
    data = write_task(tmp_path, made_up(100))
    training = {"steps": 50, "validate_every": 2, "patience": 3, "stop_metric": "loss", "learning_rate": 1e-30}
    bundle = train(settings=tiny(data, training=training), out=tmp_path / "run")
    assert [e["step"] for e in bundle.read_log() if e["event"] == "validation"] == [2, 4, 6, 8]
    assert bundle.scores()["weights"] == "checkpoint of step 2"


# --- texts and tokenizers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokenizer", "model", "files"),
    [
        ({"joint": False}, {}, ["tokenizer.source.json", "tokenizer.target.json"]),
        ({"kind": "wordpiece"}, {"positions": "rotary", "activation": "swiglu"}, ["tokenizer.json"]),
        ({"kind": "characters"}, {"positions": "learned", "tie_embeddings": "none"}, ["tokenizer.json"]),
        ({"vocab_size": 310}, {"norm": "rmsnorm", "tie_embeddings": "target"}, ["tokenizer.json"]),
    ],
    ids=["separate", "wordpiece", "characters", "size"],
)
def test_tokenizers(tmp_path: Path, tokenizer: dict[str, Any], model: dict[str, Any], files: list[str]) -> None:
    data = write_task(tmp_path, made_up(60), str.upper)
    settings = tiny(data, tokenizer=tokenizer, model=model, training={"steps": 3})
    bundle = train(settings=settings, out=tmp_path / "run")
    assert sorted(path.name for path in bundle.path.glob("tokenizer*")) == files
    sizes = (bundle.tokenizers.source.vocab_size, bundle.tokenizers.target.vocab_size)
    config = bundle.config.model
    assert isinstance(config, TransformerConfig)
    assert sizes == (config.source_vocab_size, config.target_vocab_size)
    assert bundle.config.tokenizer.vocab_size is not None
    assert len(attendo.load(bundle.path).translate_many(["bako delu", ""])) == 2


def test_a_validation_set_of_ones_own(tmp_path: Path) -> None:
    data = write_task(tmp_path, made_up(60), reverse)
    own = write_task(tmp_path / "valid", made_up(7, seed=5), reverse)
    settings = tiny({**data, "valid_source": own["source"], "valid_target": own["target"]}, training={"steps": 2})
    bundle = train(settings=settings, out=tmp_path / "run")
    pairs = bundle.data()["pairs"]
    assert (pairs["kept"], pairs["held_out"]) == (60, 7)
    assert bundle.data()["validation"] == own["source"]


def test_one_file_and_reverse(tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{text}\tx\t{text.upper()}\n" for text in made_up(60)), encoding="utf-8")
    settings = tiny({"source": str(table), "columns": [1, 3], "reverse": True}, training={"steps": 1})
    bundle = train(settings=settings, out=tmp_path / "run")
    cache = tmp_path / ".cache" / bundle.data()["store"]
    source, target = json.loads((cache / "store.json").read_text(encoding="utf-8"))["valid"][0]
    assert (source, target) == (target.upper(), source.lower())
    assert bundle.languages is None
    assert "source → target" in (bundle.path / "card.md").read_text(encoding="utf-8")


def test_the_tokenised_corpus_is_used_again(tmp_path: Path) -> None:
    settings = tiny(write_task(tmp_path, made_up(60)), training={"steps": 1})
    first, second = Listener(), Listener()
    train(settings=settings, out=tmp_path / "one", reporter=first)
    train(settings=settings, out=tmp_path / "two", reporter=second)
    assert not any("earlier run" in text for text in first.said)
    assert any("earlier run" in text for text in second.said)
    assert any(re.search(r"Pairs: 54 for training, 6 for validation; 0 dropped", text) for text in second.said)


# --- refused before anything is written -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"training": {"learnin_rate": 1}},
            r"unknown setting training\.learnin_rate\. Did you mean training\.learning_rate",
        ),
        ({"training": {"steps": 0}}, r"training\.steps = 0: must be at least 1"),
        ({"training": {"schedule": "paper", "warmup_steps": 0}}, r"training\.warmup_steps = 0.*at least 1"),
        ({"training": {"average": 50}}, r"training\.average = 50: cannot be more than"),
        ({"model": {"d_model": 33, "n_heads": 2}}, r"model\.d_model = 33: must be a multiple of n_heads"),
        ({"model": {"positions": "learned", "n_positions": 100}}, r"model\.n_positions = 100.*at least 307"),
        ({"model": {"positions": "rotary", "d_key": 3}}, r"model\.positions = 'rotary'.*must be even"),
        ({"tokenizer": {"vocab_size": 299}}, r"tokenizer\.vocab_size = 299: must be at least 300"),
        ({"tokenizer": {"kind": "words"}}, r"tokenizer\.kind = 'words': must be one of bpe, wordpiece, characters"),
        ({"tokenizer": {"joint": False}, "model": {"tie_embeddings": "all"}}, r"model\.tie_embeddings = 'all'"),
        ({"tokenizer": None}, r"tokenizer = None: must be a group of settings"),
        ({"training": 3}, r"training = 3: must be a group of settings"),
        ({"seed": -1}, r"seed = -1"),
        ({"sead": 1}, r"unknown setting sead\. Did you mean seed"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_written(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    data = write_task(tmp_path / "data", made_up(30))
    with pytest.raises(ConfigError, match=message):
        train(settings={"data": data, **settings}, out=tmp_path / "runs" / "run")
    assert files_in(tmp_path) == ["data", "data/task.xx", "data/task.yy"]


def test_a_vocabulary_size_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    data = write_task(tmp_path / "data", made_up(30))
    with pytest.raises(ConfigError, match=r"model\.source_vocab_size = 12345: the tokenizer of this corpus has"):
        train(settings=tiny(data, model={"source_vocab_size": 12345}), out=tmp_path / "runs" / "run")
    assert not (tmp_path / "runs" / "run").exists()


def spoil_lines(data: dict[str, str]) -> None:
    with Path(data["target"]).open("a", encoding="utf-8") as file:
        file.write("one more\n")


def spoil_bytes(data: dict[str, str]) -> None:
    Path(data["source"]).write_bytes(Path(data["source"]).read_bytes()[:-1] + b"\xff\n")


def spoil_size(data: dict[str, str]) -> None:
    for path in data.values():
        Path(path).write_text("one\ntwo\nthree\n", encoding="utf-8")


def spoil_presence(data: dict[str, str]) -> None:
    Path(data["target"]).unlink()


def spoil_content(data: dict[str, str]) -> None:
    Path(data["source"]).write_bytes(b"")


SPOILS = (spoil_lines, spoil_bytes, spoil_presence, spoil_content)


@pytest.mark.parametrize(
    ("side", "spoil"),
    [("training", spoil_size), *((side, spoil) for side in ("training", "validation") for spoil in SPOILS)],
)
def test_text_that_cannot_be_used_leaves_nothing_behind(
    tmp_path: Path, side: str, spoil: Callable[[dict[str, str]], None]
) -> None:
    data = write_task(tmp_path / "data", made_up(30))
    valid = write_task(tmp_path / "valid", made_up(5, seed=2))
    spoil(data if side == "training" else valid)
    before = files_in(tmp_path)
    with pytest.raises(DataError):
        train(
            settings={"data": {**data, "valid_source": valid["source"], "valid_target": valid["target"]}},
            out=tmp_path / "a" / "b",
        )
    assert files_in(tmp_path) == before


def test_a_place_that_cannot_be_written_is_said_in_words(tmp_path: Path) -> None:
    data = write_task(tmp_path / "data", made_up(30))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="file"):
        train(settings=tiny(data, training={"steps": 1}), out=tmp_path / "file" / "run")


def test_a_failure_before_the_first_step_leaves_only_the_tokenised_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    data = write_task(tmp_path / "data", made_up(30))
    monkeypatch.setattr("attendo.run.find_pace", fail)
    with pytest.raises(MemoryError):
        train(settings=tiny(data, training={"steps": 1}), out=tmp_path / "runs" / "run")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [".cache"]


# --- losses that cannot be trusted ------------------------------------------------------------------------------------


def test_an_absurd_rate_stops_with_an_explanation(tmp_path: Path) -> None:
    data = write_task(tmp_path, made_up(60))
    training = {"steps": 60, "learning_rate": 1e6, "schedule": "constant", "warmup_steps": 0}
    with pytest.raises(TrainingError, match=r"the loss .* at step \d+.*lower training\.learning_rate.*No checkpoint"):
        train(settings=tiny(data, training=training), out=tmp_path / "run")


def test_a_loss_that_is_not_a_number_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    true_loss = loss.batch_loss

    def batch_loss(*arguments: Any) -> Tensor:
        nonlocal calls
        calls += 1
        return true_loss(*arguments) * (float("nan") if calls == pace.SHORT[0] + 8 else 1.0)  # after measuring

    monkeypatch.setattr(loss, "batch_loss", batch_loss)
    data = write_task(tmp_path, made_up(60))
    settings = tiny(data, training={"steps": 20, "checkpoint_every": 3})
    with pytest.raises(TrainingError, match=r"became nan at step 8.*keeps the last good checkpoint, of step 6\."):
        train(settings=settings, out=tmp_path / "run")
    bundle = open_bundle(tmp_path / "run")
    assert bundle.checkpoints() == [3, 6]
    assert all(tensor.isfinite().all() for tensor in bundle.weights().values())
    load_weights(bundle.model(), bundle.checkpoint_weights(6), where="here")

    # What was wrong is gone: the run goes on from there.
    monkeypatch.setattr(loss, "batch_loss", true_loss)
    assert resume(bundle.path).scores()


def test_few_passes_have_little_dropout_unless_it_is_given(tmp_path: Path) -> None:
    data = write_task(tmp_path, made_up(100))
    settings = tiny(data, training={"epochs": 2})

    def dropout(bundle: Bundle) -> float:
        assert isinstance(bundle.config.model, TransformerConfig)
        return bundle.config.model.residual_dropout

    assert dropout(train(settings=settings, out=tmp_path / "chosen")) == 0.1
    assert dropout(train(settings=settings, preset="tiny", out=tmp_path / "named")) == 0.25
    given = merge(settings, {"model": {"residual_dropout": 0.3}})
    assert dropout(train(settings=given, out=tmp_path / "given")) == 0.3
