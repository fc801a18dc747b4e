import os
import subprocess
import sys

import pytest

from attendo.errors import DataError, StorageError
from attendo.sample import distinct_sentences, write_sample
from attendo.sample.corpus import Corpus, is_reserved, make_sample, words_of

SIX_FILES = ["test.de", "test.en", "train.de", "train.en", "valid.de", "valid.en"]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_sample()


def texts(sentences, language):
    return [getattr(each, language) for each in sentences]


def vocabulary(sentences, language):
    return {word for text in texts(sentences, language) for word in words_of(text)}


def test_default_size_and_breadth(corpus):
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (20_000, 500, 500)
    assert len(vocabulary(corpus.train, "german")) >= 600
    for language in ("english", "german"):
        lengths = [len(text.split()) for text in texts(corpus.train, language)]
        assert 8 <= sum(lengths) / len(lengths) <= 10


def test_every_sentence_is_written_once_and_has_one_translation(corpus):
    everything = (*corpus.train, *corpus.valid, *corpus.test)
    assert len(set(texts(everything, "english"))) == len(everything)
    more = make_sample(pairs=20_000, seed=2)
    german = dict(zip(texts(everything, "english"), texts(everything, "german"), strict=True))
    again = 0
    for each in (*more.train, *more.valid, *more.test):
        again += each.english in german
        assert german.get(each.english, each.german) == each.german
    assert again > 100


def test_held_out_combinations_never_occur_in_training(corpus):
    trained = {combination for each in corpus.train for combination in each.combinations}
    assert not any(map(is_reserved, trained))
    for each in (*corpus.valid, *corpus.test):
        assert any(is_reserved(combination) for combination in each.combinations)
        assert not each.combinations <= trained


def test_every_word_of_validation_and_test_occurs_in_training(corpus):
    for language in ("english", "german"):
        assert vocabulary((*corpus.valid, *corpus.test), language) <= vocabulary(corpus.train, language)


def test_about_one_in_twenty_combinations_is_reserved():
    combinations = [(f"noun{i}", f"verb{j}") for i in range(71) for j in range(73)]
    share = sum(map(is_reserved, combinations)) / len(combinations)
    assert 0.04 < share < 0.06


def test_more_than_half_a_million_sentences_are_possible():
    assert distinct_sentences() >= 500_000


def test_files(tmp_path):
    summary = write_sample(tmp_path / "deep" / "sample", pairs=1009)
    folder = summary.directory
    assert sorted(path.name for path in folder.iterdir()) == SIX_FILES
    assert sorted(path.name for path in folder.parent.iterdir()) == ["sample"]
    assert (summary.train_pairs, summary.valid_pairs, summary.test_pairs) == (1009, 500, 500)
    corpus = make_sample(pairs=1009)
    german = (folder / "train.de").read_bytes().decode("utf-8")
    assert german == "".join(text + "\n" for text in texts(corpus.train, "german"))
    english = (folder / "test.en").read_bytes().decode("utf-8")
    assert english == "".join(text + "\n" for text in texts(corpus.test, "english"))
    everything = (*corpus.train, *corpus.valid, *corpus.test)
    assert summary.german_forms == len(vocabulary(everything, "german"))
    assert 8 < summary.mean_english_words < 10 and 8 < summary.mean_german_words < 10


def test_same_seed_same_corpus_whatever_the_hash_seed():
    program = (
        "from attendo.sample.corpus import make_sample\n"
        "made = make_sample(pairs=4001, seed=5)\n"
        "print([(s.english, s.german) for s in (*made.train, *made.valid, *made.test)])"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    made, other = make_sample(pairs=4001, seed=5), make_sample(pairs=4001, seed=6)
    assert texts == {f"{[(each.english, each.german) for each in (*made.train, *made.valid, *made.test)]}\n"}
    assert made != other


def test_an_empty_folder_is_used(tmp_path):
    (tmp_path / "empty").mkdir()
    write_sample(tmp_path / "empty", pairs=1009)
    assert sorted(path.name for path in (tmp_path / "empty").iterdir()) == SIX_FILES


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"not empty.*Choose"):
        write_sample(tmp_path, pairs=101)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_in_the_way_is_an_error(tmp_path):
    (tmp_path / "sample").write_text("mine")
    with pytest.raises(DataError, match="is a file"):
        write_sample(tmp_path / "sample", pairs=101)


@pytest.mark.parametrize("pairs", [-1, 0, 99, 500_001])
def test_impossible_numbers_of_pairs(tmp_path, pairs):
    with pytest.raises(DataError, match=f"from 100 to 500000 training pairs, not {pairs}"):
        write_sample(tmp_path / "sample", pairs=pairs)
    assert not any(tmp_path.iterdir())


def test_nothing_is_left_behind_when_writing_fails(tmp_path, monkeypatch):
    def full_disk(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.rename", full_disk)
    with pytest.raises(StorageError, match="No space left"):
        write_sample(tmp_path / "sample", pairs=1009)
    assert not any(tmp_path.iterdir())
