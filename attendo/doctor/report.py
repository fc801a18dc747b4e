"""What was found, in words and as JSON."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from attendo.doctor.cleaning import Cleaned
from attendo.doctor.examination import Examination, Sample
from attendo.doctor.findings import KINDS, Kind
from attendo.text.corpus import CorpusFiles

FIRST = 10  # line numbers of each kind in JSON
SHOWN = 70  # characters of a text in words
ACTIONS = {"drop": "--clean drops them", "repair": "--clean repairs them", "report": "only reported"}
GROUPS = {"files": "Files", "pairs": "Pairs", "doubtful": "Doubtful pairs", "overlap": "Overlap"}
SCRIPTS = 5  # named of each side


def to_json(examination: Examination, cleaned: Cleaned | None = None) -> dict[str, Any]:
    """Everything that was found, for machines."""
    n, parting = len(examination.findings), examination.parting
    return {
        "source": examination.files.source,
        "target": examination.files.target,
        "pairs": n,
        "quick": examination.quick,
        "broken": examination.broken,
        "sound": int((examination.findings.bits == 0).sum()),
        "dropped_by_clean": int(examination.dropped.sum()),
        "repaired_by_clean": int((examination.repaired & ~examination.dropped).sum()),
        "parting": None if parting is None else asdict(parting) | {"line": parting.line + 1},
        "byte_order_marks": examination.marked,
        "findings": [
            {
                "kind": kind.name,
                "title": kind.title,
                "count": count,
                "share": count / n,
                "why": kind.why,
                "action": kind.action,
                "broken": kind.broken,
                "lines": [number + 1 for number in examination.findings.first(kind.name, FIRST)],
                "samples": [
                    asdict(sample) | {"number": sample.number + 1} for sample in examination.samples[kind.name]
                ],
            }
            for kind, count in found_kinds(examination)
        ],
        "shifted_stretches": [
            {"first": stretch.first + 1, "last": stretch.last + 1, "shift": stretch.shift}
            for stretch in examination.stretches
        ],
        "facts": examination.facts,
        "cleaned": None if cleaned is None else asdict(cleaned),
    }


def in_words(examination: Examination, cleaned: Cleaned | None = None) -> list[str]:
    """The report, line by line."""
    n = len(examination.findings)
    sound = int((examination.findings.bits == 0).sum())
    lines = [f"{name_of(examination.files)}: {n:,} pairs, nothing found in {sound:,} ({sound / n:.1%})."]
    lines += [f"{path} begins with a byte order mark, which attendo passes over." for path in examination.marked]
    lines += _parting_in_words(examination)
    for group, title in GROUPS.items():
        found = [(kind, count) for kind, count in found_kinds(examination) if kind.group == group]
        if found:
            lines += ["", title]
            for kind, count in found:
                lines += _kind_in_words(examination, kind, count)
    lines += ["", "What is in it", *_facts_in_words(examination.facts)]
    lines += ["", *_verdict(examination, cleaned)]
    return lines


def two_lines(examination: Examination, *, asked: int) -> list[str]:
    """What `train` says of a quick check of the first `asked` pairs; nothing where nothing was found."""
    n = len(examination.findings)
    found = sorted(found_kinds(examination), key=lambda one: -one[1])
    if not found:
        return []
    seen = "; ".join(f"{kind.title} {count:,} ({count / n:.1%})" for kind, count in found[:4])
    more = f"; {len(found) - 4} more" if len(found) > 4 else ""
    which = f"the first {n:,} pairs" if n == asked else f"{n:,} pairs"
    return [
        f"A quick check of {which} saw: {seen}{more}.",
        f"See and clean them: attendo check {command_of(examination.files)} --clean clean",
    ]


def found_kinds(examination: Examination) -> list[tuple[Kind, int]]:
    """The kinds that were found, with their counts, in the order of the table."""
    counted = ((kind, examination.findings.count(kind.name)) for kind in KINDS)
    return [(kind, count) for kind, count in counted if count]


def name_of(files: CorpusFiles) -> str:
    return files.source if files.target is None else f"{files.source} and {files.target}"


def command_of(files: CorpusFiles) -> str:
    """The arguments that name these files."""
    words = [files.source, *([files.target] if files.target else [])]
    if files.columns != (1, 2):
        words += ["--columns", ",".join(map(str, files.columns))]
    return " ".join([*words, *(["--reverse"] if files.reverse else [])])


def shown(text: str) -> str:
    """A text on one line, not too long, its invisible characters visible."""
    visible = "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)
    return visible if len(visible) <= SHOWN else visible[: SHOWN - 1] + "…"


def _kind_in_words(examination: Examination, kind: Kind, count: int) -> Iterator[str]:
    share = count / len(examination.findings)
    mark = "BROKEN  " if kind.broken else ""
    yield f"  {mark}{kind.title}: {count:,} ({_percent(share)}); {ACTIONS[kind.action]}"
    yield f"    {kind.why}"
    for sample in examination.samples[kind.name]:
        yield from _sample_in_words(sample)


def _sample_in_words(sample: Sample) -> Iterator[str]:
    note = f"  [{sample.note}]" if sample.note else ""
    yield f"    {sample.number + 1:>8,}  {shown(sample.source)}{note}"
    yield f"              {shown(sample.target)}"


def _parting_in_words(examination: Examination) -> Iterator[str]:
    parting = examination.parting
    if parting is None:
        return
    counts = f"{parting.n_source:,} and {parting.n_target:,} lines"
    yield f"The files have {counts}. Most likely they part at line {parting.line + 1:,}:"
    for number, source, target in parting.beside:
        mark = ">" if number == parting.line else " "
        yield f"  {mark} {number + 1:>8,}  {shown(source)}"
        yield f"              {shown(target)}"


def _facts_in_words(facts: dict[str, Any]) -> Iterator[str]:
    for side in ("source", "target"):
        one = facts[side]
        words, characters = one["words_in_a_line"], one["characters_in_a_line"]
        yield (
            f"  {side}: {one['words']:,} words, {one['distinct_words']:,} distinct, {one['words_seen_once']:.0%} of "
            f"them seen once; {words['mean']:.1f} words a line (5 % under {words['p5']}, 5 % over {words['p95']}, "
            f"longest {words['longest']}), {characters['mean']:.0f} characters"
        )
        scripts = list(one["scripts"].items())[:SCRIPTS]
        yield "    scripts: " + ", ".join(f"{name} {_percent(share)}" for name, share in scripts)
    for name, shares in facts["unseen_words"].items():
        yield (
            f"  words of the {name} set never seen here: {shares['source']:.1%} of the source, {shares['target']:.1%} "
            "of the target"
        )
    if facts["pieces_per_word"]:
        rows = (
            f"{row['vocab_size']:,}: {row['source']:.2f} and {row['target']:.2f}" for row in facts["pieces_per_word"]
        )
        yield "  pieces a word, source and target, by the size of a joint vocabulary: " + "; ".join(rows)


def _verdict(examination: Examination, cleaned: Cleaned | None) -> Iterator[str]:
    if cleaned is not None:
        rounds = f", in {cleaned.rounds} rounds" if cleaned.rounds > 1 else ""
        yield (
            f"Cleaned{rounds}: {cleaned.kept:,} pairs in {cleaned.source} and {cleaned.target}, {cleaned.repaired:,} "
            f"of them repaired; {cleaned.dropped:,} with their reasons in {cleaned.folder}/rejected.tsv."
        )
    else:
        dropped = int(examination.dropped.sum())
        repaired = int((examination.repaired & ~examination.dropped).sum())
        if dropped or repaired:
            yield (
                f"Cleaning would drop {dropped:,} pairs ({_percent(dropped / len(examination.findings))}) and repair "
                f"{repaired:,}: attendo check {command_of(examination.files)} --clean clean"
            )
        else:
            yield "There is nothing to clean."
    if examination.quick:
        yield "This was the quick look: languages, word tables, shifts, near duplicates and pieces were left out."
    if examination.broken and cleaned is not None:
        yield "What is marked BROKEN was left out; see whether it can be repaired instead."
    elif examination.broken:
        yield "Something is broken: repair what is marked BROKEN before you train."


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 or share == 0 else f"{share:.2%}" if share >= 0.0001 else "under 0.01%"
