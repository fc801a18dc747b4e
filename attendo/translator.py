"""Text in, text out: a bundle put to work."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attendo.bundle import Bundle, open_bundle
from attendo.decoding.search import Hypothesis, SearchOptions
from attendo.engines.choice import open_engine
from attendo.engines.engine import Engine, EngineName, Precision
from attendo.errors import BundleError, ConfigError, DataError
from attendo.machine import DeviceName
from attendo.reporting import Reporter
from attendo.text.corpus import trim
from attendo.text.pair import TokenizerPair
from attendo.text.segments import split_long
from attendo.text.tokenizer import UNK

EXTRA_LENGTH = 50  # a translation may be so many pieces longer than its source, as in the paper


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One translation. log_prob = log p(text | source); score is that with the length penalty.

    Both are the model's own, as `Translator.score` gives them, where `scores` were asked for, and None elsewhere.
    """

    text: str
    log_prob: float | None
    score: float | None
    finished: bool  # False: cut at the length limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """What became of one line, and in how many parts it was translated.

    The candidates are best first; those that were sampled are in the order in which they were drawn.
    """

    source: str
    candidates: tuple[Candidate, ...]
    parts: int = 1

    @property
    def text(self) -> str:
        return self.candidates[0].text

    @property
    def score(self) -> float | None:
        return self.candidates[0].score

    @property
    def log_prob(self) -> float | None:
        return self.candidates[0].log_prob


@dataclass(frozen=True, kw_only=True)
class PairScore:
    """log p(target | source), over so many target pieces, EOS included."""

    log_prob: float
    n_pieces: int


class Translator:
    """Translates and scores raw text with an engine and its tokenizers.

    `max_length` is how many pieces a source may have before it is translated in parts, `bundles` the folders that the
    models came from, if any, and `precision` what the engine computes in.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizers: TokenizerPair,
        *,
        max_length: int,
        languages: tuple[str, str] | None = None,
        bundles: Sequence[str] = (),
        precision: Precision = "float32",
    ) -> None:
        self.engine = engine
        self.tokenizers = tokenizers
        self.max_length = max_length
        self.languages = languages
        self.bundles = tuple(bundles)
        self.precision = precision

    @classmethod
    def from_bundle(
        cls,
        bundle: Bundle,
        *others: Bundle,
        engine: EngineName = "auto",
        precision: Precision = "float32",
        device: DeviceName = "auto",
        reporter: Reporter | None = None,
    ) -> "Translator":
        """A bundle put to work, or an ensemble of several that share their tokenizers and languages."""
        bundles = (bundle, *others)
        for i, other in enumerate(others, start=1):
            if other.path.resolve() in [one.path.resolve() for one in bundles[:i]]:
                raise ConfigError(
                    f"{other.path} is in the ensemble twice, and the same model has no second opinion. Give it once."
                )
            # Languages first: the tokenizers of the other direction differ as well, but that is not the mistake.
            if other.languages != bundle.languages and other.languages and bundle.languages:
                problem = "other languages", "Give bundles that translate between the same two, in the same direction."
            elif other.tokenizers.files() != bundle.tokenizers.files():
                problem = "another tokenizer", "Give runs trained on the same files with the same tokenizer settings."
            else:
                continue
            raise BundleError(
                f"{other.path} has {problem[0]} than {bundle.path}, so they make no ensemble. {problem[1]}"
            )
        return cls(
            open_engine(bundles, engine=engine, precision=precision, device=device, reporter=reporter),
            bundle.tokenizers,
            max_length=min(one.config.data.max_length for one in bundles),
            languages=next((one.languages for one in bundles if one.languages), None),
            bundles=[str(one.path) for one in bundles],
            precision=precision,
        )

    @property
    def target_language(self) -> str:
        """The target's code, or nothing where it is not known."""
        return self.languages[1] if self.languages else ""

    def translate(
        self,
        text: str,
        *,
        beam: int | None = None,
        n_best: int | None = None,
        options: SearchOptions | None = None,
        max_length: int | None = None,
        prefix: str | None = None,
        scores: bool = False,
    ) -> Translation:
        """One text; see `translate_many`."""
        return self.translate_many(
            [text],
            beam=beam,
            n_best=n_best,
            options=options,
            max_length=max_length,
            prefixes=[prefix],
            scores=scores,
        )[0]

    def translate_many(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        n_best: int | None = None,
        options: SearchOptions | None = None,
        max_length: int | None = None,
        prefixes: Sequence[str | None] | None = None,
        scores: bool = False,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        reporter: Reporter | None = None,
    ) -> list[Translation]:
        """The translations of many texts, in their order.

        `options` says everything about the search; `beam` and `n_best` are the two of it that are asked for most.
        `max_length` limits a translation in pieces; without it the limit is the source's length and 50 more, or the
        prefix's if that is longer. `prefixes` are what each translation begins with; None and an empty one are none.
        A text of nothing but white space becomes empty; white space at the ends is left out, as it is in training. A
        text longer than the model was trained for is translated in parts, and the first of them has the prefix.
        `scores`: candidates have a log_prob and a score; by the ctranslate2 engine that is more work.
        """
        for name, given in (("texts", texts), ("prefixes", prefixes)):
            if isinstance(given, str):
                raise DataError(f"{name} = {given[:60]!r}: must be a list of texts, such as [text], not one text.")
        for name, value in (("max_length", max_length), ("batch_size", batch_size), ("batch_tokens", batch_tokens)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} = {value}: must be at least 1.")
        if options is None:
            options = SearchOptions(beam=5 if beam is None else beam, n_best=1 if n_best is None else n_best)
        elif beam is not None or n_best is not None:
            raise ConfigError("beam and n_best are part of options: say them once, in SearchOptions(beam=…, n_best=…).")
        lines = [trim(text) for text in texts]
        longest = self.engine.longest_target
        if longest is not None and max_length is not None and max_length > longest:
            raise ConfigError(f"max_length = {max_length}: must be at most {longest}, what learned positions reach.")
        beginnings = self._encode_prefixes(prefixes, lines, max_length)
        sources: list[list[int]] = []  # of each part
        spaces: list[str] = []
        part_prefixes: list[list[int]] = []
        ranges: list[range] = []
        for line, ids, beginning in zip(lines, self.tokenizers.source.encode_batch(lines), beginnings, strict=True):
            first = len(sources)
            if line and not line.isspace():
                parts = [(ids, "")] if len(ids) <= self.max_length else self._split(line)
                for part, space in parts:
                    sources.append(part)
                    spaces.append(space)
                part_prefixes += [beginning] + [[]] * (len(parts) - 1)
            ranges.append(range(first, len(sources)))
        limits = [
            max_length or max(len(ids), len(prefix)) + EXTRA_LENGTH
            for ids, prefix in zip(sources, part_prefixes, strict=True)
        ]
        found = self.engine.search(
            sources,
            limits,
            options,
            prefixes=part_prefixes if any(part_prefixes) else None,
            parts=[number for rows in ranges for number in range(len(rows))],
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            scores=scores,
            reporter=reporter,
        )
        return [
            self._joined(
                line, found[rows.start : rows.stop], spaces[rows.start : rows.stop], options if scores else None
            )
            for line, rows in zip(texts, ranges, strict=True)
        ]

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        reporter: Reporter | None = None,
    ) -> list[PairScore]:
        """log p(target | source) of given pairs; white space at the ends of a source is left out."""
        if len(sources) != len(targets):
            raise DataError(f"there are {len(sources)} sources and {len(targets)} targets; each needs its other side.")
        log_probs = self.engine.score(
            self.tokenizers.source.encode_batch([trim(source) for source in sources]),
            self.tokenizers.target.encode_batch([trim(target) for target in targets]),
            batch_size=batch_size,
            batch_tokens=batch_tokens,
            reporter=reporter,
        )
        return [PairScore(log_prob=math.fsum(row), n_pieces=len(row)) for row in log_probs]

    def encode_prefix(self, prefix: str, *, max_length: int | None = None) -> list[int]:
        """The ids that a translation begins with, all of them within the model's reach, or an error that says why not.

        White space at the ends is left out, as everywhere.
        """
        text, longest = trim(prefix), self.engine.longest_target
        if one_line(text) != text:
            raise DataError(f"the prefix {text!r} has line breaks, and a translation is one line. Remove them.")
        encode = self.tokenizers.target.encode
        ids = encode(text)
        if UNK in ids:
            unknown = ", ".join(repr(one) for one in dict.fromkeys(text) if UNK in encode(one))
            raise DataError(
                f"the prefix {text!r} has characters that the tokenizer does not know: {unknown}. Leave them out."
            )
        if longest is not None and max_length is None and len(ids) + EXTRA_LENGTH > longest:
            raise DataError(
                f"the prefix {text!r} has {len(ids)} pieces, and with the {EXTRA_LENGTH} that may follow it is "
                f"longer than the {longest} that the model's learned positions reach. Shorten it, or set "
                f"max_length to at most {longest}."
            )
        if max_length is not None and len(ids) > max_length:
            raise ConfigError(
                f"max_length = {max_length}: the prefix {text!r} alone has {len(ids)} pieces. Allow more, or "
                "shorten the prefix."
            )
        return ids

    def _encode_prefixes(
        self, prefixes: Sequence[str | None] | None, lines: Sequence[str], max_length: int | None
    ) -> list[list[int]]:
        """The ids that the translation of each line begins with; lines of one prefix share them."""
        if prefixes is not None and len(prefixes) != len(lines):
            raise DataError(
                f"there are {len(lines)} texts and {len(prefixes)} prefixes. Give each text one; an empty one is none."
            )
        if prefixes is None or not any(prefixes):
            return [[]] * len(lines)
        encoded = {
            one: self.encode_prefix(one, max_length=max_length) if one else [] for one in dict.fromkeys(prefixes)
        }
        return [encoded[one] for one in prefixes]

    def _split(self, line: str) -> list[tuple[list[int], str]]:
        """The ids of each part, and the white space that follows it."""
        encode = self.tokenizers.source.encode
        parts = split_long(line, limit=self.max_length, count=lambda part: len(encode(part)))
        return [(encode(part), space) for part, space in parts]

    def _joined(
        self, line: str, parts: Sequence[list[Hypothesis]], spaces: Sequence[str], options: SearchOptions | None
    ) -> Translation:
        """The i-th candidate of a line is made of the i-th hypothesis of each of its parts; scored by the options."""
        log_prob = score = None if options is None else 0.0
        if not parts:
            nothing = Candidate(text="", log_prob=log_prob, score=score, finished=True)
            return Translation(source=line, candidates=(nothing,))
        decode = self.tokenizers.target.decode
        candidates = []
        for chosen in zip(*parts, strict=False):
            text = "".join([decode(one.ids) + space for one, space in zip(chosen, spaces, strict=True)])
            if options is not None:
                log_prob = math.fsum(one.log_prob for one in chosen)
                score = log_prob / options.penalty(sum(len(one.ids) + 1 for one in chosen))
            candidates.append(
                Candidate(
                    text=one_line(text),
                    log_prob=log_prob,
                    score=score,
                    finished=all(one.finished for one in chosen),
                )
            )
        return Translation(source=line, candidates=tuple(candidates), parts=len(parts))


def one_line(text: str) -> str:
    """A model can spell a line break; one line in is one line out."""
    return text.replace("\n", " ").replace("\r", " ")


def load(
    path: str | Path | Sequence[str | Path],
    *,
    engine: EngineName = "auto",
    precision: Precision = "float32",
    device: DeviceName = "auto",
    reporter: Reporter | None = None,
) -> Translator:
    """The translator in a bundle's folder; of several folders, their ensemble.

    `engine` auto takes ctranslate2, which does not import torch, wherever that does the same as torch, and torch
    elsewhere. `precision` int8 is faster and less exact, by ctranslate2 only. See docs/engines.md.
    """
    paths = [path] if isinstance(path, str | Path) else path
    if not paths:
        raise ConfigError("there is nothing to load: give the folder of a bundle, or several for an ensemble.")
    bundles = [open_bundle(one) for one in paths]
    return Translator.from_bundle(*bundles, engine=engine, precision=precision, device=device, reporter=reporter)


def perplexity(scores: Sequence[PairScore]) -> float:
    """exp(-Σ log p / number of target pieces)"""
    return exponential(nats_per_piece(scores))


def nats_per_piece(scores: Sequence[PairScore]) -> float:
    """-Σ log p / number of target pieces"""
    return -math.fsum(one.log_prob for one in scores) / max(1, sum(one.n_pieces for one in scores))


def exponential(nats: float) -> float:
    """exp, and the largest it can be for a model so bad that no floating-point number is large enough."""
    return math.exp(min(nats, 700.0))
