"""From the shell to the answer: cold commands, as a user types them. The models of JoeyNMT and eole are trained for two
updates only: what takes the time is the start.
"""

import argparse
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.peers.data import Data, prepare
from benchmarks.peers.environments import python_of
from benchmarks.peers.process import run
from benchmarks.peers.results import Results
from benchmarks.peers.setting import Task
from benchmarks.peers.translating import ctranslate2_model, the_bundle, transformers_model

TEXT = "A man rides a bicycle."
UPDATES = 2

BY_HAND = """
import sys, ctranslate2
translator = ctranslate2.Translator(sys.argv[1])
print(translator.translate_batch([[*sys.argv[2].split(), "end"]], beam_size=5)[0].hypotheses)
"""
GENERATE = """
import sys, torch
from transformers import AutoModelForSeq2SeqLM
model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1])
ids = torch.tensor([[*map(int, sys.argv[2].split()), 2]])
print(model.generate(input_ids=ids, num_beams=5, max_new_tokens=60).tolist())
"""


@dataclass(frozen=True)
class Command:
    name: str
    words: list[str | Path]
    stdin: str = ""


def measure(arguments: argparse.Namespace, corpus: Path, results: Results) -> None:
    folder = arguments.out / "start"
    folder.mkdir(exist_ok=True)
    data = prepare(corpus, arguments.out)
    (arguments.out / "translate").mkdir(exist_ok=True)
    bundle = the_bundle(arguments, corpus)
    ids = " ".join(map(str, bundle.tokenizers.source.encode(TEXT)))
    attendo = Path(sys.executable).parent / "attendo"
    commands = [
        Command("attendo --help", [attendo, "--help"]),
        Command("attendo translate RUN --text …", [attendo, "translate", bundle.path, "--text", TEXT]),
        Command(
            "attendo translate RUN --text … --engine torch",
            [attendo, "translate", bundle.path, "--text", TEXT, "--engine", "torch"],
        ),
    ]
    wanted = arguments.peers or ("ctranslate2", "transformers", "eole", "joeynmt")
    if "ctranslate2" in wanted:
        python, model = python_of("ctranslate2", arguments.environments), ctranslate2_model(bundle, folder)
        commands.append(Command("python -c … ctranslate2 …", [python, "-c", BY_HAND, model, ids]))
    if "transformers" in wanted:
        python, saved = python_of("transformers", arguments.environments), transformers_model(bundle, folder)
        commands.append(Command("python -c … transformers … generate", [python, "-c", GENERATE, saved, ids]))
    if "eole" in wanted:
        commands.append(_eole(arguments, folder, data, ids))
    if "joeynmt" in wanted:
        commands.append(_joeynmt(arguments, folder, data, ids))
    for command in commands:
        run(command.words, stdin=command.stdin)  # its files are in memory then, as they are for all
    for number in range(arguments.repetitions):
        for command in commands:
            ran = run(command.words, stdin=command.stdin)
            results.add("start", {"name": command.name, "seconds": ran.seconds, "load_before": ran.load_before})
            print(f"round {number + 1} of {arguments.repetitions}, {command.name}: {ran.seconds:.2f} s", flush=True)


def _eole(arguments: argparse.Namespace, folder: Path, data: Data, ids: str) -> Command:
    python, task = python_of("eole", arguments.environments), _task(folder / "eole", data)
    config = _config(python, "eole", task)
    run([python.parent / "eole", "train", "--config", _yaml(folder / "eole.yaml", config)])
    source, found = folder / "eole" / "source.txt", folder / "eole" / "found.txt"
    source.write_text(f"{ids}\n")
    words = ["--model_path", f"{task.out}/model", "--src", f"{source}", "--output", f"{found}", "--beam_size", "5"]
    words += ["--min_length", "8"]  # untrained, it would end at once
    return Command("eole predict", [python.parent / "eole", "predict", *words])


def _joeynmt(arguments: argparse.Namespace, folder: Path, data: Data, ids: str) -> Command:
    python, task = python_of("joeynmt", arguments.environments), _task(folder / "joeynmt", data)
    config = _config(python, "joeynmt", task)
    config["training"] |= {"validation_freq": UPDATES, "logging_freq": 1}
    config["testing"] |= {"max_output_length": 20, "beam_size": 1}
    path = _yaml(folder / "joeynmt.yaml", config)
    run([python, "-m", "joeynmt", "train", path, "--skip-test"])
    config["testing"] |= {"max_output_length": 12, "beam_size": 5}  # untrained, it would not end
    return Command("joeynmt translate", [python, "-m", "joeynmt", "translate", _yaml(path, config)], stdin=f"{ids}\n")


def _task(folder: Path, data: Data) -> Task:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return Task(
        data=str(data.folder),
        out=str(folder),
        updates=UPDATES,
        warm_up=1,
        seconds=None,
        sentences=data.sentences,
        evaluate=False,
    )


def _config(python: Path, peer: str, task: Task) -> dict:  # type: ignore[type-arg]
    """The same settings that the peer is trained with elsewhere here, which only its own environment can import."""
    code = (
        "import json, sys; from benchmarks.peers.setting import Setting, Task; "
        f"from benchmarks.peers.inside.train_{peer} import config; "
        "print('CONFIG' + json.dumps(config(Setting(), Task.read(sys.argv[1]))))"
    )
    said = run([python, "-c", code, task.write()]).output
    return json.loads(next(line for line in said.splitlines() if line.startswith("CONFIG")).removeprefix("CONFIG"))


def _yaml(path: Path, config: dict) -> Path:  # type: ignore[type-arg]
    path.write_text(yaml.safe_dump(config))
    return path
