"""An imported model is served over HTTP as one that was trained here."""

import attendo
from tests.interop import models
from tests.serving.running import running


def test_an_imported_translator_answers_what_it_says_by_itself(tmp_path):
    models.m2m100(tmp_path / "theirs")
    attendo.import_model(tmp_path / "theirs", out=tmp_path / "bundle", source_language="en", target_language="de")
    translator = attendo.load(tmp_path / "bundle", device="cpu")
    with running({"imported": translator}) as server:
        reply = server.post("/v1/translate", {"text": "The old man.", "beam": 2, "max_length": 7})
    assert reply.status == 200, reply.body
    (found,) = reply.json()["translations"]
    (expected,) = translator.translate("The old man.", scores=True, beam=2, max_length=7).candidates
    assert found["text"] == expected.text != ""
    assert [one["piece"] for one in found["candidates"][0]["pieces"]] == [one.piece for one in expected.pieces]
