"""Which pieces belong together, without torch until somebody asks."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attendo.bundle import Bundle
from attendo.drafting import IdPair, PieceLinks
from attendo.engines.choice import AutoEngine
from attendo.engines.engine import Engine

if TYPE_CHECKING:
    from attendo.alignment.aligner import Aligner


class LazyAligner:
    """Links the pieces of pairs by a bundle's Transformer, as its reference engine has it, when first needed."""

    def __init__(self, bundle: Bundle, engine: Engine) -> None:
        self.bundle = bundle
        self.engine = engine
        self._loaded: Aligner | None = None
        self._loading = threading.Lock()

    def __call__(self, pairs: Sequence[IdPair]) -> PieceLinks:
        with self._loading:  # threads that need it at the same time load it once
            if self._loaded is None:
                self._loaded = self._load()
        found = self._loaded.pieces([source for source, _ in pairs], [target for _, target in pairs])
        return dict(zip(pairs, found, strict=True))

    def _load(self) -> "Aligner":
        from attendo.alignment.aligner import Aligner
        from attendo.alignment.fitting import view_at_hand
        from attendo.engines.torch_engine import TorchEngine
        from attendo.models.transformer import Transformer

        reference = self.engine.reference if isinstance(self.engine, AutoEngine) else self.engine
        assert isinstance(reference, TorchEngine)
        (model,) = reference.models
        assert isinstance(model, Transformer)
        return Aligner(model, self.bundle.tokenizers, view_at_hand(self.bundle, model.config), reference.device)
