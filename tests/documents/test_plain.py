"""Plain text."""

from tests.documents.parsing import parsed, same, shouted, texts


def test_each_line_with_letters_is_a_passage():
    content = "  One line. Two sentences.\t\r\n\r\n\t42\n\u3000\u3000中文的一段。\nשלום עולם\n* * *\nlast"
    assert texts(content, "txt") == ["One line. Two sentences.", "中文的一段。", "שלום עולם", "last"]
    assert shouted(parsed(content, "txt")) == content.replace("One line. Two", "ONE LINE. TWO").replace(
        "sentences", "SENTENCES"
    ).replace("last", "LAST")
    assert same(parsed(content, "txt")) == content


def test_nothing_is_markup():
    content = "a <b> & {c} %s *d*\n"
    assert parsed(content, "txt").passages[0].keep == ()
    assert parsed(content, "txt").filled(["<x> & *y*"]) == "<x> & *y*\n"


def test_a_translation_stays_on_its_line():
    assert parsed("one\ntwo\n", "txt").filled(["a\nb", "c"]) == "a b\nc\n"
