"""The peers' environments: each its own, made once from a file in requirements/, and asked for its versions.

torch is pinned in every one of them, to the version that attendo is measured with, so that the same kernels are
compared, and so that pip never takes a build for graphics cards.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
REQUIREMENTS = HERE / "requirements"
# They ask for versions older than those that attendo was tested with: of protobuf, and of sacremoses.
FREE_OF_CONSTRAINTS = ("joeynmt", "argostranslate")


def python_of(name: str, environments: Path) -> Path:
    """The interpreter of a peer's environment, which is made if it is not there or its requirements have changed."""
    folder, wanted = environments / name, (REQUIREMENTS / f"{name}.txt").read_bytes()
    python, done = folder / "bin" / "python", folder / "requirements.sha256"
    digest = hashlib.sha256(wanted).hexdigest()
    if done.exists() and done.read_text() == digest:
        return python
    print(f"{name}: making its environment in {folder}", flush=True)
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS / f"{name}.txt")]
    if name not in FREE_OF_CONSTRAINTS:
        command += ["-c", str(ROOT / "constraints.txt")]
    subprocess.run(command, check=True)
    done.write_text(digest)
    return python


def versions(python: Path | str) -> dict[str, str]:
    """Every package of an environment, by `importlib.metadata`, which needs no pip."""
    code = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    found = subprocess.run([str(python), "-I", "-c", code], check=True, capture_output=True, text=True).stdout
    return dict(sorted(json.loads(found).items(), key=lambda pair: pair[0].lower()))
