"""Encoders and decoders of Hugging Face Transformers, taken over: the same logits, and back again exactly.

Each model is tiny, of sizes that are primes where heads permit, with random weights. Ids and logits are compared in
their order.
"""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from attendo.bundle import weights_of
from attendo.data.text_batch import TextBatch
from attendo.decoding.beam import search
from attendo.decoding.search import SearchOptions
from attendo.errors import ForeignError
from attendo.interop.architecture import Architecture, Orders
from attendo.interop.bert import BERT, LABELLING_BERT, MASKED_BERT, PRETRAINED_BERT
from attendo.interop.distilbert import DISTILBERT, LABELLING_DISTILBERT, MASKED_DISTILBERT
from attendo.interop.folder import open_folder
from attendo.interop.gpt2 import GPT2
from attendo.interop.llama import LLAMA
from attendo.interop.roberta import (
    LABELLING_PRE_ROBERTA,
    LABELLING_ROBERTA,
    MASKED_PRE_ROBERTA,
    MASKED_ROBERTA,
    ROBERTA,
    XLM_ROBERTAS,
)
from attendo.interop.vit import VIT
from attendo.interop.vocabulary import Order, order_of
from attendo.models.bert import Bert, Classifier
from attendo.models.gpt import GPT
from attendo.models.settings import BertConfig, EncoderConfig, GPTConfig, VisionConfig
from attendo.models.vision import VisionTransformer
from attendo.text.tokenizer import EOS
from tests.interop.foreign import Foreign, randomise, taken_over

B, T, V, LABELS = 5, 13, 31, 7
LENGTHS = torch.tensor([13, 4, 8, 1, 6])
REAL = torch.arange(T) < LENGTHS[:, None]
EPS = 0.03  # of norms, so large that another one is seen
PAD = 1  # of theirs; RoBERTa's positions begin after it

NAMES = {"id2label": {i: f"label {i}" for i in range(LABELS)}, "label2id": {f"label {i}": i for i in range(LABELS)}}
SIZES = {
    "vocab_size": V,
    "hidden_size": 22,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 17,
    "max_position_embeddings": 19,
    "pad_token_id": PAD,
    "layer_norm_eps": EPS,
}
DISTILLED = {
    "vocab_size": V,
    "dim": 22,
    "n_layers": 3,
    "n_heads": 2,
    "hidden_dim": 17,
    "max_position_embeddings": 19,
    "pad_token_id": PAD,
}
GPT2_SIZES = {
    "vocab_size": V,
    "n_positions": 29,
    "n_embd": 39,
    "n_layer": 2,
    "n_head": 3,
    "n_inner": 17,
    "layer_norm_epsilon": EPS,
}
LLAMA_SIZES = {
    "vocab_size": V,
    "hidden_size": 42,
    "intermediate_size": 17,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 14,
    "rope_parameters": {"rope_type": "default", "rope_theta": 137.0},
    "rms_norm_eps": EPS,
}
ONE_END = {"bos_token_id": 30, "eos_token_id": 30}  # GPT-2 has one id for beginning, end and unknown
LLAMA_IDS = {"bos_token_id": 1, "eos_token_id": 2}

READER: dict[str, Any] = {"vocab_size": V, "positions": "learned", "activation": "gelu"}
READING = order_of(V, pad=PAD, start=5, eos=7, unk=3, last=(11,))
WRITING = order_of(V, pad=None, start=30, eos=30, unk=30)
LLAMA_ORDER = order_of(V, pad=None, start=1, eos=2, unk=0)


class Case(NamedTuple):
    architecture: Architecture
    build: Callable[[], Any]
    order: Order = READING


def roberta(name: str, **more: Any) -> Any:
    return getattr(transformers, name)(transformers.RobertaConfig(**SIZES, type_vocab_size=1, **more))


def pre_roberta(name: str, **more: Any) -> Any:
    return getattr(transformers, name)(transformers.RobertaPreLayerNormConfig(**SIZES, **more))


def bert(name: str, **more: Any) -> Any:
    return getattr(transformers, name)(transformers.BertConfig(**SIZES, **more))


def distilbert(name: str, **more: Any) -> Any:
    return getattr(transformers, name)(transformers.DistilBertConfig(**DISTILLED, **more))


def gpt2(**more: Any) -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2_SIZES, **ONE_END, **more))


def llama(**more: Any) -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**LLAMA_SIZES, **LLAMA_IDS, **more}))


def vit() -> Any:
    shared = {key: SIZES[key] for key in SIZES if key not in ("vocab_size", "max_position_embeddings", "pad_token_id")}
    config = transformers.ViTConfig(**shared, image_size=(6, 9), patch_size=3, **NAMES)
    return transformers.ViTForImageClassification(config)


ENCODERS = {
    "bert": Case(MASKED_BERT, lambda: bert("BertForMaskedLM")),
    "bert that tells what follows": Case(PRETRAINED_BERT, lambda: bert("BertForPreTraining")),
    "bert with labels": Case(LABELLING_BERT, lambda: bert("BertForSequenceClassification", **NAMES)),
    "bert alone": Case(BERT, lambda: bert("BertModel", hidden_act="gelu_new")),
    "roberta": Case(MASKED_ROBERTA, lambda: roberta("RobertaForMaskedLM")),
    "roberta with labels": Case(LABELLING_ROBERTA, lambda: roberta("RobertaForSequenceClassification", **NAMES)),
    "roberta with norms first": Case(MASKED_PRE_ROBERTA, lambda: pre_roberta("RobertaPreLayerNormForMaskedLM")),
    "roberta with norms first and labels": Case(
        LABELLING_PRE_ROBERTA, lambda: pre_roberta("RobertaPreLayerNormForSequenceClassification", **NAMES)
    ),
    "xlm-roberta": Case(
        XLM_ROBERTAS[0], lambda: transformers.XLMRobertaForMaskedLM(transformers.XLMRobertaConfig(**SIZES))
    ),
    "roberta alone": Case(ROBERTA, lambda: roberta("RobertaModel")),
    "distilbert": Case(MASKED_DISTILBERT, lambda: distilbert("DistilBertForMaskedLM")),
    "distilbert with labels": Case(
        LABELLING_DISTILBERT, lambda: distilbert("DistilBertForSequenceClassification", **NAMES)
    ),
    "distilbert alone": Case(DISTILBERT, lambda: distilbert("DistilBertModel")),
}
DECODERS = {
    "gpt2": Case(GPT2, gpt2, WRITING),
    "llama": Case(LLAMA, llama, LLAMA_ORDER),
    "llama, tied, with biases": Case(
        LLAMA, lambda: llama(tie_word_embeddings=True, attention_bias=True, mlp_bias=True), LLAMA_ORDER
    ),
}
PICTURES = {"vit": Case(VIT, vit)}  # which has no vocabulary, and looks at no order
CASES = {**ENCODERS, **DECODERS, **PICTURES}


def made(name: str, folder: Path) -> Foreign:
    architecture, build, order = CASES[name]
    torch.manual_seed(3)
    theirs = build()
    randomise(theirs, by=0.3)
    if name in DECODERS:  # some texts are to end
        with torch.no_grad():
            theirs.get_output_embeddings().weight[theirs.config.eos_token_id] *= 2
    if architecture is VIT:
        processor = transformers.ViTImageProcessor(
            size={"height": 6, "width": 9}, image_mean=[0.2, 0.3, 0.5], image_std=[0.7, 0.9, 1.1]
        )
        processor.save_pretrained(folder)
    return taken_over(theirs, architecture, folder, Orders(order, order))


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Foreign]:
    found: dict[str, Foreign] = {}

    def of(name: str) -> Foreign:
        if name not in found:
            found[name] = made(name, tmp_path_factory.mktemp("theirs"))
        return found[name]

    return of


def their_ids() -> Tensor:
    torch.manual_seed(1)
    ids = torch.randint(0, V, (B, T))
    ids[ids == PAD] = 17  # in RoBERTa what is padding has no position, wherever it stands
    ids[~REAL] = PAD
    return ids


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4)


def in_their_order(logits: Tensor, order: Order) -> Tensor:
    """Log probabilities of their ids: no other id of ours has any probability."""
    return logits.log_softmax(-1)[..., list(order.back)]


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_compute_the_same(name: str, foreign: Callable[[str], Foreign]) -> None:
    model = foreign(name)
    assert isinstance(model.config, EncoderConfig)
    ids, order = their_ids(), READING
    segments = (torch.arange(T) >= (LENGTHS // 2)[:, None]).long()
    told = {"token_type_ids": segments} if model.config.n_segments == 2 else {}
    batch = TextBatch(ids_BT=model.our_ids(ids), lengths_B=LENGTHS, segments_BT=segments)
    with torch.no_grad():
        expected = model.theirs(input_ids=ids, attention_mask=REAL.long(), **told)
        ours = model.ours
        if isinstance(ours, Classifier):
            close(ours(batch), expected.logits)
            return
        assert isinstance(ours, Bert)
        if ours.head is not None:
            logits = expected.logits if "logits" in expected else expected.prediction_logits
            close(in_their_order(ours(batch), order)[REAL], logits.log_softmax(-1)[REAL])
        else:
            close(ours.vectors(batch)[REAL], expected.last_hidden_state[REAL])
        if ours.pooler is not None and ours.follows is not None:  # theirs says with the first that it follows
            pooled = ours.pooler(ours.vectors(batch), LENGTHS)
            close(ours.follows(pooled).flip(1), expected.seq_relationship_logits)
        elif ours.pooler is not None:
            close(ours.pooler(ours.vectors(batch), LENGTHS), expected.pooler_output)


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_compute_the_same_with_a_cache_and_without(name: str, foreign: Callable[[str], Foreign]) -> None:
    model, ids = foreign(name), their_ids()
    ours, order = model.ours, model.orders.source
    assert isinstance(ours, GPT)
    with torch.no_grad():
        expected = model.theirs(input_ids=ids, attention_mask=REAL.long()).logits.log_softmax(-1)
        close(in_their_order(ours(model.our_ids(ids)), order)[REAL], expected[REAL])
        lean, cache, slow = ours.lean_step(), ours.start(B), ours.read(model.our_ids(ids[:, :4]), ours.start(B))
        for t in range(T):
            logits, cache = lean(model.our_ids(ids[:, t]), cache)
            seen = REAL[:, t]
            close(in_their_order(logits, order)[seen], expected[:, t][seen])
            if t >= 4:  # after the first four at once
                logits, slow = ours.step(model.our_ids(ids[:, t]), slow)
                close(in_their_order(logits, order)[seen], expected[:, t][seen])


@pytest.mark.parametrize("name", DECODERS)
def test_greedy_search_finds_the_same_ids(name: str, foreign: Callable[[str], Foreign]) -> None:
    model = foreign(name)
    ours, order, ends = model.ours, model.orders.source, 0
    assert isinstance(ours, GPT)
    for first in range(3, 11):
        prompt = torch.tensor([[first, 20, 9]])
        expected = model.theirs.generate(prompt, max_new_tokens=11, do_sample=False, pad_token_id=0)[0, 3:].tolist()
        ended = expected[-1] == model.theirs.config.eos_token_id
        ends += ended
        with torch.no_grad():
            begun = model.our_ids(prompt)
            ((found,),) = search(
                ours.lean_step(),
                lambda cache, rows: cache.select(rows),
                ours.read(begun[:, :-1], ours.start(1)),
                bos=int(begun[0, -1]),
                eos=EOS,
                limits=[11],
                options=SearchOptions(beam=1),
            )
        assert [order.rows[id_] for id_ in found.ids] == expected[: len(expected) - ended]
        assert found.finished == ended
    assert 0 < ends < 8, "texts that end and texts that do not"


def test_pictures_get_the_same_logits(foreign: Callable[[str], Foreign]) -> None:
    model = foreign("vit")
    assert isinstance(model.ours, VisionTransformer)
    processor = transformers.AutoImageProcessor.from_pretrained(model.folder)
    torch.manual_seed(2)
    pixels = torch.randint(0, 256, (B, 3, 6, 9), dtype=torch.uint8)
    with torch.no_grad():
        inputs = processor(images=[one.permute(1, 2, 0).numpy() for one in pixels], return_tensors="pt")
        close(model.ours(pixels.float()), model.theirs(**inputs).logits)


@pytest.mark.parametrize("name", CASES)
def test_everything_goes_back_exactly(name: str, foreign: Callable[[str], Foreign], tmp_path: Path) -> None:
    model, architecture = foreign(name), CASES[name].architecture
    tensors = architecture.their_weights(model.config, weights_of(model.ours), model.orders, {})
    expected = load_file(model.folder / "model.safetensors")
    assert tensors.keys() == expected.keys()
    for key, tensor in expected.items():
        assert torch.equal(tensors[key], tensor), key
    written = architecture.their_settings(model.config, model.orders)
    if architecture.task in ("classify", "classify-images"):
        written |= json.loads(json.dumps(NAMES))
    for file, content in architecture.files(model.config).items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps(written), encoding="utf-8")
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert architecture.our_settings(open_folder(tmp_path), model.orders) == model.config
    again = type(model.theirs).from_pretrained(tmp_path)
    for key, tensor in model.theirs.state_dict().items():
        assert torch.equal(again.state_dict()[key], tensor), key
    ours, theirs = again.config.to_dict(), model.theirs.config.to_dict()
    for key in SIZES.keys() | DISTILLED.keys() | GPT2_SIZES.keys() | LLAMA_SIZES.keys() | NAMES.keys():
        if key not in ("pad_token_id",):  # of the tokenizer, and written with it
            assert ours.get(key) == theirs.get(key), key


def test_how_vectors_are_made_goes_back_with_what_fills_gaps(foreign: Callable[[str], Foreign], tmp_path: Path) -> None:
    for name in ("bert", "roberta", "distilbert"):
        model, architecture = foreign(name), CASES[name].architecture
        config = dataclasses.replace(model.config, text_vector="first", unit_vectors=True)  # type: ignore[call-arg]
        folder = tmp_path / name
        (folder / "1_Pooling").mkdir(parents=True)
        texts = {"config.json": architecture.their_settings(config, model.orders), **architecture.files(config)}
        for file, content in texts.items():
            (folder / file).write_text(json.dumps(content), encoding="utf-8")
        assert architecture.our_settings(open_folder(folder), model.orders) == config
        assert not {"text_vector", "unit_vectors"} & texts["config.json"].keys()


def test_names_of_older_files_are_known(foreign: Callable[[str], Foreign], tmp_path: Path) -> None:
    """As the first BERT and GPT-2 are to be had: other names for norms, no common beginning, and what is left over."""
    for name, renamed, left in (
        (
            "bert",
            lambda key: key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"),
            {"bert.embeddings.position_ids": torch.arange(19)[None], "cls.seq_relationship.bias": torch.zeros(2)},
        ),
        ("gpt2", lambda key: key.removeprefix("transformer."), {"h.1.attn.bias": torch.ones(1, 1, 29, 29)}),
    ):
        model, folder = foreign(name), tmp_path / name
        folder.mkdir()
        tensors = load_file(model.folder / "model.safetensors")
        save_file({renamed(key): tensor for key, tensor in tensors.items()} | left, folder / "model.safetensors")
        (folder / "config.json").write_text((model.folder / "config.json").read_text())
        found = CASES[name].architecture.our_weights(model.config, open_folder(folder), model.orders)
        assert all(torch.equal(found[key], tensor) for key, tensor in weights_of(model.ours).items())


def test_one_tensor_under_two_names_is_refused(foreign: Callable[[str], Foreign], tmp_path: Path) -> None:
    model = foreign("gpt2")
    tensors = load_file(model.folder / "model.safetensors")
    save_file({**tensors, "wpe.weight": tensors["transformer.wpe.weight"] + 1}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((model.folder / "config.json").read_text())
    with pytest.raises(ForeignError, match=r"under two names, .*wpe\.weight and .*wpe\.weight"):
        GPT2.our_weights(model.config, open_folder(tmp_path), model.orders)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("bert", {"hidden_act": "relu"}, "hidden_act = 'relu' is something that attendo has not"),
        ("bert alone", {"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key'"),
        ("bert with labels", {"problem_type": "regression"}, "problem_type = 'regression'"),
        ("bert with labels", {"id2label": {"0": "one"}}, "has one label"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True"),
        ("llama", {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1.0}}, "of the kind 'llama3'"),
        ("llama", {"attention_bias": True}, "attention_bias = True and mlp_bias = False"),
        ("vit", {"patch_size": [3, 2]}, r"patch_size = \[3, 2\]"),
        ("vit", {"image_size": "large"}, "is damaged"),
        ("vit", {"num_channels": 10**15}, "num_channels = 10{15}: attendo's pictures have 1, which is grey, or 3"),
        ("vit", {"num_channels": 2}, "num_channels = 2: attendo's pictures have 1, which is grey, or 3"),
        ("vit", {"num_channels": 4}, "num_channels = 4"),
        ("vit", {"num_channels": "many"}, "num_channels = 'many'"),
        ("vit", {"hidden_size": "large"}, "d_model = 'large'"),
        ("roberta", {"pad_token_id": None}, "is damaged"),
        ("roberta", {"max_position_embeddings": 2}, "n_positions = 0"),
        ("gpt2", {"n_embd": {}, "n_inner": None}, "is damaged"),
        ("llama", {"num_attention_heads": 0, "head_dim": None}, "is damaged"),
        ("llama", {"rope_parameters": [1]}, "is damaged"),
    ],
)
def test_what_attendo_has_not_is_named(
    name: str, changes: dict[str, Any], words: str, foreign: Callable[[str], Foreign], tmp_path: Path
) -> None:
    model = foreign(name)
    folder = shutil.copytree(model.folder, tmp_path / "changed")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    with pytest.raises(ForeignError, match=words):
        CASES[name].architecture.our_settings(open_folder(folder), model.orders)


@pytest.mark.parametrize(
    ("architecture", "config", "words"),
    [
        (MASKED_BERT, BertConfig(vocab_size=V, positions="learned", norm_place="pre"), "norm_place = 'pre'"),
        (MASKED_BERT, BertConfig(vocab_size=V), "positions = 'sinusoidal'"),
        (MASKED_BERT, BertConfig(**READER, n_segments=0), "n_segments = 0"),
        (MASKED_BERT, BertConfig(**{**READER, "activation": "relu"}), "activation = 'relu'"),
        (GPT2, GPTConfig(vocab_size=V), "positions = 'sinusoidal'"),
        (LLAMA, GPTConfig(vocab_size=V, positions="rotary", norm="rmsnorm"), "norm_place = 'post'"),
        (
            VIT,
            VisionConfig(
                n_labels=2, height=6, width=9, patch=3, mean=(1.0,), deviation=(1.0,), norm_place="pre", pooling="mean"
            ),
            "pooling = 'mean'",
        ),
    ],
)
def test_a_setting_without_a_counterpart_is_named(architecture: Architecture, config: Any, words: str) -> None:
    with pytest.raises(ForeignError, match=f"model.{words}, (and there it is|for which there is no)"):
        architecture.their_settings(config, Orders(READING, READING))


def test_two_settings_that_are_one_there_are_named() -> None:
    parts: dict[str, Any] = {"positions": "rotary", "norm": "rmsnorm", "norm_place": "pre", "activation": "swiglu"}
    config = GPTConfig(vocab_size=V, d_key=6, d_value=4, embedding_scale="one", output_bias=False, **parts)
    assert list(LLAMA.differences(config)) == ["model.d_key = 6 and model.d_value = 4, which are one head_dim"]
