"""A Hugging Face folder, read safely: JSON, text and safetensors files, by name.

Nothing in the folder is executed or unpickled, no symbolic link is followed out of it, and nothing is read whole before
its size is known. Every fault is a `ForeignError` that names the file.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from attendo.errors import ForeignError

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_FILE = 256 * 2**20  # bytes, of any file but the weights
LARGEST_HEADER = 100 * 2**20  # bytes; what the safetensors library reads at most
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")  # weights in files that are not safetensors

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
# What may ask for code to be run.
_ASKING = ("config.json", "generation_config.json", "tokenizer_config.json", "preprocessor_config.json")
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@dataclass(frozen=True)
class Folder:
    """An opened folder; get one by `open_folder`."""

    path: Path
    config: dict[str, Any]

    def has(self, name: str) -> bool:
        return (self.path / name).exists()

    def read(self, name: str) -> bytes:
        """A whole file."""
        path = self._inside(name)
        try:
            if path.stat().st_size > LARGEST_FILE:
                raise ForeignError(
                    f"{path} has {path.stat().st_size:,} bytes, and no such file needs more than {LARGEST_FILE:,}. "
                    "Get the folder again from where it came."
                )
            return path.read_bytes()
        except OSError as error:
            raise ForeignError(f"{path} cannot be read ({error.strerror}). The folder is not whole.") from None

    def text(self, name: str) -> str:
        try:
            return self.read(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ForeignError(f"{self.path / name} is not UTF-8 text ({error.reason}). It is damaged.") from None

    def parsed(self, name: str) -> Any:
        """What a JSON file holds."""
        try:
            return json.loads(self.text(name))
        except (ValueError, RecursionError) as error:
            raise ForeignError(f"{self.path / name} is not valid JSON: {error}. It is damaged.") from None

    def json(self, name: str) -> dict[str, Any]:
        """The keys and values of a JSON file."""
        found = self.parsed(name)
        if not isinstance(found, dict):
            raise ForeignError(f"{self.path / name} must hold keys and values, and holds {type(found).__name__}.")
        return found

    def optional_json(self, name: str) -> dict[str, Any]:
        """The same, and nothing where there is no such file."""
        return self.json(name) if self.has(name) else {}

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor, from the headers of the files alone."""
        return {name: shape for name, (_, shape) in self._tensors.items()}

    def tensor(self, name: str) -> "Tensor":
        """One tensor, in float32 where it holds floats of any kind."""
        path, _ = self._tensors[name]
        try:
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise ForeignError(f"{path} is damaged ({error}). Get the folder again from where it came.") from None
        return tensor.float() if tensor.is_floating_point() else tensor

    @cached_property
    def _tensors(self) -> dict[str, tuple[Path, tuple[int, ...]]]:
        """Name → the file that has it, and its shape."""
        if self.has(_INDEX):
            return self._sharded()
        if self.has(_WEIGHTS):
            return dict(self._headed(_WEIGHTS))
        if pickles := sorted(path.name for pattern in PICKLES for path in self.path.glob(pattern)):
            raise ForeignError(
                f"{self.path} has its weights only as {pickles[0]}, which is no safetensors file: loading it could run "
                f"code. Get {_WEIGHTS} from where the folder came, or have transformers write it: "
                f'NAME.from_pretrained("{self.path}").save_pretrained("{self.path}"), NAME being what config.json '
                "has under architectures."
            )
        raise ForeignError(f"{self.path} has no weights: {_WEIGHTS} is missing. The folder is not whole.")

    def _sharded(self) -> dict[str, tuple[Path, tuple[int, ...]]]:
        """The same of several files, each tensor in the one that the index names and in no other."""
        shards = self.json(_INDEX).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
            raise ForeignError(f"{self.path / _INDEX} has no weight_map from tensors to files. It is damaged.")
        found: dict[str, tuple[Path, tuple[int, ...]]] = {}
        for file in sorted(set(shards.values())):
            for name, tensor in self._headed(file):
                if name in found:
                    raise ForeignError(
                        f"{self.path} has the tensor {name} twice, in {found[name][0].name} and in {file}. Get the "
                        "folder again from where it came."
                    )
                found[name] = tensor
        for name, file in shards.items():
            if name not in found or found[name][0] != self.path / file:
                raise ForeignError(f"{self.path / file} lacks the tensor {name}, which {_INDEX} names.")
        return found

    def _headed(self, name: str) -> Iterator[tuple[str, tuple[Path, tuple[int, ...]]]]:
        """The tensors of a file by its header, whose sizes are checked before anything is made of them."""
        path = self._inside(name)
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                if not 0 < length <= min(size - 8, LARGEST_HEADER):
                    raise ValueError(f"its header claims {length:,} bytes, and the file has {size:,}")
                header = json.loads(file.read(length))
            if not isinstance(header, dict):
                raise ValueError("its header holds no keys and values")
            for tensor, about in header.items():
                if tensor != "__metadata__":
                    yield tensor, (path, _shape(tensor, about, size - 8 - length))
        except OSError as error:
            raise ForeignError(f"{path} cannot be read ({error.strerror}). The folder is not whole.") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ForeignError(f"{path} is damaged ({error}). Get the folder again from where it came.") from None

    def _inside(self, name: str) -> Path:
        """The path of a file, which must be in the folder, whatever links lead to it."""
        path = self.path / name
        try:
            resolved, there = path.resolve(), path.is_file()
        except (OSError, ValueError, RuntimeError) as error:  # too long, no name of a file at all, links in a circle
            raise ForeignError(
                f"{self.path}: no file can be {name[:80]!r} ({error}). Get the folder again from where it came."
            ) from None
        if not resolved.is_relative_to(self.path.resolve()):
            raise ForeignError(
                f"{path} leads out of the folder, to {resolved}. Copy the folder with what its links lead to: "
                f"cp -rL {self.path} COPY"
            )
        if not there:
            raise ForeignError(f"{path} is missing. The folder is not whole.")
        return path


def open_folder(path: Path | str) -> Folder:
    """A folder whose config.json is one of a model, and asks for no code to be run."""
    path = Path(path)
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise ForeignError(f"{path} {what}: a Hugging Face folder is needed, with config.json and model.safetensors.")
    folder = Folder(path, {})
    config = folder.json("config.json")
    for name in _ASKING:
        if asked := _code_asked(folder.optional_json(name)):
            raise ForeignError(
                f"{path / name} asks for code of its own to be run ({asked}), which attendo never does. Only the "
                "architectures that attendo knows can be imported."
            )
    return Folder(path, config)


def said_id(folder: Folder, key: str) -> int | None:
    """An id that generation_config.json names, or config.json where that does not; -1 is none.

    Of several ends it is the one that config.json names by itself, and otherwise the first.
    """
    config = folder.config.get(key)
    for value in (folder.optional_json("generation_config.json").get(key), config):
        if isinstance(value, list) and value:
            value = config if config in value else value[0]
        if isinstance(value, int) and value != -1:
            return value
    return None


def _code_asked(config: Mapping[str, Any]) -> str | None:
    """The key by which a config wants Python files of the folder, or of a hub, to be run."""
    return next((key for key in ("auto_map", "trust_remote_code", "custom_pipelines") if config.get(key)), None)


def _shape(name: str, about: Any, room: int) -> tuple[int, ...]:
    """The shape of a tensor, if its bytes are as many as it says and lie within the file."""
    shape = tuple(about["shape"])
    begin, end = about["data_offsets"]
    if about["dtype"] not in _BYTES:
        raise ValueError(f"{name} has the type {about['dtype']}, which is not supported: save it as float32")
    count = _BYTES[about["dtype"]]
    for side in shape:
        if not isinstance(side, int) or side < 1:
            raise ValueError(f"{name} has the impossible shape {shape}")
        count *= side
        if count > room:  # which further sides would make a number of any length
            break
    if not 0 <= begin <= end <= room or end - begin != count:
        raise ValueError(f"{name} of shape {shape} does not fit into the file")
    return shape
