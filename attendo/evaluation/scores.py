"""BLEU, chrF and TER of a corpus, by sacreBLEU, each with the signature that makes it reproducible.

BLEU  = BP · exp(¼ Σ_{n=1..4} log p_n): clipped n-gram precisions p_n, brevity penalty BP = min(1, e^{1 - r/c})
chrF2 = (1 + 2²) · P·R / (2²·P + R): precision P and recall R of character n-grams, averaged over n = 1..6
TER   = edits (insert, delete, substitute, shift a block) / words of the reference; lower is better
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sacrebleu.metrics import BLEU, CHRF, TER

from attendo.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Score:
    """One number of one metric. `signature` says how it was computed, `detail` is the line sacreBLEU prints."""

    name: str
    score: float
    signature: str
    detail: str

    def to_json(self) -> dict[str, Any]:
        return {"score": self.score, "signature": self.signature}


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The three metrics over the same sentences."""

    bleu: Score
    chrf: Score
    ter: Score
    sentences: int

    def to_json(self) -> dict[str, Any]:
        return {
            "bleu": self.bleu.to_json(),
            "chrf": self.chrf.to_json(),
            "ter": self.ter.to_json(),
            "sentences": self.sentences,
        }


def score_corpus(hypotheses: Sequence[str], references: Sequence[str], *, target_language: str = "") -> Scores:
    """All three metrics. TER searches for block shifts and takes by far the longest."""
    require_pairs(hypotheses, references)
    return Scores(
        bleu=bleu(hypotheses, references, target_language=target_language),
        chrf=corpus_score(CHRF(), hypotheses, references),
        ter=corpus_score(TER(), hypotheses, references),
        sentences=len(hypotheses),
    )


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, target_language: str = "") -> Score:
    """BLEU alone, quick enough for every validation."""
    return corpus_score(bleu_metric(target_language), hypotheses, references)


def sentence_bleus(hypotheses: Sequence[str], references: Sequence[str], *, target_language: str = "") -> list[float]:
    """BLEU of each sentence on its own, to order samples by.

    A sentence of three words has no 4-grams: only the n-gram orders it has are counted (effective order).
    """
    require_pairs(hypotheses, references)
    metric = bleu_metric(target_language, effective_order=True)
    return [
        float(metric.sentence_score(hypothesis, [reference]).score)
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]


def bleu_metric(
    target_language: str = "",
    *,
    effective_order: bool = False,
    references: Sequence[Sequence[str]] | None = None,
) -> BLEU:
    """sacreBLEU's metric with the tokenizer that it uses for the target language: zh, ja-mecab, ko-mecab, else 13a.

    Japanese and Korean need a morphological analyser that is not always installed; without it BLEU is counted
    over characters, and the signature says `tok:char`.
    """
    language = target_language.lower().replace("_", "-").partition("-")[0]
    # force: no warning about tokenised-looking output, which would break into the progress line. The score stays.
    metric = partial(BLEU, force=True, effective_order=effective_order, references=references)
    try:
        return metric(trg_lang=language)
    except (RuntimeError, AssertionError):  # analyser missing, or with a dictionary that sacreBLEU refuses
        return metric(tokenize="char")


def corpus_score(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """The score of a sacreBLEU metric over all sentences, one reference each."""
    require_pairs(hypotheses, references)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(
        name=result.name,
        score=float(result.score),
        signature=metric.get_signature().format(),
        detail=result.format(width=2),
    )


def require_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """A score exists only for at least one sentence, with one reference for each."""
    if len(hypotheses) != len(references):
        raise DataError(
            f"there are {len(hypotheses):,} translations but {len(references):,} references; a score needs one "
            "reference for each translation. Check that both files belong together and end at the same line."
        )
    if not hypotheses:
        raise DataError("there are no sentences to score; a score needs at least one. Check the test files.")
