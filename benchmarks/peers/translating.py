"""Translating: attendo from text to text; CTranslate2 by hand and Transformers' generate from ready-made ids to ids.

All have the same weights, and search by the same rules: the end of a beam search is when as many hypotheses as the beam
is wide have ended, and scores are averages over the length. How many of their translations are attendo's is counted.
Loading is not in the time, and is reported. One sentence at a time: the same test sentences in the same order for all,
each in a new process that is warmed up in the same way, one system right after the other, in every round.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import attendo
from attendo.bundle import Bundle, open_bundle
from attendo.engines.ctranslate2_model import write_model
from attendo.interop.exporting import export_huggingface
from attendo.models.settings import TransformerConfig
from attendo.text.corpus import read_lines
from benchmarks.peers.data import prepare
from benchmarks.peers.environments import python_of
from benchmarks.peers.process import Failed, run
from benchmarks.peers.results import Results

WARM_UP, SINGLE_WARM_UP = 200, 20
TUNED_ON = 2000
BUNDLE_STEPS = 800
SEARCHES = {"greedy": 1, "beam 5": 5}


@dataclass(frozen=True)
class System:
    """Who translates, how precisely, and what: all sentences or only those of the test."""

    peer: str
    engine: str
    precision: str
    sentences: str

    @property
    def name(self) -> str:
        return f"{self.peer}, {self.engine}, {self.precision}" if self.engine else f"{self.peer}, {self.precision}"


SYSTEMS = [
    System("attendo", "native", "float32", "all"),
    System("attendo", "ctranslate2", "float32", "all"),
    System("ctranslate2", "", "float32", "all"),
    System("attendo", "native", "int8", "all"),
    System("attendo", "ctranslate2", "int8", "all"),
    System("ctranslate2", "", "int8", "all"),
    System("attendo", "native", "float32", "test"),
    System("attendo", "torch", "float32", "test"),
    System("transformers", "", "float32", "test"),
]


def measure(arguments: argparse.Namespace, corpus: Path, results: Results) -> None:
    folder = arguments.out / "translate"
    folder.mkdir(exist_ok=True)
    bundle = the_bundle(arguments, corpus)
    sources = {
        "all": list(dict.fromkeys(read_lines(str(corpus / "train.en.gz"))))[: arguments.sentences],
        "test": list(read_lines(str(corpus / "test_2016_flickr.en.gz")))[: arguments.test_sentences],
    }
    for name, texts in sources.items():
        ids = bundle.tokenizers.source.encode_batch(texts)
        (folder / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        (folder / f"{name}.ids").write_text("".join(f"{' '.join(map(str, row))}\n" for row in ids))
    lines = (folder / "all.ids").read_text().splitlines(keepends=True)
    (folder / "tuning.ids").write_text("".join(lines[:: max(1, len(lines) // TUNED_ON)]))
    model = ctranslate2_model(bundle, folder)

    systems = [one for one in SYSTEMS if arguments.peers is None or one.peer in arguments.peers]
    tuned = {
        (precision, search): tune(arguments, folder, model, precision, beam)
        for precision in ("float32", "int8")
        for search, beam in SEARCHES.items()
        if any(one.peer == "ctranslate2" for one in systems)
    }
    results.note("ctranslate2_settings", {f"{key[0]}, {key[1]}": found for key, found in tuned.items()})
    results.note("bundle", {"model": model_settings(bundle), "path": bundle.path.name})

    def job_of(system: System, search: str, sentences: str, *, warm_up: int, singles: int) -> dict[str, Any]:
        job: dict[str, Any] = {
            "ids": str(folder / f"{sentences}.ids"),
            "texts": str(folder / f"{sentences}.txt"),
            "out": str(folder / "found.json"),
            "translations": str(folder / "translations.txt"),
            "beam": SEARCHES[search],
            "precision": system.precision,
            "warm_up": warm_up,
            "singles": singles,
        }
        if system.peer == "attendo":
            return job | {"bundle": str(bundle.path), "engine": system.engine}
        if system.peer == "ctranslate2":
            candidate = tuned[system.precision, search]["candidate"]
            return job | {"model": str(model), "tune": False, "candidate": candidate}
        return job | {"model": str(transformers_model(bundle, folder))}

    for number in range(arguments.repetitions):
        for search in SEARCHES:
            singles: dict[str, dict[str, Any]] = {}
            for system in {one.name: one for one in systems}.values() if arguments.singles else ():
                job = job_of(system, search, "test", warm_up=SINGLE_WARM_UP, singles=arguments.singles)
                try:
                    singles[system.name], _ = _translated(arguments, system.peer, job)
                except Failed:  # attendo's failure is told below
                    if system.peer != "attendo":
                        raise
            for system in systems:
                job = job_of(system, search, system.sentences, warm_up=WARM_UP, singles=0)
                try:
                    found, ran = _translated(arguments, system.peer, job)
                except Failed as error:
                    if system.peer != "attendo":
                        raise
                    print(f"{system.name}, {search}: left out. {error}", flush=True)
                    continue
                texts = _texts(bundle, system.peer, Path(job["translations"]))
                kept = folder / f"{system.sentences}-{search}-{system.name}.txt"
                kept.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
                reference = folder / f"{system.sentences}-{search}-attendo, native, float32.txt"
                record = {
                    "peer": system.peer,
                    "name": system.name,
                    "engine": system.engine,
                    "precision": system.precision,
                    "search": search,
                    "set": system.sentences,
                    "sentences": len(texts),
                    "sentences_per_second": len(texts) / found["seconds"],
                    "wall_seconds": ran,
                    **found,
                    **singles.pop(system.name, {"single_seconds": []}),  # with the first of its name
                }
                if reference.exists():
                    theirs = reference.read_text(encoding="utf-8").splitlines()
                    record["same_as_attendo"] = sum(a == b for a, b in zip(texts, theirs, strict=True)) / len(texts)
                results.add("translate", record)
                print(
                    f"round {number + 1} of {arguments.repetitions}, {system.name}, {search}, {len(texts):,} sentences"
                    f": {record['sentences_per_second']:,.0f} sentences/s, "
                    f"{record.get('same_as_attendo', 1.0):.1%} as attendo's",
                    flush=True,
                )


def the_bundle(arguments: argparse.Namespace, corpus: Path) -> Bundle:
    """The one that was given, or one trained for this in a minute or two."""
    if arguments.bundle is not None:
        return open_bundle(arguments.bundle)
    path = arguments.out / "translate" / "bundle"
    if not path.exists():
        data = prepare(corpus, arguments.out)
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"training a translator for {BUNDLE_STEPS} steps", flush=True)
        files = {"source": data.path("train.en"), "target": data.path("train.de")}
        valid = {"valid_source": data.path("few.en"), "valid_target": data.path("few.de")}
        training = {"steps": BUNDLE_STEPS, "warmup_steps": 200}
        settings = {"data": files | valid, "tokenizer": {"vocab_size": 6000}, "training": training}
        attendo.train(settings=settings, preset="tiny", out=path, device="cpu")
    return open_bundle(path)


def ctranslate2_model(bundle: Bundle, folder: Path) -> Path:
    """The bundle's weights in CTranslate2's format, without attendo's engine around it."""
    path = folder / "ctranslate2"
    if not (path / "model.bin").exists():
        path.mkdir(exist_ok=True)
        weights = {name: tensor.numpy() for name, tensor in bundle.weights().items()}
        config = bundle.config.model
        assert isinstance(config, TransformerConfig)
        write_model(config, weights, path)
    return path


def tune(arguments: argparse.Namespace, folder: Path, model: Path, precision: str, beam: int) -> dict[str, Any]:
    """The workers, threads and batch size with which CTranslate2 by hand is fastest, of those that are tried."""
    kept = folder / f"tuned-{precision}-{beam}.json"
    if not kept.exists():
        job = {
            "ids": str(folder / "tuning.ids"),
            "out": str(kept),
            "model": str(model),
            "precision": precision,
            "beam": beam,
            "warm_up": WARM_UP,
            "tune": True,
        }
        _run_job(arguments, "ctranslate2", job)
        print(f"CTranslate2 by hand, {precision}, beam {beam}: best of {kept.read_text()}", flush=True)
    return dict(json.loads(kept.read_text()))


def transformers_model(bundle: Bundle, folder: Path) -> Path:
    """The bundle as a folder that Transformers loads."""
    path = folder / "transformers"
    if not path.exists():
        export_huggingface(bundle, path)
    return path


def model_settings(bundle: Bundle) -> dict[str, Any]:
    return dict(vars(bundle.config.model))


def _translated(arguments: argparse.Namespace, peer: str, job: dict[str, Any]) -> tuple[dict[str, Any], float]:
    for name in ("out", "translations"):
        Path(job[name]).unlink(missing_ok=True)
    seconds = _run_job(arguments, peer, job)
    return json.loads(Path(job["out"]).read_text()), seconds


def _run_job(arguments: argparse.Namespace, peer: str, job: dict[str, Any]) -> float:
    path = arguments.out / "translate" / "job.json"
    path.write_text(json.dumps(job))
    python = sys.executable if peer == "attendo" else python_of(peer, arguments.environments)
    return run([python, "-m", f"benchmarks.peers.inside.translate_{peer}", path]).seconds


def _texts(bundle: Bundle, peer: str, path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    if peer == "attendo":
        return lines
    return [bundle.tokenizers.target.decode([int(id) for id in line.split()]).replace("\n", " ") for line in lines]
