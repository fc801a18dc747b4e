"""Stacks of 12 and 18 layers in post-norm place, which hardly learn unless later layers begin smaller."""

import pytest
import torch
from torch.nn import functional

from attendo.models.settings import TransformerConfig
from attendo.models.transformer import build

B, T, V, STEPS, WARMUP = 32, 7, 23, 40, 20


def loss_of_copying(*, n_layers: int, init_by_depth: bool) -> float:
    """The mean loss of the last ten of a few steps, of a model that is to write what it has read."""
    torch.manual_seed(3)
    config = TransformerConfig(
        source_vocab_size=V,
        target_vocab_size=V,
        n_encoder_layers=n_layers,
        n_decoder_layers=n_layers,
        d_model=32,
        d_ff=64,
        n_heads=2,
        norm_place="post",
        residual_dropout=0.0,
        init_by_depth=init_by_depth,
    )
    model, losses = build(config), []
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(1, STEPS + 1):
        optimizer.param_groups[0]["lr"] = 0.002 * min(1, step / WARMUP)
        text_BT = torch.randint(4, V, (B, T))
        before_BT = torch.cat((torch.full((B, 1), 2), text_BT[:, :-1]), dim=1)
        logits_BTV = model(text_BT, torch.full((B,), T), before_BT)
        loss = functional.cross_entropy(logits_BTV.flatten(0, 1), text_BT.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-10:]) / 10


@pytest.mark.parametrize("n_layers", [12, 18])
def test_deep_stacks_learn_where_later_layers_begin_smaller(n_layers: int) -> None:
    plain, by_depth = (loss_of_copying(n_layers=n_layers, init_by_depth=scaled) for scaled in (False, True))
    guessing = torch.tensor(V - 4).log().item()
    assert by_depth < guessing - 0.2
    assert by_depth < plain - 0.1
