"""Paired tests against sacreBLEU's own command, and the words in which they are reported."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from attendo.errors import ConfigError, DataError
from attendo.evaluation.significance import Comparison, MetricComparison, SystemScore, compare

WORDS = ["ein", "zwei", "drei", "Hund", "Katze", "Mann", "Frau", "Kind", "läuft", "liest", "rot", "blau", "heute"]
SENTENCES, SAMPLES, TRIALS = 97, 211, 307


def noisy(lines: list[str], share: float, seed: int) -> list[str]:
    """`lines` with about `share` of the words replaced."""
    chance = random.Random(seed)
    return [" ".join("falsch" if chance.random() < share else word for word in line.split()) for line in lines]


@pytest.fixture(scope="module")
def references() -> list[str]:
    chance = random.Random(5)
    return [" ".join(chance.choices(WORDS, k=chance.randint(7, 13))) for _ in range(SENTENCES)]


def sacrebleu_command(folder: Path, seed: int, *options: str) -> str:
    """What `sacrebleu` prints for the files reference, baseline and system in `folder`."""
    command = [sys.executable, "-m", "sacrebleu", "reference", "-i", "baseline", "system", *options]
    environment = {**os.environ, "SACREBLEU_SEED": str(seed), "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    return run.stdout


@pytest.mark.parametrize("seed", [12345, 7])
def test_p_values_and_intervals_are_those_of_sacrebleus_command(references, tmp_path, seed):
    system, baseline = noisy(references, 0.10, 1), noisy(references, 0.13, 2)
    for name, lines in (("reference", references), ("system", system), ("baseline", baseline)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    ours = compare(system, baseline, references, seed=seed, samples=SAMPLES, trials=TRIALS)

    bootstrap = ["--paired-bs", "--paired-bs-n", str(SAMPLES)]
    printed = sacrebleu_command(tmp_path, seed, "-m", "bleu", *bootstrap, "--format", "json")
    their_baseline, their_system = (entry["BLEU"] for entry in json.loads(printed))
    assert 1 / SAMPLES < their_system["p_value"] < 1
    assert ours.bleu.p_bootstrap == their_system["p_value"]
    for mine, theirs in ((ours.bleu.system, their_system), (ours.bleu.baseline, their_baseline)):
        assert (mine.score, mine.mean, mine.interval) == (theirs["score"], theirs["mean"], theirs["ci"])

    randomisation = ["--paired-ar", "--paired-ar-n", str(TRIALS)]
    printed = sacrebleu_command(tmp_path, seed, "-m", "bleu", "chrf", *randomisation, "--format", "json")
    _, their_system = json.loads(printed)
    assert 1 / TRIALS < their_system["BLEU"]["p_value"] < 1
    assert ours.bleu.p_randomisation == their_system["BLEU"]["p_value"]
    assert ours.chrf.p_randomisation == their_system["chrF2"]["p_value"]

    # The command cannot print chrF's bootstrap as JSON (its numbers are float32), so this one is read off its table.
    printed = sacrebleu_command(tmp_path, seed, "-m", "chrf", *bootstrap, "--format", "text", "--width", "3")
    for mine in (ours.chrf.baseline, ours.chrf.system):
        assert f"{mine.score:.3f} ({mine.mean:.3f} ± {mine.interval:.3f})" in printed
    assert f"(p = {ours.chrf.p_bootstrap:.4f})" in printed
    for signature in (ours.chrf.signature_bootstrap, ours.bleu.signature_bootstrap):
        assert f"|bs:{SAMPLES}|seed:{seed}|" in signature
    assert ours.chrf.signature_bootstrap in printed
    assert f"|ar:{TRIALS}|seed:{seed}|" in ours.bleu.signature_randomisation


def test_a_clear_win_is_real_in_both_directions(references):
    good, bad = noisy(references, 0.05, 1), noisy(references, 0.30, 2)
    win = compare(good, bad, references, names=("new", "old"), samples=SAMPLES, trials=TRIALS)
    assert win.real
    assert win.bleu.difference > 10
    assert win.verdict.startswith(f"new is better than old by {win.bleu.difference:.2f} BLEU; a difference this large")
    assert "it is real. chrF says the same (+" in win.verdict
    loss = compare(bad, good, references, names=("new", "old"), samples=SAMPLES, trials=TRIALS)
    assert loss.real
    assert loss.verdict.startswith("old is better than new by ")
    assert "chrF says the same (-" in loss.verdict


def test_a_tie_cannot_be_told_apart(references):
    tie = compare(noisy(references, 0.1, 1), noisy(references, 0.1, 4), references, samples=SAMPLES, trials=TRIALS)
    assert not tie.real
    assert min(tie.bleu.p_bootstrap, tie.bleu.p_randomisation) > 0.05
    assert tie.verdict.startswith("A and B cannot be told apart: ")
    assert "it is real" not in tie.verdict


def test_a_system_does_not_differ_from_itself(references):
    system = noisy(references, 0.1, 1)
    same = compare(system, list(system), references, samples=SAMPLES, trials=TRIALS)
    assert not same.real
    assert same.differing == 0
    assert same.bleu.p_bootstrap == same.bleu.p_randomisation == same.chrf.p_bootstrap == 1
    assert same.verdict == "A and B cannot be told apart: they gave the same output for all 97 sentences."


def test_differences_that_no_metric_sees_are_none(references):
    system = noisy(references, 0.1, 1)
    same = compare([f" {line}" for line in system], system, references, samples=SAMPLES, trials=TRIALS)
    assert same.differing == SENTENCES
    assert not same.real
    assert same.bleu.p_bootstrap == same.bleu.p_randomisation == 1
    assert "cannot be told apart: both have" in same.verdict


def test_a_handful_of_better_sentences_proves_nothing(references):
    baseline = noisy(references, 0.3, 1)
    system = references[:5] + baseline[5:]
    few = compare(system, baseline, references, samples=SAMPLES, trials=TRIALS)
    assert few.bleu.p_randomisation < 0.05
    assert not few.real
    assert "differ in only 5 of 97 sentences" in few.verdict


def result(metric: str, difference: float, p_bootstrap: float, p_randomisation: float) -> MetricComparison:
    return MetricComparison(
        metric=metric,
        system=SystemScore(score=30 + difference, mean=30, interval=1),
        baseline=SystemScore(score=30, mean=30, interval=1),
        p_bootstrap=p_bootstrap,
        p_randomisation=p_randomisation,
        signature_bootstrap="",
        signature_randomisation="",
    )


def verdict(bleu: MetricComparison, chrf: MetricComparison) -> Comparison:
    return Comparison(names=("A", "B"), sentences=97, differing=89, bleu=bleu, chrf=chrf)


@pytest.mark.parametrize(("p_bootstrap", "p_randomisation"), [(0.04, 0.07), (0.07, 0.04)])
def test_tests_that_disagree_are_reported_as_such(p_bootstrap, p_randomisation):
    comparison = verdict(result("BLEU", 0.5, p_bootstrap, p_randomisation), result("chrF", 0.5, 0.01, 0.01))
    assert not comparison.real
    assert "A is ahead of B by 0.50 BLEU, but the two tests disagree" in comparison.verdict
    assert f"paired bootstrap {100 * p_bootstrap:.1f} %" in comparison.verdict
    assert "chrF does not say the same: A is better than B by 0.50 chrF" in comparison.verdict


def test_the_verdict_gives_the_weaker_test_as_the_chance():
    comparison = verdict(result("BLEU", 1.2, 0.0009, 0.003), result("chrF", 0.9, 0.001, 0.001))
    assert comparison.verdict == (
        "A is better than B by 1.20 BLEU; a difference this large would come up by chance in 0.3 % of cases (paired "
        "bootstrap less than 0.1 %, approximate randomisation 0.3 %): it is real. chrF says the same (+0.90)."
    )


def test_metrics_that_point_in_opposite_directions_do_not_say_the_same():
    comparison = verdict(result("BLEU", 1.2, 0.01, 0.01), result("chrF", -0.9, 0.01, 0.01))
    assert "chrF does not say the same: B is better than A by 0.90 chrF" in comparison.verdict


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("before", [None, "99"])
def test_deterministic_and_the_environment_is_left_as_it_was(references, monkeypatch, before, seed):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    if before is not None:
        monkeypatch.setenv("SACREBLEU_SEED", before)
    system, baseline = noisy(references, 0.10, 1), noisy(references, 0.12, 2)
    first, again = (compare(system, baseline, references, seed=seed, samples=SAMPLES, trials=TRIALS) for _ in range(2))
    assert first == again
    assert os.environ.get("SACREBLEU_SEED") == before
    other = compare(system, baseline, references, seed=seed + 1, samples=SAMPLES, trials=TRIALS)
    assert other.bleu.p_randomisation != first.bleu.p_randomisation


def test_json_holds_everything(references):
    comparison = compare(
        noisy(references, 0.1, 1),
        noisy(references, 0.2, 2),
        references,
        names=("x", "y"),
        samples=SAMPLES,
        trials=TRIALS,
    )
    data = json.loads(json.dumps(comparison.to_json()))
    assert (data["system"], data["baseline"], data["sentences"]) == ("x", "y", SENTENCES)
    assert data["real"] is comparison.real
    assert data["verdict"] == comparison.verdict
    assert data["bleu"]["difference"] == data["bleu"]["system"]["score"] - data["bleu"]["baseline"]["score"]
    assert data["chrf"]["p_bootstrap"] == comparison.chrf.p_bootstrap


def test_impossible_requests_are_errors(references):
    with pytest.raises(DataError, match="A has 97 translations but B has 96"):
        compare(references, references[1:], references)
    with pytest.raises(DataError, match="97 translations but 96 references"):
        compare(references, references, references[1:])
    with pytest.raises(DataError, match="no sentences"):
        compare([], [], [])
    with pytest.raises(ConfigError, match="seed is -1"):
        compare(references, references, references, seed=-1)
    with pytest.raises(ConfigError, match="trials is 0"):
        compare(references, references, references, trials=0)
