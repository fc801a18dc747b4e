"""How each architecture wants its texts: which of its ids means what, and what stands around a source and a target.

                source              a target begins with
    Marian      text </s>           <pad>                     (several target languages: >>de<< text </s>)
    Pegasus     text </s>           <pad>
    Blenderbot  text </s>           <s>
    T5          text </s>           <pad>                     (the task is told in words before the text)
    BART        <s> text </s>       </s> <s>
    mBART-25    text </s> language  language
    mBART-50    language text </s>  </s> language
    M2M100      language text </s>  </s> language             (NLLB alike)

What reads or continues one text has only meanings: [CLS] text [SEP] is our <s> text </s>.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from attendo.errors import ConfigError, ForeignError
from attendo.interop.folder import Folder, said_id
from attendo.interop.their_tokenizer import TheirTokenizer, token_text
from attendo.interop.vocabulary import Order, Usage, order_of

OPTIONS = ("--source-language", "--target-language")
NEAREST = 5  # languages that are named where one is not known

Languages = tuple[str | None, str | None]


def usage_of(folder: Folder, tokenizer: TheirTokenizer, languages: Languages) -> Usage:
    """What the model of a folder makes of its tokenizer's ids, for the languages that were asked for."""
    kind = str(folder.config.get("model_type"))
    if kind not in _USAGES:
        raise ForeignError(f"nothing is known of how a model of the type {kind!r} wants its texts.")
    try:
        usage = _USAGES[kind](folder, tokenizer, languages)
        for id in (*usage.source_prefix, *(usage.source_suffix or ()), *usage.target_prefix):
            _require_row(folder, id, "which stands around a text", usage.order.size)
        return usage
    except KeyError as error:
        raise ForeignError(f"the tokenizer in {folder.path} has no piece {error}, which a {kind} needs.") from None
    except (AttributeError, TypeError, IndexError) as error:  # what was read is of no kind that was expected
        raise ForeignError(f"the files of the tokenizer in {folder.path} are damaged: {error}.") from None


def _order(
    folder: Folder, *, pad: int | None, start: int | None, eos: int | None, unk: int | None, **last: Any
) -> Order:
    size = folder.config.get("vocab_size")
    if not isinstance(size, int) or not any(shape[:1] == (size,) for shape in folder.shapes.values()):
        raise ForeignError(
            f"{folder.path / 'config.json'}: vocab_size = {size!r}, and no tensor has so many rows. The files are not "
            "of one model."
        )
    hidden = [("mask", id) for id in last.get("last", ())]
    for name, id in (("pad", pad), ("start", start), ("eos", eos), ("unk", unk), *hidden):
        if id is not None:
            _require_row(folder, id, name, size)
    return order_of(size, pad=pad, start=start, eos=eos, unk=unk, **last)


def _require_row(folder: Folder, id: int, what: str, size: int) -> None:
    if not 0 <= id < size:
        raise ForeignError(f"{folder.path}: the id {id} ({what}) is beyond the {size:,} rows of the vocabulary.")


def _meanings(folder: Folder, tokenizer: TheirTokenizer) -> dict[str, int | None]:
    """What an encoder-decoder's config says of its ids."""
    eos = said_id(folder, "eos_token_id")
    start = said_id(folder, "decoder_start_token_id")
    pad = said_id(folder, "pad_token_id")
    if eos is None or start is None:
        raise ForeignError(
            f"{folder.path / 'config.json'} says neither where decoding starts nor where it ends: it needs "
            "decoder_start_token_id and eos_token_id."
        )
    return {"pad": pad, "start": start, "eos": eos, "unk": tokenizer.ids["<unk>"]}


def _marian(folder: Folder, tokenizer: TheirTokenizer, languages: Languages) -> Usage:
    known = {piece[2:-2]: id for piece, id in tokenizer.ids.items() if piece.startswith(">>") and piece.endswith("<<")}
    order = _order(folder, **_meanings(folder, tokenizer))
    if not known:
        return Usage(order=order)
    return Usage(order=order, source_prefix=(_language(known, languages[1], "--target-language"),))


def _plain(folder: Folder, tokenizer: TheirTokenizer, _: Languages) -> Usage:
    return Usage(order=_order(folder, **_meanings(folder, tokenizer)))


def _t5(folder: Folder, tokenizer: TheirTokenizer, languages: Languages) -> Usage:
    order = _order(folder, **_meanings(folder, tokenizer))
    source, target = languages
    if (source is None) != (target is None):
        raise ConfigError("a T5 is told both languages, or none: give --source-language and --target-language.")
    return Usage(order=order, source_text=None if source is None else f"translate {source} to {target}:")


def _bart(folder: Folder, tokenizer: TheirTokenizer, languages: Languages) -> Usage:
    """Unless the tokenizer itself says that a text begins with nothing, as that of a model that was trained here."""
    if (single := _template(folder)) and "SpecialToken" not in single[0]:
        return _plain(folder, tokenizer, languages)
    begin = tokenizer.ids["<s>"]
    return Usage(order=_order(folder, **_meanings(folder, tokenizer)), source_prefix=(begin,), target_prefix=(begin,))


def _by_language(named: Callable[[str], str | None]) -> Callable[[Folder, TheirTokenizer, Languages], Usage]:
    """A model of many languages; `named` gives the language that a special piece is of."""

    def usage(folder: Folder, tokenizer: TheirTokenizer, languages: Languages) -> Usage:
        known = {name: tokenizer.ids[piece] for piece in tokenizer.special if (name := named(piece))}
        if not known and languages == (None, None):  # one that was trained here, for one pair
            return _plain(folder, tokenizer, languages)
        source, target = (_language(known, *one) for one in zip(languages, OPTIONS, strict=True))
        start, eos = (said_id(folder, key) for key in ("decoder_start_token_id", "eos_token_id"))
        if folder.config["model_type"] == "mbart" and start != eos and eos is not None:  # 25 languages
            meanings = {"pad": said_id(folder, "pad_token_id"), "eos": eos, "unk": tokenizer.ids["<unk>"]}
            return Usage(order=_order(folder, start=target, **meanings), source_suffix=(eos, source))
        order = _order(folder, **_meanings(folder, tokenizer))
        return Usage(order=order, source_prefix=(source,), target_prefix=(target,))

    return usage


def _m2m100_language(piece: str) -> str | None:
    """__de__ is de, and deu_Latn itself."""
    if piece.startswith("__") and piece.endswith("__"):
        return piece.strip("_")
    return piece if "_" in piece and not piece.startswith(("<", "[")) else None


def _mbart_language(piece: str) -> str | None:
    """de_DE is itself."""
    return piece if len(piece) == 5 and piece[2] == "_" else None


# Those whose tokenizer is told both languages, and how a special piece names one.
BY_LANGUAGE: Mapping[str, Callable[[str], str | None]] = {"mbart": _mbart_language, "m2m_100": _m2m100_language}


def _language(known: Mapping[str, int], asked: str | None, option: str) -> int:
    if asked is None:
        raise ConfigError(f"this model is of {len(known)} languages, and is imported for one pair: give {option}.")
    if asked not in known:
        near = difflib.get_close_matches(asked, known, n=NEAREST, cutoff=0.3) or sorted(known)[:NEAREST]
        raise ConfigError(
            f"{option} {asked}: none of the {len(known)} languages of this model. The nearest: {', '.join(near)}."
        )
    return known[asked]


def _reader(*usual: str) -> Callable[[Folder, TheirTokenizer, Languages], Usage]:
    """An encoder, by what its tokenizer calls padding, beginning, end, unknown and mask, or calls them usually."""

    def usage(folder: Folder, tokenizer: TheirTokenizer, _: Languages) -> Usage:
        told = folder.optional_json("tokenizer_config.json")
        keys = ("pad_token", "cls_token", "sep_token", "unk_token", "mask_token")
        names = [token_text(told.get(key) or name) for key, name in zip(keys, usual, strict=True)]
        pad, start, eos, unk, mask = (tokenizer.ids[name] for name in names)
        return Usage(order=_order(folder, pad=pad, start=start, eos=eos, unk=unk, last=(mask,)), one_text=True)

    return usage


_bert = _reader("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
_roberta = _reader("<pad>", "<s>", "</s>", "<unk>", "<mask>")


def _decoder(folder: Folder, tokenizer: TheirTokenizer, _: Languages) -> Usage:
    """GPT-2 begins with what ends a text; a Llama has a piece for either, and mostly one before every text."""
    eos = said_id(folder, "eos_token_id")
    start = said_id(folder, "bos_token_id")
    meanings = {"pad": said_id(folder, "pad_token_id"), "start": eos if start is None else start, "eos": eos}
    order = _order(folder, **meanings, unk=tokenizer.ids.get("<unk>"))
    return Usage(order=order, source_prefix=_put_before(folder, tokenizer, order.first[1]), one_text=True)


def _put_before(folder: Folder, tokenizer: TheirTokenizer, start: int | None) -> tuple[int, ...]:
    """The ids that their tokenizer puts before every text by itself."""
    settings = folder.optional_json("tokenizer_config.json")
    if folder.has("tokenizer.json"):
        pieces = [part["SpecialToken"]["id"] for part in _template(folder)[:1] if "SpecialToken" in part]
        return tuple(tokenizer.ids[piece] for piece in pieces)
    llama = folder.config["model_type"] == "llama"
    return (start,) if start is not None and settings.get("add_bos_token", llama) else ()


def _template(folder: Folder) -> list[dict[str, Any]]:
    """What tokenizer.json puts around one text, and the text itself, in their order; nothing where it does not say."""
    if not folder.has("tokenizer.json"):
        return []
    processor = folder.json("tokenizer.json").get("post_processor") or {}
    steps = [step for step in processor.get("processors", [processor]) if step.get("type") == "TemplateProcessing"]
    return [part for step in steps for part in step["single"]]


_USAGES: dict[str, Callable[[Folder, TheirTokenizer, Languages], Usage]] = {
    "marian": _marian,
    "t5": _t5,
    "pegasus": _plain,
    "blenderbot": _plain,
    "bart": _bart,
    **{kind: _by_language(named) for kind, named in BY_LANGUAGE.items()},
    "bert": _bert,
    "distilbert": _bert,
    "roberta": _roberta,
    "roberta-prelayernorm": _roberta,
    "xlm-roberta": _roberta,
    "gpt2": _decoder,
    "llama": _decoder,
}
# Those that are told a language, or the task, by what is typed before a text; tokenizers of the others put it there.
TYPED = ("marian", "t5")
OF_LANGUAGES = (*TYPED, *BY_LANGUAGE)  # those that may be asked for some
