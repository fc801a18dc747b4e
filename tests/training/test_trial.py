import pytest
import torch

from attendo.data.masking import side_of
from attendo.data.store import PairStore
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import build
from attendo.training.settings import TrainingConfig
from attendo.training.team import Team
from attendo.training.trial import Trial, try_steps


def measured(accumulate: int) -> Trial:
    torch.manual_seed(1)
    sizes = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 8, "d_ff": 11, "n_heads": 2}
    model = build(TransformerConfig(source_vocab_size=19, target_vocab_size=19, **sizes))  # type: ignore[arg-type]
    side = side_of([[5, 6, 7]] * 40)
    config = TrainingConfig(batch_tokens=16, accumulate=accumulate)
    device = torch.device("cpu")
    return try_steps(model, PairStore(side, side), config, seed=1, device=device, team=Team(), steps=20, seconds=1000.0)


def test_micro_batches_are_timed_and_steps_are_told() -> None:
    alone, together = measured(1), measured(6)
    assert alone.steps == 12  # the first eight of twenty are not counted
    assert together.tokens == alone.tokens  # no more is read for steps that are six times as large
    assert together.steps == pytest.approx(2)
    assert together.seconds_per_step == pytest.approx(6 * together.seconds_per_token * alone.tokens / alone.steps)
