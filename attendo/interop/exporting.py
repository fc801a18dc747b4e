"""A bundle → a Hugging Face folder, which `transformers` loads with no code of ours.

    config.json, model.safetensors      the model, as one of the architectures
    generation_config.json              ids, and what may not be chosen: `generate` gives attendo's greedy translation
    tokenizer.json, …                   the tokenizer, or the files that an imported one came with
    preprocessor_config.json            for pictures

An imported model goes back to what it was. One that was trained here becomes the first architecture that it is one of.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from attendo.bundle import Bundle, Weights, plain_json
from attendo.drafting import EXTRA_LENGTH
from attendo.engines.ctranslate2_model import added_positions
from attendo.errors import ForeignError
from attendo.interop.architecture import Architecture, Given, Orders
from attendo.interop.architectures import ARCHITECTURES
from attendo.interop.given_back import START, order_now, tokenizer_files_now, with_settings
from attendo.interop.importing import order_of_bundle
from attendo.interop.labels import label_names, labels_in
from attendo.interop.our_tokenizer import Around, tokenizer_files
from attendo.interop.stacks import N_POSITIONS
from attendo.interop.their_tokenizer import SETTINGS
from attendo.interop.vocabulary import Order
from attendo.models.settings import EncoderConfig, GPTConfig, ModelConfig, TransformerConfig
from attendo.nn.positions import sinusoids
from attendo.recipe import TaskName
from attendo.storage import new_folder, require_new
from attendo.text.tokenizer import BOS, EOS, PAD, UNK

# What stands around a text of each task.
_AROUND: Mapping[TaskName, Around] = {
    "translate": "source",
    "denoise": "source",
    "language-model": "continued",
    "masked-language-model": "masked",
    "classify": "read",
}


@dataclasses.dataclass(frozen=True)
class _Export:
    """What there is to write."""

    architecture: Architecture
    config: ModelConfig
    weights: Weights
    orders: Orders | None
    said: Mapping[str, Any]  # what config.json says beyond the architecture's table
    generation: Mapping[str, Any]
    files: Mapping[str, bytes]  # of the tokenizer


def export_huggingface(bundle: Bundle, out: Path) -> Architecture:
    """Writes the folder, and tells what the model is there."""
    require_new(out)
    export = _given_back(bundle) if order_of_bundle(bundle) or bundle.interop() else _made(bundle)
    architecture, config, orders = export.architecture, export.config, export.orders
    said: Mapping[str, Any] = bundle.interop().get("config", {})
    # What is usual, what was read with the model, what its settings say now, and last what has to be so.
    settings = {
        **architecture.usual(config),
        **{key: value for key, value in said.items() if key != "torch_dtype"},  # the old name of dtype
        **architecture.their_settings(config, orders),
        **export.said,
        "dtype": "float32",  # of the tensors, whatever was read
    }
    texts = {"config.json": settings, **architecture.files(config)}
    if export.generation:
        texts["generation_config.json"] = dict(export.generation)
    tensors = architecture.their_weights(config, export.weights, orders, settings)
    with new_folder(out) as folder:
        jsons = {name: plain_json(values).encode("utf-8") for name, values in texts.items()}
        for name, content in {**export.files, **jsons}.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        (folder / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))
    return architecture


# --- imported models -------------------------------------------------------------------------------------------------


def _given_back(bundle: Bundle) -> _Export:
    """An imported model, perhaps trained on, as what it was."""
    kept, config, weights = bundle.interop(), bundle.config.model, bundle.weights()
    architecture = _architecture_now(kept, config)
    order, said, generation = order_now(bundle, weights), _labels(bundle), dict(kept["generation"] or {})
    if order is None:
        return _Export(architecture, config, weights, None, said, generation, {})
    ids: dict[str, Any] = {}
    files = tokenizer_files_now(bundle)
    if isinstance(config, TransformerConfig):
        ids["decoder_start_token_id"] = order.first[BOS]
        if bundle.tokenizers.target.before:
            ids["forced_bos_token_id"] = order.rows[bundle.tokenizers.target.before[0]]
    if order.size > kept["order"]["size"]:  # what decoding starts from has a row of its own
        never = (generation or kept["config"]).get("suppress_tokens") or []
        # What may not come is in one file: `generate` looks at config.json only where the other is missing.
        (generation or said)["suppress_tokens"] = [*never, order.first[BOS]]
        if any(isinstance(entry, Given) and entry.ours == "output.bias" for entry in architecture.entries(config)):
            weights["output.bias"][BOS] = 0  # they have nothing but `suppress_tokens` to keep it from being chosen
        files = _with_start(files, order.size - 1)
    if generation:
        generation |= ids
    said |= ids
    orders = Orders(order, order)
    return _Export(architecture, config, weights, orders, said, generation, files)


def _architecture_now(kept: Mapping[str, Any], config: ModelConfig) -> Architecture:
    """What it came as, or, where it was made something else, as a classifier of an encoder, its kin that is such."""
    kin = [one for one in ARCHITECTURES if one.model_type == kept["config"]["model_type"]]
    kin.sort(key=lambda one: one.class_name != kept["architecture"])
    compared = [(one, list(one.differences(config))) for one in kin]
    for one, reasons in compared:
        if not reasons:
            return one
    raise _no_counterpart(compared)


def _no_counterpart(compared: Sequence[tuple[Architecture, list[str]]]) -> ForeignError:
    """The complaint that names what stands in the way of the architecture that is nearest."""
    nearest, reasons = min(compared, key=lambda one: len(one[1]))
    return ForeignError(
        f"transformers has no model that is this one. The nearest is {nearest.class_name}: {nearest.name} has not "
        f"{', nor '.join(reasons)}. Export to another format."
    )


def _with_start(files: dict[str, bytes], row: int) -> dict[str, bytes]:
    """The tokenizer's files with a name for the row that decoding starts from.

    A tokenizer.json numbers its pieces without gaps, so that it has no name for the row; what it has no name for, it
    leaves out of a text, as it does special pieces.
    """
    if "tokenizer.json" in files:
        return files
    settings = json.loads(files[SETTINGS]) if SETTINGS in files else {}
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    known, special = settings.get("added_tokens_decoder", {}), settings.get("extra_special_tokens", [])
    named = {
        "added_tokens_decoder": {**known, str(row): {"content": START, **flags}},
        "extra_special_tokens": [*special, START],
    }
    return with_settings(files, named)


# --- models that were trained here -----------------------------------------------------------------------------------


def _made(bundle: Bundle) -> _Export:
    """A model that was trained here, as the first architecture that it is one of."""
    longest = bundle.config.data.max_length
    limit = longest + EXTRA_LENGTH
    n_positions = max(N_POSITIONS, limit + 2)  # <s> and </s> counted
    architecture, config, weights = counterpart(bundle.config.model, bundle.weights(), n_positions=n_positions)
    if bundle.text is None:
        return _Export(architecture, config, weights, None, _labels(bundle), {}, {})
    pad, bos, eos, unk = controls = _controls(architecture, config)
    orders = _orders(architecture, config, controls)
    ids = {"pad_token_id": pad, "bos_token_id": bos, "eos_token_id": eos}
    encoder = config if isinstance(config, EncoderConfig) else None
    files = tokenizer_files(
        bundle.text,
        around=_AROUND[bundle.config.task],
        max_length=longest,
        controls=controls,
        n_separators=1 if encoder is None else encoder.n_separators,
        n_segments=0 if encoder is None else encoder.n_segments,
    )
    generation: dict[str, Any] = {}
    more: dict[str, Any] = {}
    if isinstance(config, TransformerConfig):
        ids["decoder_start_token_id"] = bos
        limit = limit if config.longest_target is None else min(limit, config.longest_target)
        generation = {**ids, "num_beams": 1, "do_sample": False, "max_length": limit + 2}
        if "max_position_embeddings" in architecture.usual(config):  # sinusoids, which there have an end
            more = {"max_position_embeddings": n_positions}
        # Their cache has as many layers as the encoder, so that a deeper decoder has to do without it.
        if config.n_decoder_layers > config.n_encoder_layers:
            generation["use_cache"] = False
    elif isinstance(config, GPTConfig):
        generation = dict(ids)
        more = {} if config.positions == "learned" else {"max_position_embeddings": longest}
    if generation:
        hidden = range(bundle.text.target.vocab_size, orders.target.size)
        generation["suppress_tokens"] = [pad, bos, unk, *hidden]
    return _Export(architecture, config, weights, orders, {**ids, **more, **_labels(bundle)}, generation, files)


def _sizes(architecture: Architecture) -> tuple[str, str]:
    """The settings of ours that are the sizes of the source's and the target's vocabulary."""
    named = {side: name for name, side, _ in architecture.vocabularies}
    return named["source"], named.get("target", named["source"])


def _orders(architecture: Architecture, config: ModelConfig, controls: tuple[int, int, int, int]) -> Orders:
    """Every id is what it is, but for those of the control pieces."""
    return Orders(*(Order(first=controls, last=(), size=getattr(config, name)) for name in _sizes(architecture)))


def _controls(architecture: Architecture, config: ModelConfig) -> tuple[int, int, int, int]:
    """The ids that <pad>, <s>, </s> and <unk> have there: ours, but where the padding has to be what <s> is here.

    So it is where positions are counted from the padding's id on (M2M100, RoBERTa).
    """
    ours = PAD, BOS, EOS, UNK
    match architecture.their_settings(config, _orders(architecture, config, ours)).get("pad_token_id", PAD):
        case 0:
            return ours
        case 1:
            return BOS, PAD, EOS, UNK
        case other:
            raise ForeignError(
                f"{architecture.name} has its padding where its positions begin, at {other} for this model, which is "
                "the id of something else: only model.position_offset = 0, 1 and 2 can be exported."
            )


def counterpart(
    config: ModelConfig, weights: Weights, *, n_positions: int
) -> tuple[Architecture, ModelConfig, Weights]:
    """The architecture that a model is one of, and the model, perhaps put down in another way that computes the same.

    n_positions: how many there are to be where positions that have no end become a table.
    """
    twins = [(config, weights)]
    if isinstance(config, TransformerConfig) and config.positions == "sinusoidal-concatenated":
        twins.append(_positions_added(config, weights, n_positions))
    if isinstance(config, TransformerConfig) and (config.positions, config.sinusoid_layout) == (
        "sinusoidal",
        "interleaved",
    ):
        twins.append((dataclasses.replace(config, sinusoid_layout="halves"), _sines_first(weights, config.d_model)))
    same_kind = [one for one in ARCHITECTURES if isinstance(config, one.kind)]
    if not same_kind:
        raise ForeignError(f"model.kind = '{config.kind}': transformers has no such model. Export to another format.")
    compared = []
    for settings, tensors in twins:
        for architecture in same_kind:
            reasons = list(architecture.differences(settings))
            if not reasons:
                return architecture, settings, tensors
            compared.append((architecture, reasons))
    raise _no_counterpart(compared)


def _positions_added(config: TransformerConfig, weights: Weights, n_positions: int) -> tuple[ModelConfig, Weights]:
    """The same model with a table of positions that is added: what stands beside the words is multiplied out.

    Each side has a matrix of its own for that, so words have other vectors in the source, the target and the output.
    """
    table_TD = sinusoids(n_positions, config.d_model, layout=config.sinusoid_layout).numpy()
    size = math.sqrt(config.d_model) if config.embedding_scale == "root" else 1.0
    source_VD = weights["encoder.embedding.weight"]  # what is tied stands under the name that is met first
    target_VD = weights.get("decoder.embedding.weight", source_VD)
    made = {name: tensor for name, tensor in weights.items() if ".embedding.positions." not in name}
    made["output.weight"] = weights.get("output.weight", target_VD)
    for side, embedding_VD in (("encoder", source_VD), ("decoder", target_VD)):
        place = f"{side}.embedding.positions"
        learned = (weights[f"{place}.projection.{name}"].numpy() for name in ("weight", "bias"))
        added = added_positions((size * embedding_VD).numpy(), table_TD, *learned)
        made[f"{side}.embedding.weight"], made[f"{place}.weight"] = map(torch.from_numpy, added)
    parts: dict[str, Any] = {"positions": "learned", "n_positions": n_positions, "position_offset": 0}
    return dataclasses.replace(config, **parts, embedding_scale="one", tie_embeddings="none"), made


def _sines_first(weights: Weights, d_model: int) -> Weights:
    """The same model with its d_model features in another order: those that sines are added to before the others.

    Nothing but the sinusoids knows which feature is which, so with sinusoids in that order all results are the same.
    """
    order_D = torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))
    return {name: _reordered(name, tensor, order_D) for name, tensor in weights.items()}


def _reordered(name: str, tensor: Tensor, order_D: Tensor) -> Tensor:
    owner = name.rpartition(".")[0]
    part = owner.rpartition(".")[2]
    reads = part in ("query", "key", "value", "inner", "gate", "embedding") or owner == "output"
    if reads:  # its columns are features; a bias is of what it gives
        return tensor[:, order_D] if tensor.dim() == 2 else tensor
    return tensor[order_D]  # what gives features: rows, or a norm


def _labels(bundle: Bundle) -> dict[str, Any]:
    """What config.json says of the labels, unless they are those that the model came with."""
    labels, came_with = bundle.data().get("labels"), bundle.interop().get("config")
    if labels is None or (came_with is not None and labels_in(came_with) == labels):
        return {}
    return label_names(labels)
