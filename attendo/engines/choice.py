"""Which engine serves a bundle: a fast one wherever one can, the reference for everything else."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, get_args

from attendo.bundle import Bundle
from attendo.decoding.phrases import Phrase
from attendo.decoding.search import Hypothesis, Ids, SearchOptions
from attendo.engines.ctranslate2_limits import representable
from attendo.engines.engine import Engine, EngineName, FastEngine, FastName, Precision
from attendo.errors import ConfigError
from attendo.machine import DeviceName, has_cuda, ready
from attendo.reporting import Reporter

T = TypeVar("T")


class AutoEngine:
    """A fast engine; what is beyond it the reference does, sentence by sentence, which is loaded when first needed.

    Which of the two translates a sentence depends on the options and on the sentence, not on others beside it.
    `longest_target` is the reference's.
    """

    def __init__(self, fast: FastEngine, load_reference: Callable[[], Engine], *, longest_target: int | None) -> None:
        self.fast = fast
        self.longest_target = longest_target
        self._load_reference = load_reference
        self._loaded: Engine | None = None
        self._loading = threading.Lock()

    @property
    def reference(self) -> Engine:
        with self._loading:  # threads that need it at the same time load it once
            if self._loaded is None:
                self._loaded = self._load_reference()
            return self._loaded

    def search(
        self,
        sources: Sequence[Ids],
        limits: Sequence[int],
        options: SearchOptions,
        *,
        prefixes: Sequence[Ids] | None = None,
        phrases: Sequence[Sequence[Phrase]] | None = None,
        parts: Sequence[int] | None = None,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        scores: bool = False,
        reporter: Reporter | None = None,
    ) -> list[list[Hypothesis]]:
        def by(engine: Engine, rows: Sequence[int]) -> list[list[Hypothesis]]:
            return engine.search(
                [sources[i] for i in rows],
                [limits[i] for i in rows],
                options,
                prefixes=None if prefixes is None else [prefixes[i] for i in rows],
                phrases=None if phrases is None or engine is self.fast else [phrases[i] for i in rows],
                parts=None if parts is None else [parts[i] for i in rows],
                batch_size=batch_size,
                batch_tokens=batch_tokens,
                scores=scores,
                reporter=reporter,
            )

        none = [()] * len(sources)
        asked = zip(none if prefixes is None else prefixes, none if phrases is None else phrases, strict=True)
        lengths = (max(len(source), limit) for source, limit in zip(sources, limits, strict=True))
        fits = [
            self.fast.unable(options, prefix=bool(prefix), phrases=bool(held)) is None and self._reaches(length)
            for (prefix, held), length in zip(asked, lengths, strict=True)
        ]
        return self._divided(fits, by)

    def score(
        self,
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        *,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        reporter: Reporter | None = None,
    ) -> list[list[float]]:
        def by(engine: Engine, rows: Sequence[int]) -> list[list[float]]:
            return engine.score(
                [sources[i] for i in rows],
                [targets[i] for i in rows],
                batch_size=batch_size,
                batch_tokens=batch_tokens,
                reporter=reporter,
            )

        pairs = zip(sources, targets, strict=True)
        return self._divided([self._reaches(max(len(source), len(target))) for source, target in pairs], by)

    def stream(self, source: Ids, limit: int) -> Iterator[int]:
        engine = self.fast if self._reaches(max(len(source), limit)) else self.reference
        return engine.stream(source, limit)

    def _reaches(self, length: int) -> bool:
        """Whether the fast engine has positions for so many ids."""
        return self.fast.longest_target is None or length <= self.fast.longest_target

    def _divided(self, fits: Sequence[bool], by: Callable[[Engine, Sequence[int]], list[T]]) -> list[T]:
        """What the fast engine makes of the sentences that fit, and the reference of the others, in their order."""
        if all(fits):
            return by(self.fast, range(len(fits)))
        ours, theirs = ([i for i, one in enumerate(fits) if one is fit] for fit in (True, False))
        found: dict[int, T] = {}
        if ours:
            found.update(zip(ours, by(self.fast, ours), strict=True))
        if theirs:
            found.update(zip(theirs, by(self.reference, theirs), strict=True))
        return [found[i] for i in range(len(fits))]


def open_engine(
    bundles: Sequence[Bundle],
    *,
    engine: EngineName = "auto",
    precision: Precision = "float32",
    device: DeviceName = "auto",
    reporter: Reporter | None = None,
) -> Engine:
    """The engine for a bundle, or for an ensemble of several.

    auto: the fastest that can run the model, attendo's own or CTranslate2, where there is no ensemble, and no CUDA
    device is to be used; the reference takes over what it cannot do. int8 is a matter of the fast engines, so with that
    nothing else takes over. Where a fast engine or int8 was asked for, device auto is the CPU.
    """
    for name, value, kind in (("engine", engine, EngineName), ("precision", precision, Precision)):
        if value not in get_args(kind):
            raise ConfigError(f"{name} = {value!r}: must be one of {', '.join(get_args(kind))}.")
    if engine == "torch" and precision != "float32":
        raise ConfigError(f"precision = {precision!r}: the torch engine has float32 only. Use another engine.")

    def reference() -> Engine:
        from attendo.engines.torch_engine import TorchEngine
        from attendo.models.encoder_decoder import EncoderDecoder

        models = [one.model() for one in bundles]
        return TorchEngine(
            [model for model in models if isinstance(model, EncoderDecoder)],
            ready(device),
            before=bundles[0].tokenizers.target.before,
            trained=True,
        )

    if engine == "torch":
        return reference()
    fallback = engine == "auto" and precision == "float32"
    possible: list[FastName] = ["native", "ctranslate2"] if engine == "auto" else [engine]
    reasons = {name: _beyond(name, bundles, precision, device) for name in possible}
    chosen = next((name for name, reason in reasons.items() if reason is None), None)
    if fallback and (chosen is None or (device == "auto" and has_cuda())):
        return reference()
    if chosen is None:
        reason = reasons[possible[-1]]
        asked = f"precision = {precision!r}" if engine == "auto" else f"engine = {engine!r}"
        raise ConfigError(f"{asked}: {reason}, or use engine torch, in float32.")
    (bundle,) = bundles
    fast = _opened(chosen, bundle, precision, reporter)
    if not fallback:
        return fast
    learned = bundle.config.model.longest_target is not None
    return AutoEngine(fast, reference, longest_target=fast.longest_target if learned else None)


def _opened(name: FastName, bundle: Bundle, precision: Precision, reporter: Reporter | None) -> FastEngine:
    if name == "native":
        from attendo.engines.native_engine import open_native

        return open_native(bundle, precision=precision)
    from attendo.engines.ctranslate2_folder import open_ctranslate2

    return open_ctranslate2(bundle, precision=precision, reporter=reporter)


def _beyond(name: FastName, bundles: Sequence[Bundle], precision: Precision, device: DeviceName) -> str | None:
    """Why a fast engine cannot serve them, and what would help; None: it can."""
    if len(bundles) > 1:
        return f"an ensemble decides together, and the {name} engine runs one model. Give one bundle"
    config = bundles[0].config.model
    if name == "native":
        from attendo.engines.native_model import servable

        if reason := servable(config, precision):
            help = "Use engine ctranslate2" if representable(config) is None else "Give another bundle"
            return f"the native engine cannot run this: {reason}. {help}"
    elif reason := representable(config):
        return f"CTranslate2 cannot run this model: {reason}. Give another bundle"
    if device in ("cuda", "mps"):
        return f"the {name} engine computes on the CPU, and the device is {device}. Use --device cpu"
    return None
