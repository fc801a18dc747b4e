"""The models before the Transformer. Suffixes: B batch, S source length, T target length, D d_model, V vocabulary."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attendo.config import from_dict, to_dict
from attendo.errors import ConfigError, DataError
from attendo.models import convolutional, recurrent
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.settings import ConvolutionalConfig, RecurrentConfig, TranslationConfig
from tests.models.references import moved

B, S, T, V = 3, 11, 7, 31
LENGTHS = torch.tensor([11, 4, 8])
VOCABULARIES: dict[str, Any] = {"source_vocab_size": V, "target_vocab_size": V}

MODELS: list[TranslationConfig] = [
    RecurrentConfig(**VOCABULARIES, d_model=26, n_encoder_layers=2, n_decoder_layers=3),
    RecurrentConfig(**VOCABULARIES, d_model=26, cell="gru", scoring="additive", n_heads=2),
    RecurrentConfig(**VOCABULARIES, d_model=17, both_ways=False, scoring="scaled-dot", tie_embeddings="none"),
    RecurrentConfig(source_vocab_size=V, target_vocab_size=V + 6, d_model=22, tie_embeddings="target"),
    ConvolutionalConfig(**VOCABULARIES, d_model=17, n_encoder_layers=2, n_decoder_layers=3, width=5, n_positions=13),
    ConvolutionalConfig(**VOCABULARIES, d_model=19, width=3, tie_embeddings="none"),
    ConvolutionalConfig(**VOCABULARIES, d_model=13, n_encoder_layers=1, n_decoder_layers=1, width=1),
]
each_model = pytest.mark.parametrize("config", MODELS, ids=lambda config: f"{config.kind}-{config.d_model}")


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=5e-5)


def tiny(config: TranslationConfig) -> Any:
    """A model at rest whose biases differ from zero, so that none can be forgotten."""
    torch.manual_seed(1)
    build: Any = recurrent.build if isinstance(config, RecurrentConfig) else convolutional.build
    model = build(config).eval()
    assert isinstance(model, EncoderDecoder)
    return moved(model)


def batch() -> tuple[Tensor, Tensor]:
    torch.manual_seed(2)
    return torch.randint(V, (B, S)), torch.randint(V, (B, T))


@each_model
def test_step_by_step_equals_the_whole_target(config: TranslationConfig) -> None:
    model = tiny(config)
    source, target = batch()
    with torch.inference_mode():
        whole = model(source, LENGTHS, target)
        cache, step = model.encode(source, LENGTHS).contiguous(), model.lean_step()
        for t in range(T):
            logits, cache = step(target[:, t], cache)
            close(logits, whole[:, t])
        assert cache.length == T
        first, cache = model.decoder(target[:, :2], model.encode(source, LENGTHS))
        rest, _ = model.decoder(target[:, 2:], cache)
        close(model.output(torch.cat((first, rest), dim=1)), whole)


@each_model
def test_neighbours_and_padding_do_not_change_a_sentence(config: TranslationConfig) -> None:
    model = tiny(config)
    source, target = batch()
    with torch.inference_mode():
        together = model(source, LENGTHS, target)
        for b, length in enumerate(LENGTHS.tolist()):
            alone = model(source[b : b + 1, :length], LENGTHS[b : b + 1], target[b : b + 1])
            close(together[b : b + 1], alone)


@each_model
def test_prefixes_are_reordered_and_share_the_memory(config: TranslationConfig) -> None:
    """A beam of two whose prefixes change places, then one of three sentences ends."""
    model = tiny(config)
    source, target = batch()
    others = (target + 5) % V
    with torch.inference_mode():
        cache = model.encode(source, LENGTHS)
        _, cache = model.step(target[:, 0], cache)
        cache = cache.select(torch.tensor([0, 0, 1, 1, 2, 2]))
        assert len(cache.memory_mask) == B
        ids = torch.stack((target[:, 1], others[:, 1]), dim=1).flatten()
        _, cache = model.step(ids, cache)
        cache = cache.select(torch.tensor([1, 0, 5, 4]))  # sentences 0 and 2
        logits, _ = model.step(target[[0, 0, 2, 2], 2], cache)
        prefixes = torch.stack((target[:, 0], target[:, 1], target[:, 2]), dim=1)
        other_prefixes = torch.stack((target[:, 0], others[:, 1], target[:, 2]), dim=1)
        expected = [model(source, LENGTHS, ids)[:, -1] for ids in (other_prefixes, prefixes)]
    close(logits, torch.stack((expected[0][0], expected[1][0], expected[0][2], expected[1][2])))


@each_model
def test_the_future_does_not_change_the_past(config: TranslationConfig) -> None:
    model = tiny(config)
    source, target = batch()
    changed = target.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % V
    with torch.inference_mode():
        logits, other = model(source, LENGTHS, target), model(source, LENGTHS, changed)
    close(other[:, :4], logits[:, :4])
    assert (other[:, 4:] - logits[:, 4:]).abs().amax(-1).min() > 1e-3


@each_model
def test_every_parameter_learns(config: TranslationConfig) -> None:
    model = tiny(config)
    source, target = batch()
    model(source, LENGTHS, target).square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith("key.bias"):  # it moves all scores of a row alike, which softmax does not see
            assert parameter.grad.abs().max() > 0, name


@each_model
def test_training_with_padding_stays_finite_and_differs_by_dropout(config: TranslationConfig) -> None:
    model = tiny(config).train()
    source, target = batch()
    lengths = torch.tensor([11, 1, 2])
    first, second = model.hidden(source, lengths, target), model.hidden(source, lengths, target)
    assert (first - second).abs().max() > 0.01
    first.square().mean().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@each_model
def test_the_config_determines_the_model(config: TranslationConfig) -> None:
    again = from_dict(type(config), to_dict(config))
    assert again == config
    assert again.in_words()
    build: Any = recurrent.build if isinstance(config, RecurrentConfig) else convolutional.build
    with torch.device("meta"):
        model = build(again)
    assert model.state_dict().keys() == tiny(config).state_dict().keys()
    assert all(tensor.is_meta for tensor in model.state_dict().values())


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_both_ways_is_what_torch_makes_of_packed_sequences(cell: Any) -> None:
    """torch's own bidirectional recurrence, whose packed sequences end where they end."""
    D = 14
    model = tiny(RecurrentConfig(**VOCABULARIES, d_model=D, cell=cell, n_encoder_layers=2))
    kind = nn.LSTM if cell == "lstm" else nn.GRU
    theirs = kind(D, D // 2, num_layers=2, bidirectional=True, batch_first=True)
    ours = {}
    for number, layer in enumerate(model.encoder.layers):
        for way, suffix in ((layer.ahead, ""), (layer.back, "_reverse")):
            for name, tensor in way.layer.state_dict().items():
                ours[f"{name.removesuffix('_l0')}_l{number}{suffix}"] = tensor
    theirs.load_state_dict(ours)
    source, _ = batch()
    with torch.inference_mode():
        x = model.encoder.embedding(source)
        packed = nn.utils.rnn.pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
        expected, _ = nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
        real = torch.arange(S) < LENGTHS[:, None]
        memory = model.encoder(source, real[:, None, None])
    close(memory[real], expected[real])


@pytest.mark.parametrize("scoring", ["additive", "dot", "scaled-dot"])
def test_a_step_is_the_equation_of_the_papers(scoring: Any) -> None:
    """Bahdanau's score v · tanh(W s + U h) and Luong's sᵀ W h, then Luong's s̃ = tanh(W_c [c ; s]), term by term."""
    D = 6
    model = tiny(RecurrentConfig(**VOCABULARIES, d_model=D, scoring=scoring))
    source, target = batch()
    decoder, attention = model.decoder, model.decoder.attention
    with torch.no_grad():
        real = torch.arange(S) < LENGTHS[:, None]
        h_BSD = model.encoder(source, real[:, None, None])
        logits = model(source, LENGTHS, target[:, :1])
        for b, length in enumerate(LENGTHS.tolist()):
            h_SD = h_BSD[b, :length]
            s = torch.tanh(decoder.first.weight @ h_SD.mean(0) + decoder.first.bias)
            word = model.output.weight[target[b, 0]] * math.sqrt(D)
            layer = decoder.layers[0].layer
            gates = layer.weight_ih_l0 @ word + layer.bias_ih_l0 + layer.weight_hh_l0 @ s + layer.bias_hh_l0
            i, f, g, o = gates.chunk(4)
            s = o.sigmoid() * torch.tanh(f.sigmoid() * torch.zeros(D) + i.sigmoid() * g.tanh())
            query = attention.query.weight @ s + attention.query.bias
            keys_SD = h_SD @ attention.key.weight.T + attention.key.bias
            if scoring == "additive":
                scores_S = torch.stack([attention.scoring.direction[0] @ torch.tanh(query + key) for key in keys_SD])
            else:
                scores_S = keys_SD @ query / (math.sqrt(D) if scoring == "scaled-dot" else 1.0)
            weights_S = scores_S.exp() / scores_S.exp().sum()
            values_SD = h_SD @ attention.value.weight.T + attention.value.bias
            c = attention.output.weight @ (weights_S @ values_SD) + attention.output.bias
            joined = torch.tanh(decoder.joined.weight @ torch.cat((c, s)) + decoder.joined.bias)
            close(logits[b, 0], model.output.weight @ joined + model.output.bias)


def test_a_convolutional_layer_is_the_equation_of_the_paper() -> None:
    D, width = 5, 3
    config = ConvolutionalConfig(**VOCABULARIES, d_model=D, n_encoder_layers=1, n_decoder_layers=1, width=width)
    model = tiny(config)
    source, target = batch()
    half = math.sqrt(0.5)

    def gated(convolution: nn.Conv1d, window: list[Tensor]) -> Tensor:
        """Position by position: the window's vectors, each with its own matrix."""
        weight, bias = convolution.weight, convolution.bias
        assert bias is not None
        summed = bias + sum(weight[:, :, j] @ x for j, x in enumerate(window))
        return summed[:D] * summed[D:].sigmoid()

    with torch.no_grad():
        logits = model(source, LENGTHS, target)
        for b, length in enumerate(LENGTHS.tolist()):
            e = model.encoder.embedding(source[b : b + 1, :length])[0]
            padded = [torch.zeros(D), *e, torch.zeros(D)]
            convolution = model.encoder.convolutions[0].convolution
            z = torch.stack([half * (e[s] + gated(convolution, padded[s : s + 3])) for s in range(length)])
            g = model.decoder.embedding(target[b : b + 1])[0]
            before = [torch.zeros(D), torch.zeros(D), *g]
            layer = model.decoder.layers[0]
            for t in range(T):
                y = gated(layer.convolution.convolution, before[t : t + 3])
                query = layer.query.weight @ y + layer.query.bias + g[t]
                weights = (z @ query / math.sqrt(D)).softmax(0)
                c = math.sqrt(length) * sum(weights[s] * half * (z[s] + e[s]) for s in range(length))
                x = half * (g[t] + half * (y + c))
                close(logits[b, t], model.output.weight @ x + model.output.bias)


def test_a_convolution_sees_as_far_as_its_layers_reach() -> None:
    """Two layers of five positions see eight before; nothing else tells a position of the one nine before it."""
    config = ConvolutionalConfig(**VOCABULARIES, d_model=7, n_encoder_layers=1, n_decoder_layers=2, width=5)
    model = tiny(config)
    source, target = torch.randint(V, (1, S)), torch.randint(V, (1, 13))
    changed = target.clone()
    changed[0, 2] = (changed[0, 2] + 1) % V
    with torch.inference_mode():
        lengths = torch.tensor([S])
        moved = (model(source, lengths, target) - model(source, lengths, changed)).abs().amax(-1)[0]
    assert (moved > 1e-6).tolist() == [False, False, *[True] * 9, False, False]


def test_a_text_longer_than_the_learned_positions_is_an_error() -> None:
    config = ConvolutionalConfig(**VOCABULARIES, d_model=7, n_positions=5)
    assert config.longest_target == 4
    with pytest.raises(DataError, match="learned"):
        tiny(config)(torch.zeros(1, 6, dtype=torch.int64), torch.tensor([6]), torch.zeros(1, 2, dtype=torch.int64))


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (RecurrentConfig, {"d_model": 7}, "d_model = 7: must be even"),
        (RecurrentConfig, {"d_model": 8, "n_heads": 3}, "d_model = 8: must be a multiple of n_heads"),
        (RecurrentConfig, {"target_vocab_size": V + 1}, "tie_embeddings = 'all': 'all' needs one vocabulary"),
        (ConvolutionalConfig, {"width": 4}, "width = 4: must be an odd number"),
        (ConvolutionalConfig, {"target_vocab_size": V + 1}, "tie_embeddings = 'all': 'all' needs one vocabulary"),
    ],
)
def test_what_cannot_be_is_said(kind: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**{**VOCABULARIES, **settings})
