"""Whether a translator says the same elsewhere: exported to every format, and run by what others use for it.

    python -m benchmarks.interop BUNDLE [DATA] --out OUT

DATA (or the environment variable ATTENDO_DATA) is the folder that holds `multi30k/test_2016_flickr.en.gz`, … . Exports
BUNDLE to each of FORMATS and translates the 1,000 test sentences of 2016 greedily, every line as one sentence, with the
package that the format is for, in a process that does not import attendo; argostranslate has an environment of its own.

In float32 at least 998 translations must be those of attendo's reference engine, and each difference a tie: at the
first position that differs, the reference gives both pieces the same log probability to within TIE. In int8, BLEU must
be within 0.3 of the reference's. Writes RESULT.json and RESULT.md into OUT, and ends with 1 if something is not so.
"""

import argparse
import datetime
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import attendo
from attendo import machine
from attendo.bundle import Bundle
from attendo.card import cell
from attendo.decoding.search import SearchOptions
from attendo.engines.choice import open_engine
from attendo.engines.engine import Precision
from attendo.evaluation.scores import bleu
from attendo.interop.argos import export_argos
from attendo.interop.ctranslate2 import export_ctranslate2
from attendo.interop.exporting import export_huggingface
from attendo.interop.onnx import export_onnx
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.text.corpus import read_lines
from attendo.text.tokenizer import BOS, EOS
from benchmarks.peers.environments import python_of, versions
from benchmarks.peers.process import run
from benchmarks.runs import add_data, parsed

LONGEST = 256  # pieces of a translation: what argostranslate has, which cannot be told another limit
ENOUGH = 998
TIE = 1e-3
INT8_WITHIN = 0.3
ENVIRONMENTS = Path.home() / ".cache" / "attendo-peers"


@dataclass(frozen=True)
class Format:
    """A format, the package that runs it, and the precision it is run in."""

    name: str
    package: str
    precision: Precision = "float32"

    @property
    def title(self) -> str:
        return self.name if self.precision == "float32" else f"{self.name} {self.precision}"

    def export(self, bundle: Bundle, folder: Path) -> Path:
        out = folder / f"{self.name}-{self.precision}"
        match self.name:
            case "huggingface":
                export_huggingface(bundle, out)
            case "ctranslate2":
                export_ctranslate2(bundle, out, precision=self.precision)
            case "onnx":
                export_onnx(bundle, out)
            case "argos":
                out = out.with_suffix(".argosmodel")
                export_argos(bundle, out, precision=self.precision)
        return out


FORMATS = (
    Format("huggingface", "transformers"),
    Format("ctranslate2", "ctranslate2"),
    Format("ctranslate2", "ctranslate2", "int8"),
    Format("onnx", "onnxruntime"),
    Format("argos", "argostranslate"),
    Format("argos", "argostranslate", "int8"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, help="a translator, English to German")
    add_data(parser, "multi30k/")
    parser.add_argument("--out", type=Path, default=Path("runs/interop"), help="folder of the results")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where argostranslate is installed")
    parser.add_argument("--formats", nargs="+", choices=sorted({one.name for one in FORMATS}), help="some of them")
    arguments = parsed(parser)
    test = arguments.data / "multi30k" / "test_2016_flickr"
    texts, references = (list(read_lines(f"{test}.{language}.gz")) for language in ("en", "de"))
    bundle = attendo.open_bundle(arguments.bundle)
    arguments.out.mkdir(parents=True, exist_ok=True)

    sources = bundle.tokenizers.source.encode_batch(texts)
    searched = open_engine([bundle], engine="torch").search(sources, [LONGEST] * len(texts), SearchOptions(beam=1))
    ours = [one[0].ids for one in searched]
    own = [bundle.tokenizers.target.decode(ids) for ids in ours]
    reference = bleu(own, references, target_language="de")

    rows = []
    for one in FORMATS:
        if arguments.formats and one.name not in arguments.formats:
            continue
        python = python_of(one.package, arguments.environments) if one.name == "argos" else Path(sys.executable)
        with tempfile.TemporaryDirectory() as folder:
            found, theirs = translated(one, bundle, texts, python, Path(folder))
        score = bleu(found, references, target_language="de").score
        differences = [
            difference(bundle, sources[i], ours[i], theirs[i]) | {"sentence": i}
            for i in range(len(texts))
            if found[i] != own[i]
        ]
        same = len(texts) - len(differences)
        ties = all(other["position"] is not None and abs(other["log_prob_difference"]) <= TIE for other in differences)
        exact = one.precision == "float32"
        rows.append(
            {
                "format": one.title,
                "package": f"{one.package} {versions(python)[one.package]}",
                "same": same,
                "bleu": score,
                "differences": differences if exact else [],
                "as_it_should": same >= ENOUGH and ties if exact else abs(score - reference.score) <= INT8_WITHIN,
            }
        )
        print(line(rows[-1]), flush=True)
    result = {
        "date": datetime.date.today().isoformat(),
        "command": "python -m benchmarks.interop BUNDLE",
        "machine": machine.describe(),
        "model": bundle.config.model.in_words(),
        "sentences": len(texts),
        "reference": reference.to_json(),
        "formats": rows,
    }
    (arguments.out / "RESULT.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.out / "RESULT.md").write_text(table(result))
    print(table(result))
    if not all(row["as_it_should"] for row in rows):
        sys.exit(1)


def translated(
    one: Format, bundle: Bundle, texts: Sequence[str], python: Path, folder: Path
) -> tuple[list[str], list[list[int]]]:
    """What the package says, in a process of its own: texts, and the ids of the pieces that it made them of."""
    files = list(bundle.tokenizers.files())
    job = {
        "model": str(one.export(bundle, folder)),
        "tokenizers": [*files, *files][:2],  # a joint one is both
        "texts": list(texts),
        "longest": LONGEST,
        "precision": one.precision,
        "out": str(folder / "out.json"),
    }
    (folder / "job.json").write_text(json.dumps(job))
    script = f"benchmarks.peers.inside.exported_{one.package}"
    environment = {
        "ARGOS_BEAM_SIZE": "1",
        "ARGOS_COMPUTE_TYPE": one.precision,
        "ARGOS_INTRA_THREADS": str(machine.cores()),  # of its own accord it takes cores that the process may not use
        "ARGOS_PACKAGES_DIR": str(folder / "packages"),
        **{f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "CONFIG", "CACHE")},
    }
    run([python, "-m", script, folder / "job.json"], environment=environment if one.name == "argos" else None)
    said = json.loads((folder / "out.json").read_text())
    target = bundle.tokenizers.target
    ids = {piece: id for id, piece in enumerate(target.pieces(range(target.vocab_size)))}
    return said["texts"], [[ids[piece] for piece in pieces] for pieces in said["pieces"]]


def difference(bundle: Bundle, source: Sequence[int], ours: Sequence[int], theirs: Sequence[int]) -> dict[str, Any]:
    """Where two translations part, and log p(our piece) - log p(theirs) there, by the reference."""
    both = [[*ours, EOS], [*theirs, EOS]]
    place = next((i for i, pair in enumerate(zip(*both, strict=False)) if pair[0] != pair[1]), None)
    if place is None:  # the same pieces, spelled otherwise, which is no tie
        return {"position": None, "pieces": [], "log_prob_difference": 0.0}
    model = bundle.model()
    assert isinstance(model, EncoderDecoder)
    with torch.inference_mode():
        logits_1TV = model(
            torch.tensor([[*source, EOS]]), torch.tensor([len(source) + 1]), torch.tensor([[BOS, *ours[:place]]])
        )
        log_probs_V = logits_1TV[0, -1].double().log_softmax(-1)
    return {
        "position": place,
        "pieces": bundle.tokenizers.target.pieces([one[place] for one in both]),
        "log_prob_difference": float(log_probs_V[both[0][place]] - log_probs_V[both[1][place]]),
    }


def line(row: dict[str, Any]) -> str:
    gaps = [abs(one["log_prob_difference"]) for one in row["differences"]]
    largest = f"{max(gaps):.1e}" if gaps else ""
    verdict = "yes" if row["as_it_should"] else "**no**"
    return f"| {row['format']} | {row['package']} | {row['same']:,} | {largest} | {row['bleu']:.2f} | {verdict} |"


def table(result: dict[str, Any]) -> str:
    here, reference = result["machine"], result["reference"]
    lines = [
        "# The same translations elsewhere",
        "",
        f"{result['date']}, {here['processor']}, torch {here['torch']}; `{result['command']}`; "
        f"{result['model']}. "
        f"Multi30K test_2016_flickr, {result['sentences']:,} sentences, greedy. attendo's reference engine: BLEU "
        f"{reference['score']:.2f}, {cell(reference['signature'])}.",
        "",
        "| exported to | run by | the same translations | largest gap in log p where they part | BLEU | as it should |",
        "|---|---|---|---|---|---|",
        *map(line, result["formats"]),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
