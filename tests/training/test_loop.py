import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from attendo.bundle import weights_of
from attendo.data.batch import Batch, make_batch
from attendo.data.loader import Position
from attendo.errors import TrainingError
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import Transformer, build
from attendo.training import loop
from attendo.training.ema import MovingAverage
from attendo.training.loop import Outcome, Validation
from attendo.training.loss import build_loss
from attendo.training.optimizer import build_optimizer
from attendo.training.schedule import Schedule
from attendo.training.settings import TrainingConfig
from attendo.training.state import Progress
from attendo.training.team import Team

PAIRS = [
    ([5, 6, 7], [8, 9]),
    ([10, 11], [12, 13, 14, 15, 16]),
    ([17], [18, 4, 5]),
    ([9, 8, 7, 6, 5, 4], [10, 11, 12]),
]


def small_model() -> Transformer:
    torch.manual_seed(1)
    return build(
        TransformerConfig(
            source_vocab_size=19,
            target_vocab_size=19,
            n_encoder_layers=1,
            n_decoder_layers=2,
            d_model=6,
            d_ff=7,
            n_heads=2,
            residual_dropout=0.0,
        )
    )


def endless(*groups: Sequence[int]) -> Iterator[tuple[Batch, Position, float]]:
    """Batches of these pairs in turn, one epoch after another."""
    for epoch in itertools.count():
        for i, group in enumerate(groups):
            last = i + 1 == len(groups)
            batch = make_batch([PAIRS[p][0] for p in group], [PAIRS[p][1] for p in group])
            yield batch, Position(epoch + 1, 0) if last else Position(epoch, i + 1), epoch + (i + 1) / len(groups)


class Recorder:
    """What the loop calls back, with scores and a stop prepared beforehand."""

    def __init__(self, scores: Sequence[float] = (), stop_at: int | None = None, over_at: int | None = None) -> None:
        self.scores = iter(scores)
        self.stop_at = stop_at
        self.over_at = over_at
        self.saved: list[Progress] = []
        self.logged: list[dict[str, Any]] = []
        self.asked = 0

    def validate(self, model: Transformer) -> Validation:
        assert not model.training
        return Validation(score=next(self.scores, 0.0), facts={"found": True})

    def save(self, progress: Progress) -> None:
        self.saved.append(progress)

    def should_stop(self) -> bool:
        self.asked += 1
        return self.stop_at is not None and self.asked > self.stop_at

    def is_over(self) -> bool:
        return self.over_at is not None and self.asked >= self.over_at

    def train(
        self,
        model: Transformer,
        batches: Iterator[tuple[Batch, Position, float]],
        *,
        steps: int,
        progress: Progress | None = None,
        schedule: Schedule = lambda _: 0.01,
        optimizer: torch.optim.Optimizer | None = None,
        loss: Callable[[Transformer, Batch], Tensor] | None = None,
        average: MovingAverage | None = None,
        **settings: Any,
    ) -> Outcome:
        never: dict[str, Any] = {"validate_every": 1000, "checkpoint_every": 1000, "log_every": 1000}
        config = TrainingConfig(**(never | settings))
        return loop.train(
            model,
            loss or build_loss(config),
            optimizer or build_optimizer(model, config),
            schedule,
            batches,
            config=config,
            steps=steps,
            progress=progress or Progress(),
            device=torch.device("cpu"),
            average=average,
            validate=self.validate,
            save=self.save,
            log=self.logged.append,
            should_stop=self.should_stop,
            is_over=self.is_over,
            team=Team(),
        )


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor], *, within: float) -> None:
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=0, atol=within, msg=name)


# --- a step ---------------------------------------------------------------------------------------------------------


class Descent(torch.optim.SGD):
    """Adam would hide a wrong scale of the gradients; this does not."""

    def __init__(self, model: Transformer) -> None:
        super().__init__(model.parameters(), lr=0.0, fused=True)


def test_accumulation_equals_one_big_batch() -> None:
    together, apart = small_model(), small_model()
    one, many = Recorder(), Recorder()
    big = one.train(together, endless((0, 1, 2, 3)), steps=3, optimizer=Descent(together), schedule=lambda _: 0.5)
    parts = endless((0,), (1, 2), (3,))
    small = many.train(apart, parts, steps=3, optimizer=Descent(apart), schedule=lambda _: 0.5, accumulate=3)
    assert_same(weights_of(together), weights_of(apart), within=1e-6)
    assert big.progress.loss_mean == pytest.approx(small.progress.loss_mean, rel=1e-6)
    assert small.progress.position == Position(3, 0)
    assert not torch.equal(small_model().output.weight, together.output.weight)


def test_the_loss_is_the_mean_over_target_tokens() -> None:
    model = small_model()
    batch = next(endless((0, 1)))[0]
    logits_BTV = model(batch.source_BS, batch.source_lengths_B, batch.target_in_BT)
    costs_BT = torch.nn.functional.cross_entropy(
        logits_BTV.transpose(1, 2), batch.target_out_BT, label_smoothing=0.1, reduction="none"
    )
    real = [costs_BT[row, :length] for row, length in enumerate(batch.target_lengths_B.tolist())]
    outcome = Recorder().train(model, endless((0, 1)), steps=1)
    assert outcome.progress.loss_mean == pytest.approx(torch.cat(real).mean().item(), rel=1e-5)


def test_clipping_limits_the_norm_of_the_whole_gradient() -> None:
    def change(clip_norm: float) -> float:
        model = small_model()
        before = torch.cat([p.detach().clone().flatten() for p in model.parameters()])
        Recorder().train(
            model, endless((0, 1)), steps=1, optimizer=Descent(model), schedule=lambda _: 1.0, clip_norm=clip_norm
        )
        after = torch.cat([p.detach().flatten() for p in model.parameters()])
        return float((after - before).norm())

    whole = change(0.0)
    assert change(whole / 3) == pytest.approx(whole / 3, rel=1e-3)
    assert change(whole * 2) == pytest.approx(whole, rel=1e-5)


def test_each_step_has_the_rate_of_its_number() -> None:
    asked: list[int] = []

    def schedule(step: int) -> float:
        asked.append(step)
        return 0.0

    model = small_model()
    before = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    Recorder().train(model, endless((0,)), steps=5, schedule=schedule, progress=Progress(step=2))
    assert sorted(set(asked)) == [3, 4, 5]
    assert_same(before, weights_of(model), within=0.0)


# --- what is called when --------------------------------------------------------------------------------------------


def test_saves_at_every_checkpoint_and_validation_and_at_the_end() -> None:
    recorder = Recorder()
    outcome = recorder.train(small_model(), endless((0,), (1,)), steps=11, checkpoint_every=3, validate_every=5)
    assert [progress.step for progress in recorder.saved] == [3, 5, 6, 9, 10, 11]
    assert outcome == Outcome(recorder.saved[-1], "finished")
    assert [entry["step"] for entry in recorder.logged if entry["event"] == "validation"] == [5, 10, 11]


def test_saves_once_where_both_are_due() -> None:
    recorder = Recorder()
    recorder.train(small_model(), endless((0,)), steps=4, checkpoint_every=2, validate_every=2)
    assert [progress.step for progress in recorder.saved] == [2, 4]


def test_what_is_saved_knows_the_validation_of_that_step() -> None:
    recorder = Recorder(scores=[1.0, 3.0, 2.0])
    recorder.train(small_model(), endless((0,)), steps=6, validate_every=2)
    assert [(p.best_step, p.best_score, p.stale) for p in recorder.saved] == [(2, 1.0, 0), (4, 3.0, 0), (4, 3.0, 1)]
    assert [e["best"] for e in recorder.logged if e["event"] == "validation"] == [True, True, False]


def test_an_equal_score_is_no_improvement() -> None:
    recorder = Recorder(scores=[1.0, 1.0])
    recorder.train(small_model(), endless((0,)), steps=2, validate_every=1)
    assert [(p.best_step, p.stale) for p in recorder.saved] == [(1, 0), (1, 1)]


def test_logs_step_epoch_loss_rate_speed_and_padding() -> None:
    recorder = Recorder()
    rate: Callable[[int], float] = lambda step: step / 1000  # noqa: E731
    recorder.train(small_model(), endless((0, 1), (2,)), steps=5, log_every=2, schedule=rate)
    entries = [entry for entry in recorder.logged if entry["event"] == "progress"]
    assert [(entry["step"], entry["epoch"], entry["lr"]) for entry in entries] == [
        (2, 1.0, 0.002),
        (4, 2.0, 0.004),
        (5, 2.5, 0.005),
    ]
    assert all(entry["tokens_per_second"] > 0 and 0 < entry["loss"] < 10 for entry in entries)
    # (0, 1): 4 + 3 source and 3 + 6 target tokens in 2 x 4 and 2 x 6 positions; (2,): 2 and 4 in 2 and 4.
    assert [entry["padding"] for entry in entries] == [
        round(1 - 22 / 26, 4),
        round(1 - 22 / 26, 4),
        round(1 - 16 / 20, 4),
    ]


def test_the_model_is_in_training_mode_after_validation() -> None:
    model = small_model()
    Recorder().train(model, endless((0,)), steps=2, validate_every=2)
    assert model.training


# --- the moving average of the weights -------------------------------------------------------------------------------


class Watcher(Recorder):
    """Keeps the weights that each validation and each checkpoint found in the model."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.validated: list[dict[str, Tensor]] = []
        self.trained: list[dict[str, Tensor]] = []

    def validate(self, model: Transformer) -> Validation:
        self.validated.append({name: tensor.clone() for name, tensor in weights_of(model).items()})
        return super().validate(model)

    def save(self, progress: Progress) -> None:
        self.trained.append({name: tensor.clone() for name, tensor in weights_of(self.model).items()})
        super().save(progress)


def test_the_average_is_validated_and_training_goes_on_without_it() -> None:
    plain, model = small_model(), small_model()
    alone, averaging = Watcher(plain), Watcher(model)
    start = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    alone.train(plain, endless((0, 1), (2,)), steps=5, validate_every=1)
    averaging.train(
        model,
        endless((0, 1), (2,)),
        steps=5,
        validate_every=1,
        average=MovingAverage(weights_of(model), 0.3),
    )
    expected = start
    for t, (trained, found) in enumerate(zip(alone.trained, averaging.validated, strict=True), start=1):
        decay = min(0.3, (1 + t) / (10 + t))
        expected = {name: decay * expected[name] + (1 - decay) * trained[name] for name in expected}
        assert_same(expected, found, within=1e-6)
        assert not torch.equal(found["encoder.embedding.weight"], trained["encoder.embedding.weight"])
    for one, other in zip(alone.trained, averaging.trained, strict=True):
        assert_same(one, other, within=0.0)
    assert_same(alone.trained[-1], weights_of(model), within=0.0)


# --- stopping -------------------------------------------------------------------------------------------------------


def test_asked_to_stop_it_saves_where_it_is() -> None:
    recorder = Recorder(stop_at=4)
    outcome = recorder.train(small_model(), endless((0,), (1,), (2,)), steps=9)
    assert outcome.reason == "stopped"
    assert recorder.saved == [outcome.progress]
    assert (outcome.progress.step, outcome.progress.position) == (4, Position(1, 1))


def test_asked_to_stop_before_the_first_step() -> None:
    recorder = Recorder(stop_at=0)
    outcome = recorder.train(small_model(), endless((0,)), steps=9)
    assert (outcome.reason, recorder.saved) == ("stopped", [Progress()])


def test_when_the_time_is_over_it_ends_with_the_next_line_of_the_log() -> None:
    recorder = Recorder(over_at=4)
    outcome = recorder.train(small_model(), endless((0,)), steps=20, log_every=3)
    assert outcome.reason == "late"
    assert outcome.progress.step == outcome.progress.best_step == 6
    assert recorder.saved == [outcome.progress]
    assert [(entry["event"], entry["step"]) for entry in recorder.logged] == [
        ("progress", 3),
        ("progress", 6),
        ("validation", 6),
    ]


def test_time_that_is_over_with_the_last_step_changes_nothing() -> None:
    assert Recorder(over_at=1).train(small_model(), endless((0,)), steps=3).reason == "finished"


def test_the_last_step_may_come_before_the_end_of_the_schedule() -> None:
    recorder, rates = Recorder(), list[int]()

    def schedule(step: int) -> float:
        rates.append(step)
        return 0.01

    outcome = recorder.train(small_model(), endless((0,)), steps=20, last_step=4, schedule=schedule)
    assert (outcome.reason, outcome.progress.step, outcome.progress.best_step, max(rates)) == ("finished", 4, 4, 4)


def test_early_stopping_after_so_many_validations_without_improvement() -> None:
    recorder = Recorder(scores=[1.0, 2.0, 1.5, 2.0, 3.0])
    outcome = recorder.train(small_model(), endless((0,)), steps=20, validate_every=2, patience=2)
    assert outcome.reason == "early"
    assert (outcome.progress.step, outcome.progress.best_step, outcome.progress.stale) == (8, 4, 2)


def test_an_improvement_starts_the_patience_anew() -> None:
    recorder = Recorder(scores=[1.0, 0.5, 2.0, 1.0, 0.9])
    outcome = recorder.train(small_model(), endless((0,)), steps=20, validate_every=1, patience=2)
    assert (outcome.reason, outcome.progress.step, outcome.progress.best_step) == ("early", 5, 3)


def test_without_patience_it_never_stops_early() -> None:
    recorder = Recorder(scores=[-float(n) for n in range(9)])
    assert recorder.train(small_model(), endless((0,)), steps=9, validate_every=1).reason == "finished"


def test_what_stopped_early_stays_ended_when_resumed() -> None:
    recorder = Recorder(scores=[1.0, 0.0, 0.0, 9.0])
    ended = recorder.train(small_model(), endless((0,)), steps=20, validate_every=1, patience=2)
    resumed = Recorder()
    outcome = resumed.train(small_model(), endless((0,)), steps=20, progress=recorder.saved[-1], patience=2)
    assert outcome == ended
    assert (resumed.saved, resumed.logged) == ([], [])


def test_what_is_finished_stays_finished_when_resumed() -> None:
    recorder = Recorder()
    ended = recorder.train(small_model(), endless((0,)), steps=3)
    resumed = Recorder()
    assert resumed.train(small_model(), endless((0,)), steps=3, progress=recorder.saved[-1]) == ended
    assert (resumed.saved, resumed.logged) == ([], [])


# --- losses that cannot be trusted ----------------------------------------------------------------------------------


def prepared(losses: Sequence[float]) -> Callable[[Transformer, Batch], Tensor]:
    """Each step's loss is what is given here."""
    given = iter(losses)

    def loss(model: Transformer, batch: Batch) -> Tensor:
        value = next(given) * float(batch.target_lengths_B.sum())
        return sum((0 * p.sum() for p in model.parameters()), start=torch.tensor(value))

    return loss


@pytest.mark.parametrize(("loss", "word"), [(float("nan"), "nan"), (float("inf"), "inf")])
def test_a_loss_that_is_not_a_number_stops(loss: float, word: str) -> None:
    recorder = Recorder()
    model = small_model()
    with pytest.raises(TrainingError, match=f"the loss became {word} at step 3"):
        recorder.train(model, endless((0,)), steps=9, checkpoint_every=1, loss=prepared([3.0, 2.9, loss]))
    assert [progress.step for progress in recorder.saved] == [1, 2]
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_a_loss_that_diverges_stops() -> None:
    loss = prepared([4.0, 3.0, 2.0] + [30.0] * 100)
    with pytest.raises(
        TrainingError, match=r"diverges: its running mean is \d+\.\d\d at step \d, and was 3\.\d\d before"
    ):
        Recorder().train(small_model(), endless((0,)), steps=100, loss=loss)


def test_a_bad_batch_is_no_divergence() -> None:
    loss = prepared([4.0, 3.0, 60.0] + [3.0] * 7)
    assert Recorder().train(small_model(), endless((0,)), steps=10, loss=loss).reason == "finished"


def test_weights_that_are_not_numbers_are_never_saved() -> None:
    """The loss of the step was still good; what the step made of the weights was not."""
    recorder = Recorder()
    with pytest.raises(TrainingError, match="not numbers any more after step 2"):
        recorder.train(
            small_model(),
            endless((0,)),
            steps=9,
            checkpoint_every=1,
            schedule=lambda s: 0.01 if s == 1 else float("inf"),
        )
    assert [progress.step for progress in recorder.saved] == [1]


def test_the_running_mean_is_part_of_the_progress() -> None:
    recorder = Recorder()
    recorder.train(small_model(), endless((0,)), steps=2, checkpoint_every=1, loss=prepared([4.0, 2.0]))
    assert [p.loss_mean for p in recorder.saved] == [pytest.approx(4.0), pytest.approx(0.98 * 4 + 0.02 * 2)]
    assert dataclasses.replace(recorder.saved[0]).best_loss_mean == pytest.approx(4.0)
