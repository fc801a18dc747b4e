"""Labels of texts: a classifier put to work."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from attendo.bundle import Bundle
from attendo.data.labelled import shortened
from attendo.data.text_batch import segments_batch
from attendo.engines.batches import sorted_batches
from attendo.errors import BundleError, DataError
from attendo.machine import DeviceName, ready
from attendo.models.bert import Classifier
from attendo.reporting import Reporter, Silent, lost_ends
from attendo.text.corpus import trim
from attendo.text.pair import TokenizerPair

BATCH_TOKENS = 4096  # positions at once


@dataclass(frozen=True)
class Classified:
    """The likeliest label of something, its probability, and those of all labels."""

    label: str
    probability: float
    probabilities: dict[str, float]


class TextClassifier:
    """Tells the label of raw texts, each of which is one text or two."""

    def __init__(
        self,
        model: Classifier,
        tokenizers: TokenizerPair,
        labels: Sequence[str],
        *,
        max_length: int,
        device: torch.device,
    ) -> None:
        self.model = model.to(device)
        self.tokenizers = tokenizers
        self.labels = tuple(labels)
        self.max_length = max_length
        self.device = device

    @classmethod
    def from_bundle(cls, bundle: Bundle, *, device: DeviceName = "auto") -> "TextClassifier":
        model = bundle.require("classify", verb="classify").model()
        assert isinstance(model, Classifier)
        return cls(
            model,
            bundle.tokenizers,
            labels_of(bundle),
            max_length=bundle.config.data.max_length,
            device=ready(device),
        )

    def classify(self, texts: Sequence[str | Sequence[str]], *, reporter: Reporter | None = None) -> list[Classified]:
        """The label of each text, or of each pair of texts."""
        each = [[one] if isinstance(one, str) else list(one) for one in texts]
        for number, one in enumerate(each, start=1):
            if len(one) not in (1, 2):
                raise DataError(
                    f"text {number} of {len(each)} has {len(one)} parts, with a tab between: a classifier reads one "
                    "or two."
                )
        found: list[Classified] = []
        for row in self.probabilities(each, reporter=reporter).tolist():
            best = max(range(len(row)), key=row.__getitem__)
            found.append(Classified(self.labels[best], row[best], dict(zip(self.labels, row, strict=True))))
        return found

    def probabilities(self, texts: Sequence[Sequence[str]], *, reporter: Reporter | None = None) -> torch.Tensor:
        """[len(texts), labels], on the CPU."""
        each, n_separators = [[trim(text) for text in one] for one in texts], self.model.config.n_separators
        rows = shortened(self.tokenizers, each, self.max_length, n_separators=n_separators)
        reporter = reporter or Silent()
        if n_cut := sum(row.cut for row in rows):
            reporter.say(lost_ends(n_cut, len(rows), max_length=self.max_length))
        found = torch.zeros(len(rows), len(self.labels))
        lengths = [len(row.first) + len(row.second) + 2 for row in rows]
        batches = sorted_batches(lengths, batch_size=None, batch_tokens=BATCH_TOKENS)
        with torch.inference_mode():
            for numbers in reporter.track(batches, "Classifying", len(batches)):
                firsts, seconds = [rows[i].first for i in numbers], [rows[i].second for i in numbers]
                batch = segments_batch(firsts, seconds, n_separators=n_separators).to(self.device)
                found[numbers] = self.model(batch).float().softmax(-1).cpu()
        return found


def labels_of(bundle: Bundle) -> list[str]:
    labels = bundle.data().get("labels")
    if not isinstance(labels, list):
        raise BundleError(f"{bundle.path / 'data.json'} does not say what the labels are. Copy the bundle again.")
    return [str(label) for label in labels]
