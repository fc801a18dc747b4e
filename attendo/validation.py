"""How good a model is while it is trained: loss and BLEU on pairs it never sees, beside copying the source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from attendo.engines.engine import Engine, Precision
from attendo.evaluation.scores import Score, Scores, bleu, score_corpus, sentence_bleus
from attendo.reporting import Reporter
from attendo.text.corpus import Pair
from attendo.training.loop import Validation
from attendo.translator import Translator, exponential, nats_per_piece, perplexity

SAMPLES = 5


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
        self.language = translator.target_language
        self.baseline = bleu(self.sources, self.references, target_language=self.language).score

    def validate(self, _: nn.Module) -> Validation:
        """What the training loop asks for. The translator is made around this very model."""
        nats = nats_per_piece(self.translator.score(self.sources, self.references))
        translations = self._translations(self.beam)
        score = bleu(translations, self.references, target_language=self.language)
        facts = {
            "loss": nats,
            "perplexity": exponential(nats),
            "bleu": score.score,
            "bleu_signature": score.signature,
            "baseline_bleu": self.baseline,
            "samples": [sample.to_json() for sample in self._samples(translations)],
        }
        return Validation(score=score.score if self.metric == "bleu" else -nats, facts=facts)

    def final(self, *, beam: int, reporter: Reporter) -> tuple[Scores, float, list[Sample]]:
        """All metrics with the beam that users get, the perplexity, and a few translations."""
        translations = self._translations(beam, reporter)
        scores = score_corpus(translations, self.references, target_language=self.language)
        return scores, perplexity(self.translator.score(self.sources, self.references)), self._samples(translations)

    def bleu_by(self, engine: Engine, *, precision: Precision, beam: int) -> Score:
        """BLEU of the same model as another engine runs it."""
        ours = self.translator
        other = Translator(
            engine, ours.tokenizers, max_length=ours.max_length, languages=ours.languages, precision=precision
        )
        translations = [one.text for one in other.translate_many(self.sources, beam=beam, split=False, check=False)]
        return bleu(translations, self.references, target_language=self.language)

    def _translations(self, beam: int, reporter: Reporter | None = None) -> list[str]:
        """Line by line, as the model was trained and as test sets are made, and nothing put right."""
        found = self.translator.translate_many(self.sources, beam=beam, split=False, check=False, reporter=reporter)
        return [one.text for one in found]

    def _samples(self, translations: list[str]) -> list[Sample]:
        """A few sentences from the worst to the best, so that one sees both."""
        scores = sentence_bleus(translations, self.references, target_language=self.language)
        order = sorted(range(len(scores)), key=lambda i: (scores[i], i))
        places = sorted({round(k * (len(order) - 1) / (SAMPLES - 1)) for k in range(SAMPLES)})
        return [
            Sample(self.sources[i], self.references[i], translations[i], round(scores[i], 1))
            for i in (order[place] for place in places)
        ]


def validation_in_words(entry: Mapping[str, Any]) -> str:
    """The facts of a validation, with its samples, worst first."""
    lines = [
        f"Validation at step {entry['step']:,}: BLEU {entry['bleu']:.1f} (copying the source: "
        f"{entry['baseline_bleu']:.1f}), loss {entry['loss']:.3f}, perplexity {entry['perplexity']:.2f}"
        f"{', the best so far' if entry['best'] else ''}"
    ]
    for sample in entry["samples"]:
        lines += [
            f"  source       {_short(sample['source'])}",
            f"  reference    {_short(sample['reference'])}",
            f"  translation  {_short(sample['translation'])}   [BLEU {sample['bleu']:.0f}]",
        ]
    return "\n".join(lines)


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:99] + "…"
