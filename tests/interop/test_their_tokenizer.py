"""Other people's tokenizers: the same ids and texts as Hugging Face Transformers gives from the same files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import transformers

from attendo.errors import BundleError, DataError, ForeignError
from attendo.interop.folder import Folder
from attendo.interop.their_tokenizer import read_their_tokenizer
from attendo.interop.vocabulary import Order, Usage, order_of
from attendo.text.imported import imported_from_json
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import CONTROLS, UNK, Tokenizer, train_tokenizer
from tests.interop import tokenizers as made

TEXTS = made.awkward()
SHARED = ("<pad>", "<s>", "</s>", "<unk>")
ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
# (how it is made, their <pad>, beginning, </s> and <unk>); a folder of the files as they came.
KINDS: dict[str, tuple[Callable[[Path], Any], tuple[str | None, ...]]] = {
    "marian": (made.marian, ("<pad>", "<pad>", "</s>", "<unk>")),
    "marian-bpe": (lambda folder: made.marian(folder, model_type="bpe"), ("<pad>", "<pad>", "</s>", "<unk>")),
    "m2m_100": (made.m2m100, ("<pad>", "</s>", "</s>", "<unk>")),
    "gpt2": (
        lambda folder: made.byte_level(folder, "GPT2Tokenizer", ["<|endoftext|>"]),
        (None, "<|endoftext|>", "<|endoftext|>", None),
    ),
    "roberta": (lambda folder: made.byte_level(folder, "RobertaTokenizer", ROBERTA), SHARED),
    "bart": (lambda folder: made.byte_level(folder, "BartTokenizer", ROBERTA), SHARED),
    "bert": (lambda folder: made.word_piece(folder, lower=True), ("[PAD]", "[CLS]", "[SEP]", "[UNK]")),
    "bert-cased": (lambda folder: made.word_piece(folder, lower=False), ("[PAD]", "[CLS]", "[SEP]", "[UNK]")),
}
# The same, and a folder of the one tokenizer.json that Transformers makes of them.
FAST: dict[str, tuple[Callable[[Path], Any], tuple[str | None, ...]]] = {
    **{kind: KINDS[kind] for kind in ("gpt2", "roberta", "bart", "bert", "bert-cased")},
    "t5": (
        lambda folder: made.from_sentencepiece(folder, "T5Tokenizer", "spiece.model", **made.T5),
        ("<pad>", "<pad>", "</s>", "<unk>"),
    ),
    "llama": (
        lambda folder: made.from_sentencepiece(
            folder, "LlamaTokenizer", "tokenizer.model", model_type="bpe", vocab_size=400, **made.LLAMA
        ),
        (None, "<s>", "</s>", "<unk>"),
    ),
    "mbart": (
        lambda folder: made.from_sentencepiece(folder, "MBartTokenizer", "sentencepiece.bpe.model"),
        ("<pad>", "</s>", "</s>", "<unk>"),
    ),
    "nllb": (
        lambda folder: made.from_sentencepiece(folder, "NllbTokenizer", "sentencepiece.bpe.model", model_type="bpe"),
        ("<pad>", "</s>", "</s>", "<unk>"),
    ),
}

TOKENIZERS = {"gpt2": "GPT2Tokenizer", "bert": "BertTokenizer"}


def opened(folder: Path, kind: str, **config: Any) -> Folder:
    """A folder of such a model, whose config.json is not there."""
    return Folder(folder, {"model_type": kind, **config})


def taken_over(
    folder: Path, meanings: tuple[str | None, ...], *, kind: str = "marian", **usage: Any
) -> tuple[TokenizerPair, Order]:
    """What is read from a folder for a model with three rows more than the tokenizer has pieces."""
    theirs = read_their_tokenizer(opened(folder, kind))
    pad, start, eos, unk = (None if piece is None else theirs.ids[piece] for piece in meanings)
    order = order_of(max(theirs.ids.values()) + 4, pad=pad, start=start, eos=eos, unk=unk)
    around: dict[str, Any] = {name: tuple(theirs.ids[piece] for piece in pieces) for name, pieces in usage.items()}
    return theirs.pair(Usage(order=order, **around)), order


def assert_same(ours: Tokenizer, theirs: Any, order: Order, **options: Any) -> None:
    for text in TEXTS:
        said = {"text": text, "add_special_tokens": False, "split_special_tokens": True} | options
        if "text_target" in options:
            said = {"text_target": text, "add_special_tokens": False}
        ids = theirs(**said)["input_ids"]
        assert ours.encode(text) == [order.back[id] for id in ids], text
        assert ours.decode(ours.encode(text)) == theirs.decode(ids, skip_special_tokens=True), text


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_give_the_same_ids_and_texts(kind, tmp_path):
    make, meanings = KINDS[kind]
    theirs = make(tmp_path)
    pair, order = taken_over(tmp_path, meanings, kind=kind.partition("-")[0])
    assert_same(pair.source, theirs, order)
    if kind.startswith("marian"):
        assert_same(pair.target, theirs, order, text_target=True)
        assert any(UNK in pair.source.encode(text) for text in TEXTS)


@pytest.mark.parametrize("kind", FAST)
def test_tokenizer_json_gives_the_same_ids_and_texts(kind, tmp_path):
    make, meanings = FAST[kind]
    theirs = make(tmp_path / "files")
    theirs.save_pretrained(tmp_path / "one")
    assert not list((tmp_path / "one").glob("*.model"))
    pair, order = taken_over(tmp_path / "one", meanings)
    assert_same(pair.source, theirs, order)


@pytest.mark.parametrize("kind", ["gpt2", "bert", "t5"])
def test_pieces_that_were_added_are_found_in_texts_and_special_ones_are_not(kind, tmp_path):
    make, meanings = FAST[kind]
    theirs = make(tmp_path / "files")
    theirs.add_tokens(["<one>"], special_tokens=True)
    theirs.add_tokens(["XYZZY", "naïve man"])
    theirs.add_tokens(["<two>"], special_tokens=True)
    theirs.add_tokens(["plugh"])
    theirs.save_pretrained(tmp_path / "one")
    pair, order = taken_over(tmp_path / "one", meanings)
    for text in ("a XYZZY b", "XYZZYplughThe naïve man.", "plugh", "The man plughs"):
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert pair.source.encode(text) == [order.back[id] for id in ids]
    found = read_their_tokenizer(opened(tmp_path / "one", kind)).ids
    assert not {order.back[found["<one>"]], order.back[found["<two>"]]} & set(pair.source.encode("<one> <two>"))


def test_an_added_piece_that_is_special_only_by_its_meaning_is_out_of_reach(tmp_path):
    theirs = FAST["gpt2"][0](tmp_path / "files")
    theirs.add_tokens(["<|im_end|>", "XYZZY"])
    theirs.save_pretrained(tmp_path / "one")
    settings = tmp_path / "one" / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "eos_token": "<|im_end|>"}))
    pair, order = taken_over(tmp_path / "one", FAST["gpt2"][1])
    end, added = (order.back[theirs.convert_tokens_to_ids(piece)] for piece in ("<|im_end|>", "XYZZY"))
    found = pair.source.encode("The XYZZY<|im_end|>")
    assert added in found
    assert end not in found


def test_whether_something_is_added_is_no_piece(tmp_path):
    made.word_piece(tmp_path, lower=False)
    with (tmp_path / "vocab.txt").open("a") as file:
        file.write("True\n")
    settings = {"do_lower_case": False, "add_bos_token": True, "add_eos_token": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    pair, _ = taken_over(tmp_path, KINDS["bert"][1], kind="bert")
    assert pair.source.decode(pair.source.encode("a True man")) == "a True man"


@pytest.mark.parametrize("described", [False, True])
@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_pieces_that_were_added_beside_a_vocabulary(kind, described, tmp_path):
    make, meanings = KINDS[kind]
    n = len(make(tmp_path))
    added = {"XYZZY": n, "<one>": n + 1, "Plugh man": n + 2}
    settings: dict[str, Any] = {"additional_special_tokens": ["<one>"]}
    if described:
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        settings["added_tokens_decoder"] = {
            str(id): {"content": piece, **flags, "normalized": piece != "<one>", "special": piece == "<one>"}
            for piece, id in added.items()
        }
    else:
        (tmp_path / "added_tokens.json").write_text(json.dumps(added))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs = getattr(transformers, TOKENIZERS[kind]).from_pretrained(tmp_path)
    assert theirs.convert_tokens_to_ids(list(added)) == list(added.values())
    pair, order = taken_over(tmp_path, meanings)
    for text in ("a XYZZY b", "XYZZYPlugh man.", "The xyzzy plugh man", "Plugh mans"):
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert pair.source.encode(text) == [order.back[id] for id in ids], text
    assert order.back[n] in pair.source.encode("XYZZY")
    assert order.back[n + 1] not in pair.source.encode("a <one> b")


@pytest.mark.parametrize(
    ("kind", "name", "options"), [("t5", "spiece.model", made.T5), ("llama", "tokenizer.model", made.LLAMA)]
)
def test_a_sentencepiece_file_alone_gives_the_ids_of_sentencepiece(kind, name, options, tmp_path):
    library = made.sentencepiece_file(tmp_path / name, model_type="bpe", vocab_size=400, **options)
    pair, order = taken_over(tmp_path, (None, None, "</s>", "<unk>"), kind=kind)
    for text in TEXTS:
        assert pair.source.encode(text) == [order.back[id] for id in library.encode(text)]
    if kind == "t5":
        ids = read_their_tokenizer(opened(tmp_path, kind)).ids
        assert ids["<extra_id_0>"] == library.get_piece_size() + 99
        assert ids["<extra_id_99>"] == library.get_piece_size()


@pytest.mark.parametrize(
    ("kind", "name", "n_languages"),
    [("mbart", "MBartTokenizer", 25), ("mbart", "MBart50Tokenizer", 52), ("xlm-roberta", "XLMRobertaTokenizer", 0)],
)
def test_a_file_with_the_ids_of_fairseq(kind, name, n_languages, tmp_path):
    theirs = made.from_sentencepiece(tmp_path, name, "sentencepiece.bpe.model")
    found = read_their_tokenizer(opened(tmp_path, kind, vocab_size=len(theirs)))
    assert found.ids == theirs.get_vocab()
    assert len([piece for piece in found.special if "_" in piece]) == n_languages
    order = order_of(len(theirs), pad=1, start=0, eos=2, unk=3)
    ours = found.pair(Usage(order=order)).source
    library = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece.bpe.model"))
    for text in TEXTS:  # what transformers makes of the file treats some white space otherwise
        ids = theirs.convert_tokens_to_ids(library.encode(text, out_type=str))
        assert ours.encode(text) == [order.back[id] for id in ids], text
    for text in made.LINES[:7]:
        ids = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode(text) == [order.back[id] for id in ids]
        assert ours.decode(ours.encode(text)) == theirs.decode(ids)


def test_the_languages_of_m2m100_have_their_ids(tmp_path):
    theirs = made.m2m100(tmp_path)
    ids = read_their_tokenizer(opened(tmp_path, "m2m_100")).ids
    languages = [piece for piece in ids if piece.startswith("__")]
    assert len(languages) == 100
    assert [ids[one] for one in languages] == theirs.convert_tokens_to_ids(languages)


@pytest.fixture(scope="module")
def nllb(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nllb")
    theirs = made.from_sentencepiece(folder / "files", "NllbTokenizer", "sentencepiece.bpe.model", model_type="bpe")
    theirs.add_tokens(["eng_Latn", "deu_Latn"], special_tokens=True)
    theirs.save_pretrained(folder / "one")
    return folder / "one"


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5")
    FAST["t5"][0](folder / "files").save_pretrained(folder / "one")
    return folder / "one"


class TestAFolder:
    """Marian's and NLLB's once more: what stands around texts, and that all of it survives being saved."""

    def test_every_text_has_what_belongs_around_it(self, nllb):
        around: dict[str, Any] = {
            "source_prefix": ["eng_Latn"],
            "source_suffix": ["</s>"],
            "target_prefix": ["deu_Latn"],
        }
        pair, _ = taken_over(nllb, ("<pad>", "</s>", "</s>", "<unk>"), **around)
        source, target = (one.pieces(one.encode("man")) for one in (pair.source, pair.target))
        assert source == ["eng_Latn", "▁man", "</s>"]
        assert target == ["deu_Latn", "▁man"]
        assert pair.target.decode(pair.target.encode("man")) == "man"
        assert pair.target.pieces(pair.target.before) == ["deu_Latn"]
        assert pair.target.encode_inside(["man"]) == [pair.target.encode("man")[1:]]
        assert pair.source.places("The man", pair.source.encode("The man")) == [(0, 0), (0, 3), (3, 7), (7, 7)]

    def test_the_layout_is_ours(self, nllb):
        pair, order = taken_over(nllb, ("<pad>", "</s>", "</s>", "<unk>"))
        tokenizer = pair.source
        assert pair.joint
        assert tokenizer.kind == "imported"
        assert tokenizer.vocab_size == len(order.rows)
        assert tuple(tokenizer.pieces(range(4))) == CONTROLS
        assert tokenizer.pieces([4]) == ["their <s>"]
        assert tokenizer.pieces([tokenizer.vocab_size - 1]) == [f"<unused {order.size - 1}>"]
        assert tokenizer.decode(range(6)) == tokenizer.decode([5])

    @pytest.mark.parametrize("typed", ["</s>", "<s>", "<unk>", "<pad>", "<mask>", "deu_Latn", "<unused 7>"])
    def test_no_text_reaches_a_special_piece(self, nllb, typed):
        pair, order = taken_over(nllb, ("<pad>", "</s>", "</s>", "<unk>"))
        special = {
            order.back[id] for piece, id in read_their_tokenizer(opened(nllb, "m2m_100")).ids.items() if piece == typed
        }
        ids = pair.source.encode(f"a {typed} b")
        assert not special & (set(ids) - {UNK})
        assert len(ids) > 3

    @pytest.mark.parametrize("typed", ["</s>", "<unk>", "<pad>", "<extra_id_3>"])
    def test_unigram_does_not_either(self, typed, t5):
        pair, order = taken_over(t5, ("<pad>", "<pad>", "</s>", "<unk>"))
        ids = pair.source.encode(f"a {typed} b")
        assert order.back[read_their_tokenizer(opened(t5, "t5")).ids[typed]] not in set(ids) - {UNK}
        assert len(ids) > 3

    def test_it_is_kept_by_its_files(self, nllb, tmp_path):
        made.marian(tmp_path)
        for folder in (nllb, tmp_path):
            pair, _ = taken_over(folder, ("<pad>", "<pad>", "</s>", "<unk>"), target_prefix=["<unk>"])
            again = TokenizerPair.from_files(pair.files())
            assert again == pair
            for side in ("source", "target"):
                before, after = getattr(pair, side), getattr(again, side)
                assert before.encode_batch(TEXTS) == after.encode_batch(TEXTS)
                assert before.before == after.before

    def test_places_are_those_of_the_text_as_it_was_typed(self, tmp_path):
        made.marian(tmp_path)
        pair, _ = taken_over(tmp_path, ("<pad>", "<pad>", "</s>", "<unk>"))
        text = "  The  ½ man"
        spans = pair.source.places(text, pair.source.encode(text))
        assert text[slice(*spans[-1])].strip() == "man"
        assert text[slice(*spans[0])].strip() == "The"
        ids = pair.target.encode("The man")[::-1]
        assert pair.target.places("man The", ids) == pair.target.spans(ids)

    def test_half_of_a_surrogate_pair_is_an_error_that_says_so(self, nllb, tmp_path):
        made.marian(tmp_path)
        for folder in (nllb, tmp_path):
            pair, _ = taken_over(folder, ("<pad>", "<pad>", "</s>", "<unk>"))
            with pytest.raises(DataError, match="surrogate"):
                pair.source.encode("a\ud800b")

    @pytest.mark.parametrize(
        ("key", "value", "words"),
        [
            ("ids", [0], "ids are 1 for"),
            ("ids", [-1], "an id that is none"),
            ("pieces", ["a"], "do not begin with"),
            ("spelling", "odd", "spelling"),
            ("library", 3, "library or bytes is missing"),
            ("library", '{"model": {}}', "damaged"),
            ("library", "bm90IGEgbW9kZWw=", "damaged"),
            ("before", [10**9], "an id that is none"),
        ],
    )
    def test_what_is_damaged_is_named(self, nllb, key, value, words):
        pair, _ = taken_over(nllb, ("<pad>", "</s>", "</s>", "<unk>"))
        values = json.loads(pair.source.to_json())
        with pytest.raises(BundleError, match=words):
            imported_from_json({**values, key: value})


def damaged(part: str, key: str, value: object) -> str:
    """A tokenizer.json of three pieces, with one thing that is wrong."""
    library: dict[str, Any] = {
        "added_tokens": [],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAA="},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["▁a", -1.0], ["b", -2.0]]},
    }
    library[part][key] = value
    return json.dumps(library)


# The library itself would end the program.
PREFIXED = json.dumps(
    {
        "added_tokens": [],
        "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE",
            "continuing_subword_prefix": "x",
            "vocab": {"Ġ": 0, "é": 1, "Ġé": 2},
            "merges": [["Ġ", "é"]],
        },
    }
)


class TestFaults:
    def test_no_tokenizer(self, tmp_path):
        with pytest.raises(ForeignError, match="has no tokenizer"):
            read_their_tokenizer(opened(tmp_path, "t5"))

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("tokenizer.json", "{}", "'model' is missing"),
            ("tokenizer.json", "{", "not valid JSON"),
            ("tokenizer.json", json.dumps({"model": {"type": "WordLevel"}, "added_tokens": []}), "WordLevel"),
            ("tokenizer.json", json.dumps({"model": 3, "added_tokens": []}), "damaged or of an unknown form"),
            ("tokenizer.json", damaged("model", "unk_id", None), "unknown that is none"),
            ("tokenizer.json", damaged("model", "unk_id", 99), "unknown that is none"),
            ("tokenizer.json", damaged("normalizer", "precompiled_charsmap", "AAA"), "damaged"),
            ("tokenizer.json", damaged("normalizer", "precompiled_charsmap", "/////w=="), "table of characters"),
            ("tokenizer.json", damaged("decoder", "type", "BPEDecoder"), "put together by"),
            ("tokenizer.json", PREFIXED, "merges of pieces without its prefix 'x'"),
            ("spiece.model", "no protocol buffer", "no SentencePiece file"),
            ("merges.txt", "a b", "vocab.json is missing"),
        ],
    )
    def test_damaged_files(self, name, content, words, tmp_path):
        (tmp_path / name).write_text(content)
        with pytest.raises(ForeignError, match=words):
            read_their_tokenizer(opened(tmp_path, "t5"))

    @pytest.mark.parametrize(
        ("kind", "name"), [("pegasus", "spiece.model"), ("m2m_100", "sentencepiece.bpe.model"), ("bert", "source.spm")]
    )
    def test_a_sentencepiece_file_of_a_model_that_numbers_it_otherwise(self, kind, name, tmp_path):
        made.sentencepiece_file(tmp_path / name)
        with pytest.raises(ForeignError, match=f"only as {name}, and which ids a {kind} gives.*AutoTokenizer"):
            read_their_tokenizer(opened(tmp_path, kind))

    def test_pieces_that_were_added_to_a_sentencepiece_file(self, tmp_path):
        n = made.sentencepiece_file(tmp_path / "tokenizer.model").get_piece_size()
        (tmp_path / "added_tokens.json").write_text(json.dumps({"<pad>": n}))
        found = read_their_tokenizer(opened(tmp_path, "llama"))
        assert found.ids["<pad>"] == n
        assert "<pad>" in found.special
        (tmp_path / "added_tokens.json").write_text(json.dumps({"<pad>": n, "XYZZY": n + 1}))
        with pytest.raises(ForeignError, match=r"the piece 'XYZZY' was added.*added_tokens.json"):
            read_their_tokenizer(opened(tmp_path, "llama"))

    @pytest.mark.parametrize("n_extra", [10**12, -1, 3.5, "many", None])
    def test_an_absurd_number_of_sentinels(self, n_extra, tmp_path):
        made.sentencepiece_file(tmp_path / "spiece.model")
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"extra_ids": n_extra}))
        with pytest.raises(ForeignError, match="extra_ids = "):
            read_their_tokenizer(opened(tmp_path, "t5"))

    def test_a_tokenizer_of_another_model(self, tmp_path):
        made.word_piece(tmp_path, lower=True)
        theirs = read_their_tokenizer(opened(tmp_path, "bert"))
        with pytest.raises(ForeignError, match="the model has 100 rows"):
            theirs.pair(Usage(order=order_of(100, pad=0, start=2, eos=3, unk=1)))

    def test_none_is_trained_here(self):
        with pytest.raises(Exception, match="imported"):
            train_tokenizer(["a"], kind="imported", vocab_size=300)
