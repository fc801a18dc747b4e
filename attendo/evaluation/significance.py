"""Is one system better than another, or was it luck? Two paired tests, by sacreBLEU.

Paired bootstrap (Koehn 2004): draw n sentences with replacement, many times, and see how the difference of the two
systems' scores varies. Paired approximate randomisation (Riezler and Maxwell 2005): swap the two systems' outputs
sentence by sentence at random, many times, and see how often the difference comes out larger than the real one.
Both give p, the chance of so large a difference between systems that are equally good.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics import CHRF
from sacrebleu.significance import PairedTest

from attendo.errors import ConfigError, DataError
from attendo.evaluation.scores import bleu_metric, require_pairs

THRESHOLD = 0.05
# Swapping k differing sentences gives 2^k outcomes, of which the real one and its mirror image are always as large:
# p ≥ 2^(1-k), which is above the threshold for k < 6. sacreBLEU counts only larger differences and misses that.
FEWEST_DIFFERING = 6
SACREBLEU_SEED = 12345


@dataclass(frozen=True, kw_only=True)
class SystemScore:
    """A corpus score, and mean ± half width of the 95 % confidence interval over the bootstrap samples."""

    score: float
    mean: float
    interval: float

    def to_json(self) -> dict[str, float]:
        return {"score": self.score, "mean": self.mean, "interval": self.interval}


@dataclass(frozen=True, kw_only=True)
class MetricComparison:
    """Both tests for one metric; higher is better. A difference of exactly zero has p = 1."""

    metric: str
    system: SystemScore
    baseline: SystemScore
    p_bootstrap: float
    p_randomisation: float
    signature_bootstrap: str
    signature_randomisation: str

    @property
    def difference(self) -> float:
        return self.system.score - self.baseline.score

    @property
    def tests_passed(self) -> int:
        """How many of the two tests call the difference real: 0, 1 or 2."""
        return (self.p_bootstrap < THRESHOLD) + (self.p_randomisation < THRESHOLD)

    def to_json(self) -> dict[str, Any]:
        return {
            "system": self.system.to_json(),
            "baseline": self.baseline.to_json(),
            "difference": self.difference,
            "p_bootstrap": self.p_bootstrap,
            "p_randomisation": self.p_randomisation,
            "signature_bootstrap": self.signature_bootstrap,
            "signature_randomisation": self.signature_randomisation,
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A system against a baseline on the same sentences."""

    names: tuple[str, str]
    sentences: int
    differing: int
    bleu: MetricComparison
    chrf: MetricComparison

    @property
    def real(self) -> bool:
        """Both tests agree that the difference in BLEU is not chance."""
        return self.differing >= FEWEST_DIFFERING and self.bleu.tests_passed == 2

    @property
    def verdict(self) -> str:
        """What the numbers say, in plain words."""
        name, other = self.names
        if self.differing == 0:
            return (
                f"{name} and {other} cannot be told apart: "
                f"they gave the same output for all {self.sentences:,} sentences."
            )
        if self.differing < FEWEST_DIFFERING:
            return (
                f"{name} and {other} cannot be told apart: their outputs differ in only {self.differing} of "
                f"{self.sentences:,} sentences, and nothing can be concluded from fewer than {FEWEST_DIFFERING}."
            )
        return f"{_sentence(self.bleu, name, other)} {_echo(self.chrf, self.bleu, name, other)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "system": self.names[0],
            "baseline": self.names[1],
            "sentences": self.sentences,
            "differing": self.differing,
            "bleu": self.bleu.to_json(),
            "chrf": self.chrf.to_json(),
            "real": self.real,
            "verdict": self.verdict,
        }


def compare(
    system: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    *,
    names: tuple[str, str] = ("A", "B"),
    target_language: str = "",
    seed: int = SACREBLEU_SEED,
    samples: int = 1_000,
    trials: int = 10_000,
) -> Comparison:
    """Both tests on BLEU and chrF: `samples` draws of the bootstrap, `trials` of the randomisation.

    With the default seed the p-values are those of `sacrebleu REF -i BASELINE SYSTEM --paired-bs` (`--paired-ar`).
    """
    require_pairs(system, references)
    if len(system) != len(baseline):
        raise DataError(
            f"{names[0]} has {len(system):,} translations but {names[1]} has {len(baseline):,}; "
            "two systems are compared on the same sentences. Translate the same file with both."
        )
    if seed < 0:
        raise ConfigError(f"seed is {seed}; it must be 0 or more. Give another --seed.")
    for name, value in (("samples", samples), ("trials", trials)):
        if value < 1 / THRESHOLD:
            raise ConfigError(
                f"{name} is {value}; with fewer than {1 / THRESHOLD:.0f} no p-value can fall below {THRESHOLD}. "
                "Give more."
            )

    bootstrap, bootstrap_signatures = _paired_test(
        "bs", system, baseline, references, target_language=target_language, seed=seed, repeats=samples
    )
    randomisation, randomisation_signatures = _paired_test(
        "ar", system, baseline, references, target_language=target_language, seed=seed, repeats=trials
    )

    def comparison(metric: str) -> MetricComparison:
        baseline_result, system_result = bootstrap[metric]
        # The chance of a difference of at least zero is 1. sacreBLEU counts only larger ones, and so would call a
        # system significantly different from itself.
        no_difference = system_result.score == baseline_result.score
        return MetricComparison(
            metric=metric.rstrip("2"),
            system=_system_score(system_result),
            baseline=_system_score(baseline_result),
            p_bootstrap=1.0 if no_difference else float(system_result.p_value),
            p_randomisation=1.0 if no_difference else float(randomisation[metric][1].p_value),
            signature_bootstrap=bootstrap_signatures[metric].format(),
            signature_randomisation=randomisation_signatures[metric].format(),
        )

    return Comparison(
        names=names,
        sentences=len(system),
        differing=sum(ours != theirs for ours, theirs in zip(system, baseline, strict=True)),
        bleu=comparison("BLEU"),
        chrf=comparison("chrF2"),
    )


def _paired_test(
    kind: str,
    system: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    *,
    target_language: str,
    seed: int,
    repeats: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """sacreBLEU's results by metric, (baseline, system) for each, and its signatures by metric."""
    metrics = {
        "BLEU": bleu_metric(target_language, references=[list(references)]),
        "chrF": CHRF(references=[list(references)]),
    }
    systems = [("baseline", list(baseline)), ("system", list(system))]
    with _sacrebleu_seed(seed):
        test = PairedTest(systems, metrics, references=None, test_type=kind, n_samples=repeats)
    # sacreBLEU takes a seed of 0 for none at all. A list is always true, and seeds the same numbers.
    test._seed = [seed]
    signatures, results = test()
    return results, signatures


@contextmanager
def _sacrebleu_seed(seed: int) -> Iterator[None]:
    """sacreBLEU reads its seed from the environment; put it there, and leave the environment as it was."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before


def _system_score(result: Any) -> SystemScore:
    return SystemScore(score=float(result.score), mean=float(result.mean), interval=float(result.ci))


def _sentence(result: MetricComparison, name: str, other: str) -> str:
    """The outcome of both tests for one metric."""
    ahead, behind = (name, other) if result.difference >= 0 else (other, name)
    gap = f"{abs(result.difference):.2f} {result.metric}"
    both = (
        f"paired bootstrap {_percent(result.p_bootstrap)}, approximate randomisation {_percent(result.p_randomisation)}"
    )
    if result.difference == 0:
        return f"{name} and {other} cannot be told apart: both have {result.system.score:.2f} {result.metric}."
    if result.tests_passed == 2:
        return (
            f"{ahead} is better than {behind} by {gap}; a difference this large would come up by chance in "
            f"{_percent(max(result.p_bootstrap, result.p_randomisation))} of cases ({both}): it is real."
        )
    if result.tests_passed == 0:
        return (
            f"{name} and {other} cannot be told apart: {ahead} is ahead by {gap}, but a difference this large would "
            f"come up by chance in {_percent(min(result.p_bootstrap, result.p_randomisation))} of cases ({both})."
        )
    return (
        f"{ahead} is ahead of {behind} by {gap}, but the two tests disagree whether that is chance ({both}; real "
        f"means below {_percent(THRESHOLD)}): do not rely on it before a larger test set has confirmed it."
    )


def _echo(result: MetricComparison, first: MetricComparison, name: str, other: str) -> str:
    """The second metric: in a few words where it agrees with the first, in full where it does not."""
    same_side = (result.difference > 0) == (first.difference > 0)
    if result.tests_passed == first.tests_passed and (same_side or first.tests_passed == 0):
        return f"{result.metric} says the same ({result.difference:+.2f})."
    return f"{result.metric} does not say the same: {_sentence(result, name, other)}"


def _percent(p: float) -> str:
    if p < 0.001:
        return "less than 0.1 %"
    return f"{100 * p:.1f} %" if p < 0.1 else f"{100 * p:.0f} %"
