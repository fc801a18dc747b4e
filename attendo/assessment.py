"""How good a translator is on a test set: translated, scored, and where asked compared with another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attendo.decoding.search import SearchOptions
from attendo.engines.engine import Precision
from attendo.evaluation.literature import literature_bleu
from attendo.evaluation.scores import Score, Scores, require_pairs, score_corpus
from attendo.evaluation.significance import SACREBLEU_SEED, Comparison, compare
from attendo.reporting import Reporter
from attendo.translator import Translator, perplexity


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What was found. `perplexity` is that of the references, `literature` and `comparison` only where asked for."""

    translations: tuple[str, ...]
    scores: Scores
    perplexity: float
    options: SearchOptions
    max_length: int | None = None
    bundles: tuple[str, ...] = ()
    precision: Precision = "float32"
    literature: Score | None = None
    comparison: Comparison | None = None

    @property
    def beam(self) -> int | None:
        """How many prefixes the search kept; sampling keeps none."""
        return None if self.options.sample else self.options.beam

    @property
    def search(self) -> dict[str, Any]:
        """All that the translations depend on but the model: options, and what else is not as by default."""
        limit = {} if self.max_length is None else {"max_length": self.max_length}
        ensemble = {"bundles": list(self.bundles)} if len(self.bundles) > 1 else {}
        rounded = {} if self.precision == "float32" else {"precision": self.precision}
        return self.options.in_use() | limit | ensemble | rounded

    def to_json(self) -> dict[str, Any]:
        """The numbers, and how the translations were looked for."""
        found = {**self.scores.to_json(), "perplexity": self.perplexity, "beam": self.beam, "search": self.search}
        if self.literature is not None:
            found["literature"] = self.literature.to_json()
        if self.comparison is not None:
            found["against"] = self.comparison.to_json()
        return found

    def in_words(self) -> list[str]:
        """Lines for people, each score with its signature."""
        lines = [f"{one.detail}   {one.signature}" for one in (self.scores.bleu, self.scores.chrf, self.scores.ter)]
        lines.append(f"perplexity = {self.perplexity:.3f} per piece")
        shown = {key: " + ".join(value) if isinstance(value, list) else value for key, value in self.search.items()}
        lines.append("Search: " + ", ".join(f"{key} = {value}" for key, value in shown.items()))
        if self.literature is not None:
            one = self.literature
            lines.append(f"literature's {one.name} = {one.score:.2f}   {one.signature}")
        if self.comparison is not None:
            lines.append(self.comparison.verdict)
        return lines


def assess(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    options: SearchOptions | None = None,
    max_length: int | None = None,
    batch_size: int | None = None,
    batch_tokens: int | None = None,
    literature: bool = False,
    tokenised_references: Sequence[str] | None = None,
    against: Translator | None = None,
    names: tuple[str, str] = ("A", "B"),
    seed: int = SACREBLEU_SEED,
    reporter: Reporter | None = None,
) -> Assessment:
    """Translates the sources and scores that against the references.

    literature: also the metric of the Multi30K papers, against `tokenised_references` where the data set has them.
    against: a second translator; both are compared on the same sentences, under the `names` of the two.
    """
    require_pairs(sources, references)
    if tokenised_references is not None:
        require_pairs(sources, tokenised_references)
    options = options or SearchOptions()
    language = translator.target_language

    def translations(by: Translator) -> tuple[str, ...]:
        found = by.translate_many(
            sources,
            options=options,
            max_length=max_length,
            split=False,  # a test set is translated line by line, as the model does it by itself
            check=False,
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            reporter=reporter,
        )
        return tuple(translation.text for translation in found)

    ours = translations(translator)
    return Assessment(
        translations=ours,
        scores=score_corpus(ours, references, target_language=language),
        perplexity=perplexity(
            translator.score(sources, references, batch_size=batch_size, batch_tokens=batch_tokens, reporter=reporter)
        ),
        options=options,
        max_length=max_length,
        bundles=translator.bundles,
        precision=translator.precision,
        literature=literature_bleu(
            ours, references_tokenised=tokenised_references, references=references, language=language or "en"
        )
        if literature or tokenised_references is not None
        else None,
        comparison=compare(ours, translations(against), references, names=names, target_language=language, seed=seed)
        if against is not None
        else None,
    )
