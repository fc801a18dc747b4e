"""Multiply-adds beside torch's own counter, and what growing lengths are measured by."""

import re
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attendo.alignment.maps import explicit_twin
from attendo.inspection.cost import cost_facts, multiply_adds
from attendo.inspection.cost_report import cost_page, in_words
from attendo.inspection.growth import Measurement, layers, measure, peak_bytes
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import build
from attendo.reporting import Silent

S, T = 13, 7
SIZES: dict[str, Any] = {
    "source_vocab_size": 53,
    "target_vocab_size": 47,
    "tie_embeddings": "none",
    "n_encoder_layers": 2,
    "n_decoder_layers": 3,
    "d_model": 30,
    "d_ff": 21,
    "n_heads": 3,
}


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"d_key": 5, "d_value": 11},
        {"n_heads": 6, "n_key_heads": 2},
        {"value_rank": 17},
        {"positions": "sinusoidal-concatenated"},
        {"positions": "shaw", "max_distance": 2},
        {"positions": "t5"},
        {"scoring": "additive"},
        {"activation": "swiglu"},
        {"heads": "branched", "activation": "swiglu"},
        {"heads": "branched"},
        {"share_layers": "all"},
        {"share_layers": "groups"},
        {"share_query_key": True},
        {"span": "window"},
    ],
    ids=str,
)
def test_multiply_adds_are_half_of_torchs_count(parts):
    config = TransformerConfig(**{**SIZES, **parts})
    model = explicit_twin(build(config), [])  # the counter does not know every fused kernel
    source, target = torch.randint(4, 47, (1, S)), torch.randint(4, 47, (1, T))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(source, torch.tensor([S]), target)
    found = multiply_adds(config, S, T)
    assert 2 * sum(found.values()) == counter.get_total_flops()
    by_module = counter.get_flop_counts()

    def counted(module: str) -> int:
        return sum(by_module[f"Transformer.{module}"].values())

    assert 2 * found["output"] == counted("output")
    assert 2 * sum(each for part, each in found.items() if part.startswith("encoder.")) == counted("encoder")


@pytest.mark.parametrize(
    "parts",
    [{}, {"share_encoder_decoder": True, "n_encoder_layers": 3}, {"positions": "sinusoidal-concatenated"}],
    ids=str,
)
def test_the_parts_add_up(parts):
    config = TransformerConfig(**{**SIZES, **parts})
    *rows, total = cost_facts(config, S, T)["parts"]
    assert total["parameters"] == sum(parameter.numel() for parameter in build(config).parameters())
    for key in ("parameters", "multiply_adds"):
        assert total[key] == sum(row[key] for row in rows)
    assert total["multiply_adds"] == sum(multiply_adds(config, S, T).values())


def test_parameters_stand_beside_their_products():
    config = TransformerConfig(**SIZES)
    facts = cost_facts(config, S, T)
    by_part = {row["part"]: row for row in facts["parts"]}
    assert by_part["encoder.attention: scores and sums"]["multiply_adds"] == 2 * 2 * S * S * 30
    assert by_part["encoder.attention: scores and sums"]["parameters"] == 0
    assert by_part["encoder.embedding"] == {"part": "encoder.embedding", "parameters": 53 * 30, "multiply_adds": 0}


def test_the_paper_s_comparison():
    """Per layer n² d for what happens between positions and n d² for the rest, so it takes over at n = 2 d."""
    config = TransformerConfig(source_vocab_size=7, target_vocab_size=7)
    for n in (64, 1024):
        found = multiply_adds(config, n, n)
        assert found["encoder.attention"] == 6 * 4 * n * 512**2
        assert found["encoder.attention: scores and sums"] == 6 * 2 * n**2 * 512


# --- as the length grows ------------------------------------------------------------------------------------------


def test_the_peak_counts_what_is_held_at_the_same_time():
    def call() -> None:
        first = torch.zeros(1000)  # 4,000 bytes
        second = first + 1  # and as many more
        del first
        third = second[:500]  # no memory of its own
        third.add_(1)
        torch.zeros(100)

    assert peak_bytes(call) == 8000


def test_what_autograd_keeps_is_held():
    x = torch.zeros(1000, requires_grad=True)
    assert peak_bytes(lambda: x.exp().exp().exp().sum().backward()) >= 3 * 4000


def test_attention_that_holds_its_weights_needs_the_square_of_the_length():
    made = layers(30, 3)
    held = {
        (name, length): peak_bytes(lambda: made[name](torch.randn(1, length, 30)).sum().backward())  # noqa: B023
        for name in made
        for length in (101, 211, 431)
    }
    growth = {name: (held[name, 431] - held[name, 211]) / (held[name, 211] - held[name, 101]) for name in made}
    assert growth["attention"] == pytest.approx((431**2 - 211**2) / (211**2 - 101**2), rel=0.15)
    for name in ("LSTM", "conv"):
        assert growth[name] == pytest.approx((431 - 211) / (211 - 101), rel=0.05)


def test_every_layer_is_measured_at_every_length():
    found = measure(6, 2, Silent(), lengths=(3, 5), repeats=1)
    assert [(one.layer, one.length) for one in found] == [(name, n) for n in (3, 5) for name in layers(6, 2)]
    assert all(one.milliseconds > 0 and one.bytes > 0 for one in found)
    for name, layer in layers(6, 2).items():
        assert layer(torch.randn(1, 5, 6)).numel() == 5 * 6, name


MEASURED = [
    Measurement(name, length, float(length), 2**20 * length)
    for length in (3, 5)
    for name in ("attention", "fused", "LSTM", "conv")
]


def test_in_words_and_as_a_page():
    config = TransformerConfig(**SIZES)
    facts = cost_facts(config, S, T)
    lines = in_words(config, facts, MEASURED)
    assert lines[0].split() == ["part", "parameters", "multiply-adds", "share"]
    assert lines[-1].split() == ["5", *["5.00"] * 4]
    page = cost_page("<mine>", config, facts, MEASURED)
    assert "&lt;mine&gt;" in page
    assert page.count("<svg") == 2
    assert not re.search(r"""(?:src|href)=|url\(|@import""", page)
