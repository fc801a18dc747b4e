"""Where the time of a training step goes, on one thread, and what a change has brought.

    python -m benchmarks.step [DATA]                   # tokens per second of processor time, the share of each part
    python -m benchmarks.step [DATA] --against FOLDER  # the same beside another checkout of attendo, in turns
    python -m benchmarks.step [DATA] --bfloat16        # the same beside this one with products of bfloat16, in turns

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/train.en.gz`, … . The model is the
`tiny` preset with dropout 0.1: 4+4 layers, d_model 128, d_ff 256, 4 heads, one vocabulary of 6,000, 2,048 positions in
a batch. Every measurement has a process of its own with one thread and counts the processor's time, of all its threads,
so that other work on the machine matters less. The shares come from torch's profiler, which makes small operations
look larger than they are; what an operation costs backwards is counted where it stands forwards. Prints Markdown.
"""

import argparse
import collections
import datetime
import inspect
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MATRIX_PRODUCTS = ("addmm", "mm", "linear", "matmul", "bmm", "t", "transpose", "addmm_")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default=os.environ.get("ATTENDO_DATA"), help="folder with multi30k/ in it")
    parser.add_argument("--against", type=Path, action="append", default=[], help="folder that holds another attendo/")
    parser.add_argument("--bfloat16", action="store_true", help="beside float32, in turns")
    parser.add_argument("--steps", type=int, default=60, help="of one measurement")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the model")
    parser.add_argument("--no-shares", action="store_true", help="only the speed")
    parser.add_argument("--out", type=Path, default=Path("runs/step"), help="where the tokenised corpus is kept")
    parser.add_argument("--one", choices=["speed", "shares"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("give the data folder, or set ATTENDO_DATA")
    if arguments.one:
        print(json.dumps(Trial(arguments).speed() if arguments.one == "speed" else Trial(arguments).shares()))
        return
    variants = {str(folder): (folder, False) for folder in arguments.against}
    variants |= {"this": (ROOT, False)} | ({"this, bfloat16": (ROOT, True)} if arguments.bfloat16 else {})
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in variants}
    for _ in range(arguments.repetitions):
        for name, variant in variants.items():
            measured[name].append(in_own_process(*variant, "speed", arguments))
    conditions = measured["this"][0]["machine"]
    print(
        f"{datetime.date.today().isoformat()}, {conditions['processor']}, 1 thread, torch {conditions['torch']}; "
        f"`{' '.join(['python -m benchmarks.step', *sys.argv[1:]])}`; "
        f"{arguments.repetitions} x {arguments.steps} steps.",
        "",
        "| | tokens per second of processor time, median (least to most) | padding | page faults per step | peak, MB |",
        "|---|---|---|---|---|",
        sep="\n",
    )
    for name, found in measured.items():
        rates = [one["rate"] for one in found]
        print(
            f"| {name} | {statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f}) | "
            f"{found[0]['padding']:.1%} | {found[0]['faults']:,.0f} | "
            f"{statistics.median(one['peak'] for one in found) / 1e6:.0f} |"
        )
    if not arguments.no_shares:
        print(flush=True)
        print(table({name: in_own_process(*variant, "shares", arguments) for name, variant in variants.items()}))


def in_own_process(folder: Path, low: bool, what: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).resolve()), arguments.data, "--one", what]
    command += ["--bfloat16"] if low else []
    command += ["--steps", str(arguments.steps), "--batch-tokens", str(arguments.batch_tokens)]
    command += ["--out", str(arguments.out), "--set", *arguments.set]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder)}
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout
    found: dict[str, Any] = json.loads(output)
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """Milliseconds of each part and of each operation, beside each other."""
    names = list(found)
    lines = []
    for title, key in (("part, forwards and backwards", "parts"), ("operation", "operations")):
        together = [one[key] for one in found.values()]
        order = sorted(
            {name for one in together for name in one}, key=lambda name: -max(o.get(name, 0) for o in together)
        )
        sums = [sum(one.values()) for one in together]
        lines += [f"| {title} | " + " | ".join(f"{name}, ms per step | share" for name in names) + " |"]
        lines += ["|---" * (1 + 2 * len(names)) + "|"]
        for name in order[:25]:
            cells = [
                f"{one.get(name, 0):.2f} | {one.get(name, 0) / total:.1%}"
                for one, total in zip(together, sums, strict=True)
            ]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines += ["| together | " + " | ".join(f"{total:.1f} | " for total in sums) + " |", ""]
    return "\n".join(lines)


class Trial:
    """A model, its optimizer and its batches. Everything is imported from the checkout that PYTHONPATH names."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        import torch

        from attendo import machine
        from attendo.config import from_dict, merge
        from attendo.data.loader import Position, batches_from
        from attendo.data.prepare import prepare
        from attendo.models.settings import TransformerConfig
        from attendo.models.transformer import build
        from attendo.plan import resolve
        from attendo.recipe import DataConfig
        from attendo.reporting import Silent
        from attendo.training.loss import build_loss
        from attendo.training.optimizer import build_optimizer

        self.device = machine.ready("cpu")
        self.steps = arguments.steps
        self.low = arguments.bfloat16
        corpus = Path(arguments.data) / "multi30k"
        files = {"source": str(corpus / "train.en.gz"), "target": str(corpus / "train.de.gz")}
        data = from_dict(DataConfig, files)
        prepared = prepare(
            data.files(),
            data.valid_files(),
            tokenizers=None,
            kind="bpe",
            vocab_size=6000,
            joint=True,
            max_length=data.max_length,
            cache=arguments.out / ".cache",
            reporter=Silent(),
        )
        model = {"residual_dropout": 0.1}
        model |= {key: json.loads(value) for key, _, value in (pair.partition("=") for pair in arguments.set)}
        settings = {"data": files, "model": model, "training": {"batch_tokens": arguments.batch_tokens}}
        config = resolve(merge(settings, {}), "tiny", data, prepared, None, speed=lambda: 1.0)
        torch.manual_seed(1)
        self.config = config.training
        assert isinstance(config.model, TransformerConfig)
        self.model = build(config.model).train()
        self.loss = build_loss(self.config)
        self.optimizer = build_optimizer(self.model, self.config)
        for group in self.optimizer.param_groups:
            group["lr"] = 1e-4
        self.prepared = prepared
        self.batches = batches_from(prepared.store, Position(), batch_tokens=self.config.batch_tokens, seed=1)

    def step(self) -> Any:
        """What training does with one batch."""
        import torch

        batch = self.next_batch()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.low):
            part = self.loss(self.model, batch) / batch.n_targets
        part.backward()
        part.item()
        self.update()
        self.optimizer.zero_grad(set_to_none=True)
        return batch

    def next_batch(self) -> Any:
        batch, _, _ = next(self.batches)
        return batch

    def update(self) -> None:
        """Clips and moves the weights, as this checkout does it."""
        from attendo.training import optimizer

        if hasattr(optimizer, "clipped_step"):
            from attendo.training.team import Team

            step: Callable[..., None] = optimizer.clipped_step
            team = (Team(),) if "team" in inspect.signature(step).parameters else ()  # once it had none
            step(self.optimizer, self.config.clip_norm, *team)
        else:  # as it was before there was `clipped_step`
            import torch

            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
            self.optimizer.step()

    def speed(self) -> dict[str, Any]:
        from attendo import machine

        for _ in range(5):  # the first ones allocate
            self.step()
        tokens, positions = 0, 0
        faults, began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.process_time()
        for _ in range(self.steps):
            batch = self.step()
            tokens, positions = tokens + batch.n_tokens, positions + batch.n_positions
        seconds = time.process_time() - began
        return {
            "rate": tokens / seconds,
            "padding": 1 - tokens / positions,
            "faults": (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / self.steps,
            "peak": machine.peak_memory(),
            "machine": machine.describe(),
        }

    def shares(self) -> dict[str, dict[str, float]]:
        """Milliseconds per step of each part and of each operation."""
        import torch

        self.name_parts()
        for _ in range(3):
            self.step()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(self.steps):
                self.step()
        return attributed(profile.events(), self.steps)

    def name_parts(self) -> None:
        """Every module, the loss, clipping and the optimizer say when they begin and end."""
        kinds = {"Embedding": "embedding", "MultiHeadAttention": "attention", "FeedForward": "feed-forward"}
        for module in self.model.modules():
            kind = kinds.get(type(module).__name__)
            if kind is None and type(module).__name__.endswith("Norm"):
                kind = "norm, residual, dropout"
            if kind is not None:
                self.named(module, "forward", kind)
        for block in self.model.decoder.blocks:
            self.named(block.cross_attention, "keys_values", "attention")
        inner = self.loss
        self.loss = lambda model, batch: inner(model, batch)
        self.named(self, "loss", "loss")
        self.named(self.optimizer, "step", "optimizer")
        self.named(self, "update", "clip")
        self.named(self, "next_batch", "batch")

    @staticmethod
    def named(owner: Any, method: str, part: str) -> None:
        import torch

        inner: Callable[..., Any] = getattr(owner, method)

        def outer(*args: Any, **kwargs: Any) -> Any:
            with torch.profiler.record_function(f"part:{part}"):
                return inner(*args, **kwargs)

        setattr(owner, method, outer)


def attributed(events: Any, steps: int) -> dict[str, dict[str, float]]:
    """Each operation's own time, given to the part in which it stands or in which its forward twin stood."""

    def enclosing(event: Any) -> str | None:
        while event is not None:
            if event.name.startswith("part:"):
                return str(event.name[5:])
            event = event.cpu_parent
        return None

    def backward_of(event: Any) -> Any:
        while event is not None and not event.name.startswith("autograd::engine::evaluate_function"):
            event = event.cpu_parent
        return event

    forward_part: dict[int, str] = {}
    for event in events:
        if event.sequence_nr >= 0 and backward_of(event) is None and (part := enclosing(event)):
            # Where operations are nested, the outermost was recorded first, and all are in the same part.
            forward_part.setdefault(event.sequence_nr, part)
            if projecting(event, part):
                forward_part[event.sequence_nr] = "attention projections"
    parts: dict[str, float] = collections.defaultdict(float)
    operations: dict[str, float] = collections.defaultdict(float)
    for event in events:
        milliseconds = event.self_cpu_time_total / 1e3 / steps
        part = enclosing(event)
        if part is not None and projecting(event, part):
            part = "attention projections"
        node = backward_of(event)
        if node is not None:
            part = forward_part.get(node.sequence_nr)
            if part is None:
                part = "gradients added up" if "AccumulateGrad" in node.name else "rest"
        parts[{"attention": "attention kernel"}.get(part or "rest", part or "rest")] += milliseconds
        operations[event.name] += milliseconds
    return {"parts": dict(parts), "operations": dict(operations)}


def projecting(event: Any, part: str) -> bool:
    return part == "attention" and event.name.removeprefix("aten::") in MATRIX_PRODUCTS


if __name__ == "__main__":
    main()
