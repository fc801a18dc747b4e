"""Looking inside what is served. The torch model that this needs is loaded when somebody first looks."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attendo.decoding.search import SearchOptions
from attendo.errors import AttendoError
from attendo.serving import log
from attendo.serving.limits import Refusal
from attendo.serving.service import Service
from attendo.text.corpus import trim
from attendo.translator import Translator

if TYPE_CHECKING:
    from attendo.inspection.inspector import Inspector


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is to be seen of one sentence; see `Inspector.inspect`."""

    sentence: str
    translation: str | None
    options: SearchOptions
    without: tuple[str, ...]
    maps: bool
    cost: int


class Opened:
    """A translator's bundle, opened up once, by whichever thread comes first."""

    def __init__(self, name: str, translator: Translator) -> None:
        self.name = name
        self.translator = translator
        self._inspector: Inspector | None = None
        self._opening = threading.Lock()

    def inspector(self) -> "Inspector":
        with self._opening:
            if self._inspector is None:
                from attendo.bundle import open_bundle
                from attendo.inspection.inspector import Inspector

                (path,) = self.translator.bundles
                try:
                    self._inspector = Inspector.from_bundle(open_bundle(path), device="cpu", reporter=log.Logged())
                except AttendoError as error:
                    log.failure("error", error, model=self.name)
                    # Where the bundle lies is nobody's business but the log's.
                    raise Refusal(422, str(error).replace(str(Path(path)), self.name)) from None
            return self._inspector


@dataclass(frozen=True)
class Looking:
    """Sentences of one model that are looked into, one after the other: their speed says nothing about translating."""

    opened: Opened
    heavy = True
    typical = False

    def cost(self, look: Look) -> int:
        return look.cost

    def run(self, looks: Sequence[Look]) -> list[dict[str, Any]]:
        inspector = self.opened.inspector()
        return [
            inspector.inspect(
                look.sentence, target=look.translation, options=look.options, without=look.without
            ).to_json(maps=look.maps)
            for look in looks
        ]


class Inspectors:
    """Of every model of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._opened = {name: Opened(name, translator) for name, translator in service.models.translators.items()}

    async def look(
        self,
        model: str,
        text: str,
        number: int,
        translation: str | None,
        *,
        beam: int,
        without: Sequence[str],
        maps: bool,
    ) -> tuple[dict[str, Any], list[str], float]:
        """What is seen, the text's sentences, and how many seconds it waited for its turn.

        With a translation the text is one sentence. Otherwise the one with the given number is meant, from 0.
        """
        service, translator = self.service, self.service.models.translators[model]
        if len(translator.bundles) != 1:
            raise Refusal(422, f"model {model}: only a single bundle can be looked into.")
        service.limits.require("characters", len(text) + len(translation or ""), "text, in characters")
        service.limits.require("beam", beam, "beam")

        def cut() -> tuple[list[str], int]:
            if translation is not None:
                sentences, target = [trim(text)] if text.strip() else [], trim(translation)
            else:
                (draft,) = translator.drafter.drafts([text])
                sentences, target = [one.core.read for one in draft.sentences], ""
            if not sentences:
                raise Refusal(422, "text: there are no words to look at.")
            if number >= len(sentences):
                raise Refusal(422, f"sentence {number}: there are {len(sentences)}, counted from 0.")
            pieces = translator.tokenizers.source.encode(sentences[number]), translator.tokenizers.target.encode(target)
            return sentences, max(map(len, pieces))

        sentences, pieces = await service.aside(cut, characters=len(text) + len(translation or ""))
        service.limits.require("inspected", pieces, "pieces of a sentence or its translation to look into")
        look = Look(
            sentence=sentences[number],
            translation=translation,
            options=SearchOptions(beam=beam),
            without=tuple(without),
            maps=maps,
            cost=(pieces + 1) * beam,
        )
        service.require_room(1, look.cost)
        done = await service.queue.submit(Looking(self._opened[model]), [look])
        return done.results[0], sentences, done.waited
