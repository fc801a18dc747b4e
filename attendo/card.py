"""The card of a bundle: what it is, what it was made of, what it scored; in words, for people."""

from collections.abc import Mapping
from typing import Any

from attendo.recipe import RunConfig


def direction(config: RunConfig) -> str:
    """`en → de`, or where the languages are not known, `source → target`."""
    return " → ".join(config.data.languages or ("source", "target"))


def cell(signature: str) -> str:
    """A signature as code in a Markdown table, whose cells end at a bare bar."""
    return "`" + signature.replace("|", "\\|") + "`"


def write_card(config: RunConfig, data: Mapping[str, Any], scores: Mapping[str, Any]) -> str:
    model, training, pairs = config.model, config.training, data["pairs"]
    sizes = (
        f"{model.n_encoder_layers}+{model.n_decoder_layers} layers, d_model {model.d_model}, d_ff {model.d_ff}, "
        f"{model.n_heads} heads, {model.norm_place}-norm, {model.positions} positions"
    )
    processes = f"{training.processes} processes x " if (training.processes or 1) > 1 else ""
    lines = [
        f"# attendo translator, {direction(config)}",
        "",
        "| | |",
        "|---|---|",
        f"| model | {sizes} |",
        f"| parameters | {data['parameters']['total']:,} |",
        f"| tokenizer | {config.tokenizer.kind}, {model.source_vocab_size:,} source and "
        f"{model.target_vocab_size:,} target pieces{', one for both' if config.tokenizer.joint else ''} |",
        f"| training pairs | {pairs['kept']:,} of {pairs['read']:,} read; dropped: {pairs['dropped_empty']:,} with an "
        f"empty side, {pairs['dropped_long']:,} longer than {config.data.max_length} pieces |",
        f"| validation pairs | {pairs['held_out']:,} ({data['validation']}) |",
        f"| data fingerprint | `{data['fingerprint']}` |",
        f"| steps | {scores.get('steps', 0):,} of {training.steps:,}, each of about "
        f"{training.batch_tokens * training.accumulate:,} tokens, seed {config.seed} |",
        f"| trained on | {data['machine']['processor']}, {processes}{data['machine']['threads']} threads, "
        f"torch {data['machine']['torch']} |",
    ]
    if config.adapt_from:
        lines.append(f"| adapted from | {config.adapt_from} |")
    lines += ["", "## Scores on validation", ""]
    validation = scores.get("validation")
    if validation is None and "weights" in scores:
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


def _in_int8(scores: Mapping[str, Any]) -> list[str]:
    """A row for the model rounded to 8 bits, where the fast engine can run it."""
    if "int8" not in scores:
        return []
    bleu = scores["int8"]["bleu"]
    return [f"| BLEU in int8 | {bleu['score']:.2f} | {cell(bleu['signature'])} |"]
