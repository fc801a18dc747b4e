"""Low-rank adapters against the formula of the paper. Sizes are primes."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attendo.models.family import build_model
from attendo.models.settings import RecurrentConfig, TransformerConfig
from attendo.nn.low_rank import LowRank, add_adapters, merge_adapters, written

V, RANK, ALPHA = 31, 3, 7.0
TRANSFORMER = TransformerConfig(
    source_vocab_size=V, target_vocab_size=V, n_encoder_layers=2, n_decoder_layers=2, d_model=20, d_ff=23, n_heads=5
)
RECURRENT = RecurrentConfig(source_vocab_size=V, target_vocab_size=V, d_model=22)
each_model = pytest.mark.parametrize("config", [TRANSFORMER, RECURRENT], ids=lambda config: config.kind)


def adapted(config, matrices=("query", "value")):
    """A model, and a copy with adapters, of which nothing is zero any more where `moved`."""
    torch.manual_seed(1)
    model = build_model(config).eval()
    other = copy.deepcopy(model)
    assert add_adapters(other, rank=RANK, alpha=ALPHA, matrices=matrices) == []
    return model, other


def moved(model):
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def logits(model):
    torch.manual_seed(2)
    return model(torch.randint(V, (3, 11)), torch.tensor([11, 4, 8]), torch.randint(V, (3, 7)))


@each_model
def test_at_first_an_adapted_model_is_the_model(config):
    model, other = adapted(config)
    assert torch.equal(logits(model), logits(other))


@each_model
def test_merged_is_what_it_was_before(config):
    _, model = adapted(config)
    moved(model)
    plain = written(model, model.state_dict(), merge=True)
    before = logits(model)
    merge_adapters(model)
    torch.testing.assert_close(logits(model), before, rtol=0, atol=1e-6)
    assert model.state_dict().keys() == plain.keys() == build_model(config).state_dict().keys()
    assert all(torch.equal(tensor, plain[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())


@each_model
def test_only_adapters_have_gradients(config):
    model, other = adapted(config)
    moved(other)
    logits(other).square().mean().backward()
    with_gradient = {name for name, parameter in other.named_parameters() if parameter.grad is not None}
    adapters = {name for name, _ in other.named_parameters() if name.endswith((".0.down", ".0.up"))}
    assert with_gradient == adapters
    assert all(other.get_parameter(name).grad.abs().max() > 0 for name in adapters)
    names = {name for name, _ in model.named_modules() if name.endswith((".query", ".value"))}
    assert len(adapters) == 2 * len(names)


def test_the_formula_is_that_of_the_paper():
    """h = W x + b + α/r · B (A x): as peft has it, without W' in between."""
    torch.manual_seed(4)
    layer = nn.Linear(13, 11)
    holder = nn.ModuleDict({"query": layer})
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    add_adapters(holder, rank=RANK, alpha=ALPHA, matrices=["query"])
    moved(holder)
    (adapter,) = (module for module in layer.modules() if isinstance(module, LowRank))
    assert adapter.down.shape == (RANK, 13)
    assert adapter.up.shape == (11, RANK)
    x = torch.randn(5, 13)
    expected = F.linear(x, weight, bias) + ALPHA / RANK * (x @ adapter.down.T) @ adapter.up.T
    torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-5)


def test_a_name_of_no_matrix_is_told():
    model = build_model(TRANSFORMER)
    assert add_adapters(model, rank=2, alpha=1.0, matrices=["query", "quary"]) == ["quary"]
