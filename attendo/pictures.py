"""Pictures in, labels out: a classifier of pictures put to work.

Suffixes: B pictures, L labels, C channels, Y and X pixels down and across.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attendo.bundle import Bundle
from attendo.classifier import Classified, labels_of
from attendo.data.pictures import Picture, fitted, read_picture
from attendo.machine import DeviceName, ready
from attendo.models.vision import VisionTransformer
from attendo.reporting import Reporter, Silent

AT_ONCE = 256  # pictures


class PictureClassifier:
    """Tells the label of pictures of any size, which are brought to the size that the model knows."""

    def __init__(self, model: VisionTransformer, labels: Sequence[str], device: torch.device) -> None:
        self.model = model.to(device)
        self.labels = tuple(labels)
        self.device = device

    @classmethod
    def from_bundle(cls, bundle: Bundle, *, device: DeviceName = "auto") -> "PictureClassifier":
        model = bundle.require("classify-images", verb="classify").model()
        assert isinstance(model, VisionTransformer)
        return cls(model, labels_of(bundle), ready(device))

    def classify(
        self, pictures: Sequence[Path | str | Picture], *, reporter: Reporter | None = None
    ) -> list[Classified]:
        """The label of each picture, given as a file or as pixels."""
        found: list[Classified] = []
        for row in self.probabilities(pictures, reporter=reporter).tolist():
            best = max(range(len(row)), key=row.__getitem__)
            found.append(Classified(self.labels[best], row[best], dict(zip(self.labels, row, strict=True))))
        return found

    def probabilities(self, pictures: Sequence[Path | str | Picture], *, reporter: Reporter | None = None) -> Tensor:
        """[len(pictures), labels], on the CPU."""
        starts = range(0, len(pictures), AT_ONCE)
        found = [torch.zeros(0, len(self.labels))]
        with torch.inference_mode():
            for start in (reporter or Silent()).track(starts, "Classifying", len(starts)):
                logits_BL = self.model(self.pixels(pictures[start : start + AT_ONCE]))
                found.append(logits_BL.float().softmax(-1).cpu())
        return torch.cat(found)

    def pixels(self, pictures: Sequence[Path | str | Picture]) -> Tensor:
        """As the model sees them: [B, C, Y, X]."""
        config = self.model.config
        read = (one if isinstance(one, np.ndarray) else read_picture(one) for one in pictures)
        size = {"height": config.height, "width": config.width, "n_channels": len(config.mean)}
        pixels = np.stack([fitted(one, **size) for one in read])
        return torch.from_numpy(pixels.astype(np.float32)).to(self.device)
