"""/v1/models and /v1/run, against the bundle's own files."""

import copy
import json

import pytest

from attendo.serving.keys import Key, Keys
from attendo.serving.limits import Limits
from attendo.translator import Translator
from tests.serving.running import running
from tests.untrained import untrained_bundle


def test_what_is_served(server):
    answer = server.get("/v1/models").json()
    assert answer["models"] == [{"name": "numerals", "source": "en", "target": "de"}]
    assert answer["limits"]["characters"] == Limits().characters
    assert answer["keys"] is False


def test_how_it_was_trained(server, trained):
    answer = server.get("/v1/run").json()
    log = [json.loads(line) for line in (trained.path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    scores = json.loads((trained.path / "scores.json").read_text(encoding="utf-8"))
    progress = [entry for entry in log if entry["event"] == "progress"]
    assert answer["curves"]["training_loss"] == [[one["step"], pytest.approx(one["loss"])] for one in progress]
    assert answer["curves"]["learning_rate"] == [[one["step"], pytest.approx(one["lr"])] for one in progress]
    validations = [entry for entry in log if entry["event"] == "validation"]
    assert answer["curves"]["bleu"] == [[one["step"], pytest.approx(one["bleu"])] for one in validations]
    assert {one["metric"]: (one["score"], one["signature"]) for one in answer["scores"][:3]} == {
        name: (pytest.approx(scores["validation"][key]["score"]), scores["validation"][key]["signature"])
        for name, key in (("BLEU", "bleu"), ("chrF", "chrf"), ("TER", "ter"))
    }
    assert answer["finished"] is True
    assert answer["data"]["parameters"]["total"] == trained.bundle.data()["parameters"]["total"]
    assert answer["settings"]["model"]["d_model"] == 32
    assert answer["results"]["steps"] == 420
    best = max((entry for entry in log if "samples" in entry), key=lambda entry: entry["bleu"])
    assert sorted(one["source"] for one in answer["samples"]) == sorted(one["source"] for one in best["samples"])
    assert [one["bleu"] for one in answer["samples"]] == sorted(one["bleu"] for one in best["samples"])


def test_folders_are_not_told(server, trained):
    answer = server.get("/v1/run?model=numerals")
    assert answer.json()["files"] == {"source": "train.en", "target": "train.de", "validation": "held out"}
    assert str(trained.path.parent.parent).encode() not in answer.body


def test_a_bundle_without_a_log(tmp_path):
    translator = Translator.from_bundle(untrained_bundle(tmp_path / "new"), device="cpu")
    homeless = copy.copy(translator)
    homeless.bundles = ()
    with running({"new": translator, "homeless": homeless}) as server:
        answer = server.get("/v1/run?model=new").json()
        assert (answer["finished"], answer["scores"], answer["samples"], answer["minutes"]) == (False, [], [], None)
        assert set(map(len, answer["curves"].values())) == {0}
        assert server.get("/v1/run?model=homeless").status == 422
        assert "there is no 'x'" in server.get("/v1/run?model=x").json()["error"]
        assert "say which" in server.get("/v1/run").json()["error"]


def test_what_a_key_is_needed_for(tiny):
    with running({"numerals": tiny}, keys=Keys([Key.of("sesame")])) as server:
        assert server.get("/v1/models").json()["keys"] is True
        assert server.get("/").status == 200
        assert server.get("/v1/run").status == 401
        assert server.ask("GET", "/v1/run", headers={"Authorization": "Bearer sesame"}).status == 200
        assert server.post("/v1/alternatives", {"text": "one."}).status == 401
        assert server.post("/v1/document", {"name": "a.txt", "content": "one."}).status == 401
