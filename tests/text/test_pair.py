"""The tokenizers of both sides."""

from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import train_tokenizer

ENGLISH = train_tokenizer(["the cat sat on the mat"] * 3, kind="bpe", vocab_size=301)
GERMAN = train_tokenizer(["die Katze saß auf der Matte"] * 3, kind="characters", vocab_size=311)


def test_a_joint_pair_is_one_file_and_one_object():
    pair = TokenizerPair(ENGLISH, ENGLISH)
    assert pair.joint
    assert list(pair.files()) == ["tokenizer.json"]
    again = TokenizerPair.from_files(pair.files())
    assert again.joint
    assert again == pair


def test_a_separate_pair_is_two_files_that_are_not_swapped():
    pair = TokenizerPair(ENGLISH, GERMAN)
    assert not pair.joint
    assert list(pair.files()) == ["tokenizer.source.json", "tokenizer.target.json"]
    again = TokenizerPair.from_files(pair.files())
    assert not again.joint
    assert (again.source, again.target) == (ENGLISH, GERMAN)
    assert again != TokenizerPair(GERMAN, ENGLISH)


def test_equal_tokenizers_learned_apart_stay_separate():
    twin = train_tokenizer(["the cat sat on the mat"] * 3, kind="bpe", vocab_size=301)
    pair = TokenizerPair(ENGLISH, twin)
    assert not pair.joint
    assert not TokenizerPair.from_files(pair.files()).joint
