"""A model's folder, and the only code that knows its format.

    bundle.json          format version, what it is, checksums of the files that never change
    config.yaml          the whole run's settings
    tokenizer.json       or tokenizer.source.json and tokenizer.target.json; none for a model of pictures
    weights.safetensors  the weights to use, with their own checksum inside; adapters (.down, .up) that were not merged
    data.json            what the data were: counts, fingerprint, machine
    scores.json          what the model scored on validation
    interop.json         where an imported model came from, all that an export needs to give it back; none otherwise
    alignment.json       which head of cross-attention aligns words best; found when it is missing
    card.md              all of that in words
    log.jsonl            what happened, a line each          } only a run has these
    report.html          the same as curves                  }
    tensorboard/         the same for TensorBoard, if asked  }
    checkpoints/step-N/  weights.safetensors and, in the latest ones, state.safetensors
    ctranslate2/         the weights once more, as that engine wants them; made from them when it is missing

Text and numbers only: nothing in a bundle is ever executed. Every file is written beside and renamed; only the logs are
written on. torch is imported by those who ask for a model or for tensors, and not to open a bundle.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from attendo.card import write_card
from attendo.config import from_dict, read_yaml, to_yaml
from attendo.errors import BundleError, ConfigError
from attendo.nn.adapters import DOWN, UP, merged
from attendo.recipe import USED_BY, RunConfig, TaskName
from attendo.storage import (
    link_file,
    new_folder,
    read_arrays,
    read_tensors,
    require_new,
    sha256,
    storage_errors,
    write_file,
    write_tensors,
)
from attendo.text.pair import TokenizerPair

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

FORMAT = 1
STATES_KEPT = 2  # the latest, and the one before in case that is damaged

Weights: TypeAlias = "dict[str, Tensor]"


@dataclass(frozen=True)
class Bundle:
    """An opened bundle: its files that never change, read and checked."""

    path: Path
    config: RunConfig
    text: TokenizerPair | None  # None: it is about pictures

    # --- what it holds -----------------------------------------------------------------------------------------

    @property
    def tokenizers(self) -> TokenizerPair:
        if self.text is None:
            raise BundleError(f"{self.path} has no tokenizer: it is {USED_BY[self.config.task][0]}.")
        return self.text

    def require(self, *tasks: TaskName, verb: str) -> "Bundle":
        """This bundle, if it is of one of the tasks; `verb` is the command that it was given to."""
        if self.config.task not in tasks:
            what, command = USED_BY[self.config.task]
            raise BundleError(
                f"{self.path} is {what}, which attendo {verb} cannot use. Use attendo {command} {self.path}, or give "
                f"attendo {verb} {' or '.join(USED_BY[task][0] for task in tasks)}."
            )
        return self

    @property
    def languages(self) -> tuple[str, str] | None:
        return self.config.data.languages

    def data(self) -> dict[str, Any]:
        return self._json("data.json")

    def scores(self) -> dict[str, Any]:
        return self._json("scores.json")

    def alignment(self) -> dict[str, Any]:
        """Which cross-attention says what belongs together; nothing where nobody has looked yet."""
        return self._json("alignment.json")

    def interop(self) -> dict[str, Any]:
        """What the model was before it was imported, or what it was trained from; nothing where all of it was here."""
        return self._json("interop.json")

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        if not path.exists():
            return {}
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BundleError(f"{path} is damaged ({error}). Copy the bundle again from where it came.") from None
        if not isinstance(found, dict):
            raise BundleError(f"{path} is damaged: it holds no keys and values. Copy the bundle again.")
        return found

    @property
    def weights_file(self) -> Path:
        """The file of the weights to use."""
        path = self.path / "weights.safetensors"
        if path.exists():
            return path
        steps = self.checkpoints()
        if not steps:
            raise BundleError(
                f"{self.path} has no weights: {path.name} is missing. Either its training has not reached a "
                "checkpoint yet, or the bundle was not copied whole."
            )
        return self.checkpoint(steps[-1]) / path.name

    def weights(self) -> Weights:
        path = self.weights_file
        return _plain(read_tensors(path)[0], path)

    def arrays(self) -> "tuple[dict[str, NDArray[np.float32]], str]":
        """The weights as numpy arrays, and the checksum of their file; without torch."""
        path = self.weights_file
        arrays, checksum = read_arrays(path)
        return _plain(arrays, path), checksum

    def model(self) -> "nn.Module":
        """The model with its weights, ready for use."""
        from attendo.models.family import build_model

        model = build_model(self.config.model)
        load_weights(model, self.weights(), where=str(self.path))
        return model.eval()

    # --- what a run adds ---------------------------------------------------------------------------------------

    def save_weights(self, weights: "Mapping[str, Tensor]", facts: Mapping[str, Any]) -> None:
        write_tensors(self.path / "weights.safetensors", weights, facts)

    def save_scores(self, scores: Mapping[str, Any]) -> None:
        self.write("scores.json", plain_json(scores))

    def write(self, name: str, text: str) -> None:
        write_file(self.path / name, text)

    def checkpoints(self) -> list[int]:
        """The steps that have a checkpoint, ascending."""
        folder = self.path / "checkpoints"
        return sorted(int(path.name.removeprefix("step-")) for path in folder.glob(f"step-{'[0-9]' * 8}"))

    def regular_checkpoints(self) -> list[int]:
        """Those on the beat, which averaging uses; not those of an interruption or a validation in between."""
        every = self.config.training.checkpoint_every
        return [step for step in self.checkpoints() if step and step % every == 0]

    def checkpoint(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step:08d}"

    def checkpoint_weights(self, step: int) -> Weights:
        """As they were written: adapters may stand beside what they adapt."""
        return read_tensors(self.checkpoint(step) / "weights.safetensors")[0]

    def save_checkpoint(
        self,
        step: int,
        weights: "Mapping[str, Tensor]",
        state: "Mapping[str, Tensor]",
        facts: Any,
        *,
        best: int | None,
    ) -> None:
        """Adds a checkpoint from which training can go on; the weights to use become those of step `best`."""
        path = self.checkpoint(step)
        if path.exists():  # a run asked to stop right where it had just saved
            return
        with new_folder(path) as folder:
            write_tensors(folder / "weights.safetensors", weights, {"step": step})
            write_tensors(folder / "state.safetensors", state, facts)
        usable = best if best is not None and self.checkpoint(best).exists() else step
        link_file(self.checkpoint(usable) / "weights.safetensors", self.path / "weights.safetensors")

    def prune(self, keep: set[int]) -> None:
        """Removes checkpoints that are not to be kept, training states but the latest, and what a crash left."""
        with storage_errors(self.path):
            steps = self.checkpoints()
            for path in list((self.path / "checkpoints").glob(".step-*.partial")):
                shutil.rmtree(path, ignore_errors=True)
            for step in steps:
                if step not in keep:  # renamed first, so that half of one is never taken for a checkpoint
                    path = self.checkpoint(step)
                    shutil.rmtree(path.rename(path.with_name(f".{path.name}.partial")), ignore_errors=True)
            for step in [step for step in steps if step in keep][:-STATES_KEPT]:
                (self.checkpoint(step) / "state.safetensors").unlink(missing_ok=True)

    def latest_state(self) -> "tuple[int, Weights, dict[str, Tensor], Any] | None":
        """(step, weights, state, facts) of the latest checkpoint that is whole, or None."""
        damaged: BundleError | None = None
        for step in reversed(self.checkpoints()):
            path = self.checkpoint(step) / "state.safetensors"
            if not path.exists():
                continue
            try:
                state, facts = read_tensors(path)
                return step, self.checkpoint_weights(step), state, facts
            except BundleError as error:
                damaged = error
        if damaged is not None:
            raise damaged
        return None

    def log(self, entry: Mapping[str, Any]) -> None:
        with (
            storage_errors(self.path / "log.jsonl"),
            (self.path / "log.jsonl").open("a", encoding="utf-8") as file,
        ):
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def read_log(self) -> list[dict[str, Any]]:
        """The log's entries; a last line that was cut by a crash is not one."""
        path = self.path / "log.jsonl"
        if not path.exists():
            return []
        entries = []
        for line in path.read_text(encoding="utf-8").split("\n"):
            try:
                entries.append(json.loads(line))
            except ValueError:
                continue
        return entries

    def rewind_log(self, step: int) -> None:
        """Forgets what was logged after `step`, and the end of the run: it will happen again."""
        ends = ("average", "finished")
        kept = [entry for entry in self.read_log() if entry["step"] <= step and entry["event"] not in ends]
        self.write("log.jsonl", "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in kept))

    # --- copies ------------------------------------------------------------------------------------------------

    def copy(self, out: Path, weights: "Mapping[str, Tensor]", *, scores: Mapping[str, Any] | None = None) -> "Bundle":
        """A bundle without what only training needs, with the given weights; `scores` replace what this one scored."""
        alignment = self.alignment() if scores is None else {}  # other weights have other heads
        scores = self.scores() if scores is None else scores
        data = {key: value for key, value in self.data().items() if key != "store"}  # no run to resume
        if not ({"parameters", "machine"} <= data.keys() and ("pairs" in data or "in_words" in data)):
            raise BundleError(f"{self.path / 'data.json'} is missing or not whole. Copy the bundle again.")
        texts = {
            "data.json": plain_json(data),
            "scores.json": plain_json(scores),
            "card.md": write_card(self.config, data, scores),
        }
        for name, values in (("alignment.json", alignment), ("interop.json", self.interop())):
            if values:
                texts[name] = plain_json(values)
        return create_bundle(out, config=self.config, tokenizers=self.text, texts=texts, weights=weights)


def create_bundle(
    path: Path,
    *,
    config: RunConfig,
    tokenizers: TokenizerPair | None,
    texts: Mapping[str, str],
    weights: "Mapping[str, Tensor] | None" = None,
) -> Bundle:
    """A new folder with everything that never changes, the given texts, and weights where there are some."""
    require_new(path)
    fixed = {"config.yaml": to_yaml(config), **(tokenizers.files() if tokenizers else {})}
    manifest = {
        "format": FORMAT,
        "kind": USED_BY[config.task][0].split(" ", 1)[1],
        "checksums": {name: sha256(text.encode("utf-8")) for name, text in fixed.items()},
    }
    with new_folder(path) as folder:
        for name, text in {**fixed, **texts}.items():
            (folder / name).write_bytes(text.encode("utf-8"))
        if weights is not None:
            write_tensors(folder / "weights.safetensors", weights, {})
        (folder / "bundle.json").write_bytes(plain_json(manifest).encode("utf-8"))
    return Bundle(path, config, tokenizers)


def open_bundle(path: Path | str) -> Bundle:
    """Reads a bundle's folder and checks it; weights are read when they are asked for."""
    path = Path(path)
    if not path.exists():
        raise BundleError(f"there is no folder {path}. Train one with: attendo train SOURCE TARGET")
    try:
        manifest = json.loads((path / "bundle.json").read_text(encoding="utf-8"))
        version = manifest["format"]
        checksums = dict(manifest["checksums"]) if version == FORMAT else {}
    except (FileNotFoundError, NotADirectoryError):
        raise BundleError(
            f"{path} is not a bundle: it has no bundle.json. Give the folder of a trained model."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{path / 'bundle.json'} is damaged ({error}). Copy the bundle again.") from None
    if version != FORMAT:
        raise BundleError(
            f"{path} has format {version}, and this attendo reads format {FORMAT}. Install a matching one."
        )
    texts = {}
    for name, checksum in checksums.items():
        try:
            content = (path / name).read_bytes()
        except OSError as error:
            raise BundleError(f"{path / name} cannot be read ({error.strerror}). The bundle is not whole.") from None
        if sha256(content) != checksum:
            raise BundleError(
                f"{path / name} was changed since it was written: its checksum does not match. Copy the bundle again; "
                "to train with other settings, use --config and --set instead of editing a bundle."
            )
        texts[name] = content.decode("utf-8", errors="replace")
    try:
        config = from_dict(RunConfig, read_yaml(path / "config.yaml"))
        pictures = config.task == "classify-images"
        return Bundle(path, config, None if pictures else TokenizerPair.from_files(texts))
    except ConfigError as error:
        raise BundleError(f"{path / 'config.yaml'}: {error}") from None
    except BundleError as error:
        raise BundleError(f"{path}: {error}") from None
    except KeyError as error:
        raise BundleError(f"{path / 'bundle.json'} does not list {error}. The bundle is not whole.") from None


def weights_of(model: "nn.Module") -> Weights:
    """The parameters and running statistics (persistent buffers) by name; what is shared, under the name met first."""
    names: dict[Tensor, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names.setdefault(tensor, name)
    return {name: tensor.detach() for tensor, name in names.items()}


def load_weights(model: "nn.Module", weights: Weights, *, where: str) -> None:
    """Copies weights into a model; a name or shape that does not fit is an error that says which."""
    own = weights_of(model)
    for problem, names in (("lacks", own.keys() - weights.keys()), ("has", weights.keys() - own.keys())):
        if names:
            raise BundleError(f"{where} {problem} the tensor {min(names)}, unlike the model its config describes.")
    for name, tensor in own.items():
        if tensor.shape != weights[name].shape:
            shapes = f"{tuple(weights[name].shape)} instead of {tuple(tensor.shape)}"
            raise BundleError(f"{where}: the tensor {name} has shape {shapes}.")
        tensor.copy_(weights[name])


def _plain(weights: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """With adapters merged; one that fits no matrix is an error."""
    plain = merged(weights)
    if left := [name for name in plain if name.endswith((DOWN, UP))]:
        raise BundleError(f"{path} has the tensor {min(left)}, half of an adapter, without what it belongs to.")
    return plain


def average_weights(bundle: Bundle, steps: list[int]) -> Weights:
    """The mean of the weights of several checkpoints, added up in float64.

    That of adapters is one as well, of a higher rank: Σ_k B_k A_k / n = [B_1 … B_n] / n · [A_1; …; A_n].
    """
    import torch

    total: Weights = {}
    for step in steps:
        for name, tensor in bundle.checkpoint_weights(step).items():
            if name.endswith((DOWN, UP)):
                along = 0 if name.endswith(DOWN) else 1
                total[name] = torch.cat([total[name], tensor], dim=along) if name in total else tensor
            else:
                total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: tensor if name.endswith(DOWN) else (tensor / len(steps)).float() for name, tensor in total.items()}


def average_last(bundle: Bundle, last: int, out: Path) -> tuple[Bundle, list[int]]:
    """A new bundle with the mean of the last checkpoints of a run, and the steps they are of."""
    if bundle.config.model.batch_statistics:
        raise BundleError(
            f"{bundle.path} has batchnorm, whose running statistics belong to the weights they were taken with: an "
            "average would need statistics of its own, from the training pairs. Use the run's own weights."
        )
    steps = bundle.regular_checkpoints()
    if len(steps) < last:
        raise BundleError(
            f"{bundle.path} has {len(steps)} checkpoints, and --last {last} asks for more. Use --last {len(steps)}, or "
            "train with a larger training.keep_checkpoints."
            if steps
            else f"{bundle.path} has no checkpoints to average: only the folder of a run has them."
        )
    chosen = steps[-last:]
    name = f"average of the checkpoints of steps {', '.join(f'{step:,}' for step in chosen)}"
    return bundle.copy(out, merged(average_weights(bundle, chosen)), scores={"weights": name}), chosen


def plain_json(value: Mapping[str, Any]) -> str:
    """As the JSON files of a bundle are written: for people to read, too."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
