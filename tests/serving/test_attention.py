"""POST /v1/attention."""

from pathlib import Path

import pytest

import attendo
from attendo.serving.limits import Limits
from attendo.translator import Translator, load
from tests.serving.running import Running, running
from tests.untrained import recurrent_bundle, untrained_bundle

TEXT = "two red seven."


def test_it_is_what_the_inspector_sees(server: Running, trained):
    found = server.post("/v1/attention", {"text": TEXT}).json()
    assert found.pop("timing")["total_ms"] > 0
    assert (found.pop("model"), found.pop("sentences"), found.pop("sentence")) == ("numerals", [TEXT], 0)
    assert found == attendo.inspect(trained.path, TEXT, device="cpu").to_json()


def test_a_sentence_of_several(server: Running):
    found = server.post("/v1/attention", {"text": f"ten. {TEXT}", "sentence": 1, "maps": False, "beam": 2}).json()
    assert found["sentences"] == ["ten.", TEXT]
    assert (found["sentence"], found["source"]["text"]) == (1, TEXT)
    assert found["attention"] is None
    assert found["beam"]["width"] == 2


def test_a_given_translation_and_heads_that_are_off(server: Running):
    question = {"text": TEXT, "translation": "eins rot.", "without_heads": ["1.2", "encoder.1.1"]}
    found = server.post("/v1/attention", question).json()
    assert found["target"]["text"] == "eins rot."
    assert found["beam"] is None
    assert found["without_heads"] == ["cross.1.2", "encoder.1.1"]
    whole = server.post("/v1/attention", {"text": TEXT, "translation": "eins rot."}).json()
    assert whole["log_prob"] != found["log_prob"]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"text": " "}, "text: there are no words to look at."),
        ({"text": " ", "translation": "x"}, "text: there are no words to look at."),
        ({"text": TEXT, "sentence": 1}, "sentence 1: there are 1, counted from 0."),
        ({"text": TEXT, "translation": "x", "sentence": 1}, "sentence 1: there are 1, counted from 0."),
        ({"text": TEXT, "without_heads": ["cross.9.1"]}, "head 'cross.9.1': there is none."),
        ({"text": TEXT, "without_heads": ["first"]}, "head 'first': must be called like cross.3.2"),
        ({"text": TEXT, "heads": []}, "heads"),
        ({}, "text"),
    ],
)
def test_what_cannot_be_is_refused(server: Running, question, words):
    reply = server.post("/v1/attention", question)
    assert reply.status == 422
    assert words in reply.json()["error"]


def test_its_limits(tiny: Translator):
    with running({"numerals": tiny}, limits=Limits(inspected=11, beam=3, characters=200)) as strict:
        for question, limit, value in (
            ({"text": "two " * 12}, "inspected", 11),
            ({"text": "two", "translation": "zwei " * 12}, "inspected", 11),
            ({"text": TEXT, "beam": 4}, "beam", 3),
            ({"text": "two. " * 41}, "characters", 200),
        ):
            reply = strict.post("/v1/attention", question)
            assert (reply.status, reply.json()["limit"], reply.json()["value"]) == (422, limit, value)
        assert strict.post("/v1/attention", {"text": "two. " * 11, "sentence": 3}).status == 200


def test_it_waits_in_the_queue_like_all_others(tiny: Translator, monkeypatch):
    with running({"numerals": tiny}, limits=Limits(queue=7, seconds=20)) as server:
        assert server.post("/v1/attention", {"text": TEXT, "maps": False}).status == 200
        server.service.queue._speed = 1.0
        reply = server.post("/v1/attention", {"text": TEXT})
        assert (reply.status, reply.json()["limit"]) == (503, "seconds")
        monkeypatch.setattr(type(server.service.queue), "waiting", property(lambda _: 7))
        reply = server.post("/v1/attention", {"text": TEXT})
        assert (reply.status, reply.json()["limit"]) == (503, "queue")
        assert int(reply.headers["retry-after"]) >= 1


def test_looks_do_not_say_how_long_translations_take(tiny: Translator):
    with running({"numerals": tiny}) as server:
        server.service.queue.batch_cost = 5
        assert server.post("/v1/attention", {"text": TEXT, "maps": False}).status == 200
        assert server.service.queue.estimate(1000) == 0
        assert server.post("/v1/translate", {"text": TEXT}).status == 200
        assert server.service.queue.estimate(1000) > 0


def test_an_older_model_has_no_self_attention_to_show(tmp_path: Path):
    bundle = recurrent_bundle(tmp_path / "run")
    with running({"older": load(bundle.path, device="cpu")}) as server:
        maps = server.post("/v1/attention", {"text": TEXT, "translation": "zwei rot."}).json()["attention"]
        assert (maps["encoder"], maps["decoder"]) == (None, None)
        assert len(maps["cross"]["weights"]) == 1
        reply = server.post("/v1/attention", {"text": TEXT, "without_heads": ["cross.1.1"]})
        assert reply.status == 422
        assert "this model is of kind rnn" in reply.json()["error"]


def test_a_damaged_choice_of_heads_is_told_without_its_path(tmp_path: Path):
    bundle = untrained_bundle(tmp_path / "run")
    bundle.write("alignment.json", "{}x")
    with running({"numerals": load(bundle.path, device="cpu")}) as server:
        error = server.post("/v1/attention", {"text": TEXT}).json()["error"]
        assert "numerals/alignment.json" in error
        assert str(tmp_path) not in error


def test_an_ensemble_cannot_be_looked_into(tiny: Translator, trained):
    both = Translator(tiny.engine, tiny.tokenizers, max_length=61, bundles=[str(trained.path)] * 2)
    with running({"both": both}) as server:
        assert "only a single bundle" in server.post("/v1/attention", {"text": TEXT}).json()["error"]
