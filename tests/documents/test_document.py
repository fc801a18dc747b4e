"""What all formats share: files, endings, errors, what is kept, and that no text breaks them."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attendo.documents.document import FORMATS, Document, Passage, read_document
from attendo.documents.inline import on_one_line, split_kept
from attendo.errors import ConfigError, DataError
from tests.documents.parsing import FILES, parsed, same, shouted

IN_PLACE = ("txt", "md", "html", "srt")


def written(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
class TestFiles:
    @pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "bom"])
    @pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["lf", "crlf"])
    @pytest.mark.parametrize("last", [True, False], ids=["", "cut"])
    def test_any_line_ends_and_a_byte_order_mark_are_kept(self, file, mark, line_end, last, tmp_path):
        content = file.read_text(encoding="utf-8")
        content = mark + (content if last else content.rstrip()).replace("\n", line_end)
        document = read_document(written(tmp_path / file.name, content))
        assert document.content == content
        filled = shouted(document)
        assert filled.count("\r\n") == filled.count("\n") * (line_end == "\r\n")
        assert filled.startswith(mark) and filled.count("\ufeff") == len(mark)
        plain = parsed(file.read_text(encoding="utf-8"), file.suffix[1:])
        assert [(p.text.replace("\r\n", "\n"), p.keep) for p in document.passages] == [
            (p.text, p.keep) for p in plain.passages
        ]
        if file.suffix[1:] in IN_PLACE:
            assert same(document) == content

    def test_a_document_whose_passages_are_not_there_is_itself(self, file):
        content = file.read_text(encoding="utf-8")
        assert Document(content, ()).filled([]) == content

    def test_everything_outside_the_passages_is_copied(self, file):
        document = read_document(file)
        holes = [document.content[p.start : p.end] for p in document.passages]
        filled = shouted(document)
        at = 0
        end_before = 0
        for passage, hole in zip(document.passages, holes, strict=True):
            between = document.content[end_before : passage.start]
            at = filled.index(between, at) + len(between)
            end_before = passage.end
            assert hole == document.content[passage.start : passage.end]
        assert filled.endswith(document.content[end_before:])

    def test_what_is_kept_stands_in_the_text_in_its_order(self, file):
        for passage in read_document(file).passages:
            assert tuple(part for part, kept in split_kept(passage.text, passage.keep) if kept) == passage.keep
            assert passage.text == passage.text.strip()

    def test_each_passage_needs_its_translation(self, file):
        document = read_document(file)
        with pytest.raises(ValueError, match="zip"):
            document.filled(["one"] * (len(document.passages) + 1))


class TestErrors:
    def test_another_ending(self, tmp_path):
        with pytest.raises(DataError, match=r"a\.docx: documents end in \.txt, \.md.*\.xlf, and this file does not"):
            read_document(written(tmp_path / "a.docx", "x"))

    def test_a_format_instead_of_an_ending(self, tmp_path):
        assert read_document(written(tmp_path / "NEWS", "# News\n"), "md").passages[0].text == "News"
        with pytest.raises(ConfigError, match=r"format=docx.*Choose one of txt, md"):
            read_document(tmp_path / "NEWS", "docx")

    def test_capitals_in_an_ending(self, tmp_path):
        assert read_document(written(tmp_path / "NEWS.MD", "# News\n")).passages[0].text == "News"

    def test_no_such_file(self, tmp_path):
        with pytest.raises(DataError, match=r"none\.md: there is no such file"):
            read_document(tmp_path / "none.md")

    def test_a_folder(self, tmp_path):
        (tmp_path / "d.md").mkdir()
        with pytest.raises(DataError, match="this is a folder"):
            read_document(tmp_path / "d.md")

    @pytest.mark.parametrize("ending", FORMATS)
    def test_not_utf8(self, ending, tmp_path):
        with pytest.raises(DataError, match=r"line 2: byte 2 of the line \(0xE4\) is not UTF-8.*iconv"):
            read_document(written(tmp_path / f"a.{ending}", b"gut\nM\xe4nner\n"))

    @pytest.mark.parametrize(
        ("name", "content", "reason"),
        [
            ("a.xliff", "<xliff>\n<file>\n</xliff>", "line 3: not XML \\(mismatched tag"),
            ("a.xliff", "", "line 1: not XML \\(no element found"),
            ("a.xliff", "Hello", "line 1: not XML \\(syntax error"),
            ("a.xliff", "\n<html></html>", "line 2: the first element is <html>, not <xliff>"),
            ("a.xlf", "<xliff>&who;</xliff>", "line 1: not XML \\(undefined entity"),
            ("a.xlf", '<!DOCTYPE x [<!ENTITY a "b">]>\n<xliff>&a;</xliff>', "line 1: the document type declares"),
            ("a.po", 'msgid "a"\nmsgstr "b\n', 'line 2: "msgstr "b" is no comment'),
            ("a.po", 'msgid "a"\nmsgstr ""\n\nHello\n', 'line 4: "Hello" is no comment'),
            ("a.po", 'msgid "a"\n\nmsgid "b"\nmsgstr ""\n', "line 3: msgid stands in this entry twice"),
            ("a.po", '\n"lost"\n', "line 2: a string without a keyword"),
            ("a.po", 'msgstr "b"\n', "line 1: the entry that begins here has no msgid"),
            ("a.po", 'msgid "b"\n', "line 1: the entry that begins here has no msgstr"),
            ("a.srt", "Hello\nworld\n", "line 1: no cue begins here"),
        ],
    )
    def test_broken_files_are_named_with_the_line(self, name, content, reason, tmp_path):
        with pytest.raises(DataError, match=f"{name}, {reason}"):
            read_document(written(tmp_path / name, content))

    @pytest.mark.parametrize("ending", sorted(FORMATS.keys() - {"xliff", "xlf"}))
    @pytest.mark.parametrize("content", ["", "\n", "\ufeff", " \t\r\n "])
    def test_nothing_is_nothing_to_translate(self, ending, content, tmp_path):
        assert read_document(written(tmp_path / f"a.{ending}", content)) == Document(content, ())

    def test_an_entity_that_would_fill_the_memory_is_refused(self, tmp_path):
        entities = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(12))
        bomb = f'<!DOCTYPE x [<!ENTITY e0 "ha">{entities}]>\n<xliff>&e12;</xliff>'
        with pytest.raises(DataError, match="declares entities"):
            read_document(written(tmp_path / "a.xliff", bomb))


class TestKept:
    """What a translation does to tags, in any format."""

    document = parsed("<p>The <b>big</b> <i>old</i> <code>x</code> oven</p>", "html")

    def filled(self, translation: str) -> str:
        return self.document.filled([translation])

    def test_tags_may_change_places(self):
        assert self.filled("<i>a</i> <code>x</code> <b>b</b>") == "<p><i>a</i> <code>x</code> <b>b</b></p>"

    def test_lost_tags_are_put_at_the_end(self):
        assert self.filled("a <code>x</code>") == "<p>a <code>x</code><b></b><i></i></p>"
        assert self.filled("a <b>b <i>c</i> <code>x</code>") == "<p>a b c <code>x</code><b></b><i></i></p>"

    def test_lost_words_are_put_at_the_end(self):
        assert self.filled("<b>b</b> <i>a</i>") == "<p><b>b</b> <i>a</i> <code>x</code></p>"

    def test_crossed_tags_are_put_at_the_end(self):
        assert self.filled("<b>a <i>b</b> c</i> <code>x</code>") == "<p>a b c <code>x</code><b></b><i></i></p>"
        assert self.filled("</b>a<b> <i>b</i> <code>x</code>") == "<p>a b <code>x</code><b></b><i></i></p>"

    def test_a_tag_too_many_is_text(self):
        assert self.filled("<b>a</b> <b><i>b</i> <code>x</code>") == (
            "<p><b>a</b> &lt;b&gt;<i>b</i> <code>x</code></p>"
        )

    def test_each_is_found_as_often_as_it_is_kept_and_the_longest_first(self):
        assert split_kept("*a* ***b", ["*", "**", "*"]) == [
            ("*", True),
            ("a", False),
            ("*", True),
            (" ", False),
            ("**", True),
            ("*b", False),
        ]
        assert split_kept("a", []) == [("a", False)]

    def test_or_in_the_order_they_are_kept_in(self):
        found = split_kept("*a***b**", ["*", "*", "**", "**"], in_order=True)
        assert [part for part, _ in found] == ["*", "a", "*", "**", "b", "**"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\ntwo", "one two"),
        ("one  \r\n   two", "one two"),
        ("一句\n話", "一句話"),
        ("一句\nword", "一句 word"),
        ("한국\n말", "한국 말"),
        ("one\n", "one "),
    ],
)
def test_line_breaks_become_spaces_where_spaces_are_written(text, line):
    assert on_one_line(text) == line


# Characters that mean something in one of the formats, and what does in several together.
SINGLE = "abZß中文ا\u200f\xa0\u2028\0\t#*_`~[]()!<>/\\|-+=:&;\"'{}.1^$% \n\r"
SEVERAL = """\
<b> </b> <!-- --> <p> <br> <code> </code> <script> &amp; &lt;b&gt; ](u) ![ [^1] \\| [r] [r]: {\\an8} === ``` ---"""
PARTS = (
    st.sampled_from(SINGLE)
    | st.sampled_from(SEVERAL.split(" "))
    | st.sampled_from(
        ["    ", "\n\n", "\r\n", "\n> ", "\n- ", "1. ", "\n7\n", "- [x] ", "\n[r]: u\n", "<a title='x' ", '="']
    )
    | st.sampled_from(["\n| a |\n|-|\n", "00:00:01,000 --> 00:00:02,000\n"])
)
TEXTS = st.lists(PARTS, max_size=40).map("".join)


@settings(max_examples=200)
@given(TEXTS, st.sampled_from(IN_PLACE))
def test_any_text_survives(text, ending):
    content = f"00:00:01,000 --> 00:00:02,000\n{text}" if ending == "srt" else text
    document = parsed(content, ending)
    assert same(document) == content
    ends = [0, *(passage.end for passage in document.passages)]
    for passage, before in zip(document.passages, ends, strict=False):
        assert before <= passage.start < passage.end
    shouted(document)


@settings(max_examples=100)
@given(st.text(max_size=60), st.sampled_from(IN_PLACE))
def test_any_unicode_survives(text, ending):
    content = f"00:00:01,000 --> 00:00:02,000\n{text}" if ending == "srt" else text
    assert same(parsed(content, ending)) == content


@settings(max_examples=200)
@given(TEXTS, st.sampled_from(("po", "xliff")))
def test_any_text_in_a_file_of_strings_is_read_or_refused(text, ending):
    for content in (text, f'msgid "{text}"\nmsgstr ""\n', f"<xliff><segment><source>{text}</source></segment></xliff>"):
        try:
            document = parsed(content, ending)
        except DataError as error:
            assert "line " in str(error)
        else:
            assert not parsed(shouted(document), ending).passages or ending == "po"


# What a large file is made of: (ending, beginning, what comes again and again, end).
LARGE = [
    ("txt", "", "A sentence is here, with words enough. Another one.\n", ""),
    ("txt", "", "x", ""),
    ("md", "", "# Heading\n\nText *with* `code` and [a link](u).\n\n| a | b |\n|-|-|\n| c | d |\n\n", ""),
    ("md", "", "Text *with* `code` and [a link](u) to see. ", ""),
    ("md", "", "text [ *a **b <c `d ", ""),
    ("html", "", "<p title='t'>Text <b>with</b> tags &amp; <a href='u'>links</a>.</p>\n", ""),
    ("html", "", "Text <b>with</b> tags &amp; <a href='u'>links</a>. ", ""),
    ("html", "", "<p>text <a href='x <b ", ""),
    ("html", "", "<p translate=no>text <!-- ", ""),
    ("srt", "", "7\n00:00:01,000 --> 00:00:02,000\n<i>Two lines\nof text</i>\n\n", ""),
    ("srt", "00:00:01,000 --> 00:00:02,000\n", "<i>Text</i> with lines\n", ""),
    ("po", "", '#: a.c:7\nmsgid "Text with %s"\nmsgstr ""\n\n', ""),
    ("po", 'msgid ""\n', '"Text with %s\\n"\n', 'msgstr ""\n'),
    ("xliff", "<xliff>", "<trans-unit><source>Text <g id='1'>with</g> tags</source></trans-unit>\n", "</xliff>"),
    ("xliff", "<xliff><segment><source>", "<pc id='1'>a</pc> text &lt;b&gt; ", "</source></segment></xliff>"),
]


@pytest.mark.parametrize(("ending", "begin", "unit", "end"), LARGE)
def test_the_time_grows_with_the_file_not_its_square(ending, begin, unit, end):
    """Eight times as much takes about eight times as long; a square would take 64 times."""

    def seconds(size: int) -> float:
        """The least of three, as a busy machine only ever makes it more."""
        content = begin + unit * (size // len(unit)) + end
        spent = []
        for _ in range(3):
            began = time.process_time()
            shouted(parsed(content, ending))
            spent.append(time.process_time() - began)
        return min(spent)

    assert seconds(16_000) < 32 * max(seconds(2_000), 0.004)


def test_a_passage_is_what_it_says():
    passage = parsed("One\n", "txt").passages[0]
    assert passage == Passage(start=0, end=3, text="One", keep=(), write=str)
