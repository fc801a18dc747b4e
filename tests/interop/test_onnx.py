"""attendo export --to onnx: what onnxruntime makes of the graphs, at sizes other than those they were traced with."""

import importlib.util
import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tokenizers
import torch

from attendo.bundle import open_bundle
from attendo.data.text_batch import TextBatch
from attendo.decoding.search import SearchOptions
from attendo.engines.choice import open_engine
from attendo.errors import AttendoError
from attendo.interop import onnx
from attendo.interop.onnx import export_onnx, write_graphs
from attendo.models.bert import build_bert, build_classifier
from attendo.models.family import build_model
from attendo.models.gpt import build as build_gpt
from attendo.models.settings import BertConfig, ClassifierConfig, GPTConfig, TransformerConfig, VisionConfig
from attendo.nn.masks import padding_mask
from tests.cli.command import attendo, unchanged
from tests.untrained import recurrent_bundle, sentences, untrained_bundle

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "interop.md"
SIZES: dict[str, Any] = {"d_model": 30, "d_ff": 24, "n_heads": 3}
VOCAB_SIZE = 41
BATCHES = [(1, 1, 1), (2, 3, 5), (3, 71, 7)]  # sentences, source and target length

PARTS: dict[str, dict[str, Any]] = {
    "learned": {
        "positions": "learned",
        "n_positions": 83,
        "norm": "rmsnorm",
        "norm_place": "pre",
        "activation": "swiglu",
    },
    "rotary": {"positions": "rotary", "norm": "scalenorm", "norm_place": "sandwich", "n_key_heads": 1, "value_rank": 7},
    "shaw": {"positions": "shaw", "norm": "batchnorm", "activation": "gelu", "d_key": 8, "d_value": 11},
    "t5": {"positions": "t5", "scoring": "dot", "share_layers": "all", "activation": "geglu", "embedding_norm": True},
    "complex": {"positions": "complex", "scoring": "additive", "span": "chunk", "chunk": 5, "tie_embeddings": "none"},
    "concatenated": {"positions": "sinusoidal-concatenated", "heads": "branched", "activation": "silu"},
    "none": {"positions": "none", "share_query_key": True, "share_encoder_decoder": True, "activation": "gelu-tanh"},
    "halves": {"sinusoid_layout": "halves", "span": "window", "window": 4, "activation": "relu2"},
}


@pytest.fixture(scope="module", autouse=True)
def silence():
    """pytest would keep every line of torch's own trace, which takes longer than the export itself."""
    logger = logging.getLogger("torch.__trace")
    logger.propagate = False
    yield
    logger.propagate = True


def run(session, **inputs):
    """The outputs by name; torch's tensors go in."""
    given = {name: np.asarray(value) for name, value in inputs.items()}
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, given), strict=True))


def decode(session, ids, past, **inputs):
    """(logits, the past of the next step)"""
    found = run(session, ids=ids, **inputs, **past)
    logits = found.pop("logits")
    return logits, {name.replace("present", "past"): value for name, value in found.items()}


def empty_past(session, n_rows):
    shapes = {one.name: one.shape for one in session.get_inputs() if one.name.startswith("past_")}
    return {name: np.zeros((n_rows, shape[1], 0, shape[3]), np.float32) for name, shape in shapes.items()}


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)


def in_three_ways(session, ids_BT, **inputs):
    """Logits of all positions at once, one by one, and of a beginning before the rest."""
    n_rows, T = ids_BT.shape
    whole, _ = decode(session, ids_BT, empty_past(session, n_rows), **inputs)
    yield whole
    for cuts in (range(1, T), range(2, T, 3)):
        past, parts = empty_past(session, n_rows), []
        for part in np.split(np.asarray(ids_BT), list(cuts), axis=1):
            logits, past = decode(session, part, past, **inputs)
            parts.append(logits)
        yield np.concatenate(parts, axis=1)


def draw(n_rows, length, seed):
    """(ids, lengths, of which the first is the longest)"""
    generator = torch.Generator().manual_seed(seed)
    lengths_B = torch.randint(1, length + 1, (n_rows,), generator=generator)
    lengths_B[0] = length
    return torch.randint(4, VOCAB_SIZE, (n_rows, length), generator=generator), lengths_B


def mask_of(lengths_B, length):
    return padding_mask(lengths_B, length)[:, 0, 0].long()


def shaken(model):
    """Nothing that is zero or one at first stays so, and running variances are about those of what comes."""
    torch.manual_seed(7)
    with torch.no_grad():
        for name, tensor in model.state_dict(keep_vars=True).items():
            tensor.add_(torch.rand_like(tensor) * 4 if name.endswith("variance") else torch.randn_like(tensor) * 0.1)
    return model.eval()


def same_logits(model, folder):
    encoder, decoder = (onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("encoder", "decoder"))
    for seed, (B, S, T) in enumerate(BATCHES):
        (source_BS, lengths_B), (target_BT, _) = draw(B, S, seed), draw(B, T, seed + 50)
        with torch.no_grad():
            expected = model(source_BS, lengths_B, target_BT).numpy()
        mask = mask_of(lengths_B, S)
        memory = run(encoder, source=source_BS, source_mask=mask)
        for found in in_three_ways(decoder, target_BT, source_mask=mask, **memory):
            close(found, expected)
        assert 0.1 < expected.std() < 50  # so that 1e-4 means something


# --- a translator --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return untrained_bundle(
        tmp_path_factory.mktemp("bundle") / "en-de", seed=9, n_encoder_layers=1, positions="rotary", norm="rmsnorm"
    )


@pytest.fixture(scope="module")
def folder(bundle, tmp_path_factory):
    """By the command."""
    out = tmp_path_factory.mktemp("exported") / "onnx"
    result = attendo("export", bundle.path, "--to", "onnx", "--out", out, "--json")
    assert result.json() == {"out": str(out)}
    assert result.err == ""
    return out


def test_the_logits_are_ours_with_a_cache_and_without(bundle, folder):
    same_logits(bundle.model(), folder)


def test_the_loop_of_the_documentation_gives_our_translations(bundle, folder, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = (block for block in blocks if "onnxruntime" in block)
    texts = sentences(11)
    monkeypatch.chdir(folder)
    exec(code, {"texts": texts})
    ours = open_engine([bundle], engine="torch").search(
        bundle.tokenizers.source.encode_batch(texts), [100] * len(texts), SearchOptions(beam=1)
    )
    library = tokenizers.Tokenizer.from_str(bundle.tokenizers.target.to_json())
    assert capsys.readouterr().out == "".join(f"{library.decode(one[0].ids)}\n" for one in ours)
    assert len({one[0].ids for one in ours}) > 7


def test_the_config_names_all(bundle, folder):
    about = json.loads((folder / "config.json").read_text())
    assert about["kind"] == "transformer"
    assert (about["n_positions"], about["languages"]) == (4096, ["en", "de"])
    assert (folder / "tokenizer.json").read_text() == bundle.tokenizers.source.to_json()
    for file, names in about["graphs"].items():
        session = onnxruntime.InferenceSession(folder / file)
        assert names["inputs"] == [one.name for one in session.get_inputs()]
        assert names["outputs"] == [one.name for one in session.get_outputs()]


# --- what is refused -----------------------------------------------------------------------------------------------


def test_a_translator_that_is_no_transformer_is_refused(tmp_path):
    bundle = recurrent_bundle(tmp_path / "bundle")
    with unchanged(tmp_path), pytest.raises(AttendoError, match="its kind is 'rnn'"):
        export_onnx(bundle, tmp_path / "new")


def test_what_exists_is_left_alone(bundle, tmp_path):
    (tmp_path / "there").mkdir()
    with unchanged(tmp_path):
        result = attendo("export", bundle.path, "--to", "onnx", "--out", tmp_path / "there")
    assert (result.code, result.out) == (4, "")
    assert "there exists already" in result.err


def test_a_missing_package_is_named(bundle, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxscript" else found(name))
    with unchanged(tmp_path), pytest.raises(AttendoError, match=r"needs onnxscript.*pip install 'attendo\[onnx\]'"):
        export_onnx(bundle, tmp_path / "new")


def test_precision_is_not_for_onnx(bundle, tmp_path):
    with unchanged(tmp_path):
        result = attendo("export", bundle.path, "--to", "onnx", "--precision", "int8", "--out", tmp_path / "new")
    assert result.code == 2
    assert "--precision int8: --to onnx has float32 only" in result.err


def test_damaged_weights_leave_nothing_behind(tmp_path):
    bundle = untrained_bundle(tmp_path / "bundle")
    bundle.weights_file.write_bytes(bundle.weights_file.read_bytes()[:-5])
    with unchanged(tmp_path), pytest.raises(AttendoError, match="damaged"):
        export_onnx(open_bundle(bundle.path), tmp_path / "new")


# --- every part, and every other Transformer -----------------------------------------------------------------------


@pytest.mark.proof
@pytest.mark.parametrize("name", PARTS)
def test_every_part(name, tmp_path):
    settings = {"n_encoder_layers": 2, "n_decoder_layers": 2, **SIZES, **PARTS[name]}
    config = TransformerConfig(source_vocab_size=VOCAB_SIZE, target_vocab_size=VOCAB_SIZE, **settings)
    model = shaken(build_model(config))
    write_graphs(model, tmp_path)
    same_logits(model, tmp_path)


@pytest.mark.proof
@pytest.mark.parametrize("parts", [{}, {"positions": "learned", "n_positions": 43, "norm_place": "pre"}])
def test_a_language_model(parts, tmp_path, monkeypatch):
    """Also with weights in a file of their own, as large ones are."""
    if parts:
        monkeypatch.setattr(onnx, "LARGEST_FILE", 0)
    model = shaken(build_gpt(GPTConfig(vocab_size=VOCAB_SIZE, n_layers=2, **SIZES, **parts)))
    write_graphs(model, tmp_path)
    assert (tmp_path / "decoder.onnx.data").exists() == bool(parts)
    decoder = onnxruntime.InferenceSession(tmp_path / "decoder.onnx")
    for seed, (B, _, T) in enumerate([*BATCHES, (5, 0, 37)]):
        ids_BT, _ = draw(B, T, seed)
        with torch.no_grad():
            expected = model(ids_BT).numpy()
        for found in in_three_ways(decoder, ids_BT):
            close(found, expected)


@pytest.mark.proof
def test_encoders(tmp_path):
    bert = shaken(build_bert(BertConfig(vocab_size=VOCAB_SIZE, n_layers=2, **SIZES)))
    classifier = shaken(
        build_classifier(ClassifierConfig(vocab_size=VOCAB_SIZE, n_layers=1, n_labels=5, pooling="mean", **SIZES))
    )
    plain = ClassifierConfig(vocab_size=VOCAB_SIZE, n_layers=0, n_labels=5, pooling="spans", **SIZES)
    for name, model in (("bert", bert), ("classifier", classifier), ("spans", shaken(build_classifier(plain)))):
        (tmp_path / name).mkdir()
        names = write_graphs(model, tmp_path / name)["model.onnx"]
        session = onnxruntime.InferenceSession(tmp_path / name / "model.onnx")
        for seed, (B, T, _) in enumerate(BATCHES):
            ids_BT, lengths_B = draw(B, T, seed)
            segments_BT = (torch.arange(T) > T // 2).long().expand(B, T)
            batch = TextBatch(ids_BT=ids_BT, lengths_B=lengths_B, segments_BT=segments_BT)
            found = run(session, ids=ids_BT, mask=mask_of(lengths_B, T), segments=segments_BT)
            with torch.no_grad():
                close(found["logits"], model(batch).numpy())
                if name == "bert":
                    close(found["vectors"], model.vectors(batch).numpy())
        assert names["outputs"] == (["vectors", "logits"] if name == "bert" else ["logits"])


@pytest.mark.proof
def test_pictures(tmp_path):
    config = VisionConfig(
        n_labels=5,
        height=12,
        width=8,
        patch=4,
        mean=(120.0, 110.0, 100.0),
        deviation=(60.0, 61.0, 62.0),
        n_layers=1,
        **SIZES,
    )
    model = shaken(build_model(config))
    write_graphs(model, tmp_path)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for n_pictures in (1, 7):
        pixels_BCYX = torch.rand(n_pictures, 3, 12, 8, generator=torch.Generator().manual_seed(n_pictures)) * 255
        with torch.no_grad():
            close(run(session, pixels=pixels_BCYX)["logits"], model(pixels_BCYX).numpy())
