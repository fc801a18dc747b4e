"""Files → chunks of pairs, whatever is wrong with them: a bad line is marked and handed on."""

import codecs
import io
from collections.abc import Callable, Iterable, Iterator
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

UNPAIRED, UNDECODABLE, BROKEN_ROW = (bits(name) for name in ("unpaired", "undecodable", "broken_row"))


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


@dataclass(frozen=True)
class _Block:
    """Lines of one file: their texts, what was found in them, which of them ended with \\r\\n."""

    texts: list[str]
    found: NDArray[np.uint64]
    returns: NDArray[np.bool_]

    def padded(self, length: int) -> "_Block":
        """With lines that are not there."""
        more = length - len(self.texts)
        return _Block(
            self.texts + [""] * more,
            np.concatenate([self.found, np.full(more, UNPAIRED)]),
            np.concatenate([self.returns, np.zeros(more, dtype=np.bool_)]),
        )


def read_chunks(files: CorpusFiles, *, most: int | None = None) -> Iterator[Chunk]:
    """All pairs of a corpus, or the first `most`, a chunk at a time; an empty corpus is an error."""
    first = 0
    for source, target in _pairs_of_blocks(files, most):
        if files.reverse:
            source, target = target, source
        returns = np.stack([source.returns, target.returns], axis=1)
        yield Chunk(first, Lines(source.texts), Lines(target.texts), source.found | target.found, returns)
        first += len(source.texts)
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


def _pairs_of_blocks(files: CorpusFiles, most: int | None) -> Iterator[tuple[_Block, _Block]]:
    match format_of(files):
        case "text":
            blocks = _blocks(files.source, most), _blocks(str(files.target), most)
            for source, target in zip_longest(*blocks, fillvalue=_sound([])):
                length = max(len(source.texts), len(target.texts))
                yield source.padded(length), target.padded(length)
        case "tsv":
            yield from _split(_blocks(files.source, most), partial(tsv_pair, columns=files.columns, where=""))
        case "jsonl":
            yield from _split(_blocks(files.source, most), partial(json_pair, where=""))
        case "tmx":
            units = islice(tmx_pairs(files), most)
            while pairs := list(islice(units, CHUNK)):
                zeros, no = np.zeros(len(pairs), dtype=np.uint64), np.zeros(len(pairs), dtype=np.bool_)
                yield (
                    _Block([trim(one) for one, _ in pairs], zeros, no),
                    _Block([trim(one) for _, one in pairs], zeros, no),
                )


def _sound(texts: Iterable[str]) -> _Block:
    """Lines in which nothing was found."""
    lines = list(texts)
    return _Block(lines, np.zeros(len(lines), dtype=np.uint64), np.zeros(len(lines), dtype=np.bool_))


def _split(blocks: Iterator[_Block], parse: Callable[[str], Pair]) -> Iterator[tuple[_Block, _Block]]:
    """The two sides of lines that hold both."""
    for block in blocks:
        sources, targets, found = [], [], block.found.copy()
        for number, line in enumerate(block.texts):
            try:
                source, target = parse(line)
            except DataError:
                source, target = line, ""
                found[number] |= BROKEN_ROW
            sources.append(trim(source))
            targets.append(trim(target))
        yield _Block(sources, found, block.returns), _Block(targets, found, block.returns)


def _blocks(path: str, most: int | None) -> Iterator[_Block]:
    """The lines of a file, many at a time; of bytes that are not UTF-8, what they are: ``\\xfc``."""
    with reading(path) as stream:
        lines = islice(_without_mark(stream), most)
        while raw := list(islice(lines, CHUNK)):
            whole = b"".join(raw)
            found = np.zeros(len(raw), dtype=np.uint64)
            returns = np.zeros(len(raw), dtype=np.bool_)
            if b"\r" in whole:
                raw = [line.removesuffix(b"\n") for line in raw]
                returns = np.array([line.endswith(b"\r") for line in raw])
                raw = [line.removesuffix(b"\r") + b"\n" for line in raw]
                whole = b"".join(raw)
            try:
                texts = whole.decode().removesuffix("\n").split("\n")
            except UnicodeDecodeError:
                texts = []
                for number, line in enumerate(raw):
                    try:
                        texts.append(line.decode().removesuffix("\n"))
                    except UnicodeDecodeError:
                        texts.append(line.decode(errors="backslashreplace").removesuffix("\n"))
                        found[number] = UNDECODABLE
            yield _Block([trim(text) for text in texts], found, returns)


def _without_mark(stream: io.BufferedReader) -> Iterator[bytes]:
    """The lines of a stream, without a byte order mark before the first."""
    first = stream.readline().removeprefix(codecs.BOM_UTF8)
    return chain([first] if first else [], stream)
