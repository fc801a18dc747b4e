"""What an imported bundle has of theirs, for every format it is written in.

Their order of the ids, their names of the pieces, the files of their tokenizer, and what has to be typed before a text.
"""

import dataclasses
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from attendo.bundle import Bundle, Weights, plain_json
from attendo.interop.folder import Folder
from attendo.interop.importing import order_of_bundle, their_files
from attendo.interop.their_tokenizer import SETTINGS, read_their_tokenizer
from attendo.interop.usage import BY_LANGUAGE, TYPED
from attendo.interop.vocabulary import Order
from attendo.models.settings import ModelConfig, TransformerConfig
from attendo.text.tokenizer import BOS

START = "<start>"  # the name of what decoding starts from, where that is none of their pieces

# The tensors with a row, or a number, for each id.
_ROWS = ("encoder.embedding.weight", "decoder.embedding.weight", "output.weight")
_BIAS = "output.bias"


def order_now(bundle: Bundle, weights: Weights) -> Order | None:
    """The order of the ids that the model has there; None where nothing has an id of theirs.

    What decoding starts from may have been a copy of another piece. Where training has made something else of it, it
    needs a row of its own, the last.
    """
    order = order_of_bundle(bundle)
    if order is None or not isinstance(bundle.config.model, TransformerConfig):
        return order
    row = order.rows[BOS]
    if row is None or order.back[row] == BOS:
        return order
    matrices = [weights[name] for name in _ROWS if name in weights]
    if all(torch.equal(one[BOS], one[order.back[row]]) for one in matrices):
        return order
    pad, _, eos, unk = order.first
    return Order(first=(pad, order.size, eos, unk), last=order.last, size=order.size + 1)


def their_rows(config: ModelConfig, weights: Weights, order: Order) -> tuple[ModelConfig, Weights]:
    """The same model with their ids for ours."""
    sizes = [field.name for field in dataclasses.fields(config) if field.name.endswith("vocab_size")]
    changed = {name: order.theirs(weights[name]) for name in (*_ROWS, _BIAS) if name in weights}
    return dataclasses.replace(config, **dict.fromkeys(sizes, order.size)), {**weights, **changed}  # type: ignore[arg-type]


def their_pieces(bundle: Bundle) -> list[str]:
    """What their tokenizer calls each of our ids; what it has no name for has one that no text has."""
    order, names = order_of_bundle(bundle), _names(bundle)
    assert order is not None
    return [
        f"<none {place}>"
        if row is None
        else START
        if order.back[row] != place  # a copy
        else names.get(row, f"<unused {row}>")
        for place, row in enumerate(order.rows)
    ]


def typed_before(bundle: Bundle) -> str:
    """What attendo puts before a source by itself, and their tokenizer does not."""
    source = bundle.tokenizers.source
    if bundle.interop()["config"]["model_type"] not in TYPED or not source.before:
        return ""
    return (source.decode(source.before) or "".join(source.pieces(source.before))) + " "


def tokenizer_files_now(bundle: Bundle) -> dict[str, bytes]:
    """The tokenizer's files, set to the languages that the model was imported for."""
    files, languages = their_files(bundle), _languages(bundle)
    return with_settings(files, languages) if languages else files


def with_settings(files: Mapping[str, bytes], settings: Mapping[str, Any]) -> dict[str, bytes]:
    """A tokenizer's files, whose settings say something more."""
    said = json.loads(files[SETTINGS]) if SETTINGS in files else {}
    return {**files, SETTINGS: plain_json({**said, **settings}).encode("utf-8")}


def _languages(bundle: Bundle) -> dict[str, Any]:
    """What a tokenizer of many languages is told of the two that the model was imported for."""
    kind = bundle.interop()["config"]["model_type"]
    if kind not in BY_LANGUAGE:
        return {}
    source, target, pieces = bundle.tokenizers.source, bundle.tokenizers.target, their_pieces(bundle)
    # A source ends with its language where it does not begin with it, and a target begins with it, if only as <s>.
    languages = ((source.before or source.encode(""))[-1], (target.before or (BOS,))[0])
    return {key: BY_LANGUAGE[kind](pieces[id]) for key, id in zip(("src_lang", "tgt_lang"), languages, strict=True)}


def _names(bundle: Bundle) -> Mapping[int, str]:
    """The piece of each id of theirs, from the files that the bundle keeps."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in their_files(bundle).items():
            (Path(folder) / name).write_bytes(content)
        theirs = read_their_tokenizer(Folder(Path(folder), bundle.interop()["config"]))
    return {id: piece for piece, id in theirs.ids.items()}
