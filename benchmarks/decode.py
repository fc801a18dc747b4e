"""The torch engine's speed, by itself and beside Transformers' generate with the same weights.

    OMP_NUM_THREADS=1 python -m benchmarks.decode BUNDLE DATA/multi30k/test_2016_flickr.en.gz
    python -m benchmarks.decode BUNDLE TEXT

Translates the pieces of every line, greedily and with beam 5 under both stopping rules, from ids to ids, in batches of
several sizes, sorted by length; `auto` is the engine's own choice. Every repetition measures all alternatives one after
the other. Sentences are counted per second of processor time, so that other work on the machine matters less, and per
second on the clock. With one thread the first is what one core does; with more, look at the second.

The peer is Pegasus, or Marian for a post-norm model: with the same weights they compute the same logits. Its batches
have 64 sentences, sorted by length, too; `first` is its early_stopping=True, `exact` its default, which is not exact.
How many greedy outputs are the same is printed, since a peer that translates something else would be no comparison.
Then both translate some sentences one at a time, in turns.

Then where the engine's processor time goes, each part without the parts inside it. Prints Markdown tables.
"""

import argparse
import datetime
import functools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

import attendo
from attendo import machine
from attendo.data.batch import pad
from attendo.decoding import beam, constraints, greedy
from attendo.decoding.search import SearchOptions
from attendo.drafting import EXTRA_LENGTH
from attendo.engines import torch_engine
from attendo.engines.batches import sorted_batches
from attendo.engines.native_decoder import NativeDecoder
from attendo.engines.torch_engine import TorchEngine
from attendo.models.transformer import Transformer
from attendo.nn.cache import KeysValues
from attendo.nn.embedding import OutputProjection
from attendo.text.corpus import read_lines
from attendo.text.tokenizer import BOS, EOS, PAD

SEARCHES = {  # with the peer's own length penalty, since another one makes outputs of another length
    "greedy": SearchOptions(beam=1, length_penalty="average"),
    "beam 5, first": SearchOptions(beam=5, stopping="first", length_penalty="average"),
    "beam 5, exact": SearchOptions(beam=5, stopping="exact", length_penalty="average"),
}
PEER_BATCH = 64

Outputs = list[list[int]]
Spent = tuple[float, float]  # seconds of the processor, seconds on the clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", help="folder of a trained translation model")
    parser.add_argument("text", help="a file with a sentence per line")
    parser.add_argument("--batch-sizes", type=int, nargs="*", default=[32, 64, 128, 256])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--lines", type=int, help="only the first so many")
    parser.add_argument("--singles", type=int, default=20, help="how many are also translated one at a time")
    parser.add_argument("--no-peer", action="store_true", help="without Transformers")
    arguments = parser.parse_args()
    device = machine.ready("cpu")
    bundle = attendo.open_bundle(arguments.bundle)
    model = bundle.model()
    assert isinstance(model, Transformer)
    sources = [bundle.tokenizers.source.encode(line) for line in list(read_lines(arguments.text))[: arguments.lines]]
    engine = TorchEngine(model, device)
    conditions = machine.describe()
    print(
        f"{datetime.date.today().isoformat()}, {conditions['processor']}, {conditions['threads']} threads, torch "
        f"{conditions['torch']}; `{' '.join(['python -m benchmarks.decode', *sys.argv[1:]])}`; "
        f"{len(sources):,} sentences, {sum(map(len, sources)) / len(sources):.1f} pieces each, float32.",
        "",
        "| search | batch | sentences per second of processor time, median (least to most) | on the clock | pieces |",
        "|---|---|---|---|---|",
        sep="\n",
    )
    peer = None if arguments.no_peer else peer_of(model)
    for name, options in SEARCHES.items():
        calls: dict[str, Callable[[], Outputs]] = {
            str(size or "auto"): functools.partial(translate, engine, sources, options, size)
            for size in (None, *arguments.batch_sizes)
        }
        if peer is not None:
            calls["Transformers"] = functools.partial(generate, peer, sources, options)
        spent, outputs = measure(calls, arguments.repetitions)
        for label, times in spent.items():
            rates = [len(sources) / processor for processor, _ in times]
            clock = len(sources) / statistics.median(seconds for _, seconds in times)
            print(
                f"| {name} | {label} | {statistics.median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f}) | "
                f"{clock:.0f} | {sum(map(len, outputs[label])) / len(sources):.1f} |",
                flush=True,
            )
        if peer is not None and options.beam == 1:
            same = sum(map(list.__eq__, outputs["auto"], outputs["Transformers"]))
            print(f"| {name} | the same outputs | {same:,} of {len(sources):,} | | |")
    print("", "| search | one at a time | ms of processor time, median (least to most) | on the clock |", sep="\n")
    print("|---|---|---|---|")
    for name, options in SEARCHES.items():
        print_singles(name, options, engine, peer, sources[: arguments.singles], arguments.repetitions)
    for name, options in SEARCHES.items():
        print("", f"| {name} | share of processor time |", "|---|---|", sep="\n")
        for part, share in profile(functools.partial(translate, engine, sources, options, None)).items():
            print(f"| {part} | {share:.1%} |")


def measure(
    calls: dict[str, Callable[[], Outputs]], repetitions: int
) -> tuple[dict[str, list[Spent]], dict[str, Outputs]]:
    """What each call took, in turns, and what it gave."""
    spent: dict[str, list[Spent]] = {label: [] for label in calls}
    outputs: dict[str, Outputs] = {}
    for _ in range(repetitions):
        for label, call in calls.items():
            processor, clock = time.process_time(), time.perf_counter()
            outputs[label] = call()
            spent[label].append((time.process_time() - processor, time.perf_counter() - clock))
    return spent, outputs


def print_singles(
    name: str,
    options: SearchOptions,
    engine: TorchEngine,
    peer: Any,
    sources: Sequence[Sequence[int]],
    repetitions: int,
) -> None:
    """What the sentences took one at a time; of each the median of its repetitions."""
    spent: dict[str, list[Spent]] = {"attendo": [], **({} if peer is None else {"Transformers": []})}
    for source in sources:
        calls: dict[str, Callable[[], Outputs]] = {
            "attendo": functools.partial(translate, engine, [source], options, None)
        }
        if peer is not None:
            calls["Transformers"] = functools.partial(generate, peer, [source], options)
        for label, times in measure(calls, repetitions)[0].items():
            processor, clock = zip(*times, strict=True)
            spent[label].append((statistics.median(processor), statistics.median(clock)))
    for label, medians in spent.items():
        processor, clock = zip(*medians, strict=True)
        middle, least, most = statistics.median(processor), min(processor), max(processor)
        print(
            f"| {name} | {label} | {1e3 * middle:.1f} ({1e3 * least:.1f} to {1e3 * most:.1f}) | "
            f"{1e3 * statistics.median(clock):.1f} |",
            flush=True,
        )


def translate(
    engine: TorchEngine, sources: Sequence[Sequence[int]], options: SearchOptions, batch_size: int | None
) -> Outputs:
    limits = [len(source) + EXTRA_LENGTH for source in sources]
    batch_tokens = None if batch_size is None else sys.maxsize
    found = engine.search(sources, limits, options, batch_size=batch_size, batch_tokens=batch_tokens)
    return [list(hypotheses[0].ids) for hypotheses in found]


def generate(peer: Any, sources: Sequence[Sequence[int]], options: SearchOptions) -> Outputs:
    outputs: dict[int, list[int]] = {}
    batches = sorted_batches([len(ids) for ids in sources], batch_size=PEER_BATCH, batch_tokens=sys.maxsize)
    with torch.inference_mode():
        for rows in batches:
            source_BS = pad([sources[i] for i in rows], after=EOS)
            found_BT = peer.generate(
                input_ids=source_BS,
                attention_mask=(source_BS != PAD).long(),
                num_beams=options.beam,
                early_stopping=options.stopping == "first" and options.beam > 1,
                do_sample=False,
                use_cache=True,
                max_new_tokens=source_BS.shape[1] + EXTRA_LENGTH,
            )
            for i, row in zip(rows, found_BT[:, 1:].tolist(), strict=True):
                outputs[i] = row[: row.index(EOS)] if EOS in row else row
    return [outputs[i] for i in range(len(sources))]


def peer_of(model: Transformer) -> Any:
    """A model of Transformers with the same weights, which must be those of its architecture."""
    import transformers

    config = model.config
    kind = {"pre": "Pegasus", "post": "Marian"}[config.norm_place]
    sizes = {"vocab_size": config.target_vocab_size, "d_model": config.d_model, "max_position_embeddings": 512}
    for side, n_layers in {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}.items():
        sizes |= {f"{side}_layers": n_layers, f"{side}_attention_heads": config.n_heads, f"{side}_ffn_dim": config.d_ff}
    peer_config = getattr(transformers, f"{kind}Config")(
        **sizes,
        activation_function=config.activation,
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    name = {"Pegasus": "PegasusForConditionalGeneration", "Marian": "MarianMTModel"}[kind]
    peer = getattr(transformers, name)(peer_config).eval()
    weights = {"model.shared.weight": model.output.weight, "final_logits_bias": model.output.bias[None]}
    for side, stack in {"encoder": model.encoder, "decoder": model.decoder}.items():
        table_TD = stack.embedding.positions.places(0, sizes["max_position_embeddings"])  # type: ignore[union-attr, operator]
        weights[f"model.{side}.embed_positions.weight"] = table_TD
        for key, value in stack.state_dict().items():
            if not key.startswith("embedding."):
                weights[f"model.{side}.{_their_name(key)}"] = value
    missing, unexpected = peer.load_state_dict(weights, strict=False)
    if unexpected or any("embed_tokens" not in key and key != "lm_head.weight" for key in missing):
        sys.exit(f"{kind} has other weights than this model: {unexpected or missing}")
    return peer


def _their_name(key: str) -> str:
    """`blocks.0.cross_attention_residual.norm.bias` -> `layers.0.encoder_attn_layer_norm.bias`."""
    for ours, theirs in {
        "final_norm": "layer_norm",
        "blocks": "layers",
        "feed_forward_residual.norm": "final_layer_norm",
        "feed_forward.inner": "fc1",
        "feed_forward.outer": "fc2",
        ".cross_attention": ".encoder_attn",
        ".attention": ".self_attn",
        "query": "q_proj",
        "key": "k_proj",
        "value": "v_proj",
        "attn.output": "attn.out_proj",
        "self_attn_residual.norm": "self_attn_layer_norm",
        "encoder_attn_residual.norm": "encoder_attn_layer_norm",
    }.items():
        key = key.replace(ours, theirs)
    return key


class Stopwatch:
    """Processor time of each part, without that of the parts inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._part, self._since = "", 0.0

    def enter(self, part: str) -> str:
        """Goes on with this part; gives the one that was left."""
        now, left = time.process_time(), self._part
        self.seconds[left] = self.seconds.get(left, 0.0) + now - self._since
        self._part, self._since = part, now
        return left

    def timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(*args: Any, **kwargs: Any) -> Any:
            left = self.enter(part)
            try:
                return call(*args, **kwargs)
            finally:
                self.enter(left)

        return timed


def profile(call: Callable[[], object]) -> dict[str, float]:
    """Share of each part in one call, largest first."""
    watch = Stopwatch()
    parts: list[tuple[Any, str, str]] = [
        (torch_engine, "_start", "encoder and the memory's keys and values"),
        (torch_engine, "_select", "search: reordering the state"),
        (NativeDecoder, "step", "model: decoder and output projection, in C"),
        (nn.functional, "linear", "model: projections and feed-forward"),
        (nn.functional, "scaled_dot_product_attention", "model: attention"),
        (OutputProjection, "aligned", "model: output projection"),
        (KeysValues, "append", "model: appending keys and values"),
        (constraints.Constraints, "log_probs", "search: log softmax and constraints"),
        (greedy, "likeliest", "search: best ids"),
        (beam, "best_ids", "search: best ids"),
        (torch_engine, "search", "search: the rest"),
    ]
    kept = [getattr(owner, name) for owner, name, _ in parts]
    lean_step = Transformer.lean_step
    rest = "model: the rest (norms, residuals, embedding, calls)"
    try:
        Transformer.lean_step = lambda model: watch.timed(rest, lean_step(model))  # type: ignore[assignment, method-assign]
        for (owner, name, part), function in zip(parts, kept, strict=True):
            setattr(owner, name, watch.timed(part, function))
        watch.enter("")
        watch.seconds.clear()
        call()
        watch.enter("")
    finally:
        for (owner, name, _), function in zip(parts, kept, strict=True):
            setattr(owner, name, function)
        Transformer.lean_step = lean_step  # type: ignore[method-assign]
    watch.seconds["engine: the rest"] = watch.seconds.pop("")
    total = sum(watch.seconds.values())
    return {part: seconds / total for part, seconds in sorted(watch.seconds.items(), key=lambda entry: -entry[1])}


if __name__ == "__main__":
    main()
