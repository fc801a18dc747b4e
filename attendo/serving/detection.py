"""Which language a text is in, of those that a server translates from.

py3langid tells 140 languages apart by byte n-grams. The models' own tokenizers could not: one that was trained on both
sides of a corpus cuts either side equally well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attendo.serving.limits import Refusal

ENOUGH = 2000  # characters of a text that are looked at


@dataclass(frozen=True, slots=True)
class Detected:
    language: str
    probability: float


class Detector:
    """Chooses among the given languages. One that py3langid does not know is never found, unless there is no other."""

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = tuple(languages)

    def detect(self, text: str, *, among: Sequence[str] | None = None) -> list[Detected]:
        """All of them, or those `among` them, the likeliest first; their probabilities make 1."""
        possible = list(dict.fromkeys(self.languages if among is None else among))
        if not possible:
            raise Refusal(422, "no model translates from a language that is known, or none to this target.")
        found = self._ranked(text[:ENOUGH]) if len(possible) > 1 else {}
        shares = {language: found.get(_primary(language), 0.0) for language in possible}
        total = sum(shares.values())
        if not total:
            return [Detected(language, 1 / len(possible)) for language in possible]
        ranked = [Detected(language, share / total) for language, share in shares.items()]
        return sorted(ranked, key=lambda one: -one.probability)

    def _ranked(self, text: str) -> dict[str, float]:
        if self._identifier is None:
            return {}
        return {language: float(probability) for language, probability in self._identifier.rank(text)}

    @cached_property
    def _identifier(self) -> Any:
        """py3langid's, for those of the languages that it knows; None if it knows none."""
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        known = {_primary(language) for language in self.languages} & set(identifier.labels)
        if not known:
            return None
        identifier.set_languages(sorted(known))
        return identifier


def _primary(language: str) -> str:
    """zh of zh-Hans."""
    return language.replace("_", "-").partition("-")[0].lower()
