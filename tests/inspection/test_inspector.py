import json

import pytest
import torch

import attendo
from attendo.data.batch import make_batch
from attendo.decoding.search import SearchOptions
from attendo.errors import ConfigError, DataError
from attendo.inspection.inspector import Inspection, Inspector
from attendo.inspection.telling import in_words, shade, tree_lines
from attendo.text.tokenizer import train_tokenizer
from tests.untrained import untrained_bundle

TEXT = "two red seven four."


@pytest.fixture(scope="module")
def inspector(trained) -> Inspector:
    return Inspector.from_bundle(trained.bundle, device="cpu")


@pytest.fixture(scope="module")
def seen(inspector) -> Inspection:
    return inspector.inspect(TEXT)


def test_it_is_the_translation_that_users_get(seen, tiny):
    best = tiny.translate(TEXT, scores=True).candidates[0]
    assert seen.target.text == best.text
    assert seen.score == pytest.approx(best.score, abs=1e-4)
    assert seen.log_prob == pytest.approx(best.log_prob, abs=1e-4)
    assert [token.chosen.piece for token in seen.tokens[:-1]] == [piece.piece for piece in best.pieces[:-1]]
    assert [one.chosen.log_prob for one in seen.tokens] == pytest.approx(
        [one.log_prob for one in best.pieces], abs=1e-4
    )


def test_alternatives_are_the_likeliest_of_the_models_own_probabilities(inspector, seen):
    batch = make_batch([seen.source.ids], [seen.target.ids])
    with torch.inference_mode():
        log_probs = inspector.model(batch.source_BS, batch.source_lengths_B, batch.target_in_BT)[0].log_softmax(-1)
    for token, row in zip(seen.tokens, log_probs, strict=True):
        best = sorted(row.tolist(), reverse=True)[:5]
        assert [one.log_prob for one in token.alternatives] == pytest.approx(best, abs=1e-5)
        assert token.chosen.log_prob <= token.alternatives[0].log_prob + 1e-6


def test_words_and_pieces_are_where_they_stand(seen):
    for side in (seen.source, seen.target):
        assert [word.text for word in side.words] == side.text.split()
        assert all(side.text[word.start : word.end] == word.text for word in side.words)
        assert sorted(piece for word in side.words for piece in word.pieces) == list(range(len(side.ids)))
        assert side.pieces[-1] == "</s>"
        for word in side.words:
            spelled = "".join(side.pieces[piece] for piece in word.pieces)
            assert spelled.replace("▁", "") == word.text


def test_a_translation_can_be_given(inspector, tiny):
    seen = inspector.inspect(TEXT, target=" eins rot. ")
    assert seen.tree is None
    assert seen.target.text == "eins rot."
    (score,) = tiny.score([TEXT], ["eins rot."])
    assert seen.log_prob == pytest.approx(score.log_prob, abs=1e-4)
    assert seen.to_json()["beam"] is None


def test_a_translation_may_be_empty(inspector):
    seen = inspector.inspect(TEXT, target="")
    assert (seen.target.text, seen.target.words, seen.links()) == ("", (), ())
    assert [token.chosen.piece for token in seen.tokens] == ["</s>"]
    assert in_words(seen, 80)
    assert seen.to_json()["alignment"]["word_weights"] == []


def test_without_a_head_it_translates_otherwise_than_with_it(inspector, seen):
    every = ["cross.1.1", "cross.1.2"]
    blind = inspector.inspect(TEXT, target=seen.target.text, without=every)
    assert blind.log_prob < seen.log_prob - 1  # it cannot see the source any more
    other = inspector.inspect("nine nine nine.", target=seen.target.text, without=every)
    assert other.log_prob == pytest.approx(blind.log_prob, abs=1e-4)
    assert blind.to_json()["without_heads"] == every


def test_plain_values_for_everything(seen):
    found = json.loads(json.dumps(seen.to_json()))
    source, target = found["source"]["pieces"], found["target"]["pieces"]
    maps = found["attention"]
    assert maps["cross"]["rows"] == maps["decoder"]["rows"] == target
    assert maps["decoder"]["columns"] == ["<s>", *target[:-1]]
    assert maps["encoder"]["rows"] == maps["encoder"]["columns"] == maps["cross"]["columns"] == source
    shape = (len(maps["cross"]["weights"]), len(maps["cross"]["weights"][0]))
    assert shape == (1, 2)
    for row in maps["cross"]["weights"][0][1]:
        assert sum(row) == pytest.approx(1, abs=0.001)
        assert row == [round(weight, 4) for weight in row]
    assert len(found["tokens"]) == len(target)
    assert all(len(token["alternatives"]) == 5 for token in found["tokens"])
    assert len(found["alignment"]["weights"]) == len(target)
    assert len(found["alignment"]["word_weights"]) == len(found["words"]["target"])
    beam = found["beam"]
    assert beam["hypotheses"][0]["text"] == found["target"]["text"]
    assert beam["nodes"][0] | {"log_prob": 0} == beam["nodes"][0]
    assert [node["piece"] for node in beam["nodes"] if node["best"]] == ["<s>", *target]
    assert beam["runner_up"]["parts_at"] >= 1
    assert seen.to_json(maps=False)["attention"] is None


def test_the_public_function(trained, seen):
    found = attendo.inspect(trained.path, TEXT, options=SearchOptions(beam=5), device="cpu")
    assert found.to_json() == seen.to_json()


def test_a_text_of_several_sentences_is_cut(inspector):
    assert inspector.sentences("two <b>red</b> seven. Ten four!") == ["two red seven.", "Ten four!"]
    with pytest.raises(DataError, match="no words"):
        inspector.inspect(" ")
    with pytest.raises(ConfigError, match="leave out sampling"):
        inspector.inspect(TEXT, options=SearchOptions(sample=True))


def test_in_words(seen):
    lines = in_words(seen, 100)
    assert lines[0] == f"source       {TEXT}"
    assert any("zwei" in line and "← two" in line for line in lines)
    assert any("★ score" in line for line in lines)
    assert any(line.startswith("They part at step") for line in lines)
    narrow = in_words(seen, 20)
    assert len(narrow) < len(lines)  # the table does not fit


def test_a_tree_in_lines_has_every_hypothesis_once(tmp_path):
    bundle = untrained_bundle(tmp_path / "bundle")
    seen = Inspector.from_bundle(bundle, device="cpu").inspect("one two three four.", options=SearchOptions(beam=4))
    assert seen.tree is not None
    lines = tree_lines(seen, seen.tree)
    ended = [line for line in lines if "score" in line and ("★" in line or "●" in line) and "─" in line]
    assert len(ended) == len(seen.tree.finished())
    assert sum("★ score" in line for line in lines) == 1


def test_shades_grow_with_the_weight():
    shades = [shade(weight) for weight in (0, 0.09, 0.2, 0.4, 0.6, 0.8, 1.0)]
    assert shades == [" ", " ", "░", "▒", "▓", "█", "█"]


# --- where pieces stand -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "characters"])
@pytest.mark.parametrize("text", ["one two.", "Köln 東京 ☕ x", "a  b", "é", "🙂🙂", "", "ßone"])
def test_spans_are_places_in_the_text(kind, text):
    tokenizer = train_tokenizer(["one two three four Köln", "a b c é x."] * 5, kind=kind, vocab_size=400)
    ids = tokenizer.encode(text)
    spans = tokenizer.spans(ids)
    assert len(spans) == len(ids)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    for piece, (start, end) in zip(tokenizer.pieces(ids), spans, strict=True):
        assert start < end or piece == "▁"  # a byte of a character stands for all of it
    covered = {place for start, end in spans for place in range(start, end)}
    assert covered == set(range(len(text)))
    for piece, (start, end) in zip(tokenizer.pieces(ids), spans, strict=True):
        if piece[0] != "<":
            spelled = piece.removeprefix("##").replace("▁", " ")
            assert spelled in (text[start:end], " " + text[start:end])
