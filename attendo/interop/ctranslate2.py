"""A bundle → a folder that the `ctranslate2` package loads by itself, with the tokenizer beside it.

    model.bin, config.json, source_vocabulary.json, target_vocabulary.json   what CTranslate2 loads
    tokenizer.json                                                           what the `tokenizers` package loads
    README.md                                                                how to call the two

Where each side has a tokenizer of its own, they are tokenizer.source.json and tokenizer.target.json. An imported
tokenizer is there as the files that it came with, which `transformers` loads, and the model has their names of pieces.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from attendo.bundle import Bundle
from attendo.engines.ctranslate2_limits import representable
from attendo.engines.engine import Precision
from attendo.errors import ForeignError
from attendo.models.settings import TransformerConfig
from attendo.storage import new_folder, require_new

if TYPE_CHECKING:
    from attendo.text.tokenizer import Tokenizer

_README = """\
In this folder, with `pip install ctranslate2 tokenizers` and a `text` of one sentence:

    import ctranslate2, tokenizers; source, target = map(tokenizers.Tokenizer.from_file, {files})
    found = ctranslate2.Translator(".").translate_batch([source.encode(text).tokens], beam_size=5)[0].hypotheses[0]
    print(target.decode([target.token_to_id(piece) for piece in found]))
"""


_IMPORTED = """\
In this folder, with `pip install ctranslate2 transformers sentencepiece` and a `text` of one sentence:

    import ctranslate2, transformers; tokenizer = transformers.AutoTokenizer.from_pretrained(".")
    pieces = tokenizer.convert_ids_to_tokens(tokenizer({text}).input_ids)
    found = ctranslate2.Translator(".").translate_batch([pieces], {prefix}beam_size=5)[0].hypotheses[0]{rest}
    print(tokenizer.decode(tokenizer.convert_tokens_to_ids(found), skip_special_tokens=True))
"""


def export_ctranslate2(bundle: Bundle, out: Path, *, precision: Precision = "float32") -> Path:
    """Writes the folder `out`, whole or not at all."""
    config = require_ctranslate2(bundle, "ctranslate2")
    require_new(out)
    if is_imported(bundle):
        return _export_imported(bundle, config, out, precision)
    files = bundle.tokenizers.files()
    with new_folder(out) as folder:
        write_ctranslate2(bundle, config, folder, precision=precision)
        for name, text in files.items():
            (folder / name).write_bytes(text.encode("utf-8"))
        named = (*files, *files)[:2]  # a joint one is both
        (folder / "README.md").write_text(_README.format(files=named), encoding="utf-8")
    return out


def is_imported(bundle: Bundle) -> bool:
    """Whether the tokenizer is one of theirs."""
    return "imported" in (bundle.tokenizers.source.kind, bundle.tokenizers.target.kind)


def require_ctranslate2(bundle: Bundle, target: str) -> TransformerConfig:
    """The settings of a translator that CTranslate2 can run."""
    config = bundle.require("translate", verb=f"export --to {target}").config.model
    if isinstance(config, TransformerConfig) and is_imported(bundle):
        config = dataclasses.replace(config, read_end=True)  # their tokenizer gives all that is to be seen, and no more
    if reason := representable(config):
        raise ForeignError(
            f"--to {target}: {bundle.path} cannot be written so: {reason}. Use --to onnx or --to attendo."
        )
    assert isinstance(config, TransformerConfig)  # others are not representable
    return config


def write_ctranslate2(bundle: Bundle, config: TransformerConfig, folder: Path, *, precision: Precision) -> None:
    """The model alone, into an existing folder, with the pieces of the bundle's tokenizers as its tokens."""
    from attendo.engines.ctranslate2_model import Pieces, write_model

    weights, _ = bundle.arrays()
    pieces = Pieces(_all_pieces(bundle.tokenizers.source), _all_pieces(bundle.tokenizers.target))
    write_model(config, weights, folder, pieces=pieces, precision=precision)


def _all_pieces(tokenizer: "Tokenizer") -> list[str]:
    return tokenizer.pieces(range(tokenizer.vocab_size))


def _export_imported(bundle: Bundle, config: TransformerConfig, out: Path, precision: Precision) -> Path:
    """In their pieces. Which of them has which id only the two files of this folder need to agree about, so that the
    ids are ours."""
    from attendo.engines.ctranslate2_model import Pieces, write_model
    from attendo.interop.given_back import their_pieces, tokenizer_files_now, typed_before

    names, typed = their_pieces(bundle), typed_before(bundle)
    prefix = [names[id] for id in bundle.tokenizers.target.before]
    pieces = Pieces(names, names, model_type=bundle.interop()["config"]["model_type"])
    weights, _ = bundle.arrays()
    with new_folder(out) as folder:
        write_model(config, weights, folder, pieces=pieces, precision=precision)
        for name, content in tokenizer_files_now(bundle).items():
            (folder / name).write_bytes(content)
        said = {
            "text": f"{typed!r} + text" if typed else "text",
            "prefix": f"target_prefix=[{prefix}], " if prefix else "",
            "rest": f"[{len(prefix)}:]" if prefix else "",
        }
        (folder / "README.md").write_text(_IMPORTED.format(**said), encoding="utf-8")
    return out
