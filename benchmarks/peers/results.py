"""What was found: results.json, with every repetition, and results.md, made from it."""

import datetime
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attendo import machine
from benchmarks.peers.environments import versions
from benchmarks.peers.setting import Setting
from benchmarks.peers.training import INSTALLED

Record = dict[str, Any]

SHOWN = ("torch", "ctranslate2", "eole", "joeynmt", "transformers", "accelerate", "attendo")
NOTES = {
    "eole": "norm before each sublayer, dropout also inside the feed-forward network, no EOS after the source",
    "joeynmt": "dropout also inside attention and feed-forward network",
    "transformers": "",
    "torch": "",
    "attendo": "",
}


class Results:
    """The file of a folder; what is added is written at once."""

    def __init__(self, out: Path, environments: Path) -> None:
        self.out, self.environments = out, environments
        self.path = out / "results.json"
        self.content: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def add(self, kind: str, record: Record) -> None:
        stamped = {**record, "when": datetime.datetime.now().isoformat(timespec="seconds"), "load": os.getloadavg()[0]}
        self.content.setdefault(kind, []).append(stamped)
        self._write()

    def note(self, name: str, value: Any) -> None:
        """Something that is true of the whole, once."""
        self.content.setdefault("notes", {})[name] = value
        self._write()

    def records(self, kind: str) -> list[Record]:
        return self.content.get(kind, [])

    def write_markdown(self) -> str:
        self.content |= self._conditions()
        self._write()
        sections = (_training, _loss, _translating, _singles, _starting, _growing)
        text = "\n\n".join([self._head(), *(part for section in sections if (part := section(self)))]) + "\n"
        (self.out / "results.md").write_text(text, encoding="utf-8")
        return text

    def _write(self) -> None:
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.content, indent=1, ensure_ascii=False), encoding="utf-8")
        part.replace(self.path)

    def _conditions(self) -> Record:
        pythons: dict[str, Path | str] = {"attendo": sys.executable}
        if self.environments.exists():
            pythons |= {
                folder.name: folder / "bin" / "python"
                for folder in sorted(self.environments.iterdir())
                if (folder / "requirements.sha256").exists()
            }
        return {
            "date": datetime.date.today().isoformat(),
            "machine": machine.describe(),
            "kernel": platform.release(),
            "setting": asdict(Setting()),
            "versions": {name: versions(python) for name, python in pythons.items()},
        }

    def _head(self) -> str:
        about, all_versions = self.content["machine"], self.content["versions"]
        used = {
            name: {package: found[package] for package in SHOWN if package in found}
            for name, found in all_versions.items()
        }
        said = "; ".join(f"{name}: {', '.join(f'{a} {b}' for a, b in found.items())}" for name, found in used.items())
        records = [record for kind in self.content.values() if isinstance(kind, list) for record in kind]
        loads = [record["load_before"] for record in records if "load_before" in record]
        load = f" Load average before a run: {_spread(loads, '{:.1f}')}." if loads else ""
        return (
            "## attendo beside others\n\n"
            f"{self.content['date']}, {about['processor']}, {about['cores']} cores, Python {about['python']}; "
            "`python -m benchmarks.peers`. Medians, and in parentheses the lowest and highest of the repetitions."
            f"{load}\n\n"
            f"Environments: {said}."
        )


def _training(results: Results) -> str:
    records = results.records("train")
    if not records:
        return ""
    groups = _grouped(records, lambda one: (one["peer"], one["variant"]))
    rates = {key: _median(group, "tokens_per_second") for key, group in groups.items()}
    installed = {peer: rate for (peer, variant), rate in rates.items() if variant == INSTALLED and peer != "attendo"}
    best = max(installed.values(), default=None)
    rows = []
    for (peer, variant), group in sorted(groups.items(), key=lambda item: -rates[item[0]]):
        is_best = rates[peer, variant] == max(rate for (other, _), rate in rates.items() if other == peer)
        rows.append(
            [
                peer,
                f"{variant}{_chosen(variant, group)}{' (its best)' if is_best else ''}",
                _spread([one["tokens_per_second"] for one in group], "{:,.0f}"),
                f"{rates[peer, variant] / best:.2f}×" if best else "",
                f"{_median(group, 'padding'):.1%}",
                f"{_median(group, 'tokens_per_update'):,.0f}",
            ]
        )
    said = [
        "### Training, real source and target tokens per second",
        _table(["", "threads", "tokens/s", "of the fastest peer as installed", "padding", "tokens in an update"], rows),
        "Multi30K English→German, "
        + ", ".join(f"{name} {value}" for name, value in results.content["setting"].items())
        + "; post-norm, float32. Forced by a peer: "
        + "; ".join(f"{peer}: {note}" for peer, note in NOTES.items() if note)
        + ".",
    ]
    one, two = (("attendo", f"{name}") for name in ("1 process × 1 thread", "2 processes × 1 thread"))
    if one in rates and two in rates:
        said.append(f"Two processes of one thread are {rates[two] / rates[one]:.2f}× as fast as one.")
    return "\n\n".join(said)


def _chosen(variant: str, group: list[Record]) -> str:
    """What attendo took where it had the choice, in processes × threads."""
    splits = sorted({one["split"] for one in group if "split" in one}) if variant == INSTALLED else []
    return f", which was {' or '.join(splits)}" if splits else ""


def _loss(results: Results) -> str:
    records = results.records("loss")
    if not records:
        return ""
    rows = [
        [
            peer,
            variant,
            _spread([one["loss"] for one in group], "{:.3f}"),
            _spread([one["peak_pss"] / 1e6 for one in group], "{:,.0f}"),
            _spread([one["tokens_per_second"] for one in group], "{:,.0f}"),
            f"{group[-1]['updates']:,}",
        ]
        for (peer, variant), group in _grouped(records, lambda one: (one["peer"], one["variant"])).items()
    ]
    return "\n\n".join(
        [
            "### Loss after the same number of updates, and peak memory",
            _table(["", "", "-log p per target token", "peak PSS of all processes, MB", "tokens/s", "updates"], rows),
            "The loss is the mean over all target tokens and EOS of the same 500 training pairs, without dropout and "
            "without label smoothing, by the weights after the last update. The memory is sampled five times a second.",
        ]
    )


def _translating(results: Results) -> str:
    records = results.records("translate")
    if not records:
        return ""
    groups = _grouped(records, lambda one: (one["set"], one["name"], one["search"], one["sentences"]))
    rates = {key: _median(group, "sentences_per_second") for key, group in groups.items()}
    parts = ["### Translating, sentences per second"]
    for which, said in (("all", "distinct training sources"), ("test", "sentences of test_2016_flickr")):
        for sentences in sorted({key[3] for key in groups if key[0] == which}):
            names = list(dict.fromkeys(key[1] for key in groups if key[0] == which and key[3] == sentences))
            rows = []
            for name in names:
                row = [name]
                for search in ("greedy", "beam 5"):
                    group = groups.get((which, name, search, sentences), [])
                    row += [
                        _spread([one["sentences_per_second"] for one in group], "{:,.0f}") if group else "",
                        f"{group[-1]['same_as_attendo']:.1%}" if group and "same_as_attendo" in group[-1] else "",
                    ]
                starts = [one["start_seconds"] for key, group in groups.items() if key[1] == name for one in group]
                rows.append([*row, _spread(starts, "{:.2f}")])
            header = [f"{sentences:,} {said}", "greedy", "the same", "beam 5", "the same", "seconds to load"]
            parts.append(_table(header, rows))
    ratios = []
    for ours, theirs, which in (
        ("attendo, native, float32", "ctranslate2, float32", "all"),
        ("attendo, native, int8", "ctranslate2, int8", "all"),
        ("attendo, ctranslate2, float32", "ctranslate2, float32", "all"),
        ("attendo, ctranslate2, int8", "ctranslate2, int8", "all"),
        ("attendo, native, float32", "transformers, float32", "test"),
        ("attendo, torch, float32", "transformers, float32", "test"),
    ):
        for search in ("greedy", "beam 5"):
            pairs = [
                (rates[key], rates[which, theirs, search, key[3]])
                for key in rates
                if _same(key, which, ours, search) and (which, theirs, search, key[3]) in rates
            ]
            ratios += [[f"{ours} / {theirs}", search, f"{a / b:.2f}×"] for a, b in pairs]
    if ratios:
        parts.append(_table(["", "", "ratio of the medians"], ratios))
    settings = results.content.get("notes", {}).get("ctranslate2_settings", {})
    if settings:
        best = "; ".join(
            f"{name}: {one['candidate'][0]} workers × {one['candidate'][1]} threads, batches of {one['candidate'][2]} "
            f"{one['candidate'][3]}"
            for name, one in settings.items()
        )
        parts.append(f"CTranslate2 by hand with the best settings found for it: {best}.")
    parts.append(
        "attendo goes from text to text, the others from ready-made ids to ids. 'The same': how many of the "
        "translations are those of attendo's native engine in float32."
    )
    return "\n\n".join(parts)


def _same(key: Sequence[Any], which: str, name: str, search: str) -> bool:
    return tuple(key[:3]) == (which, name, search)


def _singles(results: Results) -> str:
    records = [record for record in results.records("translate") if record["single_seconds"]]
    if not records:
        return ""
    medians = {
        key: statistics.median(second for record in group for second in record["single_seconds"])
        for key, group in _grouped(records, lambda one: (one["name"], one["search"])).items()
    }
    rows = [
        [
            name,
            *(
                f"{1000 * medians[name, search]:.1f}" if (name, search) in medians else ""
                for search in ("greedy", "beam 5")
            ),
        ]
        for name in dict.fromkeys(name for name, _ in medians)
    ]
    return "### One sentence at a time, warm, median milliseconds\n\n" + _table(["", "greedy", "beam 5"], rows)


def _starting(results: Results) -> str:
    groups = _grouped(results.records("start"), lambda one: one["name"])
    if not groups:
        return ""
    rows = [[f"`{name}`", _spread([one["seconds"] for one in group], "{:.2f}")] for name, group in groups.items()]
    return "### From the shell to the answer, seconds\n\n" + _table(["command", "seconds"], rows)


def _growing(results: Results) -> str:
    records = results.records("growth")
    if not records:
        return ""
    rows = []
    for (axis, value), group in _grouped(records, lambda one: (one["axis"], one["value"])).items():
        rows.append(
            [
                f"{axis} {value:,}",
                _spread([one["tokens_per_second"] for one in group], "{:,.0f}"),
                f"{_median(group, 'gflops'):.0f}",
                f"{_median(group, 'share'):.0%}",
            ]
        )
    peak = results.content["notes"]["peak_gflops"]
    return "\n\n".join(
        [
            "### attendo's training by sentence length, vocabulary and model size",
            _table(["", "tokens/s", "GFLOP/s", "of the peak"], rows),
            f"The peak is {peak:.0f} GFLOP/s, the best matrix product of torch in float32 on all cores. The operations "
            "of a step are those of its matrix products, forward and twice backward. Picture: growth.svg.",
        ]
    )


def _grouped(records: Iterable[Record], key: Callable[[Record], Any]) -> dict[Any, list[Record]]:
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def _median(group: Sequence[Record], name: str) -> float:
    return statistics.median(one[name] for one in group)


def _spread(values: Sequence[float], form: str) -> str:
    """median (lowest–highest)"""
    middle = form.format(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({form.format(min(values))}–{form.format(max(values))})"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
