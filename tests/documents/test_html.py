"""HTML, read again with lxml."""

import re
from pathlib import Path

import lxml.html
import pytest

from tests.documents.parsing import parsed, same, shouted, texts

PAGE = (Path(__file__).parent / "files" / "page.html").read_text(encoding="utf-8")


def test_passages():
    assert texts(PAGE, "html") == [
        "The little oven — home",
        'An oven that bakes "bread".',
        "The oven's page",
        "The <em>little</em> oven",
        "It bakes bread,",
        'and <a href="/cakes?a=1&amp;b=2" title="Cakes">sometimes cakes</a> & pies. Use <code>x &lt; y</code> to '
        'compare, and <span translate="no">OvenSoft</span> to talk.',
        "Write &lt;b&gt; for <b>bold</b> text.\xa0Yes: 3 < 4.",
        "One",
        "Two © 2024",
        "A loaf of bread",
        "Cell <sup>1</sup>",
        "Name",
        "Send it",
        "Send",
        "Überüber: <i>end</i>.",
    ]


def words(text: str | None) -> str:
    return " ".join((text or "").split())


KEPT = {"script", "style", "pre", "code", "textarea"}
TRANSLATED = {"title", "alt", "placeholder", "aria-label"}


def test_the_same_tree_in_capitals():
    before, after = lxml.html.document_fromstring(PAGE), lxml.html.document_fromstring(shouted(parsed(PAGE, "html")))
    old, new = list(before.iter()), list(after.iter())
    assert [element.tag for element in new] == [element.tag for element in old]
    assert len(old) > 30
    for was, now in zip(old, new, strict=True):
        kept = was.tag in KEPT or any(e.get("translate") == "no" for e in [was, *was.iterancestors()])
        comment = not isinstance(was.tag, str)
        assert words(now.text) == (
            words(was.text) if kept or comment else words(was.text).upper().replace("<B>", "<b>")
        )
        around = any(e.get("translate") == "no" for e in was.iterancestors())
        assert words(now.tail) == (words(was.tail) if around else words(was.tail).upper())
        for name, value in was.attrib.items():
            described = was.tag == "meta" and was.get("name") == "description" and name == "content"
            inside = was.tag == "a"  # within a sentence a tag is kept as it is
            changed = described or (name in TRANSLATED and not inside)
            assert now.get(name) == (value.upper() if changed else value)


def test_what_is_not_translated_is_the_same_to_the_byte():
    filled = shouted(parsed(PAGE, "html"))
    for stays in (
        '<!DOCTYPE html>\n<html lang="en">',
        "<style>p { color: red; } /* a > b */</style>",
        """<script>if (1 < 2 && "<p>not a paragraph</p>") { alert('Hello'); }</script>""",
        "<!-- A comment about <b>nothing</b> -->",
        "<code>x &lt; y</code>",
        "<pre>\n    keep   this\n  </pre>",
        "<textarea>Keep me</textarea>",
        '<div translate="no"><p>Nor this.</p><div>Nor that.</div></div>',
        '<span translate="no">OvenSoft</span>',
        '<li translate="no">Not this one</li>',
    ):
        assert stays in filled


def test_text_is_escaped():
    document = parsed("<p>one <b>two</b></p>", "html")
    assert document.filled(['<script>\xa0& <b>x</b> > "']) == '<p>&lt;script&gt;&nbsp;&amp; <b>x</b> &gt; "</p>'


def test_text_that_looks_like_a_tag_stays_text():
    document = parsed("<p>Write &lt;b&gt; for <b>bold</b></p>", "html")
    assert document.passages[0].keep == ("&lt;b&gt;", "<b>", "</b>")
    assert document.filled(["<b>fett</b>: &lt;b&gt;"]) == "<p><b>fett</b>: &lt;b&gt;</p>"


@pytest.mark.parametrize(
    ("tag", "filled"),
    [
        ("<img alt=word>", "<img alt=\"a&quot;b 'c' &lt;\">"),
        ('<img alt="word">', "<img alt=\"a&quot;b 'c' &lt;\">"),
        ("<img alt='word'>", "<img alt='a\"b &#39;c&#39; &lt;'>"),
        ("<img src=x alt = ' word '/>", "<img src=x alt = ' a\"b &#39;c&#39; &lt; '/>"),
        ('<META PROPERTY="og:title" CONTENT="word">', '<META PROPERTY="og:title" CONTENT="a&quot;b \'c\' &lt;">'),
    ],
)
def test_attributes_are_escaped_in_their_quotation_marks(tag, filled):
    document = parsed(tag, "html")
    assert [passage.text for passage in document.passages] == ["word"]
    assert document.filled(["a\"b 'c' <"]) == filled


@pytest.mark.parametrize(
    "tag",
    [
        "<img alt=''>",
        '<meta name="viewport" content="words">',
        "<a href='words'>",
        "<p data-title='words'>",
        "</p title='words'>",
    ],
)
def test_other_attributes_stay(tag):
    assert not parsed(tag, "html").passages


@pytest.mark.parametrize(
    ("content", "passages"),
    [
        ("one<br>two<hr/>three", ["one", "two", "three"]),
        ("<b>one</b>", ["one"]),
        ("<p><a href=x><img src=y> one</a></p>", ["one"]),
        ("<p>one <b>two</b></p>", ["one <b>two</b>"]),
        ("<p><b>one</b> two</p>", ["<b>one</b> two"]),
        ("<p><code>one</code> two</p>", ["<code>one</code> two"]),
        ("<p><code>one</code></p>", []),
        ("<p>one <p>two", ["one", "two"]),
        ("<P TRANSLATE=NO>one<p>two", ["two"]),
        ("<p class='a notranslate'>one</p>two", ["two"]),
        ("<div translate=no><div>one</div>two</div>three", ["three"]),
        ("<title>a <b> c</title>", ["a <b> c"]),
        ("one < two", ["one < two"]),
        ("one <!-- two --> three", ["one <!-- two --> three"]),
        ("one <!-- two", ["one"]),
        ("one <a href='", ["one"]),
        ("one <script>two", ["one"]),
        ("a &notanentity; &amp;amp; b", ["a &notanentity; &amp; b".replace("&notanentity;", "¬anentity;")]),
        ("<p>一行\n  又一行</p>", ["一行又一行"]),
        ("<svg><title>no</title></svg> yes", ["yes"]),
        ("<x-icon></x-icon>one", ["one"]),
        ("<p>one <a\n  href='x'>two</a></p>", ["one <a href='x'>two</a>"]),
        ("<a title='>'>one</a> two", ["<a title='>'>one</a> two"]),
    ],
)
def test_what_is_a_passage(content, passages):
    assert texts(content, "html") == passages
    assert same(parsed(content, "html")) == content


def test_entities_of_all_kinds_come_back():
    content = "<p>&eacute;&#233;&#xE9; &nbsp;&copy &lt;x&gt; caf&eacute;</p>"
    document = parsed(content, "html")
    assert same(document) == content
    assert document.filled(["É" + document.passages[0].text[1:]]) == "<p>Ééé &nbsp;© &lt;x&gt; café</p>"


def test_no_tag_is_ever_made_or_lost():
    filled = shouted(parsed(PAGE, "html"))
    assert len(re.findall("<[a-z/!]", filled)) == len(re.findall("<[a-z/!]", PAGE))
