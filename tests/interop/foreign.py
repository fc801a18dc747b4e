"""Models of Hugging Face Transformers at tiny sizes, written to folders, and the same models as ours."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attendo.bundle import load_weights
from attendo.decoding.search import Hypothesis
from attendo.interop.architecture import Architecture, Orders
from attendo.interop.folder import open_folder
from attendo.interop.vocabulary import Order, order_of
from attendo.models.family import build_model
from attendo.models.settings import ModelConfig


def randomise(model: nn.Module, *, by: float = 0.1) -> None:
    """Moves every weight, so that no bias stays zero and no gain one."""
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # sinusoids are not
                parameter.add_(by * torch.randn_like(parameter))


@torch.no_grad()
def make_endings_likely(theirs: Any, *, by: float = 1.0) -> None:
    """Moves the output's row of EOS along the vectors that it meets, so that it comes up after some steps."""
    met: list[Tensor] = []
    hook = theirs.lm_head.register_forward_pre_hook(lambda _, inputs: met.append(inputs[0].flatten(0, 1)))
    sources, targets = torch.randint(4, 29, (7, 5)), torch.randint(4, 29, (7, 11))
    both = {"input_ids": sources, "decoder_input_ids": targets}
    logits = theirs.eval()(**both if theirs.config.is_encoder_decoder else {"input_ids": targets}).logits
    hook.remove()
    mean, eos = met[0].mean(0), theirs.config.eos_token_id
    theirs.lm_head.weight[eos] += by * (logits.amax(-1) - logits[..., eos]).mean() * mean / mean.square().sum()


def assert_as_generated(
    found: Sequence[Sequence[Hypothesis]], generated: Any, order: Order, *, eos: int, begun: int = 1, at_least: int
) -> None:
    """The ids of `generate`, in their order and with their scores, wherever all end before the limit.

    begun: how many ids stand before what was generated. at_least: how many sentences are such.
    """
    expected = generated.sequences.view(len(found), len(found[0]), -1)[..., begun:].tolist()
    scores = generated.get("sequences_scores")  # of a beam
    n_compared = 0
    for number, (hypotheses, theirs) in enumerate(zip(found, expected, strict=True)):
        if not all(one.finished for one in hypotheses) or not all(eos in ids for ids in theirs):
            continue  # what the limit cuts has an end here, and none there
        n_compared += 1
        ours = [[order.rows[id_] for id_ in one.ids] for one in hypotheses]
        assert ours == [ids[: ids.index(eos)] for ids in theirs]
        if scores is not None:
            their_scores = scores.view(len(found), -1)[number].tolist()
            assert [one.score for one in hypotheses] == pytest.approx(their_scores, abs=1e-4)
    assert n_compared >= at_least


def their_order(config: Any, *, size: int, unk: int | None = 3) -> Order:
    """The order of a vocabulary, from what a config of theirs says of its ids."""
    return order_of(
        size, pad=config.pad_token_id, start=config.decoder_start_token_id, eos=config.eos_token_id, unk=unk
    )


@dataclass(frozen=True)
class Foreign:
    """A model of theirs, and what became of it."""

    theirs: Any
    ours: nn.Module
    config: ModelConfig
    orders: Orders
    folder: Path

    def our_ids(self, ids: Tensor) -> Tensor:
        """Their ids as ours. What decoding starts from is a copy where it is another piece as well."""
        back = torch.tensor(self.orders.target.back)
        return back[ids]


def taken_over(theirs: Any, architecture: Architecture, folder: Path, orders: Orders, **saving: Any) -> Foreign:
    """Saved by them and read by us."""
    theirs.save_pretrained(folder, **saving)
    opened = open_folder(folder)
    config = architecture.our_settings(opened, orders)
    ours = build_model(config).eval()
    weights = architecture.our_weights(config, opened, orders)
    with torch.no_grad():
        load_weights(ours, weights, where=str(folder))
    return Foreign(theirs.eval(), ours, config, orders, folder)
