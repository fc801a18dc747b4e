"""Text in, text out: a bundle put to work."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attendo.alignment.lazily import LazyAligner
from attendo.bundle import Bundle, open_bundle
from attendo.decoding.search import Hypothesis, SearchOptions
from attendo.drafting import NO_LINKS, Draft, Drafter, IdPair, Links, PieceLinks, Sentence, Translation, divided
from attendo.engines.choice import open_engine
from attendo.engines.engine import Engine, EngineName, Precision, UnableError
from attendo.errors import BundleError, ConfigError, DataError
from attendo.machine import DeviceName
from attendo.mending import Mender
from attendo.models.settings import TransformerConfig
from attendo.reporting import Reporter
from attendo.text.corpus import trim
from attendo.text.glossary import Glossary
from attendo.text.pair import TokenizerPair

# Texts cut, what was found for their sentences, and the translations made of that -> which words belong together.
Align = Callable[[Sequence[Draft], Sequence[list[list[Hypothesis]]], Sequence[str]], list[Links]]


@dataclass(frozen=True, kw_only=True)
class PairScore:
    """log p(target | source), over so many target pieces, EOS included."""

    log_prob: float
    n_pieces: int


class Translator:
    """Translates and scores raw text with an engine and its tokenizers.

    `bundles` are the folders that the models came from, if any, and `precision` is what the engine computes in. `link`
    says which pieces of a sentence and its translation belong together, so that markup can be placed; without it, it is
    placed by its relative position.
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
        link: Callable[[Sequence[IdPair]], PieceLinks] | None = None,
    ) -> None:
        self.engine = engine
        self.tokenizers = tokenizers
        self.languages = languages
        self.drafter = Drafter(
            tokenizers,
            max_length=max_length,
            longest_target=engine.longest_target,
            language=languages[0] if languages else "",
        )
        self.mender = Mender(engine, self.drafter)
        self.bundles = tuple(bundles)
        self.precision = precision
        self.link = link

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
        for one in bundles:
            one.require("translate", "denoise", verb="translate")
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
        # An ensemble has no attention of its own, and who asks for a fast engine alone does not want torch as well.
        both_engines = engine in ("auto", "torch") and precision == "float32"
        aligns = both_engines and not others and isinstance(bundle.config.model, TransformerConfig)
        opened = open_engine(bundles, engine=engine, precision=precision, device=device, reporter=reporter)
        return cls(
            opened,
            bundle.tokenizers,
            max_length=min(one.config.data.max_length for one in bundles),
            languages=next((one.languages for one in bundles if one.languages), None),
            bundles=[str(one.path) for one in bundles],
            precision=precision,
            link=LazyAligner(bundle, opened) if aligns else None,
        )

    @property
    def max_length(self) -> int:
        """How many pieces a sentence may have before it is translated in parts."""
        return self.drafter.max_length

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
        split: bool = True,
        check: bool = True,
        keep: Sequence[str] = (),
        glossary: Glossary | Mapping[str, str] | None = None,
        scores: bool = False,
        align: Align | None = None,
    ) -> Translation:
        """One text; see `translate_many`."""
        return self.translate_many(
            [text],
            beam=beam,
            n_best=n_best,
            options=options,
            max_length=max_length,
            prefixes=[prefix],
            split=split,
            check=check,
            keep=[keep],
            glossary=glossary,
            scores=scores,
            align=align,
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
        split: bool = True,
        check: bool = True,
        keep: Sequence[Sequence[str]] | None = None,
        glossary: Glossary | Mapping[str, str] | None = None,
        scores: bool = False,
        align: Align | None = None,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        reporter: Reporter | None = None,
    ) -> list[Translation]:
        """The translations of many texts, in their order.

        `options` says everything about the search; `beam` and `n_best` are the two of it that are asked for most.
        `max_length` limits the translation of a sentence in pieces; without it the limit is the source's length and 50
        more, or the prefix's if that is longer. `prefixes` are what each translation begins with; None and an empty one
        are none.

        `split`: a text is cut into sentences, each translated by itself, and all white space stays as it is. Without
        it a text is one sentence, and white space at its ends is left out, as it is in training. Either way a sentence
        longer than the model was trained for is translated in parts. The first part has the prefix.

        `check`: placeholders, numbers, addresses and tags survive: what a translation lost is put back, and there are
        warnings where that fails or something else looks wrong. `keep` are further strings of
        each text that must come out as they are, in their order. `glossary` gives the translations of terms.

        `scores`: candidates have a log_prob, a score and pieces; by the ctranslate2 engine that is more work.

        `align`: says which words belong together, as an `Aligner` does; the translations have that as `alignment`.
        """
        for name, given in (("texts", texts), ("prefixes", prefixes), ("keep", keep)):
            if isinstance(given, str):
                raise DataError(f"{name} = {given[:60]!r}: must be a list of texts, such as [text], not one text.")
        for name, value in (("max_length", max_length), ("batch_size", batch_size), ("batch_tokens", batch_tokens)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} = {value}: must be at least 1.")
        if options is None:
            options = SearchOptions(beam=5 if beam is None else beam, n_best=1 if n_best is None else n_best)
        elif beam is not None or n_best is not None:
            raise ConfigError("beam and n_best are part of options: say them once, in SearchOptions(beam=…, n_best=…).")
        if not check and (any(keep or ()) or glossary):
            raise ConfigError("keep and glossary need check: without it nothing is looked for in a translation.")
        if isinstance(glossary, Mapping):
            glossary = Glossary(glossary)
        drafts = self.drafter.drafts(
            texts, max_length=max_length, prefixes=prefixes, split=split, check=check, keep=keep, glossary=glossary
        )

        def search(sentences: Sequence[Sentence]) -> list[list[Hypothesis]]:
            return self.search(
                sentences,
                options,
                scores=scores,
                batch_size=batch_size,
                batch_tokens=batch_tokens,
                reporter=reporter,
            )

        found = divided(drafts, search([sentence for draft in drafts for sentence in draft.sentences]))
        if again := self.drafter.again(drafts, found):
            self.drafter.improve(drafts, found, again, search([one.sentence for one in again]))
        if torn := self.drafter.torn(drafts, found):
            self.drafter.put_back(found, torn, self.mender.mended(torn, options, scores=scores))
            if again := self.drafter.again(drafts, found, last=True):
                self.drafter.improve(drafts, found, again, search([one.sentence for one in again]))
        scored_by, links = options if scores else None, self.links(self.drafter.to_align(drafts, found))
        finished = [self.drafter.finish(*one, scored_by, links) for one in zip(drafts, found, strict=True)]
        if align is None:
            return finished
        aligned = align(drafts, found, [one.text for one in finished])
        return [replace(one, alignment=each) for one, each in zip(finished, aligned, strict=True)]

    def search(
        self,
        sentences: Sequence[Sentence],
        options: SearchOptions,
        *,
        scores: bool = False,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        reporter: Reporter | None = None,
    ) -> list[list[Hypothesis]]:
        """What the engine finds for each sentence. Where it cannot be made to hold phrases, they are left out.

        So it is with sampling and with groups of a beam, whatever the engine.
        """

        def ask(phrases: bool) -> list[list[Hypothesis]]:
            return self.engine.search(
                [one.ids for one in sentences],
                [one.limit for one in sentences],
                options,
                prefixes=[one.prefix for one in sentences] if any(one.prefix for one in sentences) else None,
                phrases=[one.phrases for one in sentences] if phrases else None,
                parts=[one.part for one in sentences],
                batch_size=batch_size,
                batch_tokens=batch_tokens,
                scores=scores,
                reporter=reporter,
            )

        if options.sample or options.diversity_groups > 1 or not any(one.phrases for one in sentences):
            return ask(False)
        try:
            return ask(True)
        except UnableError:
            return ask(False)

    def links(self, pairs: Sequence[IdPair]) -> PieceLinks:
        """Which pieces of these belong together, as far as that is known."""
        return self.link(pairs) if self.link is not None and pairs else NO_LINKS

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


def load(
    path: str | Path | Sequence[str | Path],
    *,
    engine: EngineName = "auto",
    precision: Precision = "float32",
    device: DeviceName = "auto",
    reporter: Reporter | None = None,
) -> Translator:
    """The translator in a bundle's folder; of several folders, their ensemble.

    `engine` auto takes attendo's own (native) or ctranslate2, which do not import torch, wherever they do the same as
    torch, and torch elsewhere. `precision` int8 is faster and less exact, by a fast engine only. See docs/engines.md.
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
