"""PO files, read again with polib."""

from pathlib import Path

import polib
import pytest

from tests.documents.parsing import parsed, shouted, texts

PROGRAM = (Path(__file__).parent / "files" / "program.po").read_text(encoding="utf-8")
HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'


def test_passages():
    found = {passage.text: passage.keep for passage in parsed(PROGRAM, "po").passages}
    assert found == {
        "The oven is hot.": (),
        '%d loaf in "%s"': ("%d", "%s"),
        '%d loaves in "%s"': ("%d", "%s"),
        "Usage: oven [OPTION]\nBake bread.": (),
        "Hello {name}, you have %(count)s new <b>messages</b> in {0:.2f} seconds, 100% of them\tread.": (
            "{name}",
            "%(count)s",
            "<b>",
            "</b>",
            "{0:.2f}",
        ),
    }


def test_read_with_polib():
    before, after = polib.pofile(PROGRAM), polib.pofile(shouted(parsed(PROGRAM, "po")))
    assert after.metadata == before.metadata and after.header == before.header
    assert [entry.msgid_with_context for entry in after] == [entry.msgid_with_context for entry in before]
    for old, new in zip(before, after, strict=True):
        assert (new.comment, new.flags, new.occurrences, new.previous_msgid) == (
            old.comment,
            old.flags,
            old.occurrences,
            old.previous_msgid,
        )
    filled = {entry.msgid: entry for entry in after}
    assert filled["The oven is hot."].msgstr == "THE OVEN IS HOT."
    assert filled['%d loaf in "%s"'].msgstr_plural == {0: '%d LOAF IN "%s"', 1: '%d LOAVES IN "%s"'}
    assert filled["Usage: oven [OPTION]\nBake bread.\n"].msgstr == "USAGE: OVEN [OPTION]\nBAKE BREAD.\n"
    assert filled["Open"].msgstr == "Öffnen"
    assert filled["Close"].msgstr == "Geschlossen"
    assert filled["Old"].msgstr == "Alt" and filled["Old"].obsolete
    assert filled["%s: %d"].msgstr == ""


def test_only_the_empty_strings_change():
    """Line by line: what was there is there, in its order, but for the empty msgstr."""
    lines = iter(shouted(parsed(PROGRAM, "po")).splitlines())
    for line in PROGRAM.splitlines():
        if not line.startswith("msgstr"):
            assert line in lines


def test_retranslate():
    again = parsed(PROGRAM, "po", retranslate=True)
    assert "Open" in [passage.text for passage in again.passages]
    assert "Close" not in [passage.text for passage in again.passages]
    assert 'msgstr "OPEN"' in shouted(again) and 'msgstr "Geschlossen"' in shouted(again)


@pytest.mark.parametrize(
    ("n_forms", "sources"), [(1, ["files"]), (2, ["file", "files"]), (3, ["file", "files", "files"])]
)
def test_plural_forms(n_forms, sources):
    forms = "".join(f'msgstr[{n}] ""\n' for n in range(n_forms))
    assert texts(f'{HEADER}msgid "file"\nmsgid_plural "files"\n{forms}', "po") == sources


@pytest.mark.parametrize(
    ("literal", "text"), [(r"a\tb\\n\"c\"", 'a\tb\\n"c"'), (r"\x41b \101c", "Ab Ac"), (r"a\\b \q", "a\\b q")]
)
def test_escapes_are_read(literal, text):
    assert texts(f'msgid "{literal}"\nmsgstr ""\n', "po") == [text]


def test_translations_are_escaped():
    document = parsed('msgid "one"\nmsgstr ""\n', "po")
    translation = 'a "b" \\ c\td\ne f'
    filled = document.filled([translation])
    assert filled == 'msgid "one"\nmsgstr ""\n"a \\"b\\" \\\\ c\\td\\n"\n"e f"\n'
    assert polib.pofile(filled)[0].msgstr == translation


def test_line_breaks_at_the_ends_are_those_of_the_source():
    document = parsed('msgid "\\n one two\\n"\nmsgstr ""\n', "po")
    assert document.passages[0].text == "one two"
    assert polib.pofile(document.filled(["eins zwei"]))[0].msgstr == "\n eins zwei\n"


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("took %ds of %5.2f%% for %-10s", ("%d", "%5.2f", "%%", "%-10s")),
        ("%1$s and %2$d, %1 and %L2", ("%1$s", "%2$d", "%1", "%L2")),
        ("100% of all, 5 % of some", ()),
        ("{} {0} {name!r:>10} {a.b[0]} {not a name}", ("{}", "{0}", "{name!r:>10}", "{a.b[0]}")),
        ("${home} and {{ user }}", ("${home}", "{{ user }}")),
        ("a < b and <br/> <a href='x'>c</a>", ("<br/>", "<a href='x'>", "</a>")),
        ("at %H:%M on %Y-%m-%d", ("%H", "%M", "%Y", "%m", "%d")),
        ("%ld of %zu, %(size)d bytes", ("%ld", "%zu", "%(size)d")),
    ],
)
def test_placeholders(text, keep):
    # A word at each end, as markup around the whole stays outside.
    document = parsed(f'msgid "word {text} word"\nmsgstr ""\n', "po")
    assert document.passages[0].keep == keep


def test_a_file_with_nothing_to_translate_is_the_same():
    content = HEADER + 'msgid "One"\nmsgstr "Eins"\n'
    assert parsed(content, "po").filled([]) == content


def test_an_obsolete_entry_is_fuzzy_alone():
    content = '#, fuzzy\n#~ msgid "Old"\n#~ msgstr "Alt"\n\nmsgid "New"\nmsgstr ""\n'
    assert texts(content, "po") == ["New"]


def test_entries_need_no_blank_lines():
    content = 'msgid "One"\nmsgstr ""\nmsgid "Two"\nmsgstr ""\n# comment\nmsgctxt "c"\nmsgid "Three"\nmsgstr "3"'
    assert texts(content, "po") == ["One", "Two"]
