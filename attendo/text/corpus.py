"""Files → pairs of text.

A corpus is two text files whose lines correspond, or one TSV, JSONL or TMX file; each plain or gzip. Files are
UTF-8 (TMX: what its first line says) and a line ends **only** at ``\\n`` (one ``\\r`` before it is dropped), so U+2028,
U+0085, vertical tab and form feed are ordinary characters and line *i* of one file stays line *i* of the other.
Everything is read as a stream: a corpus is never held in memory.
"""

import codecs
import gzip
import hashlib
import io
import json
import re
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from attendo.errors import ConfigError, DataError

if TYPE_CHECKING:  # reading lines does not need it
    import numpy as np
    import numpy.typing as npt

Pair = tuple[str, str]
"""(source, target)"""

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z]{2,4})?")
# Endings that have the shape of a language code and mean something else.
_NOT_LANGUAGES = frozenset(
    (
        "bak",
        "bpe",
        "csv",
        "dat",
        "doc",
        "hyp",
        "lc",
        "log",
        "out",
        "raw",
        "ref",
        "spm",
        "src",
        "tgt",
        "tok",
        "trg",
        "txt",
    )
)


class UnequalError(DataError):
    """Two files that do not have the same number of lines."""

    def __init__(self, source: str, n_source: int, target: str, n_target: int) -> None:
        self.source, self.n_source, self.target, self.n_target = source, n_source, target, n_target
        super().__init__(
            f"{source} has {n_source:,} lines and {target} has {n_target:,}: line i of the one has to be the "
            "translation of line i of the other. Look for lines that are missing or broken in two."
        )


@dataclass(frozen=True, kw_only=True)
class CorpusFiles:
    """Where the pairs are.

    source: the path as the user gave it
    target: the other path; None when one TSV, JSONL or TMX file holds both sides
    columns: the columns of source and target in a TSV, counted from 1
    reverse: translate from the second side to the first
    languages: which (source, target) to take from a TMX file; None for the first two of its first unit
    """

    source: str
    target: str | None = None
    columns: tuple[int, int] = (1, 2)
    reverse: bool = False
    languages: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if min(self.columns) < 1:
            raise ConfigError(f"columns={self.columns}: columns are counted from 1, so 1,2 are the first two.")


def read_lines(path: str) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or ``.gz``, without their line ends and without a byte order mark.

    A last line without ``\\n`` is a line; nothing follows a last ``\\n``; an empty file has no lines.
    """
    with reading(path) as stream:
        yield from decode_lines(stream, path)


def decode_lines(stream: io.BufferedReader, name: str) -> Iterator[str]:
    """The lines of an open binary stream, as `read_lines` gives them; `name` stands for it in errors."""
    head = stream.peek(1024)
    for number, line in enumerate(stream, start=1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
            if not line:  # the mark was the whole file
                return
        try:
            text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: byte {error.start + 1} of the line (0x{line[error.start]:02X}) "
                f"is not UTF-8. {_remedy(head)}"
            ) from None
        yield text


def read_pairs(files: CorpusFiles) -> Iterator[Pair]:
    """The pairs of a corpus in the order of the files, without ASCII spaces and tabs at the ends of a text.

    Pairs with an empty side are handed on: line numbers stay true, and whoever drops them can count them.
    """
    match format_of(files):
        case "text":
            pairs = _text_pairs(files.source, str(files.target))
        case "tsv":
            pairs = _tsv_pairs(files.source, files.columns)
        case "jsonl":
            pairs = _jsonl_pairs(files.source)
        case "tmx":
            pairs = tmx_pairs(files)
    number = 0
    for number, (source, target) in enumerate(pairs, start=1):  # noqa: B007 (used after the loop)
        source, target = trim(source), trim(target)
        yield (target, source) if files.reverse else (source, target)
    if number == 0:
        raise _empty(files.source)


def trim(text: str) -> str:
    """Without ASCII spaces and tabs at its ends, in training and in use alike; other white space is text."""
    return text.strip(" \t")


def languages_of(files: CorpusFiles) -> tuple[str, str] | None:
    """(source, target) languages by the files' endings (``train.en.gz`` → ``en``), or by what a TMX file says.

    None where those do not tell.
    """
    if files.target is None:
        if format_of(files) != "tmx":
            return None
        first, second = _tmx_languages(files)
        return (second, first) if files.reverse else (first, second)
    languages = []
    for path in (files.source, files.target):
        language = Path(_without_gz(path)).suffix.removeprefix(".")
        if not _LANGUAGE.fullmatch(language) or language.lower() in _NOT_LANGUAGES:
            return None
        languages.append(language)
    first, second = languages
    return (second, first) if files.reverse else (first, second)


def fingerprint(files: CorpusFiles) -> str:
    """SHA-256 of everything that decides the pairs: the files' bytes as they are stored, format, columns, direction.

    Names and dates do not count, so that a corpus which was moved or copied is still the same corpus.
    """
    kind = format_of(files)
    chosen = {"tsv": files.columns, "tmx": files.languages}.get(kind, "")
    whole = hashlib.sha256(f"{kind} {chosen} {files.reverse}".encode())
    for path in (files.source, files.target):
        if path is not None:
            with reading(path, unzip=False) as stream:
                whole.update(hashlib.file_digest(stream, "sha256").digest())
    return whole.hexdigest()


def source_hash(text: str) -> int:
    """64 bits of BLAKE2b of a text: the same on every machine, in every run."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "little")


def held_out(hashes: "npt.NDArray[np.uint64]", *, share: float = 0.02, most: int = 1000) -> "npt.NDArray[np.bool_]":
    """Which pairs are for validation, given the `source_hash` of each pair's source; (n,) → (n,).

    At most min(share · n, most) pairs, but one pair where that share of two or more pairs is less than one. Pairs
    with the same source form a group, and only whole groups are taken, so no validation source is also in training:
    groups go in the order of their hashes, and one that does not fit into what is left is passed over. The choice
    depends on nothing but the texts: not on their order, not on a seed. All False when no group fits.
    """
    import numpy as np

    n = len(hashes)
    left = min(max(int(share * n), 1), most) if n >= 2 else 0
    groups, sizes = np.unique(hashes, return_counts=True)
    taken = []
    while True:
        fits = sizes <= left
        groups, sizes = groups[fits], sizes[fits]
        if len(groups) == 0:
            break
        totals = np.cumsum(sizes)
        whole = int(np.searchsorted(totals, left, side="right"))  # ≥ 1, as every group left fits on its own
        taken.append(groups[:whole])
        left -= int(totals[whole - 1])
        groups, sizes = groups[whole:], sizes[whole:]
    return np.isin(hashes, np.concatenate(taken)) if taken else np.zeros(n, dtype=np.bool_)


def format_of(files: CorpusFiles) -> Literal["text", "tsv", "jsonl", "tmx"]:
    if files.target is not None:
        return "text"
    name = _without_gz(files.source).lower()
    if name.endswith(".tsv"):
        return "tsv"
    if name.endswith(".jsonl"):
        return "jsonl"
    if name.endswith(".tmx"):
        return "tmx"
    raise DataError(
        f"{files.source}: one file that holds both sides has to end in .tsv, .jsonl or .tmx (or one of them and .gz). "
        "Rename it, or give two text files: the source and the target."
    )


def _without_gz(path: str) -> str:
    return path[:-3] if _is_gzip(path) else path


def _is_gzip(path: str) -> bool:
    return path.lower().endswith(".gz")


@contextmanager
def reading(path: str, *, unzip: bool = True) -> Iterator[io.BufferedReader]:
    """An open file whose errors, then and while it is read, are `DataError`s."""
    try:
        with Path(path).open("rb") as file:
            if unzip and _is_gzip(path):
                # The outer buffer finds lines in C; GzipFile's own iteration goes through Python for each.
                unzipped: io.BufferedReader = io.BufferedReader(gzip.GzipFile(fileobj=file))
                with unzipped:
                    yield unzipped
            else:
                yield file
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file. Check the spelling and the current folder.") from None
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder. Give the file inside it.") from None
    except PermissionError:
        raise DataError(f"{path}: no permission to read it. Change its permissions, or copy it.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: not a whole gzip file ({error}). Fetch or compress it again; if it is not compressed at all, "
            "take .gz off its name."
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from None


def _remedy(head: bytes) -> str:
    """What to do about a file that is not UTF-8, by its first bytes."""
    if head.startswith(b"\x1f\x8b"):
        return "This is a gzip file: give it a name that ends in .gz."
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "It looks like UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`."
    if b"\0" in head:
        return "It looks like a binary file: give a text file."
    return "Convert the file to UTF-8 (from Latin-1, say, with `iconv -f LATIN1 -t UTF-8`), or remove that line."


def _empty(path: str) -> DataError:
    return DataError(f"{path}: the file is empty. Give a file with one text on each line.")


def _text_pairs(source_path: str, target_path: str) -> Iterator[Pair]:
    sources, targets = read_lines(source_path), read_lines(target_path)
    for before, (source, target) in enumerate(zip_longest(sources, targets)):
        if source is None or target is None:
            if before == 0:
                raise _empty(source_path if source is None else target_path)
            more = before + 1 + sum(1 for _ in (targets if source is None else sources))
            n_source, n_target = (before, more) if source is None else (more, before)
            raise UnequalError(source_path, n_source, target_path, n_target)
        yield source, target


def _tsv_pairs(path: str, columns: tuple[int, int]) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        yield tsv_pair(line, columns, f"{path}, line {number}")


def tsv_pair(line: str, columns: tuple[int, int], where: str) -> Pair:
    """The pair of one line of a TSV file; `where` stands for it in errors."""
    cells = line.split("\t")
    if max(columns) > len(cells):
        raise DataError(
            f"{where}: it has {len(cells)} column{'s' if len(cells) > 1 else ''}, and columns "
            f"{columns[0]},{columns[1]} are asked for. Columns are separated by tabs and counted from 1: "
            "repair the line, or choose others with --columns."
        )
    return cells[columns[0] - 1], cells[columns[1] - 1]


def _jsonl_pairs(path: str) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        yield json_pair(line, f"{path}, line {number}")


def json_pair(line: str, where: str) -> Pair:
    """The pair of one line of a JSONL file; `where` stands for it in errors."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: not valid JSON ({error}). Each line has to be an object such as "
            '{"source": "…", "target": "…"}.'
        ) from None
    return _json_text(record, "source", where), _json_text(record, "target", where)


def _json_text(record: object, key: str, where: str) -> str:
    shape = 'Each line has to be an object such as {"source": "…", "target": "…"}.'
    if not isinstance(record, dict):
        raise DataError(f"{where}: the line is JSON, but not an object. {shape}")
    if key not in record:
        found = ", ".join(map(repr, record)) or "none"
        raise DataError(f'{where}: the key "{key}" is missing (keys there: {found}). {shape}')
    text = record[key]
    if not isinstance(text, str):
        raise DataError(f'{where}: "{key}" is {json.dumps(text)[:60]}, not a string. {shape}')
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # JSON can spell what no UTF-8 file can hold
        raise DataError(
            f'{where}: "{key}" has half of a surrogate pair (\\ud800 … \\udfff alone). Repair or remove it.'
        ) from None
    # A text is one line everywhere in attendo: one line in, one line out.
    return text.replace("\r\n", " ").replace("\n", " ")


_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# What these elements of TMX hold is code of the program that the text is from, not text.
_TMX_CODES = frozenset(("bpt", "ept", "it", "ph", "ut"))


def tmx_pairs(files: CorpusFiles) -> Iterator[Pair]:
    """The pairs of a TMX file, the translators' exchange format: one for each unit, in the order of the file.

    A unit that lacks one of the two languages has an empty side. Codes of the editor within a text are left out.
    """
    first, second = _tmx_languages(files)
    missing = {first, second}
    seen: set[str] = set()
    for unit in _tmx_units(files.source):
        found = _tmx_text(unit, first), _tmx_text(unit, second)
        missing -= {language for language, text in zip((first, second), found, strict=True) if text is not None}
        seen.update(unit)
        yield found[0] or "", found[1] or ""
    if missing:
        raise DataError(
            f"{files.source}: no unit has a text in {' or '.join(sorted(missing))}; the languages there are "
            f"{', '.join(sorted(seen))}. Choose two of them with --languages."
        )


def _tmx_languages(files: CorpusFiles) -> tuple[str, str]:
    """The languages of the first and of the second side."""
    if files.languages is not None:
        source, target = files.languages
        return (target, source) if files.reverse else (source, target)
    for unit in _tmx_units(files.source):
        if len(unit) >= 2:
            first, second = list(unit)[:2]
            return first, second
    raise DataError(f"{files.source}: no unit has texts in two languages. Give another file.")


def _tmx_text(unit: dict[str, str], language: str) -> str | None:
    """The text in a language, or in a variety of it: ``en`` finds ``en-US``."""
    if language in unit:
        return unit[language]
    short = language.lower()
    return next((text for name, text in unit.items() if re.split("[-_]", name.lower())[0] == short), None)


def _tmx_units(path: str) -> Iterator[dict[str, str]]:
    """Language → text of each unit, one unit in memory at a time."""
    body: ET.Element | None = None
    with reading(path) as stream:
        try:
            for event, element in ET.iterparse(stream, events=("start", "end")):
                name = element.tag.rpartition("}")[2]
                if event == "start" and name == "body":
                    body = element
                elif event == "end" and name == "tu":
                    yield dict(map(_tmx_variant, (one for one in element if one.tag.rpartition("}")[2] == "tuv")))
                    if body is not None:
                        body.clear()
        except ET.ParseError as error:
            raise DataError(
                f"{path}: not well-formed XML ({error}). Export the TMX file again, or repair that line."
            ) from None
    if body is None:
        raise DataError(f"{path}: it has no <body>, so it is not a TMX file. Give one, or rename it.")


def _tmx_variant(variant: ET.Element) -> tuple[str, str]:
    """(language, text) of a <tuv>."""
    language = variant.get(_XML_LANGUAGE) or variant.get("lang") or "?"
    segment = next((one for one in variant if one.tag.rpartition("}")[2] == "seg"), None)
    text = "" if segment is None else "".join(_spoken(segment))
    return language, " ".join(re.split("[\r\n]+[ \t]*", text))


def _spoken(element: ET.Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag.rpartition("}")[2] not in _TMX_CODES:
            yield from _spoken(child)
        yield child.tail or ""
