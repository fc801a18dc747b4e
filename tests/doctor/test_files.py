"""Reading whatever there is: every awkward file gives its lines, and what is wrong with them."""

import gzip
from pathlib import Path

import pytest

from attendo.doctor import files as reading
from attendo.doctor.files import begins_with_mark, count_lines, read_chunks
from attendo.doctor.findings import Findings
from attendo.errors import DataError
from attendo.text.corpus import CorpusFiles, fingerprint, languages_of, read_pairs

Row = tuple[str, str, list[str]]

TMX = """<?xml version="1.0" encoding="utf-8"?>
<tmx version="1.4"><header srclang="en-US"/><body>
<tu><tuv xml:lang="en-US"><seg>One <bpt i="1">&lt;b&gt;</bpt>day<ept i="1">&lt;/b&gt;</ept>.</seg></tuv>
<tuv xml:lang="de"><seg>Ein
  Tag.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Nur Deutsch</seg></tuv></tu>
</body></tmx>
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name: str, content: bytes | str) -> str:
    data = content.encode() if isinstance(content, str) else content
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return name


def rows(files: CorpusFiles) -> list[Row]:
    return [
        (*chunk.pair(number), Findings(chunk.found).names(number))
        for chunk in read_chunks(files)
        for number in range(len(chunk))
    ]


def two(source: bytes | str, target: bytes | str) -> CorpusFiles:
    return CorpusFiles(source=write("a.en", source), target=write("a.de", target))


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("a\nb\n", "x\ny\n", [("a", "x", []), ("b", "y", [])]),
        ("a\nb", "x\n\n", [("a", "x", []), ("b", "", [])]),
        (b"\xef\xbb\xbfa\n", "x\n", [("a", "x", [])]),
        ("a\r\nb\n", "x\ny\r\n", [("a", "x", []), ("b", "y", [])]),
        ("a\0b\n", "x\x85\n", [("a\0b", "x\x85", [])]),
        (b"a\xfcb\nc\n", "x\ny\n", [("a\\xfcb", "x", ["undecodable"]), ("c", "y", [])]),
        ("a\nb\nc\n", "x\n", [("a", "x", []), ("b", "", ["unpaired"]), ("c", "", ["unpaired"])]),
        ("a\n", "x\ny\n", [("a", "x", []), ("", "y", ["unpaired"])]),
        (" a\t\n", "x\n", [("a", "x", [])]),
    ],
)
def test_two_files(source, target, expected):
    assert rows(two(source, target)) == expected


def test_which_lines_ended_with_a_carriage_return():
    (chunk,) = read_chunks(two("a\r\nb\n", "x\ny\r"))
    assert chunk.returns.tolist() == [[True, False], [False, True]]


def test_the_other_direction():
    files = CorpusFiles(source=write("a.en", "a\r\nb\n"), target=write("a.de", "x\ny\n"), reverse=True)
    assert rows(files) == [("x", "a", []), ("y", "b", [])]
    (chunk,) = read_chunks(files)
    assert chunk.returns.tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.tsv", "a\tx\nb\nc\tz\n", [("a", "x", []), ("b", "", ["broken_row"]), ("c", "z", [])]),
        ("a.tsv.gz", "a\tx\n", [("a", "x", [])]),
        (
            "a.jsonl",
            '{"source": "a", "target": "x"}\n{"source": 1}\n',
            [("a", "x", []), ('{"source": 1}', "", ["broken_row"])],
        ),
        ("a.tmx", TMX, [("One day.", "Ein Tag.", []), ("", "Nur Deutsch", [])]),
        ("a.tmx.gz", TMX, [("One day.", "Ein Tag.", []), ("", "Nur Deutsch", [])]),
    ],
)
def test_one_file(name, content, expected):
    assert rows(CorpusFiles(source=write(name, content))) == expected


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_sound_files_are_read_as_training_reads_them_however_large_the_chunks(chunk, monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", chunk)
    files = two("a\n\n b\r\n\u2028c\nd", "x\ny\n\nz\n \n")
    assert [row[:2] for row in rows(files)] == list(read_pairs(files))
    chunks = list(read_chunks(files))
    assert [len(one) for one in chunks[:-1]] == [chunk] * (len(chunks) - 1)
    assert [one.first for one in chunks] == [number * chunk for number in range(len(chunks))]


def test_the_first_pairs_only():
    assert [len(chunk) for chunk in read_chunks(two("a\nb\nc\n", "x\ny\nz\n"), most=2)] == [2]


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_an_empty_corpus_is_an_error(content):
    with pytest.raises(DataError, match=r"a\.en: the file is empty"):
        rows(two(content, content))


def test_a_missing_file_is_an_error():
    with pytest.raises(DataError, match="no such file"):
        rows(CorpusFiles(source="nothing.en", target="nothing.de"))


@pytest.mark.parametrize(("content", "count"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)])
def test_counting_lines(content, count):
    assert count_lines(write("a", content)) == count


def test_a_byte_order_mark():
    assert begins_with_mark(write("a", b"\xef\xbb\xbfa\n"))
    assert not begins_with_mark(write("b", "a\n"))


class TestTmxInTraining:
    """The same file as a corpus to train on."""

    def test_pairs_and_languages(self):
        files = CorpusFiles(source=write("a.tmx", TMX))
        assert list(read_pairs(files)) == [("One day.", "Ein Tag."), ("", "Nur Deutsch")]
        assert languages_of(files) == ("en-US", "de")
        other = CorpusFiles(source="a.tmx", languages=("de", "en"))
        assert list(read_pairs(other)) == [("Ein Tag.", "One day."), ("Nur Deutsch", "")]
        assert list(read_pairs(CorpusFiles(source="a.tmx", languages=("de", "en"), reverse=True))) == list(
            read_pairs(other)
        )
        assert languages_of(CorpusFiles(source="a.tmx", reverse=True)) == ("de", "en-US")
        assert fingerprint(files) != fingerprint(other)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("<tmx><body><tu>", "not well-formed XML"),
            ("<a/>", "no <body>"),
            (
                "<tmx><body><tu><tuv lang='en'><seg>a</seg></tuv></tu></body></tmx>",
                "no unit has texts in two languages",
            ),
        ],
    )
    def test_errors(self, content, words):
        with pytest.raises(DataError, match=words):
            list(read_pairs(CorpusFiles(source=write("a.tmx", content))))

    def test_a_language_that_is_not_there(self):
        with pytest.raises(DataError, match="no unit has a text in fr; the languages there are de, en-US"):
            list(read_pairs(CorpusFiles(source=write("a.tmx", TMX), languages=("en", "fr"))))

    def test_other_encodings(self):
        text = TMX.replace("utf-8", "utf-16").replace("Tag", "schöner Tag")
        files = CorpusFiles(source=write("a.tmx", text.encode("utf-16")))
        assert next(read_pairs(files)) == ("One day.", "Ein schöner Tag.")
