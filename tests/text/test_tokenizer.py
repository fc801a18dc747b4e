"""Text ↔ ids: exact round trips, control names as text, layout of the vocabulary, determinism, tokenizer.json."""

import hashlib
import json
import os
import random
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from attendo.errors import BundleError, ConfigError, DataError
from attendo.text import tokenizer as tokenizer_module
from attendo.text.corpus import CorpusFiles, read_lines, read_pairs
from attendo.text.tokenizer import (
    BOS,
    CONTROLS,
    EOS,
    PAD,
    UNK,
    Kind,
    Tokenizer,
    choose_vocab_size,
    count_words,
    train_tokenizer,
)

DATA = Path(os.environ.get("ATTENDO_DATA", "data"))
KINDS: tuple[Kind, ...] = ("bpe", "wordpiece", "characters")

ENGLISH = [
    f"The {colour} {thing} {verb} near the {place}, isn't it? #{number}"
    for number, colour in enumerate(["red", "green", "yellowish"])
    for thing in ["bicycle", "dog", "mountain"]
    for verb in ["stands", "is standing", "stood"]
    for place in ["river", "railway station", "restaurant"]
]
CHINESE = [
    f"{who}在{where}{what}。" for who in "我你他" for where in ["北京", "学校"] for what in ["吃饭", "学习汉语", "休息"]
]
CONTROL_NAMES = ["<s>", "</s>", "<pad>", "<unk>", "<0x41>", "<0x0A>", "##s", "[UNK]"]


BPE, WORDPIECE, CHARACTERS = (train_tokenizer(ENGLISH + CHINESE, kind=kind, vocab_size=503) for kind in KINDS)


@pytest.fixture(params=[BPE, WORDPIECE, CHARACTERS], ids=KINDS)
def any_kind(request) -> Tokenizer:
    tokenizer: Tokenizer = request.param
    return tokenizer


def documented(text: str) -> str:
    """A text after the documented losses."""
    return text.replace("▁", " ").removeprefix(" ")


def run(code: str, **environment: str) -> str:
    """Standard output of Python code in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


class TestRoundTrip:
    @given(st.text(st.characters(exclude_categories=["Cs"])))
    @example("")
    @example(" ")
    @example("  two before, two  between, two after  ")
    @example("tab\tnewline\nreturn\rNUL\0vertical\vform\ffeed")
    @example("\u2028\u2029\u0085\u00a0\u3000\ufeff\u200b\u200d")
    @example("▁already ▁▁marked▁")
    @example("👩‍👩‍👧‍👦 ❤️ 3️⃣ e\u0301 \u0301 क्षि ก็ 한국어 العربية")
    @example("<0xF0><0x9F> \ufffd")
    @example("a##b ## ###! ▁##")
    def test_any_text(self, text):
        for tokenizer in (BPE, CHARACTERS):
            assert tokenizer.decode(tokenizer.encode(text)) == documented(text)

    @given(st.text(sorted({*"".join(ENGLISH + CHINESE), "▁"})))
    @example("##a #### a## d#?")
    def test_wordpiece_on_its_alphabet(self, text):
        ids = WORDPIECE.encode(text)
        assert UNK not in ids
        assert WORDPIECE.decode(ids) == documented(text)

    @given(st.lists(st.integers(0, 502)))
    def test_any_ids_spell_something(self, ids):
        for tokenizer in (BPE, CHARACTERS, WORDPIECE):
            tokenizer.decode([id for id in ids if id < tokenizer.vocab_size]).encode()

    def test_bytes_that_are_not_utf8(self):
        byte = {piece: id for id, piece in enumerate(BPE.pieces(range(BPE.vocab_size)))}
        snowman = [byte[name] for name in ("<0xE2>", "<0x98>", "<0x83>")]
        assert BPE.decode(snowman) == "☃"
        assert BPE.decode([*snowman, snowman[0]]) == "☃\ufffd"
        assert BPE.decode([snowman[1], byte["a"]]) == "\ufffda"

    def test_unseen_scripts_are_bytes(self):
        ids = BPE.encode("☃")
        assert BPE.pieces(ids) == ["▁", "<0xE2>", "<0x98>", "<0x83>"]

    def test_lone_surrogate(self, any_kind):
        with pytest.raises(DataError, match="surrogate"):
            any_kind.encode("half \ud800")


class TestControls:
    def test_ids(self, any_kind):
        assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
        assert any_kind.pieces([PAD, BOS, EOS, UNK]) == ["<pad>", "<s>", "</s>", "<unk>"]

    def test_bytes_follow(self):
        for tokenizer in (BPE, CHARACTERS):
            assert tokenizer.pieces(range(4, 260)) == [f"<0x{byte:02X}>" for byte in range(256)]

    def test_control_ids_spell_nothing(self, any_kind):
        assert any_kind.decode([BOS, *any_kind.encode("The dog"), EOS, PAD, PAD, UNK]) == "The dog"
        assert any_kind.decode([]) == any_kind.decode([BOS, EOS]) == ""

    @pytest.mark.parametrize("kind", KINDS)
    def test_typed_names_are_text_even_when_learned_from(self, kind):
        corpus = [f"{name}{name} a {name} {name}b" for name in CONTROL_NAMES] * 50
        tokenizer = train_tokenizer(corpus, kind=kind, vocab_size=701)
        for text in chain(CONTROL_NAMES, corpus, ["".join(CONTROL_NAMES)]):
            ids = tokenizer.encode(text)
            assert tokenizer.decode(ids) == text
            assert min(ids) >= (len(CONTROLS) if kind == "wordpiece" else 260)
        pieces = tokenizer.pieces(range(tokenizer.vocab_size))
        assert len(set(pieces)) == len(pieces)

    def test_the_library_has_no_added_tokens(self, any_kind):
        assert json.loads(any_kind.to_json())["added_tokens"] == []


class TestPieces:
    def test_ids_are_in_the_vocabulary(self, any_kind):
        for text in [*ENGLISH, "ünseen ☃ \0"]:
            assert all(0 <= id < any_kind.vocab_size for id in any_kind.encode(text))

    def test_frequent_words_are_pieces(self):
        assert BPE.pieces(BPE.encode("The bicycle")) == ["▁The", "▁bicycle"]
        assert WORDPIECE.pieces(WORDPIECE.encode("The bicycle")) == ["▁The", "▁bicycle"]
        assert CHARACTERS.pieces(CHARACTERS.encode("The dog")) == list("▁The▁dog")

    def test_no_piece_reaches_across_a_border(self):
        corpus = ["well-known CD를 abc漢字かなカナー123, x'y"] * 97
        tokenizer = train_tokenizer(corpus, kind="bpe", vocab_size=997)
        pieces = tokenizer.pieces(tokenizer.encode(corpus[0]))
        assert pieces == ["▁well", "-", "known", "▁CD", "를", "▁abc", "漢字かなカナー", "123", ",", "▁x", "'", "y"]

    def test_combining_marks_stay_with_their_letter(self):
        tokenizer = train_tokenizer(["e\u0301te\u0301 हिन्दी"] * 97, kind="bpe", vocab_size=997)
        assert tokenizer.pieces(tokenizer.encode("e\u0301te\u0301 हिन्दी")) == ["▁e\u0301te\u0301", "▁हिन्दी"]

    def test_wordpiece_marks_continuations(self):
        pieces = WORDPIECE.pieces(WORDPIECE.encode("standings"))
        assert len(pieces) > 1
        assert pieces[0].startswith("▁") and all(piece.startswith("##") for piece in pieces[1:])

    def test_wordpiece_unknown_characters_alone_are_unk(self):
        ids = WORDPIECE.encode("The dœg")
        assert ids.count(UNK) == 1
        assert WORDPIECE.decode(ids) == "The dg"

    def test_wordpiece_long_words(self):
        word = "standing" * 1000
        ids = WORDPIECE.encode(word)
        assert UNK not in ids and WORDPIECE.decode(ids) == word

    def test_pieces_are_not_longer_than_sixteen_characters(self):
        tokenizer = train_tokenizer(["Donaudampfschifffahrtsgesellschaft"] * 97, kind="bpe", vocab_size=997)
        lengths = [len(piece) for piece in tokenizer.pieces(range(260, tokenizer.vocab_size))]
        assert 8 < max(lengths) <= 16

    def test_merges_rebuild_the_pieces(self):
        merges = BPE.merges()
        learned = BPE.pieces(range(260, BPE.vocab_size))
        singles = [piece for piece in learned if len(piece) == 1]
        assert singles + list(dict.fromkeys(left + right for left, right in merges)) == learned
        assert CHARACTERS.merges() == WORDPIECE.merges() == []

    def test_batch_equals_one_by_one(self, any_kind):
        texts = ["", *ENGLISH, *CHINESE, " ☃"]
        assert any_kind.encode_batch(texts) == [any_kind.encode(text) for text in texts]
        assert any_kind.encode_batch([]) == []

    def test_a_very_long_line(self, any_kind):
        for text in ("standing" * 12_500, "学" * 100_000, "standing " * 11_111):
            assert any_kind.decode(any_kind.encode(text)) == text


class TestTraining:
    @pytest.mark.parametrize("kind", KINDS)
    def test_size_is_kept(self, kind):
        draw = random.Random(3)
        lines = [" ".join("".join(draw.choices("abcdefghijk", k=5)) for _ in range(7)) for _ in range(211)]
        for vocab_size in (300, 311, 503):
            tokenizer = train_tokenizer(lines, kind=kind, vocab_size=vocab_size)
            pieces = tokenizer.pieces(range(tokenizer.vocab_size))
            assert len(set(pieces)) == len(pieces) == (260 + 12 if kind == "characters" else vocab_size)

    @pytest.mark.parametrize("kind", KINDS)
    def test_more_characters_than_places(self, kind):
        # 4,003 characters, the lower ones more frequent: 2,003 places cannot hold them.
        characters = [chr(0x4E00 + i) for i in range(4003)]
        lines = ["".join(characters[: 4003 // n]) for n in range(1, 12)]
        tokenizer = train_tokenizer(lines, kind=kind, vocab_size=2003)
        singles = [piece for piece in tokenizer.pieces(range(4, tokenizer.vocab_size)) if len(piece) == 1]
        assert len(singles) == {"bpe": 1743 // 2, "wordpiece": 1999 // 3, "characters": 1743}[kind]
        assert tokenizer.vocab_size <= 2003
        assert len(tokenizer.encode(characters[0])) <= 2
        rare = tokenizer.encode(characters[-1])
        if kind == "wordpiece":
            assert rare[-1] == UNK
        else:
            assert tokenizer.pieces(rare)[1:] == [f"<0x{byte:02X}>" for byte in characters[-1].encode()]
            assert tokenizer.decode(tokenizer.encode(lines[0])) == lines[0]

    def test_a_rare_space_is_still_a_piece(self):
        characters = "".join(chr(0x4E00 + i) for i in range(4003))
        tokenizer = train_tokenizer([characters] * 2, kind="characters", vocab_size=307)
        assert tokenizer.pieces(tokenizer.encode(" " * 3)) == ["▁"] * 3

    @pytest.mark.parametrize("kind", KINDS)
    def test_too_small(self, kind):
        with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size=299.*at least 300"):
            train_tokenizer(ENGLISH, kind=kind, vocab_size=299)

    def test_unknown_kind(self):
        with pytest.raises(ConfigError, match=r"tokenizer\.kind='bep'"):
            train_tokenizer(ENGLISH, kind="bep", vocab_size=503)  # type: ignore[arg-type]

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("lines", [[], ["", ""]])
    def test_no_text(self, kind, lines):
        with pytest.raises(DataError, match="no text"):
            train_tokenizer(lines, kind=kind, vocab_size=503)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_text_with_nothing_to_merge(self, kind):
        tokenizer = train_tokenizer(iter(["a"]), kind=kind, vocab_size=300)
        assert tokenizer.kind == Tokenizer.from_json(tokenizer.to_json()).kind == kind
        assert tokenizer.decode(tokenizer.encode("aa a")) == "aa a"

    def test_more_lines_than_are_kept(self, monkeypatch):
        monkeypatch.setattr(tokenizer_module, "_MOST_LINES", 101)
        lines = [f"{chr(0x4E00 + i // 101)}" for i in range(1009)]  # 10 characters, 101 lines each
        tokenizer = train_tokenizer(lines, kind="characters", vocab_size=307)
        assert tokenizer == train_tokenizer(iter(lines), kind="characters", vocab_size=307)
        # All parts of the text are in the sample, not only its beginning.
        assert tokenizer.vocab_size == 260 + 1 + 10

    def test_same_bytes_whatever_the_threads_and_the_order(self):
        # Many ties and rare characters, where the order of a hash table would show.
        code = (
            "import random\n"
            "from attendo.text.tokenizer import train_tokenizer\n"
            "draw = random.Random(7)\n"
            "words = [''.join(draw.choices('abcdefghijklmnop', k=draw.randrange(2, 7))) for _ in range(499)]\n"
            "rare = [chr(0x4E00 + i) for i in range(997)]\n"
            "lines = [' '.join(draw.choices(words + rare, k=11)) for _ in range(503)]\n"
            "{shuffle}\n"
            "print(*(train_tokenizer(lines, kind=kind, vocab_size=907).to_json()"
            " for kind in ('bpe', 'wordpiece', 'characters')))"
        )
        plain, shuffled = code.format(shuffle=""), code.format(shuffle="draw.shuffle(lines)")
        runs = [
            run(plain, RAYON_NUM_THREADS="1"),
            run(plain, RAYON_NUM_THREADS="3"),
            run(plain, TOKENIZERS_PARALLELISM="false", PYTHONHASHSEED="5"),
            run(shuffled),
        ]
        assert len({hashlib.sha256(output.encode()).hexdigest() for output in runs}) == 1

    def test_writes_nothing_to_standard_output(self):
        code = "from attendo.text.tokenizer import *; train_tokenizer(['a b'] * 9, kind='bpe', vocab_size=300)"
        assert run(code) == ""


@pytest.mark.parametrize("vocab_size", [331, 340, 350])
def test_a_smaller_tokenizer_is_the_one_that_learns_less(vocab_size):
    learned = train_tokenizer(ENGLISH, kind="bpe", vocab_size=503)
    smaller, expected = learned.smaller(vocab_size), train_tokenizer(ENGLISH, kind="bpe", vocab_size=vocab_size)
    assert smaller.vocab_size == vocab_size
    assert smaller.encode_batch(ENGLISH) == expected.encode_batch(ENGLISH)


class TestJson:
    def test_round_trip(self, any_kind):
        again = Tokenizer.from_json(any_kind.to_json())
        assert again == any_kind and hash(again) == hash(any_kind)
        assert again.to_json() == any_kind.to_json()
        assert (again.kind, again.vocab_size) == (any_kind.kind, any_kind.vocab_size)
        texts = [*ENGLISH, *CHINESE, "☃ <s>"]
        assert again.encode_batch(texts) == any_kind.encode_batch(texts)

    def test_differences_are_differences(self):
        other = train_tokenizer(ENGLISH, kind="bpe", vocab_size=503)
        assert len({BPE, CHARACTERS, WORDPIECE, other}) == 4
        assert BPE.__eq__(BPE.to_json()) is False

    def test_other_programs_get_the_same_ids_and_text(self, any_kind):
        library = tokenizers.Tokenizer.from_str(any_kind.to_json())
        for text in [*ENGLISH, *CHINESE, "</s> <0x41> ##s  two  ☃", ""]:
            ids = any_kind.encode(text)
            assert library.encode(text).ids == ids
            assert library.decode([id for id in ids if id != UNK]) == any_kind.decode(ids)

    @pytest.mark.parametrize("junk", ["", "{", "[]", "null", "{}", '{"version": "1.0"}', "\0"])
    def test_junk(self, junk):
        with pytest.raises(BundleError, match=r"tokenizer\.json is damaged"):
            Tokenizer.from_json(junk)

    def test_truncated(self, any_kind):
        with pytest.raises(BundleError, match="damaged"):
            Tokenizer.from_json(any_kind.to_json()[:-7])

    def test_of_others(self):
        def change(*path: str, value: object) -> str:
            parts = json.loads(BPE.to_json())
            place = parts
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            return json.dumps(parts)

        vocab = json.loads(BPE.to_json())["model"]["vocab"]
        last = max(vocab, key=vocab.__getitem__)
        added = {"id": 1, "content": "<s>", "special": True} | dict.fromkeys(
            ("single_word", "lstrip", "rstrip", "normalized"), False
        )
        for text, fault in [
            (tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a")).to_str(), "WordLevel"),
            (tokenizers.Tokenizer(tokenizers.models.BPE()).to_str(), "does not begin with"),
            (change("added_tokens", value=[added]), "added tokens"),
            (change("normalizer", value={"type": "Lowercase"}), "changes the text"),
            (change("model", "vocab", value=vocab | {"<s>": 2, "</s>": 1}), "does not begin with"),
            (change("model", "vocab", value=vocab | {last: 5003}), "gaps"),
            (change("model", "byte_fallback", value=False), "byte fallback"),
            (change("model", "dropout", value=0.1), "dropout"),
            (change("pre_tokenizer", value=None), "▁"),
            (change("pre_tokenizer", value={"type": "Sequence", "pretokenizers": []}), "▁"),
        ]:
            with pytest.raises(BundleError, match="not written by attendo.*" + fault):
                Tokenizer.from_json(text)


class TestVocabSize:
    def test_formula_and_bounds(self):
        assert choose_vocab_size(1_000_000) == 7200
        assert choose_vocab_size(0) == choose_vocab_size(101) == 560
        assert choose_vocab_size(10**12) == 32_000

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", 0),
            ("  ", 0),
            ("A man rides.", 3),
            ("Männer über", 2),
            ("我喜欢音乐", 3),
            ("ภาษาไทย", 4),
            ("日本語 text", 3),
        ],
    )
    def test_count_words(self, text, words):
        assert count_words(text) == words


@pytest.mark.skipif(not (DATA / "multi30k").is_dir(), reason=f"no Multi30K in {DATA} (set ATTENDO_DATA)")
def test_multi30k():
    files = [str(DATA / "multi30k" / f"train.{language}.gz") for language in ("en", "de")]
    lines = [line for path in files for line in read_lines(path)]
    vocab_size = choose_vocab_size(sum(map(count_words, lines)))
    assert 5500 <= vocab_size <= 6500
    tokenizer = train_tokenizer(lines, kind="bpe", vocab_size=vocab_size)
    assert tokenizer.vocab_size == vocab_size
    encoded = tokenizer.encode_batch(lines)
    assert [tokenizer.decode(ids) for ids in encoded] == [documented(line) for line in lines]
    assert sum(map(len, encoded)) / len(lines) < 16  # of 11.5 words and their punctuation


@pytest.mark.skipif(not (DATA / "tatoeba_en_zh").is_dir(), reason=f"no Tatoeba in {DATA} (set ATTENDO_DATA)")
def test_chinese():
    files = CorpusFiles(source=str(DATA / "tatoeba_en_zh" / "dev.tsv"))
    lines = [target for _, target in read_pairs(files)]
    tokenizer = train_tokenizer(lines, kind="bpe", vocab_size=1009)
    encoded = tokenizer.encode_batch(lines)
    assert tokenizer.vocab_size == 1009
    assert [tokenizer.decode(ids) for ids in encoded] == lines


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "characters"])
def test_ids_that_go_on_with_a_word(kind):
    tokenizer = train_tokenizer(["a man, two men and 3 women."] * 5, kind=kind, vocab_size=330)
    joining = tokenizer.joining_ids()
    for text in ("man", "two", "3", "women"):
        first, *rest = tokenizer.encode(text)
        assert first not in joining
        assert set(rest) <= joining
    assert not set(tokenizer.encode(",")) & joining
    assert not set(range(4)) & joining
