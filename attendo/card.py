"""The card of a bundle: what it is, what it was made of, what it scored; in words, for people."""

from collections.abc import Mapping
from typing import Any

from attendo.models.settings import TranslationConfig
from attendo.recipe import USED_BY, RunConfig


def direction(config: RunConfig) -> str:
    """`en → de`, or where the languages are not known, `source → target`."""
    return " → ".join(config.data.languages or ("source", "target"))


def subject(config: RunConfig) -> str:
    """What it is about: the languages of a translator, the name of anything else."""
    return direction(config) if config.task == "translate" else USED_BY[config.task][0].split(" ", 1)[1]


def cell(signature: str) -> str:
    """A signature as code in a Markdown table, whose cells end at a bare bar."""
    return "`" + signature.replace("|", "\\|") + "`"


def write_card(config: RunConfig, data: Mapping[str, Any], scores: Mapping[str, Any]) -> str:
    lines = [
        f"# attendo {_title(config)}",
        "",
        "| | |",
        "|---|---|",
        f"| model | {config.model.in_words()} |",
        f"| parameters | {data['parameters']['total']:,} |",
        *(f"| {name} | {words} |" for name, words in _corpus(config, data).items()),
        *([] if "imported" in data else _training(config, data, scores)),
    ]
    if config.adapt_from:
        lines.append(f"| adapted from | {config.adapt_from} |")
    lines += ["", "## Scores on validation", ""]
    validation = scores.get("validation")
    if "table" in scores:
        lines += [f"Weights: {scores['weights']}.", "", "| metric | score | |", "|---|---|---|"]
        lines += [f"| {metric} | {score} | {note} |" for metric, score, note in scores["table"]]
    elif validation is None and "weights" in scores:
        lines.append(f"Weights: {scores['weights']}. Not scored: `attendo evaluate` does that.")
    elif validation is None:
        lines.append("Training has not finished.")
    else:
        lines += [
            f"Weights: {scores['weights']}. Beam {scores['beam']}.",
            "",
            "| metric | score | signature |",
            "|---|---|---|",
            *(
                f"| {name} | {validation[key]['score']:.2f} | {cell(validation[key]['signature'])} |"
                for name, key in (("BLEU", "bleu"), ("chrF", "chrf"), ("TER", "ter"))
            ),
            *_in_int8(scores),
            f"| perplexity | {scores['perplexity']:.2f} | per piece |",
            f"| BLEU of copying the source | {scores['baseline_bleu']:.2f} | |",
        ]
    return "\n".join(lines) + "\n"


def _training(config: RunConfig, data: Mapping[str, Any], scores: Mapping[str, Any]) -> list[str]:
    training = config.training
    processes = f"{training.processes} processes x " if (training.processes or 1) > 1 else ""
    steps, over = scores.get("steps", 0), ""
    if scores.get("ended") == "late":
        over = f", when the minutes were over (`training.last_step={steps}` beside its config repeats the run)"
    return [
        f"| data fingerprint | `{data['fingerprint']}` |",
        f"| steps | {steps:,} of {training.steps:,}{over}, each of about "
        f"{training.batch_tokens * training.accumulate:,} tokens, seed {config.seed} |",
        f"| trained on | {data['machine']['processor']}, {processes}{data['machine']['threads']} threads, "
        f"torch {data['machine']['torch']} |",
    ]


def _title(config: RunConfig) -> str:
    return f"translator, {direction(config)}" if config.task == "translate" else subject(config)


def _corpus(config: RunConfig, data: Mapping[str, Any]) -> Mapping[str, str]:
    """What the model learned from: in the words of its task, or the counts of a translator's pairs."""
    if "in_words" in data:
        return data["in_words"]
    model, pairs = config.model, data["pairs"]
    assert isinstance(model, TranslationConfig)
    return {
        "tokenizer": f"{config.tokenizer.kind}, {model.source_vocab_size:,} source and "
        f"{model.target_vocab_size:,} target pieces{', one for both' if config.tokenizer.joint else ''}",
        "training pairs": f"{pairs['kept']:,} of {pairs['read']:,} read; dropped: {pairs['dropped_empty']:,} with an "
        f"empty side, {pairs['dropped_long']:,} longer than {config.data.max_length} pieces",
        "validation pairs": f"{pairs['held_out']:,} ({data['validation']})",
    }


def _in_int8(scores: Mapping[str, Any]) -> list[str]:
    """A row for the model rounded to 8 bits, where a fast engine can run it."""
    if "int8" not in scores:
        return []
    bleu = scores["int8"]["bleu"]
    return [f"| BLEU in int8 | {bleu['score']:.2f} | {cell(bleu['signature'])} |"]
