"""/v1/translate, /v1/translate/stream and /v1/score, against the translator by itself."""

import copy
import json
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from attendo.serving.limits import Limits
from attendo.text.glossary import Glossary
from attendo.text.survivors import missing, survivors
from tests.numerals import sentence_pairs
from tests.serving.running import running

SENTENCES = [source for source, _ in sentence_pairs(40, seed=77)]
DOCUMENT = "  five green.\n\n\tOne two. Three red! <b>Six</b> seven.\n"


def expected(translation):
    """As the answer has it, without numbers that depend on the order of sums."""
    return {
        "text": translation.text,
        "candidates": [candidate.text for candidate in translation.candidates],
        "sentences": translation.parts,
        "warnings": [{"kind": one.kind, "message": one.message} for one in translation.warnings],
        "terms": [{"source": one.source, "target": one.target, "used": one.used} for one in translation.terms],
    }


def shown(answer):
    return {**answer, "candidates": [one["text"] for one in answer["candidates"]]}


def test_one_text(server, tiny):
    reply = server.post("/v1/translate", {"text": "five green."})
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert len(reply.headers["x-request-id"]) == 16
    answer = reply.json()
    assert answer["model"] == "numerals"
    (one,) = answer["translations"]
    assert one["text"] == "fünf grün."
    (candidate,) = one["candidates"]
    offline = tiny.translate("five green.", scores=True).candidates[0]
    assert candidate["log_prob"] == pytest.approx(offline.log_prob, abs=1e-4)
    assert candidate["score"] == pytest.approx(offline.score, abs=1e-4)
    assert [each["piece"] for each in candidate["pieces"]] == [each.piece for each in offline.pieces]
    assert math.fsum(each["log_prob"] for each in candidate["pieces"]) == pytest.approx(offline.log_prob, abs=1e-4)
    for each in candidate["pieces"]:
        assert each["confidence"] == pytest.approx(math.exp(each["log_prob"]))
    assert 0 <= answer["timing"]["waited_ms"] <= answer["timing"]["total_ms"]


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", "jsonx/y"])
def test_what_is_not_sent_as_json_is_told_so(server, media):
    body = b'{"text": "five green."}'
    for headers in ({"Content-Type": media}, {}):
        reply = server.ask("POST", "/v1/translate", body, headers)
        assert reply.status == 415
        assert "Content-Type: application/json" in reply.json()["error"]
    of_another_name = {"Content-Type": "application/x+json; charset=utf-8"}
    assert server.ask("POST", "/v1/translate", body, of_another_name).status == 200


@pytest.mark.parametrize(
    ("question", "how"),
    [
        ({"text": SENTENCES[:7]}, {}),
        ({"text": SENTENCES[:7], "beam": 1}, {"beam": 1}),
        ({"text": SENTENCES[:3], "beam": 7, "n_best": 4}, {"beam": 7, "n_best": 4}),
        ({"text": SENTENCES[:3], "max_length": 3}, {"max_length": 3}),
        ({"text": "two five.", "prefix": "drei"}, {"prefixes": ["drei"]}),
        ({"text": DOCUMENT}, {}),
        ({"text": ["", " \n", "one {name} 17."]}, {}),
        ({"text": "one two.", "glossary": {"two": "grün"}}, {"glossary": Glossary({"two": "grün"})}),
        ({"text": [], "model": "numerals", "source": "en", "target": "de"}, {}),
    ],
)
def test_answers_are_the_translators_own(server, tiny, question, how):
    texts = question["text"] if isinstance(question["text"], list) else [question["text"]]
    reply = server.post("/v1/translate", question)
    assert reply.status == 200, reply.body
    offline = tiny.translate_many(texts, scores=True, **how)
    assert [shown(one) for one in reply.json()["translations"]] == [expected(one) for one in offline]


def test_many_clients_get_what_one_would_get_alone(server, tiny):
    """Of several kinds of search, at the same time, over and over; each checked against the offline translation."""
    kinds = [{"beam": 1}, {"beam": 5}, {"beam": 4, "n_best": 3}, {"beam": 1, "max_length": 2}]
    wanted = {
        number: [expected(one) for one in tiny.translate_many(SENTENCES, scores=True, **kind)]
        for number, kind in enumerate(kinds)
    }
    began = threading.Barrier(32)

    def client(number):
        began.wait()
        for turn in range(3):
            kind = (number + turn) % len(kinds)
            first = (7 * number + 11 * turn) % 30
            chosen = slice(first, first + 1 + number % 9)
            reply = server.post("/v1/translate", {"text": SENTENCES[chosen], **kinds[kind]})
            assert reply.status == 200, reply.body
            assert [shown(one) for one in reply.json()["translations"]] == wanted[kind][chosen]

    with ThreadPoolExecutor(32) as pool:
        for done in [pool.submit(client, number) for number in range(32)]:
            done.result()
    page = server.get("/metrics").body.decode()
    sizes = {line.split()[0]: float(line.split()[1]) for line in page.splitlines() if not line.startswith("#")}
    assert sizes["attendo_batch_sentences_sum"] > sizes["attendo_batch_sentences_count"]  # some were done together
    assert sizes["attendo_queue_sentences"] == sizes["attendo_open_requests"] == 0
    assert sizes['attendo_pieces_total{side="target"}'] > 0
    assert sizes['attendo_requests_total{endpoint="/v1/translate",method="POST",status="200"}'] >= 96


@pytest.mark.parametrize(
    "text",
    [
        "five green.",
        DOCUMENT,
        "",
        "one two 17. five {name} six.",
        " ".join(SENTENCES),
        "Ünknöwn 漢字 \N{GRINNING FACE} letters.",
    ],
)
def test_a_stream_is_the_greedy_translation_bit_by_bit(server, tiny, text):
    *tokens, (last, done) = server.events("/v1/translate/stream", {"text": text})
    offline = tiny.translate(text, beam=1)
    assert {event for event, _ in tokens} <= {"token"}
    assert "".join(data["text"] for _, data in tokens) == offline.text
    assert (last, done["text"], done["sentences"]) == ("done", offline.text, offline.parts)
    assert done["warnings"] == expected(offline)["warnings"]
    if text == "five green.":
        assert len(tokens) >= 3


def test_a_stream_with_a_prefix_and_a_glossary(server, tiny):
    question = {"text": "one two. five.", "prefix": "drei", "glossary": {"five": "rot"}, "max_length": 9}
    *tokens, (_, done) = server.events("/v1/translate/stream", question)
    offline = tiny.translate("one two. five.", beam=1, prefix="drei", glossary=Glossary({"five": "rot"}), max_length=9)
    assert "".join(data["text"] for _, data in tokens) == done["text"] == offline.text
    assert done["terms"] == expected(offline)["terms"]


def test_streams_at_the_same_time(server, tiny):
    wanted = [one.text for one in tiny.translate_many(SENTENCES, beam=1)]
    with ThreadPoolExecutor(12) as pool:
        streams = pool.map(lambda text: server.events("/v1/translate/stream", {"text": text}), SENTENCES)
        assert ["".join(data["text"] for _, data in events[:-1]) for events in streams] == wanted


def test_scores(server, tiny):
    pairs = sentence_pairs(9, seed=5)
    question = {"text": [source for source, _ in pairs], "translation": [target for _, target in pairs]}
    offline = tiny.score(question["text"], question["translation"])
    answer = server.post("/v1/score", question).json()
    assert [one["log_prob"] for one in answer["scores"]] == pytest.approx([one.log_prob for one in offline], abs=1e-4)
    assert [one["pieces"] for one in answer["scores"]] == [one.n_pieces for one in offline]
    single = server.post("/v1/score", {"text": pairs[0][0], "translation": pairs[0][1]}).json()
    assert single["scores"][0]["log_prob"] == pytest.approx(offline[0].log_prob, abs=1e-4)
    reply = server.post("/v1/score", {"text": ["one", "two"], "translation": "eins"})
    assert (reply.status, reply.json()["error"]) == (422, "text and translation: 2 and 1; each needs its other side.")


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"text": "one", "beem": 3}, "unknown field 'beem'"),
        ({}, "text: Field required"),
        ({"text": 3}, "text"),
        ({"text": "one", "beam": "5"}, "beam: Input should be a valid integer"),
        ({"text": "one", "beam": 0}, "beam: Input should be greater than or equal to 1"),
        ({"text": "one", "beam": 2.5}, "beam"),
        ({"text": "one", "n_best": True}, "n_best"),
        ({"text": "one", "n_best": 9, "beam": 2}, "n_best = 9: must be at most beam, which is 2"),
        ({"text": "one", "glossary": {"": "x"}}, "both sides need a text"),
        ({"text": "one", "glossary": ["x"]}, "glossary: Input should be a valid dictionary"),
        ({"text": "one", "prefix": "a\nb"}, "has line breaks"),
        ({"text": "one", "model": "../../etc/passwd"}, "there is no '../../etc/passwd'. There are: numerals (en→de)"),
        ({"text": "one", "source": "fr"}, "no model translates source 'fr'"),
        (["one"], "Input should be a valid dictionary"),
        ("one", "Input should be a valid dictionary"),
    ],
)
def test_what_cannot_be_asked(server, question, words):
    reply = server.post("/v1/translate", question)
    assert reply.status == 422
    assert words in reply.json()["error"]


def test_the_operators_paths(server):
    assert (server.get("/health").status, server.get("/health").json()) == (200, {"status": "ok"})
    assert (server.get("/ready").status, server.get("/ready").json()) == (200, {"status": "ready"})
    description = server.get("/openapi.json").json()
    assert {"/v1/translate", "/v1/translate/stream", "/v1/score", "/translate", "/languages", "/detect"} <= set(
        description["paths"]
    )
    docs = server.get("/docs")
    assert docs.status == 200
    assert docs.headers["content-type"].startswith("text/html")
    assert b"POST /v1/translate/stream" in docs.body
    assert b"<script" not in docs.body  # it needs nothing from elsewhere
    assert b"http" not in docs.body
    lost = server.get("/nowhere")
    assert (lost.status, lost.json()) == (404, {"error": "Not Found"})
    wrong = server.get("/v1/translate")
    assert (wrong.status, wrong.json()) == (405, {"error": "Method Not Allowed"})
    head = server.ask("HEAD", "/")
    assert (head.status, head.body, head.headers["etag"]) == (200, b"", server.get("/").headers["etag"])
    page = server.get("/metrics").body.decode()
    assert 'attendo_requests_total{endpoint="other",method="GET",status="404"}' in page
    assert "nowhere" not in page


def test_small_answers_are_not_held_back(server):
    """By a kernel that waits for more to send, which takes 40 milliseconds for each."""
    connection = server.connection()
    times = []
    for _ in range(7):
        began = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        times.append(time.perf_counter() - began)
    connection.close()
    assert min(times[1:]) < 0.03


def test_what_would_take_too_long_to_hold_is_only_warned_of(server, tiny):
    """A search that is bound to many pieces takes minutes, so how many is limited."""
    asked = {"text": "one two.", "glossary": {"two": "{drei}"}}
    (one,) = server.post("/v1/translate", asked).json()["translations"]
    assert "{drei}" in one["text"]
    assert "lost" not in [each["kind"] for each in one["warnings"]]
    with running({"numerals": tiny}, limits=Limits(held=2)) as strict:
        (one,) = strict.post("/v1/translate", asked).json()["translations"]
        assert "{drei}" not in one["text"]
        assert "lost" in [each["kind"] for each in one["warnings"]]
        *_, (last, done) = strict.events("/v1/translate/stream", asked)
        assert (last, "lost" in [each["kind"] for each in done["warnings"]]) == ("done", True)


@pytest.mark.parametrize("beam", [1, 3])
def test_what_is_lost_is_put_back_as_it_is_offline(server, tiny, beam):
    texts = [f"one {one} two three." for one in ("17", "{x}", "3.50", "%s 4 {a}", "5 " * 12)]
    expected = [one.text for one in tiny.translate_many(texts, beam=beam)]
    found = server.post("/v1/translate", {"text": texts, "beam": beam}).json()["translations"]
    assert [one["text"] for one in found] == expected
    assert not any(missing(survivors(text), one) for text, one in zip(texts, expected, strict=True))
    *_, (_, done) = server.events("/v1/translate/stream", {"text": texts[0]})
    assert done["text"] == tiny.translate(texts[0], beam=1).text


PLACED = "one <b>two</b> three.\nfour https://example.org/six/seven five."


def test_markup_and_addresses_are_placed_as_they_are_offline(server, tiny):
    expected = tiny.translate(PLACED).text
    (one,) = server.post("/v1/translate", {"text": PLACED}).json()["translations"]
    assert (one["text"], one["warnings"]) == (expected, [])
    greedy = tiny.translate(PLACED, beam=1).text
    events = server.events("/v1/translate/stream", {"text": PLACED})
    *parts, (_, done) = events
    assert done["text"] == "".join(data["text"] for _, data in parts) == greedy


@pytest.fixture
def slow(tiny, monkeypatch):
    """A translator whose searches wait for a signal, and the signal."""
    other, signal = copy.copy(tiny), threading.Event()

    def search(sentences, *arguments, **options):
        signal.wait(10)
        return tiny.search(sentences, *arguments, **options)

    monkeypatch.setattr(other, "search", search)
    return other, signal


def test_a_client_that_goes_away_has_its_work_dropped(slow):
    translator, signal = slow
    with running({"slow": translator}) as server:
        body = json.dumps({"text": SENTENCES * 20, "beam": 10}).encode()
        connection = server.connection()
        connection.request("POST", "/v1/translate", body, {"Content-Type": "application/json"})
        server.until(lambda: server.service.queue.waiting > 100)
        connection.close()
        server.until(lambda: server.service.queue.waiting == 0 and server.service.open == 0)
        signal.set()
        assert server.post("/v1/translate", {"text": "one."}).json()["translations"][0]["text"] == "eins."


def test_a_client_that_leaves_a_stream_stops_it(tiny, monkeypatch):
    other = copy.copy(tiny)
    going, taken = threading.Event(), []

    class Endless:
        def stream(self, source, _limit):
            while True:
                time.sleep(0.01)
                taken.append(source)
                yield tiny.tokenizers.target.encode("eins")[0]

    monkeypatch.setattr(other, "engine", Endless())
    with running({"endless": other}) as server:
        connection = server.connection()
        body = json.dumps({"text": "one."}).encode()
        connection.request("POST", "/v1/translate/stream", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.readline() == b"event: token\n"
        response.close()
        connection.close()
        server.until(lambda: server.service.open == 0)
        going.wait(0.1)
        so_far = len(taken)
        going.wait(0.1)
        assert len(taken) <= so_far + 1


def test_short_requests_pass_a_long_one(tiny, monkeypatch):
    other = copy.copy(tiny)

    def search(sentences, *arguments, **options):
        time.sleep(0.1)
        return tiny.search(sentences, *arguments, **options)

    monkeypatch.setattr(other, "search", search)
    with running({"busy": other}) as server, ThreadPoolExecutor(1) as pool:
        long = pool.submit(server.post, "/v1/translate", {"text": SENTENCES * 40, "beam": 10})
        server.until(lambda: server.service.queue.waiting > 100)
        short = server.post("/v1/translate", {"text": "one.", "beam": 10})
        assert short.status == 200
        assert not long.done()
        assert server.service.queue.waiting > 0
        assert [one["text"] for one in long.result().json()["translations"]] == [
            one.text for one in tiny.translate_many(SENTENCES, beam=10)
        ] * 40


def test_a_fault_is_a_500_that_says_nothing_of_the_inside(tiny, monkeypatch):
    other = copy.copy(tiny)

    def search(*_, **__):
        raise KeyError("secret")

    monkeypatch.setattr(other, "search", search)
    with running({"faulty": other}) as server:
        reply = server.post("/v1/translate", {"text": "one."})
        assert reply.status == 500
        assert reply.json() == {
            "error": f"a fault of the server; its log has it under {reply.headers['x-request-id']}."
        }
        assert "attendo_errors_total 1.0" in server.get("/metrics").body.decode()
        assert server.service.open == 0


def test_pages_of_other_origins_may_ask_only_where_that_is_said(server, tiny):
    headers = {"Origin": "https://example.org"}
    assert "access-control-allow-origin" not in server.ask("GET", "/health", headers=headers).headers
    with running({"x": tiny}, cors=("https://example.org",)) as open_server:
        reply = open_server.ask("GET", "/health", headers=headers)
        assert reply.headers["access-control-allow-origin"] == "https://example.org"
        other = open_server.ask("GET", "/health", headers={"Origin": "https://other.org"})
        assert "access-control-allow-origin" not in other.headers


def test_several_models(tiny):
    back = copy.copy(tiny)
    back.languages = ("de", "en")
    with running({"there": tiny, "back": back}, limits=Limits(beam=3)) as server:
        assert server.post("/v1/translate", {"text": "one.", "target": "de"}).json()["model"] == "there"
        assert server.post("/v1/translate", {"text": "one.", "source": "de"}).json()["model"] == "back"
        assert server.post("/v1/translate", {"text": "one.", "model": "back"}).json()["model"] == "back"
        reply = server.post("/v1/translate", {"text": "one."})
        assert reply.status == 422
        assert "there (en→de), back (de→en)" in reply.json()["error"]
