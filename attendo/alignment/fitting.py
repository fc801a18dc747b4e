"""Which view of cross-attention aligns best, found without anybody having aligned anything.

In a good alignment a source word tells much about the target word it is linked to. So each view links the pieces of
validation pairs, and the view is taken whose links carry the most information:

    fit = mean over all links (e, f) of log p(f | e) / p(f)

p(f) is how often f comes among the target pieces. p(f | e) is counted from all links but the one in question, which
would vouch for itself, and leans on p(f) as if one more link had been seen:

    p(f | e) = (c(e, f) - 1 + p(f)) / c(e)

A head that looks at the full stop, at the neighbour or at random has a fit of about zero, or below.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendo.alignment.heads import parse_head
from attendo.alignment.links import BATCH_TOKENS, View, piece_links
from attendo.alignment.maps import attention_maps
from attendo.bundle import Bundle, plain_json
from attendo.data.batch import make_batch
from attendo.data.prepare import open_prepared
from attendo.engines.batches import sorted_batches
from attendo.errors import AttendoError, BundleError, StorageError
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.settings import TranslationConfig
from attendo.reporting import Reporter
from attendo.text.corpus import Pair, read_pairs
from attendo.text.pair import TokenizerPair

MOST_PAIRS = 500
MOST_PIECES = 200  # of a side; a longer pair is left out

Ids = NDArray[np.int64]


def views(config: TranslationConfig) -> list[View]:
    """The mean of all layers, of each, and every head; each when a piece is written, and when it is read."""
    layers = range(1, config.attentions["cross"] + 1)
    heads = range(1, config.n_heads + 1)
    places: list[tuple[int | None, int | None]] = [(None, None), *((layer, None) for layer in layers)]
    places += [(layer, head) for layer in layers for head in heads]
    return [View(layer, head, read) for layer, head in places for read in (False, True)]


def fit(sources: Ids, targets: Ids) -> float:
    """Of links, given as the two ids of each: how much the one tells about the other, in nats."""
    if len(sources) == 0:
        return 0.0
    _, at, times = np.unique(np.stack((sources, targets)), axis=1, return_inverse=True, return_counts=True)
    together = times[at.ravel()]
    share = np.bincount(targets)[targets] / len(targets)
    given = (together - 1 + share) / np.bincount(sources)[sources]
    return float(np.log(given / share).mean())


def fit_view(
    model: EncoderDecoder, tokenizers: TokenizerPair, pairs: Sequence[Pair], reporter: Reporter
) -> tuple[View, dict[str, Any]]:
    """The view that fits best, and what a bundle keeps about it."""
    encoded = zip(
        tokenizers.source.encode_batch([source for source, _ in pairs]),
        tokenizers.target.encode_batch([target for _, target in pairs]),
        strict=True,
    )
    short = [both for both in encoded if max(map(len, both)) <= MOST_PIECES][:MOST_PAIRS]
    sources, targets = [source for source, _ in short], [target for _, target in short]
    longest = [max(map(len, both)) for both in short]
    candidates = views(model.config)
    linked: dict[View, list[int]] = {view: [] for view in candidates}
    order: list[int] = []
    batches = sorted_batches(longest, batch_size=None, batch_tokens=BATCH_TOKENS)
    device = next(model.parameters()).device
    for rows in reporter.track(batches, "Choosing a head to align by", len(batches)):
        ours, theirs = [sources[i] for i in rows], [targets[i] for i in rows]
        maps = attention_maps(model, make_batch(ours, theirs).to(device))
        lengths = [len(ids) for ids in ours], [len(ids) for ids in theirs]
        order += chain.from_iterable(target for source, target in zip(ours, theirs, strict=True) if source)
        for view in candidates:
            for source, places in zip(ours, piece_links(view.weights(maps), *lengths), strict=True):
                linked[view] += [source[place] for place in places]
    written = np.array(order, dtype=np.int64)
    fits = {view: fit(np.array(found, dtype=np.int64), written) for view, found in linked.items()}
    best = max(fits, key=lambda view: fits[view])  # of equal ones the first, which is the broader
    return best, {"from": best.name, "read": best.read, "fit": round(fits[best], 4), "pairs": len(short)}


def view_of(bundle: Bundle, model: EncoderDecoder, reporter: Reporter) -> View:
    """The view that the bundle has recorded; if it has none, the one that is found now, and recorded if possible."""
    if bundle.alignment():
        return view_at_hand(bundle, model.config)
    pairs = _validation_pairs(bundle)
    if not pairs:
        view = view_at_hand(bundle, model.config)
        reporter.say(
            f"{bundle.path} does not say which head aligns best, and its validation pairs are not here: using the mean "
            f"of decoder layer {view.layer}."
        )
        return view
    view, facts = fit_view(model, bundle.tokenizers, pairs, reporter)
    try:
        bundle.write("alignment.json", plain_json(facts))
    except StorageError:
        reporter.say(f"{bundle.path} cannot be written to, so the head to align by ({view.name}) is not kept.")
    return view


def view_at_hand(bundle: Bundle, config: TranslationConfig) -> View:
    """The view that the bundle has recorded; if it has none, the mean of the last layer but one."""
    facts = bundle.alignment()
    return _recorded(bundle, config, facts) if facts else View(max(1, config.attentions["cross"] - 1))


def _recorded(bundle: Bundle, config: TranslationConfig, facts: dict[str, Any]) -> View:
    try:
        kind, *numbers = str(facts["from"]).split(".")
        layer, head = (*map(int, numbers), None, None)[:2]
        if kind != "cross" or len(numbers) > 2:
            raise ValueError(facts["from"])
        if layer is not None:
            parse_head(f"cross.{layer}.{head or 1}", config)
        return View(layer, head, bool(facts["read"]))
    except (KeyError, ValueError, AttendoError) as error:
        raise BundleError(
            f"{bundle.path / 'alignment.json'} is damaged ({error}). Delete it: it is made again when needed."
        ) from None


def _validation_pairs(bundle: Bundle) -> list[Pair]:
    """As far as they are still where they were."""
    store = bundle.data().get("store")
    prepared = open_prepared(bundle.path.parent / ".cache" / store) if store else None
    if prepared is not None:
        return prepared.valid
    files = bundle.config.data.valid_files()
    if files is None:
        return []
    try:
        return [pair for pair in read_pairs(files) if all(text.strip() for text in pair)]
    except AttendoError:
        return []
