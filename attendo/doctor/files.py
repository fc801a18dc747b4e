"""Files → chunks of pairs, whatever is wrong with them: a bad line is marked and handed on."""

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, zip_longest

import numpy as np
from numpy.typing import NDArray

from attendo.doctor.findings import bits
from attendo.doctor.lines import Lines
from attendo.errors import DataError
from attendo.text.corpus import CorpusFiles, Pair, format_of, json_pair, reading, tmx_pairs, trim, tsv_pair

CHUNK = 20_000  # pairs looked at together

UNPAIRED, UNDECODABLE, BROKEN_ROW = (int(bits(name)) for name in ("unpaired", "undecodable", "broken_row"))


@dataclass(frozen=True)
class Chunk:
    """Some pairs of a corpus, in order.

    first: the number of the first one, from 0
    found (N,): what reading them has found
    returns (N, 2): which lines ended with \\r\\n
    """

    first: int
    source: Lines
    target: Lines
    found: NDArray[np.uint64]
    returns: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.found)

    def pair(self, number: int) -> Pair:
        return self.source[number], self.target[number]


Line = tuple[str, int, bool]  # text, what was found, whether it ended with \r\n
Row = tuple[str, str, int, bool, bool]  # source, target, what was found, which of them ended with \r\n
_MISSING: Line = ("", UNPAIRED, False)


def read_chunks(files: CorpusFiles, *, most: int | None = None) -> Iterator[Chunk]:
    """All pairs of a corpus, or the first `most`, a chunk at a time; an empty corpus is an error."""
    rows = islice(_rows(files), most)
    first = 0
    while chunk := list(islice(rows, CHUNK)):
        sources, targets, found, source_returns, target_returns = zip(*chunk, strict=True)
        sides = [(sources, source_returns), (targets, target_returns)]
        (sources, source_returns), (targets, target_returns) = reversed(sides) if files.reverse else sides
        yield Chunk(
            first,
            Lines(sources),
            Lines(targets),
            np.array(found, dtype=np.uint64),
            np.stack([np.array(source_returns), np.array(target_returns)], axis=1),
        )
        first += len(chunk)
    if first == 0:
        raise DataError(f"{files.source}: the file is empty. Give a file with one text on each line.")


def count_lines(path: str) -> int:
    """Lines as `read_lines` counts them."""
    count, last = 0, b"\n"
    with reading(path) as stream:
        while block := stream.read(1 << 20):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


def begins_with_mark(path: str) -> bool:
    """Whether the file begins with a byte order mark."""
    with reading(path) as stream:
        return stream.read(3) == codecs.BOM_UTF8


def _rows(files: CorpusFiles) -> Iterator[Row]:
    match format_of(files):
        case "text":
            yield from _text_rows(files.source, str(files.target))
        case "tsv":
            yield from _table_rows(files.source, partial(tsv_pair, columns=files.columns))
        case "jsonl":
            yield from _table_rows(files.source, json_pair)
        case "tmx":
            for source, target in tmx_pairs(files):
                yield trim(source), trim(target), 0, False, False


def _text_rows(source_path: str, target_path: str) -> Iterator[Row]:
    lines = zip_longest(_lines(source_path), _lines(target_path), fillvalue=_MISSING)
    for (source, in_source, source_returns), (target, in_target, target_returns) in lines:
        yield trim(source), trim(target), in_source | in_target, source_returns, target_returns


def _table_rows(path: str, parse: Callable[..., Pair]) -> Iterator[Row]:
    for text, found, returns in _lines(path):
        try:
            source, target = parse(text, where=path)
        except DataError:
            source, target, found = text, "", found | BROKEN_ROW
        yield trim(source), trim(target), found, returns, returns


def _lines(path: str) -> Iterator[Line]:
    """The lines of a file; of bytes that are not UTF-8, what they are: ``\\xfc``."""
    with reading(path) as stream:
        start = stream.peek(3)[:3]
        lines = iter(stream)
        if start == codecs.BOM_UTF8:
            first = next(lines).removeprefix(codecs.BOM_UTF8)
            lines = chain([first] if first else [], lines)
        for line in lines:
            body = line.removesuffix(b"\n")
            returns = body.endswith(b"\r")
            if returns:
                body = body[:-1]
            try:
                yield body.decode(), 0, returns
            except UnicodeDecodeError:
                yield body.decode(errors="backslashreplace"), UNDECODABLE, returns
