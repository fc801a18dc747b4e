"""The tokenizer of a Hugging Face folder → attendo's, whose ids are permuted.

What a folder may have, in the order in which it is looked for; of a SentencePiece file it depends on the model which
ids its pieces have:

    source.spm, target.spm, vocab.json          Marian: each side cut by its own SentencePiece file, one vocabulary
    sentencepiece.bpe.model, vocab.json         M2M100: the same with one file for both sides
    tokenizer.json                              whatever the `tokenizers` library can do
    vocab.json, merges.txt                      GPT-2, RoBERTa, BART: BPE over bytes
    vocab.txt                                   BERT, DistilBERT: WordPiece
    sentencepiece.bpe.model                     mBART, XLM-RoBERTa: SentencePiece, with ids as fairseq has them
    spiece.model, tokenizer.model               T5, Llama: SentencePiece, whose ids are theirs

Special pieces are taken out of the reach of texts: a typed "</s>" is three ordinary pieces.
"""

import base64
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attendo.errors import BundleError, ForeignError
from attendo.interop.folder import Folder
from attendo.interop.vocabulary import Order, Usage
from attendo.text.imported import ImportedTokenizer, Spelling, imported_from_json, opened_sentencepiece
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import CONTROLS

# Everything that a tokenizer may be read from, or told about by.
FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "source.spm",
    "target.spm",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "target_vocab.json",
)

# The languages of M2M100, by the name of the list; their ids are in this order, and no file of the folder has it.
_M2M100 = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}

# Those of mBART-50 in the order of their ids, which begin with those of mBART-25.
_MBART = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN "
    "pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)
_N_MBART25 = 25

# Pieces that are special wherever they occur, though files of a vocabulary alone do not say so.
_USUAL = {*CONTROLS, "<mask>", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>"}

SETTINGS = "tokenizer_config.json"
_MOST_SENTINELS = 10_000  # of a T5, which has a hundred

_Json = dict[str, Any]

_PLAIN: _Json = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}


@dataclass(frozen=True, kw_only=True)
class TheirTokenizer:
    """A tokenizer in ids of theirs.

    ids: every piece, special ones included.
    special: those that no text has.
    source, target: what cuts a text of either side.
    """

    ids: Mapping[str, int]
    special: frozenset[str]
    source: "Cutter"
    target: "Cutter"
    spelling: Spelling

    def pair(self, usage: Usage) -> TokenizerPair:
        """Both sides in our ids, each with what stands around its texts."""
        back = usage.order.back
        before = [back[row] for row in usage.source_prefix]
        after = [back[row] for row in usage.source_suffix or ()]
        source = self._ours(self.source, usage.order, before, after)
        if usage.source_text is not None:
            source = self._ours(self.source, usage.order, source.encode(usage.source_text), after)
        alike = self.source is self.target and not (source.before or after or usage.target_prefix)
        if usage.one_text or alike:
            return TokenizerPair(source, source)
        target = self._ours(self.target, usage.order, [back[row] for row in usage.target_prefix], ())
        return TokenizerPair(source, target)

    def _ours(self, cutter: "Cutter", order: Order, before: Sequence[int], after: Sequence[int]) -> ImportedTokenizer:
        names: dict[int, str] = {id: piece for piece, id in self.ids.items()}
        beyond = [piece for piece, id in self.ids.items() if id >= order.size and piece not in self.special]
        if beyond:
            raise ForeignError(
                f"the tokenizer has the piece {beyond[0]!r} with the id {self.ids[beyond[0]]}, and the model has "
                f"{order.size} rows. The files are not of one model."
            )
        pieces = [*CONTROLS]
        silent = []
        for place, row in enumerate(order.rows[len(CONTROLS) : order.vocab_size], start=len(CONTROLS)):
            assert row is not None  # only the first four can be missing
            name = names.get(row)
            if name is None or name in self.special:
                silent.append(place)
            name = f"<unused {row}>" if name is None else name
            pieces.append(f"their {name}" if name in CONTROLS else name)
        unknown = CONTROLS.index("<unk>")
        ids = []
        for name in cutter.names:
            row = self.ids.get(name)
            ids.append(unknown if row is None or row >= order.size else min(order.back[row], order.vocab_size - 1))
        values = {
            "kind": "imported",
            "library": cutter.library,
            "ids": ids,
            "pieces": pieces,
            "spelling": self.spelling,
            "bytes": cutter.bytewise,
            "silent": silent,
            "before": list(before),
            "after": list(after),
        }
        try:
            return imported_from_json(values)
        except BundleError as error:
            raise ForeignError(str(error)) from None


@dataclass(frozen=True)
class Cutter:
    """What the `tokenizers` library reads, or a SentencePiece file in base64, and the piece behind each of its ids.

    A piece that has no id of theirs is unknown. bytewise: the piece <0x41> is a byte.
    """

    library: str
    names: tuple[str, ...]
    bytewise: bool


def read_their_tokenizer(folder: Folder) -> TheirTokenizer:
    """The tokenizer of a folder, by the files it has and the model it is of."""
    kind, others = folder.config.get("model_type"), []
    try:
        for names, kinds, read in _WAYS:
            if all(folder.has(name) for name in names):
                if kinds is None or kind in kinds:
                    found = read(folder)
                    return found if kinds is None else _with_added(folder, found)
                others.append(names[0])
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, BundleError) as error:
        if isinstance(error, ForeignError):
            raise
        said = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ForeignError(f"the tokenizer in {folder.path} is damaged or of an unknown form: {said}.") from None
    if others:
        raise ForeignError(
            f"{folder.path} has its tokenizer only as {others[0]}, and which ids a {kind} gives to the pieces of such "
            "a file attendo does not know. Get the folder with tokenizer.json, or have transformers write it: "
            f'AutoTokenizer.from_pretrained("{folder.path}").save_pretrained("{folder.path}")'
        )
    raise ForeignError(
        f"{folder.path} has no tokenizer: neither tokenizer.json nor vocabulary or SentencePiece files. Get the folder "
        "again, with all of its files."
    )


# --- tokenizer.json and what is like it ------------------------------------------------------------------------------


def _from_library(folder: Folder, library: _Json) -> TheirTokenizer:
    """Their JSON without what is added around a text, and with the special pieces out of reach."""
    model = library["model"]
    ids = _vocabulary(model)
    _require_sound(library, ids)
    added = {one["content"]: one["id"] for one in library["added_tokens"]}
    special = {one["content"] for one in library["added_tokens"] if one["special"]} | _told_special(folder)
    special |= _USUAL & ids.keys()
    names = [*_in_order(_vocabulary(model)), *(piece for piece in added if piece not in ids and piece not in special)]
    ids |= added
    spelling = _spelling(library["decoder"])
    if model["type"] == "Unigram":  # which would find them in a text, unlike the others
        model["vocab"] = [[_hidden(piece, special), score] for piece, score in model["vocab"]]
    elif model["type"] == "BPE" and model.get("ignore_merges"):
        unk = model.get("unk_token")
        model["vocab"] = {
            piece if piece == unk else _hidden(piece, special): id for piece, id in model["vocab"].items()
        }
    library["added_tokens"] = [one for one in library["added_tokens"] if one["content"] not in special]
    library |= {"post_processor": None, "truncation": None, "padding": None}
    cutter = Cutter(json.dumps(library, ensure_ascii=False), tuple(names), bool(model.get("byte_fallback")))
    return TheirTokenizer(ids=ids, special=frozenset(special), source=cutter, target=cutter, spelling=spelling)


def _require_sound(library: _Json, ids: Mapping[str, int]) -> None:
    """That the library finds what it needs; it would say so only when it meets a certain text, or end the program."""
    model = library["model"]
    if model["type"] == "Unigram":
        unknown = isinstance(model["unk_id"], int) and 0 <= model["unk_id"] < len(ids)
    else:
        unknown = model.get("unk_token") in ids or (model["type"] == "BPE" and model.get("unk_token") is None)
    if not unknown:
        raise ForeignError("the tokenizer names a piece for what is unknown that is none of its pieces. It is damaged.")
    numbers = [*ids.values(), *(one["id"] for one in library["added_tokens"])]
    if not all(isinstance(id, int) and id >= 0 for id in numbers):
        raise ForeignError("the tokenizer has a piece whose id is no number. It is damaged.")
    if model["type"] == "BPE" and (prefix := model.get("continuing_subword_prefix")):
        merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        if not all(right.startswith(prefix) for _, right in merges):
            raise ForeignError(f"the tokenizer has merges of pieces without its prefix {prefix!r}. It is damaged.")
    normalizer = library.get("normalizer") or {}
    for step in [normalizer, *normalizer.get("normalizers", [])]:
        if step.get("type") == "Precompiled":
            charsmap = base64.b64decode(step["precompiled_charsmap"], validate=True)
            if len(charsmap) < 4 or 4 + int.from_bytes(charsmap[:4], "little") > len(charsmap):
                raise ForeignError("the tokenizer's table of characters (precompiled_charsmap) is damaged.")


def _vocabulary(model: _Json) -> dict[str, int]:
    if model["type"] == "Unigram":
        return {piece: id for id, (piece, _) in enumerate(model["vocab"])}
    if model["type"] not in ("BPE", "WordPiece"):
        raise ForeignError(f"a tokenizer of the kind {model['type']} is not supported: BPE, WordPiece and Unigram are.")
    return dict(model["vocab"])


def _hidden(piece: str, special: frozenset[str] | set[str]) -> str:
    """A name that no text has: where pieces are looked for, there are no spaces any more."""
    return f"{piece} " if piece in special else piece


def _in_order(ids: Mapping[str, int]) -> list[str]:
    if sorted(ids.values()) != list(range(len(ids))):
        raise ForeignError("the ids of the tokenizer's vocabulary are not 0, 1, 2, … without gaps.")
    return sorted(ids, key=ids.__getitem__)


def _added(folder: Folder) -> list[_Json]:
    """The pieces that were added to a vocabulary, as tokenizer.json has them; of some nothing more is said."""
    special = _told_special(folder) | _USUAL
    found = {}
    for piece, id in folder.optional_json("added_tokens.json").items():
        found[piece] = {**_PLAIN, "id": id, "normalized": piece not in special}
    for id, one in (_settings(folder).get("added_tokens_decoder") or {}).items():
        found[one["content"]] = {**_PLAIN, **one, "id": int(id)}
    return [
        {**one, "content": piece, "special": one["special"] or piece in special}
        for piece, one in sorted(found.items(), key=lambda item: item[1]["id"])
    ]


def _told_special(folder: Folder) -> set[str]:
    """The special pieces that the files beside the tokenizer name."""
    told: set[str] = set()
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        values = folder.optional_json(name)
        for key, value in values.items():
            if key.endswith("_token") and isinstance(value, str | dict):  # add_bos_token is true or false
                told.add(token_text(value))
            elif key in ("additional_special_tokens", "extra_special_tokens") and isinstance(value, list):
                told |= {token_text(one) for one in value}
        decoder = values.get("added_tokens_decoder") or {}
        told |= {one["content"] for one in decoder.values() if one.get("special")}
    return told


def token_text(token: Any) -> str:
    """A token, which may be described by its properties."""
    return str(token["content"] if isinstance(token, dict) else token)


def _spelling(decoder: _Json | None) -> Spelling:
    kinds = {one["type"] for one in (decoder or {}).get("decoders", [decoder or {"type": ""}])}
    if "ByteLevel" in kinds:
        return "bytes"
    if "WordPiece" in kinds:
        return "words"
    if kinds & {"Metaspace", "Replace"}:
        return "spaces"
    raise ForeignError(f"a tokenizer that is put together by {decoder} is not supported.")


def _byte_level(folder: Folder) -> _Json:
    """GPT-2's BPE from its two files."""
    lines = folder.text("merges.txt").split("\n")
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    prefix = bool(_settings(folder).get("add_prefix_space", False))
    return _library(
        folder,
        {"type": "BPE", "vocab": folder.json("vocab.json"), "merges": merges},
        cuts={"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": True},
        decoder={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    )


def _word_piece(folder: Folder) -> _Json:
    """BERT's WordPiece from its one file."""
    pieces = folder.text("vocab.txt").split("\n")
    pieces = pieces[:-1] if pieces[-1] == "" else pieces
    settings = _settings(folder)
    return _library(
        folder,
        {
            "type": "WordPiece",
            "unk_token": token_text(settings.get("unk_token", "[UNK]")),
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {piece: id for id, piece in enumerate(pieces)},
        },
        cuts={"type": "BertPreTokenizer"},
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
        normalizer={
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": bool(settings.get("tokenize_chinese_chars", True)),
            "strip_accents": settings.get("strip_accents"),
            "lowercase": bool(settings.get("do_lower_case", True)),
        },
    )


def _library(folder: Folder, model: _Json, *, cuts: _Json, decoder: _Json, normalizer: _Json | None = None) -> _Json:
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(folder),
        "normalizer": normalizer,
        "pre_tokenizer": cuts,
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }


# --- SentencePiece ---------------------------------------------------------------------------------------------------


def _marian(folder: Folder) -> TheirTokenizer:
    """SentencePiece files for the pieces of either side, and vocab.json for their ids."""
    if folder.has("target_vocab.json"):
        raise ForeignError(f"{folder.path} has a vocabulary for each side, which is not supported: one is, for both.")
    ids = _numbered(folder)
    special = {*CONTROLS, *_told_special(folder)} | {piece for piece in ids if piece.startswith(">>")}
    source, target = (_sentencepiece(folder, name) for name in ("source.spm", "target.spm"))
    return TheirTokenizer(ids=ids, special=frozenset(special), source=source, target=target, spelling="stripped")


def _m2m100(folder: Folder) -> TheirTokenizer:
    """The same with one file; languages come after what vocab.json has."""
    ids = _numbered(folder)
    names = [f"__{language}__" for language in _M2M100[_settings(folder).get("language_codes", "m2m100")].split()]
    ids |= {name: len(ids) + place for place, name in enumerate(names)}
    special = frozenset({*CONTROLS, *_told_special(folder), *names})
    cutter = _sentencepiece(folder, "sentencepiece.bpe.model")
    return TheirTokenizer(ids=ids, special=special, source=cutter, target=cutter, spelling="stripped")


def _numbered(folder: Folder) -> dict[str, int]:
    return {str(piece): int(id) for piece, id in folder.json("vocab.json").items()}


def _fairseq(folder: Folder) -> TheirTokenizer:
    """mBART and XLM-R: four pieces of their own for the file's first three, then the file's, languages and a mask."""
    cutter = _sentencepiece(folder, "sentencepiece.bpe.model")
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *cutter.names[3:]]
    languages = _MBART.split() if folder.config["model_type"] == "mbart" else []
    if len(pieces) + len(languages) >= folder.config["vocab_size"]:
        languages = languages[:_N_MBART25]
    ids = {piece: id for id, piece in enumerate([*pieces, *languages, "<mask>"])}
    special = frozenset({*CONTROLS, *_told_special(folder), *languages, "<mask>"})
    return TheirTokenizer(ids=ids, special=special, source=cutter, target=cutter, spelling="spaces")


def _t5(folder: Folder) -> TheirTokenizer:
    """The file's ids, and sentinels after them, the last one first."""
    theirs = _sentencepiece_alone(folder, "spiece.model")
    n_extra = _settings(folder).get("extra_ids", 100)
    if not isinstance(n_extra, int) or not 0 <= n_extra <= _MOST_SENTINELS:
        raise ForeignError(
            f"{folder.path / SETTINGS}: extra_ids = {n_extra!r}, and it is a number up to {_MOST_SENTINELS:,}. The "
            "file is damaged."
        )
    extra = {f"<extra_id_{number}>": len(theirs.ids) + n_extra - 1 - number for number in range(n_extra)}
    return dataclasses.replace(theirs, ids={**theirs.ids, **extra}, special=theirs.special | extra.keys())


def _sentencepiece_alone(folder: Folder, name: str) -> TheirTokenizer:
    """A SentencePiece file whose ids are theirs."""
    cutter = _sentencepiece(folder, name)
    processor = opened_sentencepiece(base64.b64decode(cutter.library))
    ids = {piece: id for id, piece in enumerate(cutter.names)}
    special = frozenset(piece for piece, id in ids.items() if processor.is_control(id) or processor.is_unknown(id))
    return TheirTokenizer(ids=ids, special=special, source=cutter, target=cutter, spelling="spaces")


def _sentencepiece(folder: Folder, name: str) -> Cutter:
    content = folder.read(name)
    try:
        processor = opened_sentencepiece(content)
    except ValueError as error:
        raise ForeignError(f"{folder.path / name} is no SentencePiece file: {error}.") from None
    ids = list(range(processor.get_piece_size()))
    names = tuple(processor.id_to_piece(ids))
    return Cutter(base64.b64encode(content).decode(), names, any(processor.is_byte(ids)))


def _with_added(folder: Folder, theirs: TheirTokenizer) -> TheirTokenizer:
    """With the special pieces that were added to such a file; it could not find others in a text."""
    added = {one["content"]: one["id"] for one in _added(folder) if one["special"]}
    for one in _added(folder):
        if one["content"] not in theirs.special | added.keys():
            raise ForeignError(
                f"the piece {one['content']!r} was added to the tokenizer in {folder.path}, whose SentencePiece file "
                f"does not find it in a text. Take it out of added_tokens.json and {SETTINGS}, if no text needs it."
            )
    return dataclasses.replace(theirs, ids={**added, **theirs.ids}, special=theirs.special | added.keys())


def _settings(folder: Folder) -> _Json:
    return folder.optional_json(SETTINGS)


# What a tokenizer is read from, by the first files that are there, and of which types of models; None: of any.
_WAYS: tuple[tuple[tuple[str, ...], tuple[str, ...] | None, Callable[[Folder], TheirTokenizer]], ...] = (
    (("source.spm",), ("marian",), _marian),
    (("sentencepiece.bpe.model", "vocab.json"), ("m2m_100",), _m2m100),
    (("tokenizer.json",), None, lambda folder: _from_library(folder, folder.json("tokenizer.json"))),
    (("merges.txt",), None, lambda folder: _from_library(folder, _byte_level(folder))),
    (("vocab.txt",), None, lambda folder: _from_library(folder, _word_piece(folder))),
    (("sentencepiece.bpe.model",), ("mbart", "xlm-roberta"), _fairseq),
    (("spiece.model",), ("t5",), _t5),
    (("tokenizer.model",), ("llama",), lambda folder: _sentencepiece_alone(folder, "tokenizer.model")),
)
