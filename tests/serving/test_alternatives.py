"""/v1/alternatives, against the model's probabilities of every piece there is."""

import math
from dataclasses import replace

import pytest

from attendo.decoding.search import SearchOptions
from attendo.serving.limits import Limits
from tests.serving.running import running


def likeliest(tiny, text, prefix, *, new_word):
    """(probability, id) of the five likeliest next pieces, by scoring each."""
    source, target = tiny.tokenizers.source, tiny.tokenizers.target
    begun, joining = target.encode(prefix), target.joining_ids()
    every = range(4, target.vocab_size)  # those before are control pieces
    scores = tiny.engine.score([source.encode(text)] * len(every), [[*begun, id_] for id_ in every])
    chances = [(math.exp(row[len(begun)]), id_) for row, id_ in zip(scores, every, strict=True)]
    return sorted((one for one in chances if not (new_word and one[1] in joining)), reverse=True)[:5]


@pytest.mark.parametrize(("prefix", "number"), [("", 0), ("fünf ", 0), ("sechs ", 1), ("sechs rot", 1)])
def test_the_likeliest_pieces_begin_translations_of_their_own(server, tiny, prefix, number):
    sentences = ["five green.", "six red one."]
    reply = server.post("/v1/alternatives", {"text": " ".join(sentences), "sentence": number, "prefix": prefix})
    assert reply.status == 200
    answer = reply.json()
    assert answer["model"] == "numerals"
    expected = likeliest(tiny, sentences[number], prefix.rstrip(), new_word=prefix.endswith(" "))
    (draft,) = tiny.drafter.drafts([sentences[number]])
    begun = tiny.tokenizers.target.encode(prefix.rstrip())
    found = tiny.search(
        [replace(draft.sentences[0], prefix=(*begun, id_)) for _, id_ in expected], SearchOptions(beam=5), scores=True
    )
    assert len(answer["alternatives"]) == 5
    for alternative, (chance, id_), (hypothesis,) in zip(answer["alternatives"], expected, found, strict=True):
        assert alternative["probability"] == pytest.approx(chance, rel=1e-3)
        translation = alternative["translation"]
        assert translation["text"] == tiny.tokenizers.target.decode(hypothesis.ids)
        assert [one["piece"] for one in translation["pieces"]] == [*tiny.tokenizers.target.pieces(hypothesis.ids), ""]
        assert translation["pieces"][len(begun)]["piece"] == tiny.tokenizers.target.pieces([id_])[0]
        assert translation["log_prob"] == pytest.approx(hypothesis.log_prob, abs=1e-3)


def test_a_term_of_the_glossary_stays(server):
    question = {"text": "five green.", "glossary": {"green": "Cologne"}}
    for one in server.post("/v1/alternatives", question).json()["alternatives"]:
        assert "Cologne" in one["translation"]["text"]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"text": "one. two.", "sentence": 2}, "sentence 2: the text has 2"),
        ({"text": "", "sentence": 0}, "the text has 0"),
        ({"text": "one.", "sentence": -1}, "sentence"),
        ({"text": "one.", "prefix": "a\nb"}, "line breaks"),
        ({"text": "one.", "beam": 3}, "unknown field 'beam'"),
    ],
)
def test_what_cannot_be_asked(server, question, words):
    reply = server.post("/v1/alternatives", question)
    assert reply.status == 422
    assert words in reply.json()["error"]


def test_limits(tiny):
    with running({"numerals": tiny}, limits=Limits(max_length=7, characters=50, beam=2)) as server:
        assert server.post("/v1/alternatives", {"text": "one " * 20}).json()["limit"] == "characters"
        assert server.post("/v1/alternatives", {"text": "one.", "prefix": "xq" * 20}).json()["limit"] == "max_length"
        assert len(server.post("/v1/alternatives", {"text": "one."}).json()["alternatives"]) == 2
