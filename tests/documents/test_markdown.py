"""Markdown, whose blocks and inline markup markdown-it reads again."""

from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.documents.parsing import parsed, same, shout, shouted, texts

README = (Path(__file__).parent / "files" / "readme.md").read_text(encoding="utf-8")
READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def test_passages():
    assert texts(README, "md") == [
        "The *little* oven",
        "Build",
        "Version",
        'The **little oven** bakes bread, and it does so without `--heat` or [any other option](docs/options.md "All '
        'options"). It costs 2 * 3 = 6 coins & some snake_case; see <https://example.org/price>.',
        "A line that breaks here,",
        "and goes on there",
        "and ends.",
        "Contents",
        "One item with `code`",
        "Another item, on two lines",
        "A nested one",
        "Another [nested link][ref]",
        "A quotation inside a list, with *emphasis over two lines*.",
        "A task that is done",
        "A task that is not",
        "Name",
        "What it does",
        "Price",
        "Bakes **one** loaf",
        "Bakes a loaf | eats it",
        "Nothing at all",
        "Press <kbd>Ctrl</kbd> and <b>look</b> at the *stars*.[^1] Use \\<b\\> for <b>bold</b> text.",
        "A loaf of bread",
        "Mind the heat.",
        "Stars are hot, too.",
        "Setext heading",
        "The end.",
    ]


def structure(tokens: list[Token] | None) -> list[Any]:
    """All that is no text, and where lines break in it is not told."""
    return [
        (token.type, token.tag, token.markup, token.info, token.attrs, structure(token.children))
        if token.type not in ("code_block", "fence", "html_block", "code_inline", "html_inline")
        else (token.type, token.content)
        for token in tokens or []
        if token.type not in ("text", "softbreak", "text_special")
    ]


def words(tokens: list[Token] | None) -> str:
    shown = "".join(
        " " if token.type == "softbreak" else words(token.children) if token.children else token.content
        for token in tokens or []
        if token.type in ("text", "softbreak", "inline", "image")
    )
    return " ".join(shown.split())


def test_the_same_structure_in_capitals():
    before, after = READER.parse(README), READER.parse(shouted(parsed(README, "md")))
    assert structure(after) == structure(before)
    front = words(before[:8])
    assert words(after)[len(front) :].upper().split() == words(before)[len(front) :].upper().split()
    assert "THE LITTLE OVEN" in words(after) and "BAKES A LOAF | EATS IT" in words(after)


def test_what_is_not_translated_is_the_same_to_the_byte():
    filled = shouted(parsed(README, "md"))
    for stays in (
        "---\ntitle: A small toolkit\ntags: [bread, ovens]\n---\n",
        "\n[![BUILD](https://ci.example.org/badge.svg)](https://ci.example.org) [![VERSION](https://img.example.org/",
        '```python\n# This comment stays\nprint("Hello, world")\n```\n',
        "\n    An indented block stays too.\n",
        '<div align="center">\n  <p>This block of HTML stays.</p>\n</div>\n',
        "|:------------|:------------------------|------:|\n",
        "| `bake \\| eat` | BAKES A LOAF \\| EATS IT | 20 |\n",
        '[ref]: https://example.org/ref "A title"\n\n***\n',
        '# THE *LITTLE* OVEN <a id="top"></a>\n',
        "THAT BREAKS HERE,  \nAND GOES ON THERE\\\nAND ENDS.\n",
        "- [x] A TASK",
        "    1. A NESTED ONE\n    2. ANOTHER [NESTED LINK][ref]\n\n       > A QUOTATION",
        "> [!NOTE]\n> MIND THE HEAT.\n\n[^1]: STARS",
        "CONTENTS\n--------\n",
    ):
        assert stays in filled


@pytest.mark.parametrize(
    ("content", "passages"),
    [
        ("# One #\n", ["One"]),
        ("## C# and more\n", ["C# and more"]),
        ("* a\n* b\n", ["a", "b"]),
        ("> one\n> two\n", ["one two"]),
        ("> one\nlazy two\n", ["one lazy two"]),
        ("one\n===\n\ntwo\n---\n", ["one", "two"]),
        ("**one**\n", ["one"]),
        ("***one***\n", ["one"]),
        ("**one** *two*\n", ["**one** *two*"]),
        ("~~one~~ two\n", ["~~one~~ two"]),
        ("`one` two\n", ["`one` two"]),
        ("`one`\n", []),
        ("[one](u)\n", ["one"]),
        ("[one](javascript:u) two\n", ["[one](javascript:u) two"]),
        ("[one] two [three]\n\n[one]: u\n", ["[one][one] two \\[three]"]),
        ("![one *two*](u) ![three](v)\n", ["one *two*", "three"]),
        ("text ![one](u) more\n", ["text ![one](u) more"]),
        ("<u@example.org> one\n", ["<u@example.org> one"]),
        ("&copy; one &amp; two\n", ["© one & two"]),
        ("a `b\nc` d\n", ["a `b c` d"]),
        ("> a `b\n> c` d\n", ["a `b c` d"]),
        ("+++\na = 1\n+++\n\none\n", ["one"]),
        ("---\n\none\n\n---\n\ntwo\n", ["one", "two"]),
        ("---\na: b\n...\none\n", ["one"]),
        ("| a | b |\n|---|---|\n| 1 | c | too many |\n| d |\n", ["a", "b", "c", "d"]),
        ("1. | 1 | b |\n   |---|---|\n   | b | 1 |\n", ["b", "b"]),
        ("> | a | a |\n> |-|-|\n> | > | a |\n", ["a", "a", "a"]),
        ("\tcode\n\n- a\n\n\t- b\n", ["a", "b"]),
        ("~~~\ncode\n", []),
        ("<!-- one -->\ntwo\n", ["two"]),
        ("<details>\n<summary>one</summary>\n\ntwo\n\n</details>\n", ["two"]),
        ("中文\n文字 word\n", ["中文文字 word"]),
        ("one\0two\n", ["one\ufffdtwo"]),
        ("*one  \ntwo*\n", ["one", "two"]),
        ("one[^a] two\n", ["one[^a] two"]),
    ],
)
def test_what_is_a_passage(content, passages):
    assert texts(content, "md") == passages
    assert same(parsed(content, "md")) == content
    assert structure(READER.parse(shouted(parsed(content, "md")))) == structure(READER.parse(content))


@pytest.mark.parametrize(
    ("content", "translation", "filled"),
    [
        ("one\n", "# zwei", "\\# zwei\n"),
        ("one\n", "1. zwei", "1\\. zwei\n"),
        ("one\n", "- zwei", "\\- zwei\n"),
        ("one\n", "zwei *drei* vier", "zwei \\*drei\\* vier\n"),
        ("one\n", "zwei * drei, snake_case & [x]", "zwei * drei, snake_case & [x]\n"),
        ("one\n", "<b>zwei</b> &amp;", "\\<b>zwei\\</b> \\&amp;\n"),
        ("one\n", "[a](b)", "\\[a\\](b)\n"),
        ("one\n", "`a`", "\\`a\\`\n"),
        ("# one\n", "1. zwei", "# 1. zwei\n"),
        ("# one\n", "zwei #", "# zwei \\#\n"),
        ("|one|\n|-|\n", "a | b", "|a \\| b|\n|-|\n"),
        ("one\n", "[a]: b", "\\[a\\]: b\n"),
        ("[one] two\n\n[one]: u\n", "zwei [eins][one]", "zwei [eins][one]\n\n[one]: u\n"),
        ("one *two*\n", "eins zwei", "eins zwei\n"),
        ("one [two](u)\n", "eins zwei", "eins zwei[](u)\n"),
        ("one `two`\n", "eins zwei", "eins zwei `two`\n"),
        ("one **two**\n", "eins ** zwei **drei", "eins  **zwei** drei\n"),
        ("one **two**\n", "eins ****zwei", "eins zwei\n"),
        ("one **two *three***\n", "**eins * zwei** drei*", "eins  zwei drei\n"),
        ("one **two *three***\n", "** ** eins *zwei*", "  eins *zwei*\n"),
    ],
)
def test_translations_are_escaped_where_they_have_to_be(content, translation, filled):
    assert parsed(content, "md").filled([translation]) == filled


def test_text_that_looks_like_markup_is_kept_as_text():
    document = parsed("\\*one\\* *two* 2 * 3\n", "md")
    (passage,) = document.passages
    assert passage.text == "\\*one\\* *two* 2 \\* 3"
    filled = document.filled([shout(passage)])
    assert READER.render(filled) == "<p>*ONE* <em>TWO</em> 2 * 3</p>\n"


def test_deep_nesting_is_read():
    assert texts("> " * 40 + "one\n", "md") == ["one"]
    assert texts("- " * 40 + "one\n", "md") == ["one"]
    assert same(parsed("> " * 500 + "one\n", "md")) == "> " * 500 + "one\n"


def test_images_nested_too_deeply_are_an_error_or_read(tmp_path):
    from attendo.documents.document import read_document
    from attendo.errors import DataError

    path = tmp_path / "a.md"
    path.write_text("![" * 400 + "a" + "](u)" * 400, encoding="utf-8")
    try:
        assert same(read_document(path)) == path.read_text(encoding="utf-8")
    except DataError as error:
        assert "nested too deeply" in str(error)
