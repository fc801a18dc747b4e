"""Scores against sacreBLEU's own command, run as a separate program on files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu.tokenizers.tokenizer_ja_mecab as ja_mecab

from attendo.errors import DataError
from attendo.evaluation.scores import bleu, score_corpus, sentence_bleus

REFERENCES = [
    "Ein Mann fährt mit dem Fahrrad durch die Stadt.",
    "Zwei Kinder spielen im Park, und ein Hund schläft.",
    "Die Frau sagt: „Guten Tag!“ – dann geht sie (schnell) weiter.",
    "Drei rote Autos stehen vor dem alten Haus & warten.",
    "Am Abend liest er 1,5 Stunden lang ein Buch.",
]
HYPOTHESES = [
    "Ein Mann fährt ein Fahrrad durch die Stadt.",
    "Zwei Kinder spielen in dem Park und der Hund schläft.",
    'Die Frau sagt "Guten Tag!" und dann geht sie weiter.',
    "Vor dem alten Haus stehen drei rote Autos und warten.",
    "am Abend liest er 1,5 Stunden in einem Buch",
]


def sacrebleu_command(folder: Path, *options: str) -> list[dict[str, object]]:
    (folder / "reference").write_text("".join(f"{line}\n" for line in REFERENCES), encoding="utf-8")
    (folder / "hypothesis").write_text("".join(f"{line}\n" for line in HYPOTHESES), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "reference", "-i", "hypothesis", "--width", "6", *options]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, encoding="utf-8")
    result = json.loads(run.stdout)
    return result if isinstance(result, list) else [result]


def test_all_scores_and_signatures_are_those_of_sacrebleus_command(tmp_path):
    theirs = sacrebleu_command(tmp_path, "--metrics", "bleu", "chrf", "ter")
    ours = score_corpus(HYPOTHESES, REFERENCES, target_language="de")
    assert [result["name"] for result in theirs] == [ours.bleu.name, ours.chrf.name, ours.ter.name]
    for result, score in zip(theirs, (ours.bleu, ours.chrf, ours.ter), strict=True):
        assert f"{score.score:.6f}" == f"{result['score']:.6f}"
        assert score.signature == result["signature"]
    assert ours.bleu.score not in (0.0, 100.0)
    assert ours.sentences == 5
    assert str(theirs[0]["verbose_score"]) in ours.bleu.detail


def test_chinese_is_scored_with_sacrebleus_chinese_tokenizer(tmp_path):
    (theirs,) = sacrebleu_command(tmp_path, "--metrics", "bleu", "--tokenize", "zh")
    for language in ("zh", "zh-Hans", "zh_TW", "ZH"):
        ours = bleu(HYPOTHESES, REFERENCES, target_language=language)
        assert (f"{ours.score:.6f}", ours.signature) == (f"{theirs['score']:.6f}", theirs["signature"])


def test_japanese_without_an_analyser_counts_characters_and_says_so(monkeypatch):
    monkeypatch.setattr(ja_mecab, "MeCab", None)
    score = bleu(["猫が好きです。"], ["犬が好きです。"], target_language="ja")
    assert "|tok:char|" in score.signature
    assert 0 < score.score < 100


def test_tokenised_looking_output_brings_no_warning(caplog):
    lines = ["ein Satz , der getrennt ist ."] * 101
    bleu(lines, lines)
    assert not caplog.records


def test_sentence_bleu_counts_only_the_orders_a_sentence_has():
    scores = sentence_bleus(["Guten Tag", "völlig falsch", HYPOTHESES[0]], ["Guten Tag", "Ein Hund", REFERENCES[0]])
    assert scores[0] == pytest.approx(100)
    assert scores[1] == 0
    assert 0 < scores[2] < 100


def test_sentence_bleu_follows_the_target_language():
    pair = ["我喜欢大狗和小猫"], ["我喜欢大狗和小鸟"]
    assert sentence_bleus(*pair)[0] == 0
    assert sentence_bleus(*pair, target_language="zh")[0] > 50


def test_json_has_score_and_signature_of_each():
    scores = score_corpus(HYPOTHESES, REFERENCES)
    assert json.loads(json.dumps(scores.to_json())) == {
        "bleu": {"score": scores.bleu.score, "signature": scores.bleu.signature},
        "chrf": {"score": scores.chrf.score, "signature": scores.chrf.signature},
        "ter": {"score": scores.ter.score, "signature": scores.ter.signature},
        "sentences": 5,
    }


@pytest.mark.parametrize("function", [score_corpus, bleu, sentence_bleus])
def test_unequal_and_empty_are_errors(function):
    with pytest.raises(DataError, match=r"5 translations but 4 references"):
        function(HYPOTHESES, REFERENCES[:-1])
    with pytest.raises(DataError, match="no sentences"):
        function([], [])
