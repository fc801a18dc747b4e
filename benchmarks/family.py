"""What the family's text models reach on real data, beside simple alternatives.

    python -m benchmarks.family shakespeare [DATA] --out runs/shakespeare
    python -m benchmarks.family classification [DATA] --out runs/classification --pretrain-minutes 20

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `tinyshakespeare/input.txt.gz`, `sentence_cls/`
and `multi30k/`.

shakespeare: characters, the last tenth for validation, its loss over all of it. Three processes on the same cores take
turns of a few seconds, so that each has the same machine: a plain loop of Hugging Face's GPT-2 and AdamW in nanoGPT's
CPU setting (4 layers, 4 heads, d 128, context 64, batch 12, 2,000 steps, no dropout), attendo in the same setting, and
attendo's own choice in the time that the plain loop needs.

classification: SST-2 and TREC-6 from nothing, beside TF-IDF with logistic regression and with naive Bayes
(scikit-learn, `pip install 'attendo[benchmarks]'`); then from a masked language model that has read Multi30K's captions
and the task's own training text for some minutes, and that same encoder from nothing, which says what reading is worth.

Each writes RESULT.json and RESULT.md into its folder.
"""

import argparse
import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import attendo
from attendo import machine
from attendo.bundle import Bundle
from attendo.cli.terminal import Terminal
from attendo.data.labelled import read_labelled
from attendo.models.settings import BertConfig
from attendo.recipe import RecipeName
from attendo.storage import write_file
from attendo.tasks.classify import appraise
from attendo.tasks.text_plan import layers_for
from attendo.text.corpus import read_lines
from benchmarks.runs import add_data, parsed, trained, write_result

TURN = 5.0  # seconds
DIFFERENCE = "what reading first is worth"

NANOGPT = {"context": 64, "batch": 12, "layers": 4, "heads": 4, "size": 128, "steps": 2000}

SAME: dict[str, Any] = {
    "task": "language-model",
    "data": {"max_length": NANOGPT["context"]},
    "tokenizer": {"kind": "characters"},
    "model": {"n_layers": 4, "n_heads": 4, "d_model": 128, "d_ff": 512, "residual_dropout": 0.0},
    "training": {
        "steps": NANOGPT["steps"],
        "batch_tokens": NANOGPT["batch"] * (NANOGPT["context"] + 1),
        "learning_rate": 1e-3,
        "warmup_steps": 100,
        "average": 0,
    },
}

# The preset llama with a longer context than nanoGPT's; no dropout is what it chooses for hardly more than one pass.
OWN: dict[str, Any] = {
    "task": "language-model",
    "data": {"max_length": 128},
    "tokenizer": {"kind": "characters"},
    "training": {},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("shakespeare", "classification", "plain-loop", "train"):
        command = commands.add_parser(name)
        add_data(command, "tinyshakespeare/, sentence_cls/ and multi30k/")
        command.add_argument("--out", type=Path, default=Path(f"runs/{name}"))
        command.add_argument("--seed", type=int, default=1)
        if name == "classification":
            command.add_argument("--pretrain-minutes", type=float, default=20.0)
            command.add_argument("--minutes", type=float, default=None, help="of each classifier; as long as useful")
        if name in ("plain-loop", "train"):  # what `shakespeare` starts
            command.add_argument("--settings", default="{}")
            command.add_argument("--preset", default="auto")
            command.add_argument("--steps", type=int, default=None)
    arguments = parsed(parser)
    match arguments.command:
        case "shakespeare":
            shakespeare(arguments.data, arguments.out, arguments.seed)
        case "classification":
            classification(arguments)
        case "plain-loop":
            plain_loop(arguments.data, arguments.out, arguments.seed, arguments.steps)
        case "train":
            train_one(arguments)


# --- tinyshakespeare --------------------------------------------------------------------------------------------------


def shakespeare(data: Path, out: Path, seed: int) -> None:
    if out.exists():
        raise SystemExit(f"{out} exists already: what takes turns cannot be resumed. Choose another folder with --out.")
    out.mkdir(parents=True)
    text = "".join(f"{line}\n" for line in read_lines(str(data / "tinyshakespeare/input.txt.gz")))
    cut = int(0.9 * len(text))
    (out / "train.txt").write_text(text[:cut], encoding="utf-8")
    (out / "valid.txt").write_text(text[cut:], encoding="utf-8")
    plain = seconds_per_step(["plain-loop", str(out), "--out", str(out / "trial-plain"), "--steps", "60"])
    own = seconds_per_step(_ours(out, "trial-own", OWN, "llama", seed, steps=60))
    steps = int(0.9 * NANOGPT["steps"] * plain / own)  # the rest is for validation and for beginning
    works = {
        "plain loop, GPT-2 of Hugging Face": Work(["plain-loop", str(out), "--out", str(out / "plain")]),
        "attendo, the same setting": Work(_ours(out, "same", SAME, "auto", seed, steps=NANOGPT["steps"])),
        "attendo, its own choice": Work(_ours(out, "own", OWN, "llama", seed, steps=steps)),
    }
    take_turns(list(works.values()))
    folders = {"plain loop, GPT-2 of Hugging Face": "plain", "attendo, the same setting": "same"}
    results = {}
    for name, work in works.items():
        folder = out / folders.get(name, "own")
        found = json.loads((folder / "scores.json").read_text())
        results[name] = {"loss": found["loss"], "seconds": work.seconds, "steps": found["steps"]}
    rows = [
        f"| {name} | {row['loss']:.4f} | {row['seconds']:.0f} | {row['steps']:,} |" for name, row in results.items()
    ]
    table = ["| | validation loss, nats per character | seconds | steps |", "|---|---|---|---|", *rows]
    write_result(out, "tinyshakespeare, the last tenth", table, results)


def _ours(out: Path, name: str, settings: dict[str, Any], preset: str, seed: int, *, steps: int) -> list[str]:
    """The command that trains one of our models, with a process on each core, as it is on most machines.

    Where the one that leads is stopped, the others wait for it.
    """
    files = {"source": str(out / "train.txt"), "valid_source": str(out / "valid.txt")}
    threads = {"processes": machine.cores(), "threads": 1, "steps": steps, "validate_every": steps}
    given = {
        **settings,
        "data": {**settings["data"], **files},
        "training": {**settings["training"], **threads},
        "seed": seed,
    }
    return ["train", str(out), "--out", str(out / name), "--preset", preset, "--settings", json.dumps(given)]


@dataclass
class Work:
    """A process that takes its turns, and how long it has been at work."""

    arguments: list[str]
    seconds: float = 0.0
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    def turn(self) -> bool:
        """Works for a while; False when it has ended."""
        began = time.monotonic()
        if self.process is None:
            self.process = subprocess.Popen([sys.executable, "-m", "benchmarks.family", *self.arguments])
        else:
            self.process.send_signal(signal.SIGCONT)
        try:
            code = self.process.wait(timeout=TURN)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGSTOP)
            self.seconds += time.monotonic() - began
            return True
        self.seconds += time.monotonic() - began
        if code:
            raise SystemExit(f"{' '.join(self.arguments)} ended with {code}")
        return False


def take_turns(works: list[Work]) -> None:
    """Until all have ended; whatever happens, none is left behind."""
    left = list(works)
    try:
        while left:
            left = [work for work in left if work.turn()]
    finally:
        for work in works:
            if work.process is not None and work.process.poll() is None:
                work.process.kill()


def seconds_per_step(arguments: list[str]) -> float:
    """How long a step takes, of those after the first twenty."""
    subprocess.run([sys.executable, "-m", "benchmarks.family", *arguments], check=True)
    folder = Path(arguments[arguments.index("--out") + 1])
    return float(json.loads((folder / "pace.json").read_text())["seconds_per_step"])


def train_one(arguments: argparse.Namespace) -> None:
    bundle = attendo.train(
        settings=json.loads(arguments.settings), preset=arguments.preset, out=arguments.out, reporter=Terminal()
    )
    started = next(entry for entry in bundle.read_log() if entry["event"] == "started")
    write_file(bundle.path / "pace.json", json.dumps({"seconds_per_step": started["seconds_per_step"]}))


def plain_loop(folder: Path, out: Path, seed: int, steps: int | None) -> None:
    """nanoGPT's CPU setting with Hugging Face's GPT-2: random windows, AdamW, cosine, nothing else."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    torch.set_num_threads(machine.cores())
    train, valid = ((folder / name).read_text(encoding="utf-8") for name in ("train.txt", "valid.txt"))
    characters = {character: number for number, character in enumerate(sorted(set(train + valid)))}
    ids, held_out = (torch.tensor([characters[one] for one in text]) for text in (train, valid))
    context, batch, wanted = NANOGPT["context"], NANOGPT["batch"], NANOGPT["steps"]
    config = GPT2Config(
        vocab_size=len(characters),
        n_positions=context,
        n_embd=NANOGPT["size"],
        n_layer=NANOGPT["layers"],
        n_head=NANOGPT["heads"],
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    times = []
    for step in range(1, (steps or wanted) + 1):
        began = time.perf_counter()
        rate = min(step / 100, 0.55 + 0.45 * math.cos(math.pi * min(1.0, step / wanted)))  # down to a tenth
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * rate
        starts = torch.randint(len(ids) - context, (batch, 1))
        window = ids[starts + torch.arange(context + 1)]
        logits = model(input_ids=window[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - began)
    model.eval()
    total, count = 0.0, 0
    with torch.inference_mode():
        n_windows = (len(held_out) - 1) // context
        for first in range(0, n_windows, 64):
            starts = torch.arange(first, min(first + 64, n_windows))[:, None] * context
            window = held_out[starts + torch.arange(context + 1)]
            logits = model(input_ids=window[:, :-1]).logits
            targets = window[:, 1:].flatten()
            total += torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets, reduction="sum").item()
            count += targets.numel()
    out.mkdir(parents=True, exist_ok=True)
    usual = sorted(times[20:])[len(times[20:]) // 2] if len(times) > 20 else sum(times) / len(times)
    write_file(out / "pace.json", json.dumps({"seconds_per_step": usual}))
    write_file(out / "scores.json", json.dumps({"loss": total / count, "steps": len(times)}))


# --- SST-2 and TREC-6 -------------------------------------------------------------------------------------------------


def classification(arguments: argparse.Namespace) -> None:
    data, out, reporter = arguments.data, arguments.out, Terminal()
    results: dict[str, dict[str, float]] = {}
    words: dict[str, str] = {}  # what each of ours is
    for name in ("sst2", "trec6"):
        folder = data / "sentence_cls" / name
        train, test = folder / "train.tsv", folder / "test.tsv"
        valid = folder / "dev.tsv" if (folder / "dev.tsv").exists() else None
        results[name] = linear_models(train, test)
        files = {"source": str(train)} | ({"valid_source": str(valid)} if valid else {})
        bound = {} if arguments.minutes is None else {"minutes": arguments.minutes}
        shared = {"task": "classify", "data": files, "training": bound, "seed": arguments.seed}
        texts = out / name / "text.txt"
        texts.parent.mkdir(parents=True, exist_ok=True)
        write_file(texts, "".join(f"{' '.join(one.texts)}\n" for one in read_labelled(str(train))))
        captions = str(data / "multi30k/train.en.gz")
        pretraining = {
            "task": "masked-language-model",
            "data": {"source": captions, "more": [str(texts)], "max_length": 128},
            "training": {"minutes": arguments.pretrain_minutes},
            "seed": arguments.seed,
        }
        scratch = trained(out / name / "scratch", shared, reporter)
        bert = trained(out / name / "bert", pretraining, reporter)
        same = {**shared, "model": {"positions": "rotary"}}  # as the masked language model has them
        ours = {
            "attendo, from nothing": scratch,
            "attendo, the encoder below from nothing": trained(
                out / name / "encoder", same, reporter, preset=bert_size(bert)
            ),
            "attendo, from a masked language model": trained(
                out / name / "tuned", {**shared, "adapt_from": str(bert.path)}, reporter
            ),
        }
        for row, bundle in ours.items():
            results[name][row] = accuracy(bundle, test, reporter)
            words[row] = bundle.config.model.in_words()
        last = list(ours)[-2:]
        results[name][DIFFERENCE] = results[name][last[1]] - results[name][last[0]]
    table = ["| accuracy on the test part | SST-2 | TREC-6 |", "|---|---|---|"]
    for row in results["sst2"]:
        sign = "+" if row == DIFFERENCE else ""
        cells = " | ".join(f"{100 * found[row]:{sign}.2f}" for found in results.values())
        table.append(f"| {row}{f' ({words[row]})' if row in words else ''} | {cells} |")
    table += ["", "The linear models have TREC-6's whole training part, attendo all but the tenth it selects on."]
    write_result(out, "Sentences with labels", table, results)


def bert_size(bundle: Bundle) -> RecipeName:
    """The size by name that `auto` has taken, so that the encoder from nothing is as large."""
    model = bundle.config.model
    assert isinstance(model, BertConfig)
    return next(name for name in ("tiny", "small", "base") if layers_for(name)["d_model"] == model.d_model)


def accuracy(bundle: Bundle, test: Path, reporter: Terminal) -> float:
    return float(appraise(bundle, str(test), None, "auto", reporter).numbers["accuracy"])


def linear_models(train: Path, test: Path) -> dict[str, float]:
    """TF-IDF of words and pairs of words, with the usual settings."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.naive_bayes import MultinomialNB
        from sklearn.pipeline import make_pipeline
    except ImportError:
        raise SystemExit("scikit-learn is missing: pip install 'attendo[benchmarks]'") from None
    parts = {"train": list(read_labelled(str(train))), "test": list(read_labelled(str(test)))}
    texts = {name: [" ".join(one.texts) for one in rows] for name, rows in parts.items()}
    labels = {name: [one.label for one in rows] for name, rows in parts.items()}
    found = {}
    for name, model in (
        ("TF-IDF, logistic regression", LogisticRegression(max_iter=1000, C=10)),
        ("TF-IDF, naive Bayes", MultinomialNB(alpha=0.3)),
    ):
        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+")
        pipeline = make_pipeline(words, model).fit(texts["train"], labels["train"])
        found[name] = float(pipeline.score(texts["test"], labels["test"]))
    return found


if __name__ == "__main__":
    main()
