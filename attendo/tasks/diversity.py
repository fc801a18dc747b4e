"""Pairs that translators make of the pairs there are (Nguyen et al. 2020, *Data Diversification: A Simple Strategy For
Neural Machine Translation*).

Helpers, trained on the same pairs in both directions, translate them: each source has a further target, and each target
a further source. A translator that learns from all of them comes near to what its helpers know together.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attendo.bundle import Bundle
from attendo.data.prepare import Prepared, just_prepared, open_prepared
from attendo.data.store import Side, StoreWriter
from attendo.errors import Interrupted
from attendo.recipe import DataConfig, RunConfig, choose
from attendo.reporting import Reporter
from attendo.storage import sha256, storage_errors
from attendo.tasks.task import Teach
from attendo.text.pair import TokenizerPair
from attendo.training.settings import TrainingConfig
from attendo.translator import Translator

CHUNK = 20_000  # pairs written at once

Texts = list[list[int]]  # as ids


def diversified(prepared: Prepared, config: RunConfig, *, beside: Path, teach: Teach, reporter: Reporter) -> Prepared:
    """The pairs, and those that `training.diversify` helpers for each direction make of them.

    Found in the cache, or made and put there; the helpers are trained in folders `beside` that of the run.
    """
    training = config.training
    split = training.processes, training.threads, training.mixed_precision
    key = ["diversify", prepared.folder.name, training.diversify, training.helper_epochs, config.seed, *split]
    folder = prepared.folder.with_name(sha256(json.dumps(key).encode())[:16])
    if (found := open_prepared(folder)) is not None:
        reporter.say(f"Using the pairs that the helpers of an earlier run made ({folder}).")
        return found

    directions = {"forward": (prepared, config.data), "backward": (_turned(prepared), _turned_data(config.data))}
    made: list[tuple[Texts, Texts]] = []
    helpers: list[Bundle] = []
    for number in range(training.diversify):
        settings = helper_settings(training, pairs=prepared.facts["pairs"]["kept"], seed=config.seed + number)
        for direction, (corpus, data) in directions.items():
            reporter.say(f"Helper {len(helpers) + 1} of {2 * training.diversify}, {direction}:")
            path = beside.with_name(f"{beside.name}.{direction}-{number + 1}")
            try:
                helpers.append(teach(settings, data, corpus, path))
            except Interrupted as error:
                raise Interrupted(
                    "Stopped and saved while a helper was trained. Give the same command once more: it goes on there.",
                    error.exit_code - 128,
                ) from None
            sources, targets = _all(corpus.store.source), _translations(helpers[-1], corpus, reporter)
            made.append((sources, targets) if direction == "forward" else (targets, sources))
    scores = [helper.scores()["validation"]["bleu"]["score"] for helper in helpers]
    extended = _extended(prepared, made, folder, scores)
    for helper in helpers:  # what they know is in the pairs now
        shutil.rmtree(helper.path)
    return extended


def helper_settings(training: TrainingConfig, *, pairs: int, seed: int) -> dict[str, Any]:
    """What `auto` chooses for so many passes, whatever the run itself is to be."""
    chosen = choose("auto", pairs=pairs, passes=training.helper_epochs)
    chosen["training"] |= {
        "epochs": training.helper_epochs,
        "processes": training.processes,
        "threads": training.threads,
        "mixed_precision": training.mixed_precision,
        "diversify": 0,  # helpers have none
    }
    return {**chosen, "seed": seed}


def _translations(helper: Bundle, corpus: Prepared, reporter: Reporter) -> Texts:
    """Of all sources, as ids."""
    decode = corpus.tokenizers.source.decode
    translator = Translator.from_bundle(helper)
    found = translator.translate_many(
        [decode(ids) for ids in _all(corpus.store.source)], split=False, check=False, reporter=reporter
    )
    return corpus.tokenizers.target.encode_batch([translation.text for translation in found])


def _all(side: Side) -> Texts:
    return [side[place].tolist() for place in range(len(side))]


def _extended(
    prepared: Prepared, made: Sequence[tuple[Texts, Texts]], folder: Path, scores: Sequence[float]
) -> Prepared:
    """The pairs, then those that were made of them, each once: nothing empty, nothing longer than what there was."""
    sources, targets = _all(prepared.store.source), _all(prepared.store.target)
    n, longest = len(sources), max(map(len, [*sources, *targets]))
    seen = set(zip(map(tuple, sources), map(tuple, targets), strict=True))
    for more_sources, more_targets in made:
        for source, target in zip(more_sources, more_targets, strict=True):
            pair = tuple(source), tuple(target)
            if pair not in seen and 0 < min(map(len, pair)) <= max(map(len, pair)) <= longest:
                seen.add(pair)
                sources.append(source)
                targets.append(target)
    facts = {"diversified": {"pairs": len(sources) - n, "helpers": len(scores), "helpers_bleu": list(scores)}}
    return _stored(replace(prepared, facts={**prepared.facts, **facts}), sources, targets, folder)


def _turned(prepared: Prepared) -> Prepared:
    """The same pairs to be translated back."""
    folder = prepared.folder.with_name(f"{prepared.folder.name}-turned")
    if (found := open_prepared(folder)) is not None:
        return found
    sides = {
        key: {"source": value["target"], "target": value["source"]}
        for key, value in prepared.facts.items()
        if key in ("tokens_per_epoch", "words_of_sides")
    }
    turned = replace(
        prepared,
        valid=[(target, source) for source, target in prepared.valid],
        tokenizers=TokenizerPair(prepared.tokenizers.target, prepared.tokenizers.source),
        facts={**prepared.facts, **sides},
    )
    return _stored(turned, _all(prepared.store.target), _all(prepared.store.source), folder)


def _turned_data(data: DataConfig) -> DataConfig:
    languages = None if data.languages is None else (data.languages[1], data.languages[0])
    return replace(data, reverse=not data.reverse, languages=languages)


def _stored(prepared: Prepared, sources: Texts, targets: Texts, folder: Path) -> Prepared:
    """The same corpus with these pairs, in a folder of its own."""
    with storage_errors(folder), StoreWriter(folder) as writer:
        for first in range(0, len(sources), CHUNK):
            writer.append(sources[first : first + CHUNK], targets[first : first + CHUNK])
        writer.finish({"facts": prepared.facts, "valid": prepared.valid, "tokenizers": prepared.tokenizers.files()})
    return just_prepared(folder)
