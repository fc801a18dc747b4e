"""Multi30K's metric, against the data set's own prepared files."""

import gzip
import os
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU

from attendo.errors import DataError
from attendo.evaluation.literature import literature_bleu, prepare


def multi30k(name: str) -> list[str]:
    """The lines of a file of the data set, split only at line feeds."""
    path = Path(os.environ.get("ATTENDO_DATA", "data")) / "multi30k" / name
    if not path.is_file():
        pytest.skip(f"Multi30K is not here: no file {path} (set ATTENDO_DATA to the folder that holds multi30k/)")
    text = gzip.decompress(path.read_bytes()).decode("utf-8")
    return text.removesuffix("\n").split("\n")


@pytest.mark.parametrize("language", ["de", "fr", "en"])
@pytest.mark.parametrize("split", ["test_2016_flickr", "test_2017_flickr", "val"])
def test_raw_files_become_the_published_ones_exactly(split, language):
    raw, published = multi30k(f"{split}.{language}.gz"), multi30k(f"{split}.lc.norm.tok.{language}.gz")
    assert len(raw) in (1000, 1014)
    assert prepare(raw, language) == published


@pytest.mark.proof
@pytest.mark.parametrize("language", ["de", "fr", "en"])
def test_raw_training_files_become_the_published_ones_exactly(language):
    raw = multi30k(f"train.{language}.gz")
    assert len(raw) == 29_000
    assert prepare(raw, language) == multi30k(f"train.lc.norm.tok.{language}.gz")


@pytest.mark.parametrize(
    ("line", "language", "prepared"),
    [
        ("Ein Mann mit T-Shirt, 1,5 m groß.", "de", "ein mann mit t-shirt , 1,5 m groß ."),
        ("Er sagt: „Hallo & tschüss.“", "de", "er sagt : &quot; hallo &amp; tschüss &quot; ."),
        ("L'homme jette un coup d’œil.", "fr", "l&apos; homme jette un coup d &quot; œil ."),
        (
            "The man's dog [brown] isn't <here>.",
            "en",
            "the man &apos;s dog &#91; brown &#93; isn &apos;t &lt; here &gt; .",
        ),
        ("", "de", ""),
    ],
)
def test_prepare_lowercases_normalises_tokenises_and_escapes(line, language, prepared):
    assert prepare([line], language) == [prepared]


def test_published_and_raw_references_give_the_same_score():
    raw, published = multi30k("test_2016_flickr.de.gz"), multi30k("test_2016_flickr.lc.norm.tok.de.gz")
    # Every third output is without its second word and in capitals, which this metric does not see.
    outputs = [
        " ".join(words[:1] + words[2:]).upper() if number % 3 == 0 else " ".join(words)
        for number, words in enumerate(line.split() for line in raw)
    ]
    score = literature_bleu(outputs, references_tokenised=published, language="de")
    assert score == literature_bleu(outputs, references=raw, language="de")
    assert "|tok:none|" in score.signature
    expected = BLEU(tokenize="none").corpus_score(prepare(outputs, "de"), [published]).score
    assert score.score == expected
    assert 80 < score.score < 99


def test_case_does_not_matter():
    assert literature_bleu(
        ["EIN HUND LÄUFT SCHNELL ."], references=["Ein Hund läuft schnell."], language="de"
    ).score == (pytest.approx(100))


def test_published_references_are_taken_as_they_are():
    line = "der hund heißt &quot; bello &quot; ."
    score = literature_bleu(['Der Hund heißt "Bello".'], references_tokenised=[line], language="de")
    assert score.score == pytest.approx(100)


def test_unequal_or_missing_references_are_errors():
    with pytest.raises(DataError, match="1 translations but 2 references"):
        literature_bleu(["a"], references=["a", "b"], language="de")
    with pytest.raises(DataError, match="needs references"):
        literature_bleu(["a"], language="de")
