"""Small tokenizers of every kind that folders have, trained here and saved by Hugging Face Transformers."""

import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

ADJECTIVES = ("old", "tiny", "green", "quick", "brilliant", "hopeful")
LINES = [
    f"The {ADJECTIVES[i % 6]} man rides {i} bicycles, {ADJECTIVES[i % 5]}ly: don't! ÄÖÜ ß été naïve (a?)."
    for i in range(150)
]
MARIAN, T5 = ("</s>", "<unk>"), {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
LLAMA = {"byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}


def awkward() -> list[str]:
    """Texts that tokenizers disagree about, if anything makes them."""
    fixed = (
        "", " ", "  ", "Hello world.", "  two  spaces  ", "tab\tand\nnewline", "ÄÖÜß", "e\u0301te\u0301",
        "ﬁne ﬂour ½ ² ™", "日本語のテキスト", "한국어", "العربية", "हिन्दी", "😀👨‍👩‍👧 emoji", "a\u200bb",
        "\ufeffbom", "\u00a0nbsp\u00a0", "don't can't it's", "U.S.A.", "1,234.56", "x" * 70, "<0x41>", "▁",
        "a▁b", "##x [x]", "ab\0c", "\u2028line", "ＦＵＬＬ width", "ǅ ŉ ſ",
        "a\u0327b", "Ⅳ ㎏ ㌔", "\u0130stanbul", "MAN rides", "the Man ridEs", "...", "?!", "a , b . c", "\ud7ff",
        "\U0010ffff", "q\u0308\u0323", "é è ê", "\r\n", "a\rb", "trailing ", "man, man; (man)",
    )  # fmt: skip
    generator = random.Random(5)
    pools = (
        "abcdefgh ÄÖÜß.,!?'",
        "日本語한국어العربية हिन्दी ",
        "\u0300\u0301\u0323aeiou ",
        "0123456789.,- €$",
        "😀👍🏽 ab\u200d\u200b\u00a0\t",
    )
    words = " ".join(LINES).split()
    drawn = []
    for _ in range(90):
        pool = generator.choice(pools) + generator.choice(pools)
        drawn.append("".join(generator.choices(pool, k=generator.randrange(1, 24))))
        drawn.append(" ".join(generator.choices(words, k=generator.randrange(1, 9))))
    return [*fixed, *drawn]


def sentencepiece_file(
    path: Path, *, lines: Sequence[str] = LINES, **options: Any
) -> sentencepiece.SentencePieceProcessor:
    """A SentencePiece model that was trained on the lines, and is written to a file."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        hard_vocab_limit=False,
        minloglevel=2,
        **{"vocab_size": 160, "model_type": "unigram", **options},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())


def marian(folder: Path, **options: Any) -> Any:
    """Two SentencePiece files and a vocabulary that has not all of their pieces."""
    sides = [
        sentencepiece_file(folder / "source.spm", **options),
        sentencepiece_file(folder / "target.spm", **options, split_digits=True),
    ]
    learned = [side.id_to_piece(i) for side in sides for i in range(3, side.get_piece_size() - 5)]
    pieces = list(dict.fromkeys([*MARIAN, *learned, "<pad>"]))
    (folder / "vocab.json").write_text(json.dumps({piece: id for id, piece in enumerate(pieces)}))
    (folder / "tokenizer_config.json").write_text("{}")
    made = transformers.MarianTokenizer.from_pretrained(folder)
    made.save_pretrained(folder)
    return made


def m2m100(folder: Path) -> Any:
    cutter = sentencepiece_file(folder / "sentencepiece.bpe.model", model_type="bpe")
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *(cutter.id_to_piece(i) for i in range(3, cutter.get_piece_size()))]
    (folder / "vocab.json").write_text(json.dumps({piece: id for id, piece in enumerate(pieces)}))
    made = transformers.M2M100Tokenizer(
        folder / "vocab.json", folder / "sentencepiece.bpe.model", src_lang="en", tgt_lang="de"
    )
    made.save_pretrained(folder)
    return made


def from_sentencepiece(folder: Path, kind: str, name: str, **options: Any) -> Any:
    """A tokenizer that Transformers makes of a SentencePiece file."""
    sentencepiece_file(folder / name, **options)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    return getattr(transformers, kind).from_pretrained(folder)


def byte_level(folder: Path, kind: str, special: Sequence[str]) -> Any:
    """GPT-2's two files."""
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator(LINES, trainer)
    model = json.loads(library.to_str())["model"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in model["merges"]))
    return getattr(transformers, kind).from_pretrained(folder)


def word_piece(folder: Path, *, lower: bool) -> Any:
    """BERT's one file."""
    library = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer()
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    library.train_from_iterator(
        LINES, trainers.WordPieceTrainer(vocab_size=250, special_tokens=special, show_progress=False)
    )
    vocab = library.get_vocab()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(sorted(vocab, key=vocab.__getitem__)) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}))
    return transformers.BertTokenizer.from_pretrained(folder, do_lower_case=lower)
