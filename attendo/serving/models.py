"""The translators of a server, by name and by language."""

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from attendo.decoding.search import SearchOptions
from attendo.errors import ConfigError
from attendo.serving.limits import Refusal
from attendo.translator import Translator

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def named_bundles(given: Iterable[str]) -> dict[str, str]:
    """PATH or NAME=PATH of each -> its path by its name, which is that of the folder if none is given."""
    named: dict[str, str] = {}
    for one in given:
        name, equals, path = one.partition("=")
        if not equals or Path(one).exists():
            name, path = Path(one).resolve().name, one
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{one}: the name {name!r} must be of letters, digits, '.', '_' and '-'. Give another: NAME={path}"
            )
        if name in named:
            raise ConfigError(
                f"{one}: {named[name]} is called {name!r} already. Give one of the two another name: NAME={path}"
            )
        named[name] = path
    return named


def warm_up(translator: Translator) -> None:
    """Translates once by each engine there is, with markup, so that no request waits until something is loaded."""
    translator.translate("a <b>a</b> a")
    with contextlib.suppress(ConfigError):  # in int8 there is a fast one only
        translator.translate("a", options=SearchOptions(sample=True))


class Models:
    """Translators by name. A language is a code, such as `en`; a bundle that knows none is found by its name alone."""

    def __init__(self, translators: Mapping[str, Translator]) -> None:
        if not translators:
            raise ConfigError("there is nothing to serve: give the folder of at least one bundle.")
        self.translators = dict(translators)

    def choose(self, *, model: str | None = None, source: str | None = None, target: str | None = None) -> str:
        """The name of the one model that has this name and these languages, as far as they are given."""
        if model is not None and model not in self.translators:
            raise Refusal(422, f"model: there is no {model[:60]!r}. There are: {self._listed(self.translators)}.")
        named = [model] if model is not None else list(self.translators)
        suitable = [name for name in named if self._suits(self.translators[name].languages, source, target)]
        asked = f"source {(source or 'any')[:20]!r} and target {(target or 'any')[:20]!r}"
        if not suitable:
            raise Refusal(422, f"no model translates {asked}. There are: {self._listed(named)}.")
        if len(suitable) > 1:
            raise Refusal(422, f"several models translate {asked}: say which. There are: {self._listed(suitable)}.")
        return suitable[0]

    def pairs(self) -> set[tuple[str, str]]:
        """The languages that are translated, from and to."""
        return {one.languages for one in self.translators.values() if one.languages is not None}

    def _listed(self, names: Iterable[str]) -> str:
        return ", ".join(
            f"{name} ({'→'.join(self.translators[name].languages or ('languages unknown',))})" for name in names
        )

    @staticmethod
    def _suits(languages: tuple[str, str] | None, source: str | None, target: str | None) -> bool:
        if source is None and target is None:
            return True
        return languages is not None and source in (None, languages[0]) and target in (None, languages[1])
