"""/v1/document, against the translator by itself."""

import pytest

from attendo.documents.document import parse_document, read_document
from attendo.serving.limits import Limits
from tests.serving.running import running

MARKDOWN = "\ufeff# one *two*\r\n\r\n" + "\r\n\r\n".join(f"five `x {n}` green." for n in range(43)) + "\r\n"


def test_a_document_comes_back_with_its_structure(server, tiny):
    *progress, (event, done) = server.events("/v1/document", {"name": "notes.md", "content": MARKDOWN})
    assert event == "done"
    assert [(name, data["done"]) for name, data in progress] == [("progress", n) for n in (20, 40, 44)]
    assert all(data["of"] == 44 for _, data in progress)
    document = parse_document("notes.md", MARKDOWN)
    offline = tiny.translate_many([one.text for one in document.passages], keep=[one.keep for one in document.passages])
    assert done["content"] == document.filled([one.text for one in offline])
    assert done["content"].startswith("\ufeff# ")
    assert done["content"].count("\r\n") == MARKDOWN.count("\r\n")
    assert (done["name"], done["passages"], done["model"]) == ("notes.de.md", 44, "numerals")
    warned = [number for number, one in enumerate(offline, start=1) for _ in one.warnings]
    assert [one["passage"] for one in done["warnings"]] == warned


def test_the_same_as_from_a_file(tmp_path):
    (tmp_path / "a.md").write_bytes(MARKDOWN.encode("utf-8"))
    assert read_document(tmp_path / "a.md") == parse_document("a.md", MARKDOWN)


def test_a_glossary(server, tiny):
    question = {"name": "a.txt", "content": "seven green.\n", "glossary": {"green": "Cologne"}}
    (_, done) = server.events("/v1/document", question)[-1]
    expected = tiny.translate("seven green.", glossary=question["glossary"]).text
    assert "Cologne" in expected and done["content"] == f"{expected}\n"
    assert done["terms"] == [{"source": "green", "target": "Cologne", "used": True}]


def test_nothing_to_translate(server):
    (only,) = server.events("/v1/document", {"name": "a.txt", "content": "\n\n"})
    assert only == (
        "done",
        {"model": "numerals", "name": "a.de.txt", "content": "\n\n", "passages": 0, "warnings": [], "terms": []},
    )


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"name": "a.pdf", "content": ""}, "a.pdf: documents end in .txt"),
        ({"name": "/etc/passwd", "content": "one"}, "documents end in .txt"),
        ({"name": "../../etc/hosts", "content": "one"}, "documents end in .txt"),
        ({"name": "a.xliff", "content": "<xliff"}, "a.xliff, "),
        ({"name": "x" * 256 + ".md", "content": "one"}, "name"),
        ({"name": "a.md"}, "content: Field required"),
    ],
)
def test_what_cannot_be_translated(server, question, words):
    reply = server.post("/v1/document", question)
    assert reply.status == 422
    assert words in reply.json()["error"]


def test_a_name_is_never_a_path(server, tmp_path):
    name = f"{tmp_path}/there.txt"
    (tmp_path / "there.txt").write_text("six.", encoding="utf-8")
    (_, done) = server.events("/v1/document", {"name": name, "content": "one."})[-1]
    assert (done["name"], done["content"]) == ("there.de.txt", "eins.")
    assert [path.name for path in tmp_path.iterdir()] == ["there.txt"]


def test_limits(tiny):
    with running({"numerals": tiny}, limits=Limits(characters=200, sentences=31)) as server:
        reply = server.post("/v1/document", {"name": "a.txt", "content": "one two three.\n" * 20})
        assert (reply.status, reply.json()["limit"]) == (422, "characters")
        reply = server.post("/v1/document", {"name": "a.txt", "content": "one\n" * 32})
        assert (reply.status, reply.json()["limit"]) == (422, "sentences")
        reply = server.post("/v1/document", {"name": "a.txt", "content": "one.\n" * 20 + "one. two.\n" * 6})
        assert (reply.status, reply.json()["limit"]) == (422, "sentences")


def test_what_would_take_too_long_as_a_whole_is_refused_before_anything_is_done(tiny):
    question = {"name": "a.txt", "content": "one.\n" * 61}
    with running({"numerals": tiny}, limits=Limits(seconds=20)) as server:
        pieces = len(tiny.tokenizers.source.encode("one.")) + 1
        server.service.queue._speed = 20 * 5 * pieces / 10  # 20 passages, searched with a beam of 5, take 10 seconds
        reply = server.post("/v1/document", question)
        assert (reply.status, reply.json()["limit"]) == (503, "seconds")
        assert "attendo_batch_sentences_count 0.0" in server.get("/metrics").body.decode()
        server.service.queue._speed *= 2
        assert server.events("/v1/document", question)[-1][0] == "done"
