"""A start of zeros, which training leaves what it is."""

from typing import Any

import pytest
import torch

from attendo.data.batch import make_batch
from attendo.models.settings import TransformerConfig, TyingName
from attendo.models.transformer import Transformer, build
from attendo.text.tokenizer import BOS
from attendo.training.freezing import zero_start
from attendo.training.loop import take_step
from attendo.training.loss import build_loss
from attendo.training.optimizer import build_optimizer
from attendo.training.settings import OptimizerName, TrainingConfig
from attendo.training.team import Team

BATCHES = [make_batch([[5, 6, 7], [9]], [[8, 9], [4, 10, 6]]), make_batch([[10, 11]], [[12, 4, 5]])]


def model_of(tying: TyingName) -> Transformer:
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 1, "d_model": 6, "d_ff": 7, "n_heads": 2}
    return build(TransformerConfig(source_vocab_size=13, target_vocab_size=13, tie_embeddings=tying, **sizes))


def train(model: Transformer, optimizer: OptimizerName) -> None:
    config = TrainingConfig(optimizer=optimizer, weight_decay=0.0 if optimizer == "adam" else 0.1)
    built = build_optimizer(model, config)
    for group in built.param_groups:
        group["lr"] = 0.01
    for _ in range(3):
        take_step(model, build_loss(config), built, BATCHES, config=config, device=torch.device("cpu"), team=Team())


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("tying", ["all", "target", "none"])
def test_a_start_of_zeros_stays_one_and_nothing_else_does(optimizer: OptimizerName, tying: TyingName) -> None:
    model = model_of(tying)
    _, table, output = model.tables()
    with torch.no_grad():
        table[BOS] = 0
    before, bias = table.detach().clone(), model.output.bias.detach().clone()
    with zero_start(model):
        train(model, optimizer)
    assert not table[BOS].any()
    moved = (table.detach() != before).any(1)
    assert moved[[4, 5, 6, 8, 9, 10]].all()
    assert model.output.bias[BOS] != bias[BOS]  # it is only its vector
    assert output is table or output[BOS].any()
    train(model, optimizer)
    assert table[BOS].any()


def test_any_other_start_learns() -> None:
    model = model_of("all")
    _, table, _ = model.tables()
    before = table[BOS].detach().clone()
    with zero_start(model):
        train(model, "adam")
    assert (table[BOS] != before).all()
