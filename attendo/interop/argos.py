"""A bundle → an `.argosmodel` file, which the `argostranslate` package installs and translates with.

It is a zip archive of one folder:

    metadata.json         the languages
    model/                what `ctranslate2` loads
    sentencepiece.model   the source's tokenizer; what the target's spells is read from the pieces themselves
    README.md

Sentences are cut by argostranslate, which fetches what it needs for that (MiniSBD) when it first translates.
"""

import io
import json
import re
import tempfile
import zipfile
from pathlib import Path

from attendo.bundle import Bundle
from attendo.engines.engine import Precision
from attendo.errors import ConfigError, ForeignError
from attendo.interop.ctranslate2 import is_imported, require_ctranslate2, write_ctranslate2
from attendo.interop.our_tokenizer import sentencepiece_model
from attendo.storage import require_new, write_file
from attendo.text.language_names import language_name

SUFFIX = ".argosmodel"
ARGOS_VERSION = "1.11"  # the first with MiniSBD
PACKAGE_VERSION = "1.0"

_README = """\
# {from_name} → {to_name}

Trained with attendo. Install this package with

    python -c "import argostranslate.package as p; p.install_from_path('{file}')"

and translate with `argos-translate --from {from_code} --to {to_code} "…"`.
"""


def export_argos(
    bundle: Bundle, out: Path, *, languages: tuple[str, str] | None = None, precision: Precision = "float32"
) -> Path:
    """Writes the file `out`, whole or not at all. languages: codes such as en and de, if the bundle does not say."""
    config = require_ctranslate2(bundle, "argos")
    if is_imported(bundle):
        raise ForeignError(
            f"--to argos: {bundle.path} has an imported tokenizer. Argos Translate cuts texts with a SentencePiece "
            "file, which attendo makes of its own tokenizers alone. Use --to ctranslate2."
        )
    if out.suffix != SUFFIX:
        raise ConfigError(f"--out {out}: Argos Translate knows its packages by the ending {SUFFIX}. Use {out}{SUFFIX}.")
    require_new(out)
    codes = languages or bundle.languages
    if codes is None:
        raise ConfigError(
            f"{bundle.path} does not say which languages it translates. Use --languages en de, or others."
        )
    for code in codes:
        if not re.fullmatch("[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*", code):
            raise ConfigError(f"--languages {' '.join(codes)}: {code!r} is no language code, such as en or pt-BR.")
    kinds = {bundle.tokenizers.source.kind, bundle.tokenizers.target.kind}
    if "wordpiece" in kinds:
        raise ForeignError(
            f"--to argos: {bundle.path} has a WordPiece tokenizer, which SentencePiece cannot be made to cut like. Use "
            "--to ctranslate2, or train with tokenizer.kind=bpe."
        )
    about = {
        "package_version": PACKAGE_VERSION,
        "argos_version": ARGOS_VERSION,
        "from_code": codes[0],
        "from_name": language_name(codes[0]),
        "to_code": codes[1],
        "to_name": language_name(codes[1]),
    }
    files = {
        "metadata.json": json.dumps(about, indent=2).encode("utf-8"),
        "README.md": _README.format(**about, file=out.name).encode("utf-8"),
        "sentencepiece.model": sentencepiece_model(bundle.tokenizers.source),
    }
    with tempfile.TemporaryDirectory() as folder:
        write_ctranslate2(bundle, config, Path(folder), precision=precision)
        files |= {f"model/{path.name}": path.read_bytes() for path in sorted(Path(folder).iterdir())}
    write_file(out, _zipped(files, f"translate-{codes[0]}_{codes[1]}-{PACKAGE_VERSION.replace('.', '_')}"))
    return out


def _zipped(files: dict[str, bytes], folder: str) -> bytes:
    """An archive with all files in one folder; the same files give the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, one in files.items():
            about = zipfile.ZipInfo(f"{folder}/{name}")  # of 1980, and not of now
            about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(about, one)
    return content.getvalue()
