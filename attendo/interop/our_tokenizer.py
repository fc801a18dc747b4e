"""attendo's own tokenizers → files of others, to the same ids.

Hugging Face: tokenizer.json is what the bundle has, with the control pieces declared, perhaps by other numbers, and
what stands around a text; a typed "</s>" stays text there, too (`split_special_tokens`), unless gaps are to be filled:
then [MASK] has to be read.

SentencePiece: a .model file is a protocol buffer (sentencepiece_model.proto), of which these fields are written:

    ModelProto       1 pieces (repeated)   2 trainer_spec   3 normalizer_spec
    SentencePiece    1 piece   2 score   3 type
    trainer_spec     3 model_type   4 vocab_size   35 byte_fallback   40 unk_id   41 bos_id   42 eos_id   43 pad_id
    normalizer_spec  1 name   3 add_dummy_prefix   4 remove_extra_whitespaces

as tag, value, tag, value, …: a tag is a field's number and the kind of its value, in which 0 is a number of seven bits
a byte, 2 bytes behind their length, 5 four bytes.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attendo.errors import ForeignError
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import BOS, CONTROLS, EOS, PAD, UNK, Tokenizer

# What stands around a text: a source, one or two texts that are read, those with gaps, or a text that is continued.
Around = Literal["source", "read", "masked", "continued"]

_MASK = "[MASK]"  # what a gap is in attendo's own texts

_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_BPE = 2
_N_BYTES = 256


# --- Hugging Face ----------------------------------------------------------------------------------------------------


def tokenizer_files(
    tokenizers: TokenizerPair,
    *,
    around: Around,
    max_length: int,
    controls: Sequence[int] = (PAD, BOS, EOS, UNK),
    n_separators: int = 1,
    n_segments: int = 2,
) -> dict[str, bytes]:
    """The files that AutoTokenizer reads, by their names.

    A tokenizer of the target's own is in the subfolder `target`. controls: the ids of <pad>, <s>, </s> and <unk> there.
    n_separators: how many </s> stand between two texts. n_segments: of how many texts a model knows which is which.
    """
    numbers = dict(zip(CONTROLS, controls, strict=True))
    processor = _post_processor(around, numbers, n_separators, second=1 if n_segments > 1 else 0)
    told = ["input_ids", *(["token_type_ids"] if n_segments else []), "attention_mask"]
    files = _files(tokenizers.source, around, max_length, numbers, processor, told)
    if not tokenizers.joint:
        target = _files(tokenizers.target, around, max_length, numbers, processor, told)
        files |= {f"target/{name}": content for name, content in target.items()}
    return files


def _files(
    tokenizer: Tokenizer,
    around: Around,
    max_length: int,
    numbers: Mapping[str, int],
    processor: dict[str, Any] | None,
    told: Sequence[str],
) -> dict[str, bytes]:
    library: dict[str, Any] = json.loads(tokenizer.to_json())
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    library["model"]["vocab"] |= {piece: id for piece, id in numbers.items() if piece in library["model"]["vocab"]}
    by_id = sorted(numbers.items(), key=lambda one: one[1])
    library["added_tokens"] = [{"id": id, "content": piece, **flags} for piece, id in by_id]
    if around == "masked":
        # As in attendo: with the space before it, where that is no piece of its own, and what follows may touch it.
        mask = {"id": tokenizer.vocab_size, "content": _MASK, **flags, "lstrip": tokenizer.kind != "characters"}
        library["added_tokens"].append(mask)
        cuts = library["pre_tokenizer"]
        cuts.get("pretokenizers", [cuts])[0]["prepend_scheme"] = "first"
    library["post_processor"] = processor
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": CONTROLS[PAD],
        "bos_token": CONTROLS[BOS],
        "eos_token": CONTROLS[EOS],
        "unk_token": CONTROLS[UNK],
        "split_special_tokens": around != "masked",
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
        "model_input_names": told,
    }
    if around in ("read", "masked"):
        settings |= {"cls_token": CONTROLS[BOS], "sep_token": CONTROLS[EOS]}
    if around == "masked":
        settings |= {"mask_token": _MASK}
    return {
        "tokenizer.json": json.dumps(library, ensure_ascii=False).encode("utf-8"),
        "tokenizer_config.json": (json.dumps(settings, indent=2) + "\n").encode("utf-8"),
    }


def _post_processor(
    around: Around, numbers: Mapping[str, int], n_separators: int, *, second: int
) -> dict[str, Any] | None:
    """text </s>, or <s> text </s> and <s> first </s> second </s>, or nothing. second: the number of the second text."""
    if around == "continued":
        return None

    def piece(id: int, segment: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": CONTROLS[id], "type_id": segment}}

    def text(name: str, segment: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    begin = [] if around == "source" else [piece(BOS, 0)]
    single = [*begin, text("A", 0), piece(EOS, 0)]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *[piece(EOS, 0)] * (n_separators - 1), text("B", second), piece(EOS, second)],
        "special_tokens": {
            name: {"id": name, "ids": [numbers[name]], "tokens": [name]} for name in (CONTROLS[BOS], CONTROLS[EOS])
        },
    }


# --- SentencePiece ---------------------------------------------------------------------------------------------------


def sentencepiece_model(tokenizer: Tokenizer) -> bytes:
    """The content of a SentencePiece .model file with the pieces and ids of a BPE tokenizer, or of one of characters.

    SentencePiece knows pieces and no merges: it joins any two neighbours that make a piece, of all of them those whose
    piece was learned first.
    """
    if tokenizer.kind not in ("bpe", "characters"):
        raise ForeignError(
            f"a tokenizer of kind {tokenizer.kind} cannot be a SentencePiece file: only bpe and characters can."
        )
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    learned: dict[str, int] = {}
    for rank, (left, right) in enumerate(tokenizer.merges()):
        learned.setdefault(left + right, rank)
    types = [_CONTROL] * UNK + [_UNKNOWN] + [_BYTE] * _N_BYTES
    types += [_NORMAL] * (len(pieces) - len(types))
    scores = [-float(learned.get(piece, len(learned))) for piece in pieces]
    trainer = {3: _BPE, 4: len(pieces), 35: 1, 40: UNK, 41: BOS, 42: EOS, 43: PAD}
    return b"".join(
        [
            *(_bytes(1, _piece(*one)) for one in zip(pieces, scores, types, strict=True)),
            _bytes(2, b"".join(_number(field, value) for field, value in trainer.items())),
            _bytes(3, _bytes(1, b"identity") + _number(3, 1) + _number(4, 0)),
        ]
    )


def _piece(text: str, score: float, kind: int) -> bytes:
    return _bytes(1, text.encode("utf-8")) + _tag(2, 5) + struct.pack("<f", score) + _number(3, kind)


def _bytes(field: int, value: bytes) -> bytes:
    return _tag(field, 2) + _varint(len(value)) + value


def _number(field: int, value: int) -> bytes:
    return _tag(field, 0) + _varint(value)


def _tag(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(value: int) -> bytes:
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
