"""A bundle → ONNX graphs that onnxruntime and others run, with the tokenizer beside them.

A translator:

    encoder.onnx   source [B, S], source_mask [B, S] → memory_keys_0, memory_values_0, … [B, H, S, K]
    decoder.onnx   ids [B, T], source_mask, memory_…, past_keys_0, past_values_0, … [B, H, P, K]
                   → logits [B, T, V], present_keys_0, present_values_0, … [B, H, P + T, K]

A language model has a decoder.onnx without source and memory. An encoder has a model.onnx: ids [B, T], mask [B, T] and
segments [B, T] → vectors [B, T, D] and, where it tells what is hidden, logits [B, T, V]; or, of a classifier, logits
[B, L]. A classifier of pictures: pixels [B, C, Y, X] from 0 to 255 → logits [B, L].

config.json has the ids that one needs to know, and the names of all inputs and outputs. Those of an imported bundle are
the ids of the tokenizer that it came with, whose files are beside the graphs. The past is empty (P = 0) at
first, and then what the step before has given as present. Masks are 1 where something real is and 0 where padding is.

Suffixes: B batch, S source length, T new positions, P positions before them, H heads of keys, K head size, V vocabulary
size, D d_model, L labels, C channels, Y and X pixels down and across.
"""

import contextlib
import importlib.util
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attendo.bundle import Bundle, load_weights, plain_json
from attendo.classifier import labels_of
from attendo.data.text_batch import TextBatch
from attendo.errors import ConfigError, ForeignError
from attendo.interop.given_back import order_now, their_rows, tokenizer_files_now, typed_before
from attendo.interop.vocabulary import Order
from attendo.models.bert import Bert, Classifier
from attendo.models.family import build_model
from attendo.models.gpt import GPT
from attendo.models.settings import BertConfig, GPTConfig, LayerConfig, ModelConfig, TransformerConfig
from attendo.models.transformer import Transformer
from attendo.models.vision import VisionTransformer
from attendo.nn.cache import DecoderCache, KeysValues, LayerCache
from attendo.nn.positions import RotaryPositions, SinusoidalPositions, sinusoids
from attendo.storage import new_folder, require_new
from attendo.text.tokenizer import BOS, EOS, PAD, UNK

TABLE_POSITIONS = 4096  # of the tables that stand for positions without a limit
LARGEST_FILE = 1_500_000_000  # bytes of weights in one file; ONNX itself has no room for 2 GiB

Pairs = list[tuple[Tensor, Tensor]]  # the keys and values of each layer


def export_onnx(bundle: Bundle, out: Path) -> Path:
    """Writes the folder `out`, whole or not at all."""
    config = bundle.config.model
    if not isinstance(config, LayerConfig):
        raise ForeignError(
            f"--to onnx: {bundle.path} cannot be written so: its kind is '{config.kind}', and of attendo's models the "
            "Transformers are written as ONNX. Use --to attendo."
        )
    require_new(out)
    require_exporter()
    settings: ModelConfig = config
    weights = bundle.weights()
    order = order_now(bundle, weights)
    if order is None and not config.read_end:
        raise ForeignError(
            f"--to onnx: {bundle.path} cannot be written so: read_end is false, and graphs see all of a source."
        )
    if order is None:
        texts = {name: text.encode("utf-8") for name, text in (bundle.text.files() if bundle.text else {}).items()}
        about = _about(bundle)
    else:
        texts, about = tokenizer_files_now(bundle), {**_about(bundle), **_about_theirs(bundle, order)}
        settings, weights = their_rows(config, weights, order)
    model = build_model(settings)
    load_weights(model, weights, where=str(bundle.path))
    with new_folder(out) as folder:
        graphs = write_graphs(model, folder)
        for name, content in texts.items():
            (folder / name).write_bytes(content)
        (folder / "config.json").write_text(plain_json({**about, "graphs": graphs}), encoding="utf-8")
    return out


def require_exporter() -> None:
    """That the packages are there which torch needs for it."""
    lacking = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if lacking:
        raise ConfigError(f"--to onnx needs {' and '.join(lacking)}. Install with: pip install 'attendo[onnx]'")


# --- the graphs ----------------------------------------------------------------------------------------------------


def write_graphs(model: nn.Module, folder: Path) -> dict[str, dict[str, list[str]]]:
    """The graphs of a model into an existing folder → for each file the names of its inputs and outputs.

    The model's tables of positions are longer afterwards.
    """
    _extend_tables(model)
    graphs = list(_graphs(model.eval()))
    with torch.no_grad(), _quietly():
        for graph in graphs:
            graph.write(folder)
    return {graph.file: graph.names() for graph in graphs}


@dataclass(frozen=True)
class _Graph:
    """A module to be traced, with inputs of some size.

    inputs: the module's arguments in their order, by name: a tensor, or a list of keys and values.
    axes: which axes of each may have another size, and what they are called.
    outputs: their names, in the order in which the module gives them.
    """

    file: str
    module: nn.Module
    inputs: Mapping[str, Tensor | Pairs]
    axes: Mapping[str, Mapping[int, str]]
    outputs: Sequence[str]

    def names(self) -> dict[str, list[str]]:
        named = []
        for name, value in self.inputs.items():
            named += [name] if isinstance(value, Tensor) else _pair_names(name, len(value))
        return {"inputs": named, "outputs": list(self.outputs)}

    def write(self, folder: Path) -> None:
        n_bytes = sum(one.numel() * one.element_size() for one in self.module.parameters())
        shapes = {
            name: self.axes[name] if isinstance(value, Tensor) else [(self.axes[name],) * 2 for _ in value]
            for name, value in self.inputs.items()
        }
        torch.onnx.export(
            self.module,
            tuple(self.inputs.values()),
            folder / self.file,
            dynamo=True,
            dynamic_shapes=tuple(shapes.values()),
            input_names=self.names()["inputs"],
            output_names=list(self.outputs),
            external_data=n_bytes > LARGEST_FILE,
            verbose=False,
        )


def _graphs(model: nn.Module) -> Iterator[_Graph]:
    """Sizes are primes that no size of a model is likely to equal: torch takes equal ones for the same."""
    B, S, T, P = 11, 13, 17, 19
    ids_BT = torch.full((B, T), EOS)
    row = {0: "batch", 1: "length"}
    source, past = {0: "batch", 1: "source_length"}, {0: "batch", 2: "past_length"}
    match model:
        case Transformer():
            n_layers, config = model.config.n_decoder_layers, model.config
            reading = {"source": torch.full((B, S), EOS), "source_mask": torch.ones(B, S, dtype=torch.int64)}
            memory = _pair_names("memory", n_layers)
            yield _Graph("encoder.onnx", _Reading(model), reading, dict.fromkeys(reading, source), memory)
            yield _Graph(
                "decoder.onnx",
                _Translating(model),
                {
                    "ids": ids_BT,
                    "source_mask": reading["source_mask"],
                    "memory": _pairs(config, n_layers, B, S),
                    "past": _pairs(config, n_layers, B, P),
                },
                {"ids": row, "source_mask": source, "memory": {0: "batch", 2: "source_length"}, "past": past},
                ["logits", *_pair_names("present", n_layers)],
            )
        case GPT():
            n_layers = model.config.n_layers
            yield _Graph(
                "decoder.onnx",
                _Continuing(model),
                {"ids": ids_BT, "past": _pairs(model.config, n_layers, B, P)},
                {"ids": row, "past": past},
                ["logits", *_pair_names("present", n_layers)],
            )
        case Bert() | Classifier():
            inputs = {"ids": ids_BT, "mask": torch.ones_like(ids_BT), "segments": torch.zeros_like(ids_BT)}
            outputs = ["vectors", *(["logits"] if model.head else [])] if isinstance(model, Bert) else ["logits"]
            yield _Graph("model.onnx", _Understanding(model), inputs, dict.fromkeys(inputs, row), outputs)
        case VisionTransformer():
            picture = model.config
            pixels_BCYX = torch.zeros(B, len(picture.mean), picture.height, picture.width)
            yield _Graph("model.onnx", model, {"pixels": pixels_BCYX}, {"pixels": {0: "batch"}}, ["logits"])
        case _:
            raise TypeError(f"{type(model).__name__} has no graph.")


def _pair_names(name: str, n_layers: int) -> list[str]:
    return [f"{name}_{what}_{number}" for number in range(n_layers) for what in ("keys", "values")]


def _pairs(config: TransformerConfig | GPTConfig, n_layers: int, n_rows: int, length: int) -> Pairs:
    """Keys and values of so many positions."""
    n_heads = config.n_key_heads or config.n_heads
    sizes = (config.key_size, config.value_size)
    return [
        (torch.zeros(n_rows, n_heads, length, sizes[0]), torch.zeros(n_rows, n_heads, length, sizes[1]))
        for _ in range(n_layers)
    ]


class _Reading(nn.Module):
    """The source → the keys and values of the memory, for each layer of the decoder."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_mask: Tensor) -> list[Tensor]:
        mask_B11S = source_mask.bool()[:, None, None]
        cache = self.model.decoder.start(self.model.encoder(source, mask_B11S), mask_B11S)
        return _flat([layer.memory for layer in cache.layers])


class _Translating(nn.Module):
    """The next ids of a target → logits, and the longer past."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, source_mask: Tensor, memory: Pairs, past: Pairs) -> list[Tensor]:
        layers = [LayerCache(KeysValues(*own), KeysValues(*read)) for own, read in zip(past, memory, strict=True)]
        return _stepped(self.model, ids, layers, source_mask.bool()[:, None, None])


class _Continuing(nn.Module):
    """The next ids of a text → logits, and the longer past."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, past: Pairs) -> list[Tensor]:
        layers = [LayerCache(KeysValues(*own)) for own in past]
        return _stepped(self.model, ids, layers, ids.new_ones(ids.shape[0], 1, 1, 0).bool())


def _stepped(model: Transformer | GPT, ids_BT: Tensor, layers: list[LayerCache], mask_B11S: Tensor) -> list[Tensor]:
    assert layers[0].past is not None
    cache = DecoderCache(tuple(layers), mask_B11S, layers[0].past.keys_NHTK.shape[2])
    vectors_BTD, longer = model.decoder(ids_BT, cache)
    return [model.output(vectors_BTD), *_flat([layer.past for layer in longer.layers])]


def _flat(several: Sequence[KeysValues | None]) -> list[Tensor]:
    return [tensor for one in several if one is not None for tensor in (one.keys_NHTK, one.values_NHTK)]


class _Understanding(nn.Module):
    """A text → what an encoder tells of it."""

    def __init__(self, model: Bert | Classifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor, segments: Tensor) -> list[Tensor]:
        batch = TextBatch(ids_BT=ids, lengths_B=mask.sum(1), segments_BT=segments)
        if isinstance(self.model, Classifier):
            return [self.model(batch)]
        vectors_BTD = self.model.vectors(batch)
        return [vectors_BTD, *([self.model.logits(vectors_BTD)] if self.model.head else [])]


def _extend_tables(model: nn.Module) -> None:
    """Tables of positions, which grow by themselves here, are as long as they will ever be in a graph."""
    for part in model.modules():
        if isinstance(part, SinusoidalPositions):
            part.table = sinusoids(TABLE_POSITIONS, part.table.shape[1], layout=part.layout)
        elif isinstance(part, RotaryPositions):
            part.table = sinusoids(TABLE_POSITIONS, part.table.shape[1], layout="halves", base=part.base)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without what torch tells its own developers."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


# --- what is beside them -------------------------------------------------------------------------------------------


def _about(bundle: Bundle) -> dict[str, Any]:
    """What one has to know to call the graphs."""
    config = bundle.config.model
    assert isinstance(config, LayerConfig)
    about: dict[str, Any] = {"kind": config.kind, "task": bundle.config.task, "n_positions": _n_positions(config)}
    if bundle.text is not None:
        about["ids"] = {"pad": PAD, "bos": BOS, "eos": EOS, "unk": UNK}
    if isinstance(config, BertConfig):
        about["ids"]["mask"] = bundle.tokenizers.source.vocab_size
    if isinstance(config, TransformerConfig | GPTConfig):  # ids that attendo's own search leaves out
        size = config.target_vocab_size if isinstance(config, TransformerConfig) else config.vocab_size
        about["never"] = [PAD, BOS, UNK, *range(size - config.n_extra, size)]
    if isinstance(config, TransformerConfig):
        about |= {"prompt": "", "prefix": []}  # what comes before a source, in words, and after <s> of a target
    if bundle.languages is not None:
        about["languages"] = list(bundle.languages)
    if bundle.config.task in ("classify", "classify-images"):
        about["labels"] = labels_of(bundle)
    return about


def _about_theirs(bundle: Bundle, order: Order) -> dict[str, Any]:
    """What is otherwise where a bundle was imported: the ids, and the model that their tokenizer is of."""
    config, kept = bundle.config.model, bundle.interop()["config"]
    ids = dict(zip(("pad", "bos", "eos", "unk"), order.first, strict=True))
    if ids["pad"] is None:  # it is one of the others, if there is any
        ids["pad"] = kept.get("pad_token_id")
    about: dict[str, Any] = {"ids": ids, "model_type": kept["model_type"]}
    if isinstance(config, BertConfig):
        ids["mask"] = order.last[0]
    elif isinstance(config, GPTConfig):
        about["never"] = []
    elif isinstance(config, TransformerConfig):
        rows = [order.rows[id] for id in (PAD, BOS, UNK)]
        never = {row for row in rows if row is not None and row != order.rows[EOS]}
        prefix = [order.rows[id] for id in bundle.tokenizers.target.before]
        about |= {"never": sorted(never), "prompt": typed_before(bundle), "prefix": prefix}
    return about


def _n_positions(config: LayerConfig) -> int | None:
    """How many positions a graph reaches; None is any number."""
    if config.longest_target is not None:
        return config.longest_target + 1
    return TABLE_POSITIONS if config.positions.startswith("sinusoidal") or config.positions == "rotary" else None
