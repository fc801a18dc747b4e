"""Where markup goes: given what belongs together in a source and its translation, which no model had to say."""

import random
import re
from itertools import pairwise

import pytest

from attendo.text.cutting import Core, cut_text
from attendo.text.placing import paired, placed

IN_ORDER = "in order"
KEEP = re.compile(r"</?\w+/?>|https?://[\w./]+[\w/]")


def core(source: str) -> Core:
    (one,) = cut_text(source, [], "en").cores
    return one.lifted(set(KEEP.findall(source)))


def spans(text: str) -> list[tuple[int, int]]:
    """Of the words, or of the characters where there are no spaces."""
    pattern = r"\w" if re.search("[一-鿿]", text) else r"[\w'-]+"
    return [match.span() for match in re.finditer(pattern, text)]


def put(source: str, target: str, links: str | None) -> str:
    """links: `0-0 1-2`, in words of the source without what is taken out; None: not known."""
    one = core(source)
    ours, theirs = spans(one.read), spans(target)
    known = None
    if links == IN_ORDER:
        known = list(zip(ours, theirs, strict=True))
    elif links is not None:
        known = [(ours[int(s)], theirs[int(t)]) for s, t in (pair.split("-") for pair in links.split())]
    return placed(one.things, one.read, target, known)


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("Two dogs play in the <b>snow</b>.", "Zwei Hunde spielen im Schnee.", "0-0 1-1 2-2 3-3 5-4",
         "Zwei Hunde spielen im <b>Schnee</b>."),
        # Other order: the tag goes where its words go.
        ("Today a <b>man</b> reads.", "Ein Mann liest heute.", "0-3 1-0 2-1 3-2", "Ein <b>Mann</b> liest heute."),
        ("I <b>look at</b> dogs.", "Ich schaue Hunde an.", "0-0 1-1 2-3 3-2", "Ich <b>schaue Hunde an</b>."),
        # Nested, also where both enclose the same.
        ("A <b>red <i>car</i></b> runs.", "Ein rotes Auto rennt.", IN_ORDER, "Ein <b>rotes <i>Auto</i></b> rennt."),
        ("A <b><i>car</i></b> runs.", "Ein Auto rennt.", IN_ORDER, "Ein <b><i>Auto</i></b> rennt."),
        # Side by side, and with their places exchanged.
        ("A <b>red</b> <i>car</i> runs.", "Ein rotes Auto rennt.", IN_ORDER, "Ein <b>rotes</b> <i>Auto</i> rennt."),
        ("A <b>red</b> <i>car</i> runs.", "Un coche rojo va.", "0-0 1-2 2-1 3-3", "Un <i>coche</i> <b>rojo</b> va."),
        ("A <b>snow</b> <i>ball</i> runs.", "Ein Schneeball rennt.", "0-0 1-1 2-1 3-2",
         "Ein <b><i>Schneeball</i></b> rennt."),
        # What would cross ends earlier.
        ("A <b>b c</b> <i>d e</i> f.", "A b d c e f.", "0-0 1-1 2-3 3-2 4-4 5-5", "A <b>b</b> <i>d c e</i> f."),
        # No aligned word: by its relative position.
        ("a b <b>c</b> d", "A B C D", "0-0 1-1 3-3", "A B <b>C</b> D"),
        ("a b <b>c</b> d", "A B C D", None, "A B <b>C</b> D"),
        ("a b <b>c</b> d", "A", None, "<b>A</b>"),
        ("a <b>b</b> c", "", None, "<b></b>"),
        ("a <b>b</b> c.", "…", "", "… <b></b>"),
        # An empty pair, and one around another thing only, stay together.
        ("a b <i></i> c", "A B C", IN_ORDER, "A B <i></i> C"),
        ("a b <i><br/></i> c", "A B C", IN_ORDER, "A B <i><br/></i> C"),
        # Things inside a pair stay inside.
        ("a <b><br/>b c</b> d", "A B C D", IN_ORDER, "A <b><br/>B C</b> D"),
        ("a <b>b c <br/></b> d", "A B C D", IN_ORDER, "A <b>B C <br/></b> D"),
        ("a <b>b <br/> c</b> d", "A C D B", "0-0 1-3 2-1 3-2", "A <b>C D B <br/></b>"),
        # Punctuation inside stays inside, and outside outside.
        ("He said <q>go,</q> to me.", "Er sagte los, zu mir.", IN_ORDER, "Er sagte <q>los,</q> zu mir."),
        ("He said <q>go</q>, to me.", "Er sagte los, zu mir.", IN_ORDER, "Er sagte <q>los</q>, zu mir."),
        ("a (<b>b</b>) c", "A (B) C", IN_ORDER, "A (<b>B</b>) C"),
        # One alone: after the word before it, or before the word after it.
        ("a <x/> b c", "B A C", "0-1 1-0 2-2", "B A <x/> C"),
        ("a <x/> b c", "B A C", "1-0 2-2", "<x/> B A C"),
        ("a<x/> b c", "A B C", IN_ORDER, "A<x/> B C"),
        ("a <x/>b c", "A B C", IN_ORDER, "A <x/>B C"),
        # One whose partner is in another sentence never stands inside a pair, and these keep their order.
        ("a</u> <b>b c</b> <s>d e", "A B C D E", IN_ORDER, "A</u> <b>B C</b> <s>D E"),
        ("a b</u> c <s>d", "D C B A", "0-3 1-2 2-1 3-0", "D C B</u> <s>A"),
        # Addresses.
        ("See https://a.b/c now.", "Jetzt siehe.", "0-1 1-0", "Jetzt siehe https://a.b/c."),
        ("Now see https://a.b/c.", "Siehe jetzt.", "0-1 1-0", "Siehe jetzt https://a.b/c."),
        ("https://a.b/c is it", "Das ist es", "0-1 1-2", "https://a.b/c Das ist es"),
        ("A page (https://a.b/c) is it.", "Eine Seite ist es.", IN_ORDER, "Eine Seite (https://a.b/c) ist es."),
        ("See https://a.b/c, dogs!", "Siehe, Hunde!", IN_ORDER, "Siehe https://a.b/c, Hunde!"),
        ("See https://a.b/c https://d.e/f now", "Siehe nun", IN_ORDER, "Siehe https://a.b/c https://d.e/f nun"),
        # Scripts without spaces.
        ("I see <b>the dog</b> there.", "我看见那里的狗。", "0-0 1-1 1-2 2-6 3-6 4-3", "我看见那里的<b>狗</b>。"),
        ("我<b>看见</b>狗。", "I see dogs.", "0-0 1-1 2-1 3-2", "I <b>see</b> dogs."),
        ("我<b>看见</b>狗。", "我看见狗。", IN_ORDER, "我<b>看见</b>狗。"),
    ],
)  # fmt: skip
def test_where_things_go(source, target, links, expected):
    assert put(source, target, links) == expected


def test_partners():
    assert paired(["<b>", "<i>", "</b>", "</i>"]) == {0: 2, 2: 0}
    assert paired(["**", "[", "**", "](x)", "**", "<br/>"]) == {0: 2, 2: 0}
    assert paired(["[", "*", "*", "](x)"]) == {0: 3, 3: 0, 1: 2, 2: 1}
    assert paired(["</b>", "<b>", "{x}", "{x}"]) == {}


def crosses(text: str) -> bool:
    opened: list[str] = []
    for slash, name in re.findall(r"<(/?)(\w+)>", text):
        if not slash:
            opened.append(name)
        elif not opened or opened.pop() != name:
            return True
    return bool(opened)


def test_whatever_the_alignment_everything_is_there_and_nothing_crosses():
    generator = random.Random(5)
    for _ in range(500):
        words = [f"w{i}" for i in range(generator.randint(1, 7))]
        source = nested_tags(words, generator)
        target = " ".join(f"v{i}" for i in range(generator.randint(0, 7)))
        one = core("begin " + source + " end.")
        ours, theirs = spans(one.read), spans(target)
        links = [(s, t) for s in ours for t in theirs if generator.random() < 0.2]
        for known in (None, links):
            text = placed(one.things, one.read, target, known)
            assert sorted(KEEP.findall(text)) == sorted(KEEP.findall(source))
            assert KEEP.sub(" ", text).split() == target.split()
            assert not crosses(text), (source, text)


def nested_tags(words: list[str], generator: random.Random, depth: int = 0) -> str:
    if depth == 3 or not words:
        return " ".join(words)
    cuts = sorted(generator.randint(0, len(words)) for _ in range(2))
    inner = [words[start:end] for start, end in pairwise([0, *cuts, len(words)])]
    middle = f"<t{depth}>{nested_tags(inner[1], generator, depth + 1)}</t{depth}>"
    return " ".join(one for one in (" ".join(inner[0]), middle, nested_tags(inner[2], generator, depth + 1)) if one)


def test_very_many_tags():
    """No recursion, and nothing is compared with everything."""
    n = 4999
    for source in (
        "a " + "<b>" * n + "b" + "</b>" * n + " c",
        "a " + "<b>" * n + "b c",
        "a " + "<b></b>" * n + " c",
        "a " + "<b>b</b> " * 50 + " c",
    ):
        text = put(source, "A B C", None)
        assert sorted(KEEP.findall(text)) == sorted(KEEP.findall(source))


@pytest.mark.parametrize("thing", ["5.99", "{name}", "%s", "www.example.org/a"])
def test_no_tag_stands_inside_what_must_survive(thing):
    """Not even where a part of it alone belongs to what the tag encloses."""
    one, target = core("a <b>b</b> c."), f"A {thing} C."
    end = 2 + len(thing)
    links = [((0, 1), (0, 1)), ((2, 3), (end - 1, end)), ((4, 5), (end + 1, end + 2))]
    assert placed(one.things, one.read, target, links) == f"A <b>{thing}</b> C."
