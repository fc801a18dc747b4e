"""Our tokenizers in files of others: the same ids and texts, by transformers and by sentencepiece themselves."""

import json

import pytest
import sentencepiece
import transformers

from attendo.errors import ForeignError
from attendo.interop.our_tokenizer import sentencepiece_model, tokenizer_files
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, train_tokenizer
from tests.interop import tokenizers as made

TEXTS = [*made.awkward(), "a </s> b <pad> <s><unk>"]
KINDS = ("bpe", "wordpiece", "characters")


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    return {kind: train_tokenizer(made.LINES, kind=kind, vocab_size=401) for kind in ("bpe", "wordpiece", "characters")}


def written(pair: TokenizerPair, folder, **options):
    for name, content in tokenizer_files(pair, max_length=97, **options).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
        (folder / name).with_name("config.json").write_text(json.dumps({"model_type": "marian"}))
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_gives_the_same_ids_and_texts(kind, tokenizers, tmp_path):
    ours = tokenizers[kind]
    theirs = transformers.AutoTokenizer.from_pretrained(written(TokenizerPair(ours, ours), tmp_path, around="source"))
    assert (theirs.pad_token_id, theirs.bos_token_id, theirs.eos_token_id, theirs.unk_token_id) == (PAD, BOS, EOS, UNK)
    assert len(theirs) == ours.vocab_size
    assert theirs.model_max_length == 97
    for text in TEXTS:
        ids = ours.encode(text)
        assert theirs(text)["input_ids"] == [*ids, EOS]
        assert theirs.decode([*ids, EOS], skip_special_tokens=True) == ours.decode(ids)


def test_what_stands_around_one_text_and_two(tokenizers, tmp_path):
    ours = tokenizers["bpe"]
    pair = TokenizerPair(ours, ours)
    first, second = ours.encode("The man"), ours.encode("rides")
    reader = transformers.AutoTokenizer.from_pretrained(written(pair, tmp_path, around="read"))
    assert reader("The man")["input_ids"] == [BOS, *first, EOS]
    both = reader("The man", "rides")
    assert both["input_ids"] == [BOS, *first, EOS, *second, EOS]
    assert both["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    continued = transformers.AutoTokenizer.from_pretrained(written(pair, tmp_path, around="continued"))
    assert continued("The man")["input_ids"] == first


def test_a_target_of_its_own_is_in_a_subfolder(tokenizers, tmp_path):
    pair = TokenizerPair(tokenizers["bpe"], tokenizers["characters"])
    written(pair, tmp_path, around="source")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "target")
    assert theirs("The man")["input_ids"] == [*pair.target.encode("The man"), EOS]
    assert pair.target.encode("The man") != pair.source.encode("The man")


@pytest.mark.parametrize("kind", ["bpe", "characters"])
def test_sentencepiece_gives_the_same_ids(kind, tokenizers):
    ours = tokenizers[kind]
    theirs = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(ours))
    assert (theirs.pad_id(), theirs.bos_id(), theirs.eos_id(), theirs.unk_id()) == (PAD, BOS, EOS, UNK)
    assert theirs.id_to_piece(list(range(ours.vocab_size))) == ours.pieces(range(ours.vocab_size))
    for text in [*TEXTS, *made.LINES]:
        if not text.startswith((" ", "▁")):  # for SentencePiece, a space before the first one is one more
            assert theirs.encode(text) == ours.encode(text), text
            assert theirs.decode(ours.encode(text)) == ours.decode(ours.encode(text)), text


def test_wordpiece_is_no_sentencepiece(tokenizers):
    with pytest.raises(ForeignError, match="kind wordpiece"):
        sentencepiece_model(tokenizers["wordpiece"])
