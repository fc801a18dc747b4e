import json
from pathlib import Path

import torch
from torch import Tensor

from attendo.bundle import load_weights, weights_of
from attendo.data.batch import make_batch
from attendo.data.loader import Position
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import Transformer, build
from attendo.storage import read_tensors, write_tensors
from attendo.training.loss import batch_loss
from attendo.training.optimizer import build_optimizer
from attendo.training.settings import TrainingConfig
from attendo.training.state import Progress, capture, generators, restore, restore_generators

BATCH = make_batch([[5, 6, 7], [8, 9]], [[10, 11], [12, 13, 14]])


def fresh(seed: int) -> tuple[Transformer, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = build(
        TransformerConfig(
            source_vocab_size=17,
            target_vocab_size=17,
            n_encoder_layers=1,
            n_decoder_layers=2,
            d_model=6,
            d_ff=11,
            n_heads=2,
            residual_dropout=0.3,
            attention_dropout=0.2,
        )
    )
    return model.train(), build_optimizer(model, TrainingConfig())


def step(model: Transformer, optimizer: torch.optim.Optimizer) -> float:
    loss = batch_loss(model, BATCH, 0.1)
    loss.backward()
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_what_comes_after_a_restored_state_is_exactly_the_same(tmp_path: Path) -> None:
    """Through files and back, into a model with other weights and a generator in another state."""
    model, optimizer = fresh(1)
    for _ in range(3):
        step(model, optimizer)
    progress = Progress(
        step=3, position=Position(2, 5), epoch=2.25, loss_mean=0.1 + 0.2, best_loss_mean=1 / 3, best_score=-1e-17
    )
    tensors, facts = capture(model, optimizer, progress)
    write_tensors(tmp_path / "weights", weights_of(model), {})
    write_tensors(tmp_path / "state", tensors, facts)
    losses = [step(model, optimizer) for _ in range(4)]

    again, its_optimizer = fresh(2)
    load_weights(again, read_tensors(tmp_path / "weights")[0], where="here")
    restored = restore(again, its_optimizer, *read_tensors(tmp_path / "state"))
    assert restored == progress
    assert [step(again, its_optimizer) for _ in range(4)] == losses
    assert same(weights_of(again), weights_of(model))
    assert same(capture(again, its_optimizer, progress)[0], capture(model, optimizer, progress)[0])


def test_state_before_the_first_step(tmp_path: Path) -> None:
    model, optimizer = fresh(1)
    tensors, facts = capture(model, optimizer, Progress())
    write_tensors(tmp_path / "state", tensors, facts)
    weights = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    loss = step(model, optimizer)

    again, its_optimizer = fresh(2)
    load_weights(again, weights, where="here")
    assert restore(again, its_optimizer, *read_tensors(tmp_path / "state")) == Progress()
    assert step(again, its_optimizer) == loss


def test_facts_are_plain_json() -> None:
    model, optimizer = fresh(1)
    facts = capture(model, optimizer, Progress(step=7, position=Position(1, 2)))[1]
    assert json.loads(json.dumps(facts)) == facts


def test_generators_go_back() -> None:
    before = generators()
    drawn = torch.rand(5)
    restore_generators(before)
    assert torch.equal(torch.rand(5), drawn)
