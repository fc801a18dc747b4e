"""How good a model is while it is trained: loss and BLEU on pairs it never sees, beside copying the source."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from attendo.evaluation.scores import Scores, bleu, score_corpus, sentence_bleus
from attendo.models.transformer import Transformer
from attendo.reporting import Reporter
from attendo.text.corpus import Pair
from attendo.training.loop import Validation
from attendo.translator import Translator

SAMPLES = 5
MOST_NATS = 700.0  # a perplexity of more is no floating-point number; only a model that diverges gets there


@dataclass(frozen=True)
class Sample:
    """One translated sentence of the validation set."""

    source: str
    reference: str
    translation: str
    bleu: float

    def to_json(self) -> dict[str, Any]:
        return vars(self)


class Validator:
    """Scores a translator, whose weights change meanwhile, on the same pairs again and again."""

    def __init__(
        self, translator: Translator, pairs: Sequence[Pair], *, metric: Literal["bleu", "loss"], beam: int
    ) -> None:
        self.translator = translator
        self.sources = [source for source, _ in pairs]
        self.references = [target for _, target in pairs]
        self.metric = metric
        self.beam = beam
        self.language = translator.languages[1] if translator.languages else ""
        self.baseline = bleu(self.sources, self.references, target_language=self.language).score

    def validate(self, model: Transformer) -> Validation:
        """What the training loop asks for; the model is the translator's own."""
        assert model is self.translator.engine.model
        scores = self.translator.score(self.sources, self.references)
        nats = -math.fsum(one.log_prob for one in scores) / sum(one.n_pieces for one in scores)
        translations = self._translations(self.beam)
        score = bleu(translations, self.references, target_language=self.language)
        facts = {
            "loss": nats,
            "perplexity": math.exp(min(nats, MOST_NATS)),
            "bleu": score.score,
            "bleu_signature": score.signature,
            "baseline_bleu": self.baseline,
            "samples": [sample.to_json() for sample in self._samples(translations)],
        }
        return Validation(score=score.score if self.metric == "bleu" else -nats, facts=facts)

    def final(self, *, beam: int, reporter: Reporter) -> tuple[Scores, list[Sample]]:
        """All metrics with the beam that users get."""
        translations = self._translations(beam, reporter)
        return score_corpus(translations, self.references, target_language=self.language), self._samples(translations)

    def _translations(self, beam: int, reporter: Reporter | None = None) -> list[str]:
        return [one.text for one in self.translator.translate_many(self.sources, beam=beam, reporter=reporter)]

    def _samples(self, translations: list[str]) -> list[Sample]:
        """A few sentences from the worst to the best, so that one sees both."""
        scores = sentence_bleus(translations, self.references, target_language=self.language)
        order = sorted(range(len(scores)), key=lambda i: (scores[i], i))
        places = sorted({round(k * (len(order) - 1) / (SAMPLES - 1)) for k in range(SAMPLES)})
        return [
            Sample(self.sources[i], self.references[i], translations[i], round(scores[i], 1))
            for i in (order[place] for place in places)
        ]
