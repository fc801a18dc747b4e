"""What the files of a sentence encoder say of its vectors, as the `sentence-transformers` package writes them.

modules.json                what is done in turn: the encoder, pooling, perhaps bringing to length one
1_Pooling/config.json       how one vector is made of all
sentence_bert_config.json   how many pieces of a text are seen
"""

from collections.abc import Mapping
from typing import Any

from attendo.errors import ForeignError
from attendo.interop.architecture import Setting
from attendo.interop.folder import Folder
from attendo.models.settings import EncoderConfig

# They stand in `vector_files`.
SETTINGS = (
    Setting("text_vector", "text_vector", "mean", in_config=False),
    Setting("unit_vectors", "unit_vectors", False, in_config=False),
)

_MODULES = "modules.json"
_POOLING = "1_Pooling"
LENGTH = "sentence_bert_config.json"
# Theirs for what stands for a text, in older files and in newer ones.
_WORDS = {"first": ("cls_token", "cls"), "mean": ("mean_tokens", "mean")}


def with_vectors(folder: Folder, said: Mapping[str, Any]) -> dict[str, Any]:
    """What config.json says, and what the other files say of vectors; nothing where there are none."""
    if not folder.has(_MODULES):
        return dict(said)
    pooling, unit = "mean", False
    for module in _modules(folder):
        match str(module.get("type")).rpartition(".")[2]:
            case "Transformer":
                pass
            case "Pooling":
                pooling = _pooling(folder, f"{module.get('path')}/config.json")
            case "Normalize":
                unit = True
            case other:
                raise ForeignError(
                    f"{folder.path / _MODULES}: the module {other} is something that attendo has not: it knows "
                    "Transformer, Pooling and Normalize."
                )
    return {**said, "text_vector": pooling, "unit_vectors": unit}


def longest_sentence(folder: Folder) -> int | None:
    """How many pieces of a text such a model sees, control pieces included; None where nothing says."""
    length = folder.optional_json(LENGTH).get("max_seq_length")
    if length is not None and not (isinstance(length, int) and length > 2):
        raise ForeignError(f"{folder.path / LENGTH}: max_seq_length = {length!r} is no number of pieces.")
    return length


def vector_files(config: EncoderConfig) -> dict[str, Any]:
    """The files of a sentence encoder, by their names."""
    kind = "sentence_transformers.models."
    modules = [("", f"{kind}Transformer"), (_POOLING, f"{kind}Pooling")]
    if config.unit_vectors:
        modules.append(("2_Normalize", f"{kind}Normalize"))
    modes = {f"pooling_mode_{word}": config.text_vector == ours for ours, (word, _) in _WORDS.items()}
    return {
        _MODULES: [
            {"idx": number, "name": str(number), "path": path, "type": name}
            for number, (path, name) in enumerate(modules)
        ],
        f"{_POOLING}/config.json": {"word_embedding_dimension": config.d_model, **modes},
    }


def _modules(folder: Folder) -> list[dict[str, Any]]:
    found = folder.parsed(_MODULES)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ForeignError(f"{folder.path / _MODULES} must hold a list of modules. It is damaged.")
    return found


def _pooling(folder: Folder, name: str) -> str:
    values = folder.json(name)
    chosen = [key.removeprefix("pooling_mode_") for key in sorted(values) if "_mode_" in key and values[key] is True]
    chosen += [str(values["pooling_mode"])] if "pooling_mode" in values else []
    for ours, words in _WORDS.items():
        if len(chosen) == 1 and chosen[0] in words:
            return ours
    raise ForeignError(
        f"{folder.path / name}: a text's vector is made by {', '.join(chosen) or 'nothing'}, and attendo takes "
        "the first vector (cls_token) or the mean of all (mean_tokens)."
    )
