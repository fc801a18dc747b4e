"""LibreTranslate's paths, also by its own client."""

import copy
from urllib.parse import urlencode

import pytest
from libretranslatepy import LibreTranslateAPI

from attendo.serving.keys import Key, Keys
from tests.serving.running import running


@pytest.fixture(scope="module")
def both(tiny):
    """A server with two directions, of which the second is the first under another name."""
    back = copy.copy(tiny)
    back.languages = ("de", "en")
    with running({"there": tiny, "back": back}) as found:
        yield found


def test_its_own_client(both, tiny):
    client = LibreTranslateAPI(f"{both.url}/")
    assert client.translate("five green.", "en", "de") == "fünf grün."
    text = "one two. <b>three</b>\n\nfive & six 100% {name}?"
    assert client.translate(text, "en", "de") == tiny.translate(text).text
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]
    (best, *_) = client.detect("This is a sentence in English, of several words.")
    assert best["language"] == "en"
    assert 50 < best["confidence"] <= 100


def test_its_own_client_with_a_key(tiny):
    with running({"numerals": tiny}, keys=Keys([Key.of("sesame")])) as server:
        assert LibreTranslateAPI(f"{server.url}/", "sesame").translate("one.", "en", "de") == "eins."
        with pytest.raises(OSError, match="401"):
            LibreTranslateAPI(f"{server.url}/", "wrong").translate("one.", "en", "de")


def multipart(fields):
    """As curl -F sends it."""
    pairs = [(name, one) for name, value in fields.items() for one in (value if isinstance(value, list) else [value])]
    parts = [f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in pairs]
    return "".join([*parts, "--x--\r\n"]).encode()


@pytest.mark.parametrize("sent_as", ["json", "form", "multipart"])
def test_questions_are_json_or_a_form(both, sent_as):
    def ask(path, **fields):
        if sent_as == "json":
            reply = both.post(path, fields)
        elif sent_as == "form":
            reply = both.form(path, urlencode(fields, doseq=True))
        else:
            reply = both.ask("POST", path, multipart(fields), {"Content-Type": "multipart/form-data; boundary=x"})
        assert reply.status == 200, reply.body
        return reply.json()

    assert ask("/translate", q="five green.", source="en", target="de") == {"translatedText": "fünf grün."}
    assert ask("/translate", q=["one.", "two."], source="en", target="de", format="text", secret="ignored") == {
        "translatedText": ["eins.", "zwei."]
    }
    several = ask("/translate", q="one two.", source="en", target="de", alternatives=2)
    assert several["translatedText"] == "eins zwei."
    assert len(several["alternatives"]) == 2
    assert several["translatedText"] not in several["alternatives"]
    detected = ask("/translate", q="The man is in the house.", source="auto", target="de")
    assert detected["detectedLanguage"]["language"] == "en"


def test_alternatives_of_several_texts(both, tiny):
    question = {"q": ["one.", "two three."], "source": "auto", "target": "de", "alternatives": 1}
    answer = both.post("/translate", question).json()
    offline = tiny.translate_many(question["q"], n_best=2)
    assert answer["translatedText"] == [one.text for one in offline]
    assert answer["alternatives"] == [[one.candidates[1].text] for one in offline]
    assert [one["language"] for one in answer["detectedLanguage"]] == ["en", "en"]
    many = both.post("/translate", {**question, "alternatives": 1000})
    assert many.status == 200
    assert len(many.json()["alternatives"][0]) <= both.service.limits.beam


def test_auto_looks_for_languages_that_have_the_target(both):
    text = "Das ist ein deutscher Satz mit einigen Wörtern."
    assert both.post("/detect", {"q": text}).json()[0]["language"] == "de"
    answer = both.post("/translate", {"q": text, "source": "auto", "target": "en"}).json()
    assert answer["detectedLanguage"]["language"] == "de"
    answer = both.post("/translate", {"q": text, "source": "auto", "target": "de"}).json()
    assert answer["detectedLanguage"]["language"] == "en"


def test_html(both, tiny):
    text = '<p class="x">five green.</p>\n<ul><li>one &amp; two</li><li title="three">six</li></ul><script>one</script>'
    answer = both.post("/translate", {"q": text, "source": "en", "target": "de", "format": "html"}).json()
    found = answer["translatedText"]
    assert found.startswith('<p class="x">fünf grün.</p>\n<ul><li>')
    assert found.endswith("</li></ul><script>one</script>")
    assert "&amp;" in found or "&" not in found
    assert f">{tiny.translate('six').text}</li>" in found
    several = both.post(
        "/translate", {"q": [text, "<b>one.</b>"], "source": "en", "target": "de", "format": "html", "alternatives": 1}
    ).json()
    assert several["translatedText"][0] == found
    assert [len(one) for one in several["alternatives"]] == [1, 1]


@pytest.mark.parametrize(
    ("question", "status", "words"),
    [
        ({"q": "one", "source": "en"}, 400, "target: Field required"),
        ({"q": "one", "source": "en", "target": "fr"}, 422, "no model translates source 'en' and target 'fr'"),
        ({"q": "one", "source": "auto", "target": "fr"}, 422, "no model translates"),
        ({"q": "one", "source": "en", "target": "de", "format": "pdf"}, 400, "format"),
        ({"q": "one", "source": "en", "target": "de", "alternatives": -1}, 400, "alternatives"),
    ],
)
def test_what_cannot_be_asked(both, question, status, words):
    reply = both.post("/translate", question)
    assert reply.status == status
    assert words in reply.json()["error"]


def test_files_are_not_taken(both):
    body = b'--x\r\nContent-Disposition: form-data; name="q"; filename="a.txt"\r\n\r\none\r\n--x--\r\n'
    reply = both.ask("POST", "/translate", body, {"Content-Type": "multipart/form-data; boundary=x"})
    assert reply.status == 400
    assert "Too many files" in reply.json()["error"]


def test_what_is_neither_json_nor_a_form(both):
    reply = both.ask("POST", "/translate", b"q=one", {"Content-Type": "text/plain"})
    assert reply.status == 415
    assert "application/json" in reply.json()["error"]


def test_bundles_that_know_no_languages(tiny):
    dumb = copy.copy(tiny)
    dumb.languages = None
    with running({"dumb": dumb}) as server:
        assert server.get("/languages").json() == []
        assert server.post("/detect", {"q": "one"}).status == 422
        assert server.post("/v1/translate", {"text": "one."}).status == 200
