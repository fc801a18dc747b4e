"""XLIFF, read again with xml.etree."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from attendo.errors import DataError
from tests.documents.parsing import parsed, shouted, texts

ONE = (Path(__file__).parent / "files" / "one.xliff").read_text(encoding="utf-8")
TWO = (Path(__file__).parent / "files" / "two.xlf").read_text(encoding="utf-8")
NAMESPACE_1 = "{urn:oasis:names:tc:xliff:document:1.2}"
NAMESPACE_2 = "{urn:oasis:names:tc:xliff:document:2.0}"


def unit(inside: str) -> str:
    return f"<xliff><trans-unit>{inside}</trans-unit></xliff>"


def test_passages_of_1_2():
    assert [(p.text, p.keep) for p in parsed(ONE, "xliff").passages] == [
        ('The oven is <g id="1" ctype="bold">very hot</g> & big.', ('<g id="1" ctype="bold">', "</g>")),
        ('Open <x id="1" equiv-text="{{name}}"/> now', ('<x id="1" equiv-text="{{name}}"/>',)),
        ("Bake it", ()),
        (
            'Click <bpt id="1">&lt;b&gt;</bpt>here<ept id="1">&lt;/b&gt;</ept> to\nbake',
            ('<bpt id="1">&lt;b&gt;</bpt>', '<ept id="1">&lt;/b&gt;</ept>'),
        ),
    ]


def test_passages_of_2_0():
    assert [(p.text, p.keep) for p in parsed(TWO, "xlf").passages] == [
        (
            'Press <x:pc id="1">the <x:mrk id="m1" translate="no">OvenSoft</x:mrk> button</x:pc> twice.',
            ('<x:pc id="1">', '<x:mrk id="m1" translate="no">OvenSoft</x:mrk>', "</x:pc>"),
        ),
        ('Then eat <x:ph id="2"/>.', ('<x:ph id="2"/>',)),
    ]


def without_targets(root: ElementTree.Element) -> list[tuple[str, dict[str, str], str, str]]:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith("}target"):
                parent.remove(child)
    return [(e.tag, e.attrib, (e.text or "").strip(), (e.tail or "").strip()) for e in root.iter()]


@pytest.mark.parametrize("content", [ONE, TWO], ids=["1.2", "2.0"])
def test_all_but_the_targets_is_the_same_tree(content):
    filled = shouted(parsed(content, "xliff"))
    assert without_targets(ElementTree.fromstring(filled)) == without_targets(ElementTree.fromstring(content))


def targets(content: str, namespace: str, unit: str) -> list[str | None]:
    found = []
    for element in ElementTree.fromstring(content).iter(namespace + unit):
        target = element.find(namespace + "target")
        found.append(None if target is None else "".join(target.itertext()))
    return found


def test_targets_of_1_2():
    assert targets(shouted(parsed(ONE, "xliff")), NAMESPACE_1, "trans-unit") == [
        "THE OVEN IS VERY HOT & BIG.",
        "OPEN  NOW",
        "BAKE IT",
        "Schon fertig",
        "Genehmigt",
        None,
        "CLICK <b>HERE</b> TO\nBAKE",
        "Öfen",
        None,
    ]
    tree = ElementTree.fromstring(shouted(parsed(ONE, "xliff")))
    units = {element.get("id"): element for element in tree.iter(NAMESPACE_1 + "trans-unit")}
    bold = units["1"].find(f"{NAMESPACE_1}target/{NAMESPACE_1}g")
    assert bold is not None and (bold.attrib, bold.text) == ({"id": "1", "ctype": "bold"}, "VERY HOT")
    other = units["7"].find(f"{NAMESPACE_1}alt-trans/{NAMESPACE_1}target")
    assert other is not None and other.text == "Dort klicken"


def test_targets_of_2_0():
    found = targets(shouted(parsed(TWO, "xlf")), NAMESPACE_2, "segment")
    assert [" ".join(target.split()) if target else None for target in found] == [
        "PRESS THE OvenSoft BUTTON TWICE.",
        "Dann warten.",
        "THEN EAT .",
        None,
    ]


def test_the_rest_is_the_same_to_the_byte():
    """What was put in, taken out again, leaves the file."""
    filled = shouted(parsed(ONE, "xliff"))
    for target in (
        '\n        <target>THE OVEN IS <g id="1" ctype="bold">VERY HOT</g> &amp; BIG.</target>',
        '\n        <target>CLICK <bpt id="1">&lt;b&gt;</bpt>HERE<ept id="1">&lt;/b&gt;</ept> TO\nBAKE</target>',
    ):
        assert target in filled
        filled = filled.replace(target, "")
    filled = filled.replace('<target>OPEN <x id="1" equiv-text="{{name}}"/> NOW</target>', "<target/>")
    assert filled.replace("BAKE IT", "") == ONE


def test_retranslate_leaves_what_is_done():
    found = [passage.text for passage in parsed(ONE, "xliff", retranslate=True).passages]
    assert "Ovens < stoves" in found
    assert "Done already" not in found and "Approved" not in found and "OvenSoft" not in found
    filled = shouted(parsed(ONE, "xliff", retranslate=True))
    assert '<target><g id="9">OVENS &lt; STOVES</g></target>' in filled


def test_a_file_with_nothing_to_translate_is_the_same():
    content = unit("<source>One</source><target>Eins</target>")
    assert parsed(content, "xliff").filled([]) == content


@pytest.mark.parametrize(
    ("target", "filled"),
    [
        ("", "<target>x</target>"),
        ("<target/>", "<target>x</target>"),
        ("<target></target>", "<target>x</target>"),
        ("<target state='new'>One</target>", "<target state='new'>x</target>"),
        ("<target state = 'new' />", "<target state = 'new'>x</target>"),
        ("<target\n  xml:lang='de'/>", "<target\n  xml:lang='de'>x</target>"),
        ("<target state='translated'/>", None),
        ("<target state='signed-off'>y</target>", None),
        ("<target>y</target>", None),
    ],
)
def test_which_targets_are_written(target, filled):
    document = parsed(unit(f"<source>One</source>{target}"), "xliff")
    if filled is None:
        assert not document.passages
    else:
        assert document.filled(["x"]) == unit(f"<source>One</source>{filled}")


def test_a_segmented_source_comes_before_the_target():
    content = unit("<source>One. Two.</source><seg-source><mrk mtype='seg' mid='1'>One.</mrk> Two.</seg-source>")
    document = parsed(content, "xliff")
    assert document.passages[0].text == "<mrk mtype='seg' mid='1'>One.</mrk> Two."
    assert document.filled(["<mrk mtype='seg' mid='1'>1.</mrk> 2."]).endswith(
        "</seg-source><target><mrk mtype='seg' mid='1'>1.</mrk> 2.</target></trans-unit></xliff>"
    )


def test_a_translation_is_always_xml():
    document = parsed(unit("<source>a <g id='1'>b</g></source>"), "xliff")
    for translation in ("<g id='1'>", "</g>", "a & b ]]> \0 \x1b <x", "</target>", "</g><g id='1'>", ""):
        ElementTree.fromstring(document.filled([translation]))


def test_text_that_looks_like_a_tag_is_kept_as_text():
    content = unit("<source>&lt;g id='1'> is <g id='1'>bold</g></source>")
    document = parsed(content, "xliff")
    assert document.passages[0].text == "&lt;g id='1'&gt; is <g id='1'>bold</g>"
    (target,) = targets(document.filled(["<g id='1'>fett</g>: &lt;g id='1'&gt;"]), "", "trans-unit")
    assert target == "fett: <g id='1'>"


def test_white_space_that_means_nothing_is_one_space():
    assert texts(unit("<source>\n  one\n  two\n</source>"), "xliff") == ["one two"]
    preserved = unit("<source xml:space='preserve'>  one\n  two </source>")
    assert texts(preserved, "xliff") == ["one\n  two"]
    assert "<target>  x\n  y </target>" in parsed(preserved, "xliff").filled(["x\n  y"])


def test_a_doctype_without_declarations_is_read():
    content = '<!DOCTYPE xliff PUBLIC "-//XLIFF//DTD XLIFF//EN" "xliff.dtd">' + unit("<source>One</source>")
    assert texts(content, "xliff") == ["One"]


def test_deep_files_are_read():
    assert texts("<xliff>" + "<group>" * 5000 + unit("<source>One</source>") + "</group>" * 5000 + "</xliff>", "xliff")


def test_entities_are_refused_before_they_are_read():
    with pytest.raises(DataError, match="line 1: the document type declares"):
        parsed(f'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>{unit("<source>&a;</source>")}', "xliff")
