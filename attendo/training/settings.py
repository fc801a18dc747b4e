"""The settings of training."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from attendo.config import ABOVE_ZERO, NOT_NEGATIVE, POSITIVE, PROBABILITY, Settings

ScheduleName = Literal["paper", "inverse-sqrt", "linear", "cosine", "stable", "constant"]
OptimizerName = Literal["adam", "adamw", "muon"]
Precision = Literal["auto", "bfloat16", "off"]

BOUNDS = ("steps", "epochs", "minutes")  # the settings that say how long


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Settings):
    """How the weights are found. The defaults of rates and moments are the paper's."""

    # How long: `steps` is what counts. `epochs` and `minutes` are turned into steps before training starts.
    steps: Annotated[int | None, POSITIVE] = None
    epochs: Annotated[float | None, ABOVE_ZERO] = None
    minutes: Annotated[float | None, ABOVE_ZERO] = None
    last_step: Annotated[int | None, POSITIVE] = None  # the end, where it is before that of the schedule

    batch_tokens: Annotated[int, POSITIVE] = 4096  # positions of the longer side in one micro-batch
    accumulate: Annotated[int, POSITIVE] = 1  # micro-batches in one step
    label_smoothing: Annotated[float, PROBABILITY] = 0.1
    r_drop: Annotated[float, NOT_NEGATIVE] = 0.0  # the weight of R-Drop's agreement, α; 0: batches are seen once
    bpe_dropout: Annotated[float, PROBABILITY] = 0.0  # merges left out, anew in each epoch; 0: none
    both_directions: Annotated[float, NOT_NEGATIVE] = 0.0  # passes, the first, in which half of the batches are turned
    diversify: Annotated[int, NOT_NEGATIVE] = 0  # helpers for each direction, whose translations are learned from, too
    helper_epochs: Annotated[float, ABOVE_ZERO] = 20.0  # passes over the pairs that train each of them

    embeddings: Literal["random", "related"] = "random"  # what they begin with: chance, or what stands near each piece

    optimizer: OptimizerName = "adam"
    beta1: Annotated[float, PROBABILITY] = 0.9
    beta2: Annotated[float, PROBABILITY] = 0.98
    epsilon: Annotated[float, ABOVE_ZERO] = 1e-9
    weight_decay: Annotated[float, NOT_NEGATIVE] = 0.0
    clip_norm: Annotated[float, NOT_NEGATIVE] = 0.0  # 0: gradients are not clipped
    frozen_layers: Annotated[int, NOT_NEGATIVE] = 0  # of the encoder, with the embeddings, that stay as they are
    lora_rank: Annotated[int, NOT_NEGATIVE] = 0  # of low-rank adapters, which then learn alone; 0: none
    lora_alpha: Annotated[float, ABOVE_ZERO] = 16.0  # adapters count alpha / rank times
    lora_matrices: tuple[str, ...] = ("query", "value")  # the linear layers that have one, by their names
    lora_merge: bool = True  # into plain weights; False: they are written beside the matrices they adapt

    schedule: ScheduleName = "paper"
    learning_rate: Annotated[float, ABOVE_ZERO] = 1.0  # the peak; with schedule 'paper' a factor
    warmup_steps: Annotated[int, NOT_NEGATIVE] = 4000
    decay_share: Annotated[float, PROBABILITY] = 0.2  # of all steps; schedule 'stable' goes down in them

    validate_every: Annotated[int, POSITIVE] = 1000  # steps
    validation_beam: Annotated[int, POSITIVE] = 1
    stop_metric: Literal["bleu", "loss"] = "bleu"
    patience: Annotated[int, NOT_NEGATIVE] = 0  # validations without improvement; 0: never stop early

    checkpoint_every: Annotated[int, POSITIVE] = 1000  # steps
    keep_checkpoints: Annotated[int, POSITIVE] = 5
    average: Annotated[int, NOT_NEGATIVE] = 5  # checkpoints averaged at the end, if that scores better; 0: none
    ema: Annotated[float, PROBABILITY] = 0.0  # decay of the moving average of the weights; 0: none

    processes: Annotated[int | None, POSITIVE] = None  # that share every batch; None: what a measurement finds fastest
    threads: Annotated[int | None, POSITIVE] = None  # of each process; None: the cores divided among the processes

    log_every: Annotated[int, POSITIVE] = 50  # steps
    tensorboard: bool = False
    mixed_precision: Precision = "auto"  # auto: bfloat16 where that is faster
    compile: bool = False  # torch.compile: worth trying on a GPU

    def in_words(self) -> str:
        """How the weights are found, for people."""
        wanted = {
            "weight decay": self.weight_decay,
            "label smoothing": self.label_smoothing,
            "R-Drop": self.r_drop,
            "BPE-dropout": self.bpe_dropout,
            "moving average": self.ema,
            "adapters of rank": self.lora_rank,
            "frozen layers": self.frozen_layers,
        }
        words = [f"{self.optimizer}, {self.schedule} schedule, rate {self.learning_rate:g}"]
        words.append(f"batches of {self.accumulate * self.batch_tokens:,}")
        words += [f"{name} {value:g}" for name, value in wanted.items() if value]
        if self.embeddings == "related":
            words.append("related embeddings")
        if self.both_directions:
            words.append(f"both directions for {self.both_directions:g} passes")
        if self.diversify:
            words.append(f"{2 * self.diversify} helpers of {self.helper_epochs:g} passes")
        return ", ".join(words)

    def conflicts(self) -> Iterable[tuple[str, str]]:
        if self.last_step is not None and self.steps is not None and self.last_step > self.steps:
            yield "last_step", f"cannot be after the {self.steps} steps there are (steps)"
        if self.schedule == "paper" and self.warmup_steps == 0:
            yield "warmup_steps", "the paper's schedule divides by it, so it must be at least 1"
        if self.average > self.keep_checkpoints:
            yield "average", f"cannot be more than the {self.keep_checkpoints} checkpoints kept (keep_checkpoints)"
        if self.lora_rank and self.ema:
            yield "lora_rank", "adapters and a moving average (ema) cannot be used together; leave one of them out"
        if not self.lora_merge and not self.lora_rank:
            yield "lora_merge", "there are no adapters to keep apart; set lora_rank (--lora)"
        if self.lora_rank and not self.lora_matrices:
            yield "lora_matrices", "adapters need matrices, such as [query, value]"
        if self.optimizer == "adam" and self.weight_decay:
            yield "weight_decay", "belongs to the optimizers adamw and muon; with adam it must be 0"
