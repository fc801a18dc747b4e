"""Files → pairs: formats, line ends, errors, languages, fingerprints, the held-out split."""

import gzip
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from attendo.errors import ConfigError, DataError
from attendo.text.corpus import (
    CorpusFiles,
    fingerprint,
    held_out,
    languages_of,
    read_lines,
    read_pairs,
    source_hash,
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name: str, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    Path(name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return name


def two(source: str | bytes, target: str | bytes, *, reverse: bool = False) -> CorpusFiles:
    return CorpusFiles(source=write("a.en", source), target=write("a.de", target), reverse=reverse)


def pairs(files: CorpusFiles) -> list[tuple[str, str]]:
    return list(read_pairs(files))


def fails(files: CorpusFiles) -> str:
    with pytest.raises(DataError) as caught:
        pairs(files)
    return str(caught.value)


class TestLines:
    @pytest.mark.parametrize(
        ("content", "lines"),
        [
            ("one\ntwo\n", ["one", "two"]),
            ("one\ntwo", ["one", "two"]),
            ("one\n\ntwo\n\n", ["one", "", "two", ""]),
            ("\n", [""]),
            ("", []),
            ("one\r\ntwo\r\n", ["one", "two"]),
            ("one\r\r\na\rb\n", ["one\r", "a\rb"]),
            ("\ufeffone\n\ufefftwo\n", ["one", "\ufefftwo"]),
            ("\ufeff", []),
            ("\ufeff\n", [""]),
            (" one \t\n", [" one \t"]),
        ],
    )
    @pytest.mark.parametrize("name", ["lines.txt", "lines.txt.gz"])
    def test_line_ends(self, name, content, lines):
        assert list(read_lines(write(name, content))) == lines

    @pytest.mark.parametrize("character", "\u2028\u2029\u0085\v\f\x1c\x1d\x1e\r\0")
    def test_other_separators_are_ordinary_characters(self, character):
        assert list(read_lines(write("lines", f"a{character}b\nc\n"))) == [f"a{character}b", "c"]

    def test_is_a_stream(self):
        path = write("lines", b"good\n" + b"\xff\n")
        assert next(read_lines(path)) == "good"


class TestFormats:
    def test_two_files(self):
        assert pairs(two("A man.\nA dog.\n", "Ein Mann.\nEin Hund.")) == [
            ("A man.", "Ein Mann."),
            ("A dog.", "Ein Hund."),
        ]

    def test_a_plain_and_a_gzip_file(self):
        files = CorpusFiles(source=write("a.en.gz", "A man.\n"), target=write("a.de", "Ein Mann.\n"))
        assert pairs(files) == [("A man.", "Ein Mann.")]

    def test_reverse(self):
        assert pairs(two("A man.\n", "Ein Mann.\n", reverse=True)) == [("Ein Mann.", "A man.")]

    @pytest.mark.parametrize("name", ["p.tsv", "p.tsv.gz", "P.TSV"])
    def test_tsv(self, name):
        path = write(name, "7\tA man.\tEin Mann.\r\n8\tA dog.\tEin Hund.\textra\r\n")
        files = CorpusFiles(source=path, target=None, columns=(2, 3))
        assert pairs(files) == [("A man.", "Ein Mann."), ("A dog.", "Ein Hund.")]
        assert pairs(CorpusFiles(source=path, columns=(3, 1)))[0] == ("Ein Mann.", "7")
        assert pairs(CorpusFiles(source=path, columns=(2, 3), reverse=True))[0] == ("Ein Mann.", "A man.")

    @pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.gz"])
    def test_jsonl(self, name):
        path = write(name, '{"source": "A man.", "target": "Ein\\u2028Mann.", "id": 3}\n')
        assert pairs(CorpusFiles(source=path)) == [("A man.", "Ein\u2028Mann.")]
        assert pairs(CorpusFiles(source=path, reverse=True)) == [("Ein\u2028Mann.", "A man.")]

    def test_a_text_from_json_is_one_line(self):
        path = write("p.jsonl", json.dumps({"source": "a\nb\r\nc", "target": "x"}))
        assert pairs(CorpusFiles(source=path)) == [("a b c", "x")]

    def test_only_ascii_spaces_and_tabs_are_stripped(self):
        source, target = "\u2028 a\u3000", "\u00a0b \t c\u0085"
        assert pairs(two(f" \t{source}\t \n", f"  {target}\n")) == [(source, target)]

    def test_empty_sides_are_handed_on(self):
        assert pairs(two("\nb\n", "a\n  \n")) == [("", "a"), ("b", "")]


class TestErrors:
    @pytest.mark.parametrize(("more", "other"), [("a.en", "a.de"), ("a.de", "a.en")])
    def test_unequal_counts_are_both_named(self, more, other):
        write(more, "x\n" * 1207)
        write(other, "y\n" * 3)
        message = fails(CorpusFiles(source="a.en", target="a.de"))
        assert f"{more} has 1,207" in message and f"{other} has 3" in message

    def test_pairs_before_the_end_of_the_shorter_file_were_streamed(self):
        reader = read_pairs(two("a\nb\n", "x\n"))
        assert next(reader) == ("a", "x")
        with pytest.raises(DataError):
            next(reader)

    @pytest.mark.parametrize("name", ["none.en", "none.en.gz"])
    def test_missing_file(self, name):
        message = fails(CorpusFiles(source=name, target=write("a.de", "x\n")))
        assert name in message and "no such file" in message

    def test_folder(self):
        Path("d.en").mkdir()
        message = fails(CorpusFiles(source=write("a.de", "x\n"), target="d.en"))
        assert "d.en" in message and "folder" in message

    @pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
    def test_permission(self):
        Path(write("a.en", "x\n")).chmod(0)
        assert "permission" in fails(CorpusFiles(source="a.en", target="a.en"))

    def test_permission_error_is_told(self, monkeypatch):
        def refuse(*_):
            raise PermissionError(13, "Permission denied")

        files = two("x\n", "y\n")
        monkeypatch.setattr(Path, "open", refuse)
        message = fails(files)
        assert "a.en" in message and "permission" in message

    @pytest.mark.parametrize("content", ["", "\ufeff"])
    def test_empty_file(self, content):
        assert "a.en: the file is empty" in fails(two(content, "x\n"))
        assert "a.de: the file is empty" in fails(two("x\n", content))
        assert "a.en: the file is empty" in fails(two(content, content))
        assert "p.tsv: the file is empty" in fails(CorpusFiles(source=write("p.tsv", content)))
        assert "p.jsonl.gz: the file is empty" in fails(CorpusFiles(source=write("p.jsonl.gz", content)))

    def test_undecodable_byte(self):
        message = fails(two("fine\nalso fine\n", b"gut\nM\xe4nner\n"))
        assert "a.de, line 2: byte 2 of the line (0xE4)" in message
        assert "iconv" in message and "binary" not in message

    def test_truncated_character_at_the_end(self):
        assert "a.en, line 1: byte 3 of the line (0xE4)" in fails(two("xx中".encode()[:-1], "y\n"))

    def test_binary_file(self):
        message = fails(two(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "x\n"))
        assert "a.en, line 1" in message and "binary" in message

    def test_utf16_file(self):
        assert "UTF-16" in fails(two("A man.\n".encode("utf-16"), "x\n"))

    def test_gzip_without_the_ending(self):
        assert "name that ends in .gz" in fails(two(gzip.compress(b"x\n"), "x\n"))

    def test_broken_gzip(self):
        whole = gzip.compress(os.urandom(4001).hex().encode())
        damaged = bytearray(whole)
        damaged[30] ^= 0xFF
        for content in (whole[:-101], bytes(damaged), b"plain text\n"):
            Path("a.en.gz").write_bytes(content)
            message = fails(CorpusFiles(source="a.en.gz", target=write("a.de", "x\n")))
            assert "a.en.gz" in message and "gzip" in message

    def test_missing_column(self):
        path = write("p.tsv", "a\tb\nonly one\n")
        assert "p.tsv, line 2: it has 1 column," in fails(CorpusFiles(source=path))
        assert "p.tsv, line 1: it has 2 columns," in fails(CorpusFiles(source=path, columns=(1, 3)))

    def test_column_zero(self):
        with pytest.raises(ConfigError, match="counted from 1"):
            CorpusFiles(source="p.tsv", columns=(0, 1))

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("{", "not valid JSON"),
            ("", "not valid JSON"),
            ("[" * 100_000, "not valid JSON"),
            ('["source", "target"]', "not an object"),
            ('{"source": "a"}', '"target" is missing'),
            ('{"src": "a", "target": "b"}', "\"source\" is missing (keys there: 'src', 'target')"),
            ('{"source": "a", "target": 3}', '"target" is 3, not a string'),
            ('{"source": null, "target": "b"}', '"source" is null, not a string'),
            ('{"source": "\\ud800", "target": "b"}', "surrogate"),
        ],
    )
    def test_bad_json(self, line, reason):
        message = fails(CorpusFiles(source=write("p.jsonl", f'{{"source": "a", "target": "b"}}\n{line}\n')))
        assert "p.jsonl, line 2" in message and reason in message

    def test_one_file_of_unknown_format(self):
        message = fails(CorpusFiles(source=write("p.csv", "a,b\n")))
        assert "p.csv" in message and ".tsv" in message


class TestLanguages:
    @pytest.mark.parametrize(
        ("source", "target", "languages"),
        [
            ("train.en", "train.de", ("en", "de")),
            ("x/train.lc.norm.tok.en.gz", "train.DE", ("en", "DE")),
            ("train.pt-BR", "train.zh_CN.gz", ("pt-BR", "zh_CN")),
            ("train.fil", "train.en", ("fil", "en")),
            ("train.txt", "train.de", None),
            ("train.src", "train.tgt", None),
            ("train.en", "train", None),
            ("train.e", "train.de", None),
            ("train.english", "train.de", None),
            ("train.e2", "train.de", None),
            ("train.tsv", None, None),
        ],
    )
    def test_by_ending(self, source, target, languages):
        assert languages_of(CorpusFiles(source=source, target=target)) == languages
        swapped = None if languages is None else languages[::-1]
        assert languages_of(CorpusFiles(source=source, target=target, reverse=True)) == swapped


class TestFingerprint:
    def test_is_of_contents_and_settings(self):
        prints = [
            fingerprint(two("a\nb\n", "x\ny\n")),
            fingerprint(two("a\nc\n", "x\ny\n")),
            fingerprint(two("a\nb\n", "x\nz\n")),
            fingerprint(two("a\nb\nx\n", "y\n")),  # the same bytes in a row
            fingerprint(two("a\nb\n", "x\ny\n", reverse=True)),
            fingerprint(CorpusFiles(source=write("p.tsv", "a\nb\n"))),
            fingerprint(CorpusFiles(source="p.tsv", columns=(2, 1))),
            fingerprint(CorpusFiles(source=write("p.jsonl", "a\nb\n"))),
        ]
        assert len(set(prints)) == len(prints)
        assert all(len(print_) == 64 for print_ in prints)

    def test_is_not_of_names(self):
        first = fingerprint(two("a\n", "x\n"))
        assert fingerprint(CorpusFiles(source=write("b.en", "a\n"), target=write("b.de", "x\n"))) == first

    def test_missing_file(self):
        with pytest.raises(DataError, match=r"none\.en"):
            fingerprint(CorpusFiles(source="none.en", target="none.de"))


def test_source_hash_is_fixed():
    # blake2b is standardised: these values may never change, or splits of old runs would.
    assert source_hash("") == int.from_bytes(bytes.fromhex("e4a6a0577479b2b4"), "little")
    assert source_hash("A man.") != source_hash("A man. ")
    assert 2**60 < max(map(source_hash, "abcdefgh")) < 2**64


class TestHeldOut:
    @staticmethod
    def hashes(*groups: int) -> np.ndarray:
        """As many equal hashes as each number says; the groups' hashes ascend."""
        return np.repeat(np.arange(len(groups), dtype=np.uint64) + 2**63, groups)

    def test_share_and_most(self):
        hashes = np.array([source_hash(str(i)) for i in range(5003)], dtype=np.uint64)
        assert held_out(hashes).sum() == 100
        assert held_out(hashes, share=0.5, most=211).sum() == 211
        chosen = held_out(hashes, most=7)
        assert set(hashes[chosen]) == set(np.sort(hashes)[:7])

    def test_order_does_not_matter(self):
        generator = np.random.default_rng(0)
        hashes = generator.integers(0, 2**64, size=997, dtype=np.uint64)[generator.integers(0, 997, size=3001)]
        order = generator.permutation(len(hashes))
        assert np.array_equal(held_out(hashes[order]), held_out(hashes)[order])

    def test_equal_sources_stay_together_and_the_limit_holds(self):
        generator = np.random.default_rng(1)
        for n, n_groups in ((2, 1), (2, 2), (59, 7), (499, 83), (3001, 1009)):
            hashes = generator.integers(0, 2**64, size=n_groups, dtype=np.uint64)[
                generator.integers(0, n_groups, size=n)
            ]
            for share in (0.02, 0.3):
                chosen = held_out(hashes, share=share, most=101)
                assert not set(hashes[chosen]) & set(hashes[~chosen])
                assert chosen.sum() <= max(1, min(int(share * n), 101))

    def test_is_the_plain_greedy_choice(self):
        generator = np.random.default_rng(2)
        for _ in range(50):
            hashes = self.hashes(*generator.integers(1, 14, size=83))
            left, taken = 23, set()
            for group, size in sorted(Counter(hashes.tolist()).items()):
                if size <= left:
                    taken.add(group)
                    left -= size
            chosen = held_out(hashes, share=1.0, most=23)
            assert set(hashes[chosen].tolist()) == taken

    def test_groups_that_do_not_fit_are_passed_over(self):
        assert np.flatnonzero(held_out(self.hashes(5, 1, 3, 2, 1), share=0.3)).tolist() == [5, 9, 10]

    def test_at_least_one_where_possible(self):
        assert held_out(self.hashes(1, 1)).sum() == 1
        assert held_out(self.hashes(2, 2, 1)).tolist() == [False] * 4 + [True]
        for hashes in (self.hashes(), self.hashes(1), self.hashes(2), self.hashes(3, 2)):
            assert held_out(hashes).tolist() == [False] * len(hashes)
