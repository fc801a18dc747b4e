from typing import Any

import pytest
import torch
from torch import Tensor

from attendo.alignment.heads import Head, heads_of, parse_head, without_heads
from attendo.data.batch import make_batch
from attendo.errors import ConfigError
from attendo.models.transformer import Transformer
from attendo.nn.attention import MultiHeadAttention
from tests.untrained import VOCAB_SIZE, untrained_model

BATCH = make_batch([[5, 6, 7, 8, 9, 10], [11, 12, 13]], [[14, 15, 16, 17], [18, 19]])


def model_of(**parts: Any) -> Transformer:
    return untrained_model(VOCAB_SIZE, **{"n_encoder_layers": 2, "n_decoder_layers": 2, **parts}).double()


def logits(model: Transformer) -> Tensor:
    with torch.inference_mode():
        return model(BATCH.source_BS, BATCH.source_lengths_B, BATCH.target_in_BT)


def zeroed(model: Transformer, head: Head) -> Tensor:
    """The logits while what the head gives is set to zero on its way, in that layer alone, even if layers are one."""
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    first = model.config.n_encoder_layers
    places = {"encoder": head.layer - 1, "decoder": first + 2 * (head.layer - 1), "cross": first + 2 * head.layer - 1}
    place, calls = places[head.kind], 0

    def silence(_: Any, arguments: Any) -> Any:
        heads = arguments[0].clone()
        if calls == place + 1:
            heads[:, head.number - 1] = 0
        return (heads,)

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    hooks = [one.register_forward_pre_hook(count) for one in attentions]
    hooks += [one.output.register_forward_pre_hook(silence) for one in attentions]
    found = logits(model)
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"d_key": 5, "d_value": 7},
        {"heads": "branched", "d_ff": 21},
        {"share_layers": "all"},
        {"share_encoder_decoder": True},
        {"positions": "shaw"},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["encoder.2.1", "decoder.1.3", "cross.2.2"])
def test_without_a_head_is_as_if_it_gave_zero(parts, name):
    model = model_of(**parts)
    head = parse_head(name, model.config)
    whole, quiet = logits(model), logits(without_heads(model, [head]))
    torch.testing.assert_close(quiet, zeroed(model, head), rtol=0, atol=1e-9)
    assert (quiet - whole).abs().max() > 1e-3
    assert torch.equal(logits(model), whole)


def test_several_heads_at_once_and_every_other_weight_is_shared():
    model = model_of()
    heads = [parse_head(name, model.config) for name in ("1.1", "1.2", "encoder.1.3")]
    one_by_one = model
    for head in heads:
        one_by_one = without_heads(one_by_one, [head])
    quiet = without_heads(model, heads)
    assert torch.equal(logits(quiet), logits(one_by_one))
    ours, theirs = dict(model.named_parameters()), dict(quiet.named_parameters())
    changed = {name for name in ours if ours[name].data_ptr() != theirs[name].data_ptr()}
    assert changed == {"encoder.blocks.0.attention.output.weight", "decoder.blocks.0.cross_attention.output.weight"}


def test_steps_of_a_search_do_without_it_too():
    model = model_of()
    quiet = without_heads(model, [parse_head("decoder.1.1", model.config)])
    with torch.inference_mode():
        cache = quiet.encode(BATCH.source_BS, BATCH.source_lengths_B)
        step = quiet.lean_step()
        for t in range(3):
            found, cache = step(BATCH.target_in_BT[:, t], cache)
    torch.testing.assert_close(found, logits(quiet)[:, 2], rtol=0, atol=1e-9)


def test_names():
    config = model_of().config
    assert len(heads_of(config)) == len(set(heads_of(config))) == 3 * 2 * 3
    assert all(parse_head(str(head), config) == head for head in heads_of(config))
    assert parse_head(" 2.3 ", config) == Head("cross", 2, 3)


@pytest.mark.parametrize("name", ["cross.3.1", "0.1", "encoder.1.4", "cross.1", "3", "x.1.1", "1.1.1", "", "1.-1"])
def test_a_head_that_is_not_there_is_refused_by_name(name):
    with pytest.raises(ConfigError, match="head '"):
        parse_head(name, model_of().config)
