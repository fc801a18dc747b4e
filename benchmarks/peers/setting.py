"""What is the same for everybody who trains, and what one training is asked to do. Standard library only: this is also
read inside the environments of the peers.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

PAD, BOS, EOS, UNK = 0, 1, 2, 3  # attendo's ids, which the ids in the data folder are


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The model, its optimizer and its batches.

    Post-norm, sinusoidal positions, ReLU, one embedding for source, target and output; dropout on the embeddings and on
    what each sublayer gives; Adam; rate(t) = factor d_model^-0.5 min(t^-0.5, t warmup^-1.5).
    """

    vocab_size: int = 6000
    n_layers: int = 4  # in the encoder, and in the decoder
    d_model: int = 128
    d_ff: int = 256
    n_heads: int = 4
    dropout: float = 0.1
    label_smoothing: float = 0.1
    clip_norm: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-8
    factor: float = 0.5
    warmup: int = 400
    batch_tokens: int = 2048  # on the longer side; padding counts for those who batch so
    seed: int = 1

    def rate(self, step: int) -> float:
        """The learning rate of a step; steps count from 1."""
        return float(self.factor * self.d_model**-0.5 * min(step**-0.5, step * self.warmup**-1.5))


@dataclass(frozen=True, kw_only=True)
class Task:
    """One training: at most `updates`, of which the first `warm_up` are not measured; shorter once `seconds` are over.

    sentences: in a batch, for those who batch by sentences. evaluate: the loss on the probe at the end.
    """

    data: str
    out: str
    updates: int
    warm_up: int
    seconds: float | None
    sentences: int
    evaluate: bool

    def write(self) -> Path:
        path = Path(self.out) / "task.json"
        path.write_text(json.dumps(asdict(self)))
        return path

    @classmethod
    def read(cls, path: str) -> "Task":
        return cls(**json.loads(Path(path).read_text()))
