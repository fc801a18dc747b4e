"""Encoders, decoders and classifiers as folders of Hugging Face Transformers: the same text in, the same logits out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

import attendo
from attendo.bundle import Bundle, create_bundle, plain_json, weights_of
from attendo.classifier import TextClassifier
from attendo.data.text_batch import segments_batch
from attendo.errors import ForeignError
from attendo.filler import Embedder, Filler
from attendo.interop.exporting import export_huggingface
from attendo.interop.importing import import_model
from attendo.models.bert import Bert
from attendo.models.family import build_model
from attendo.models.gpt import GPT
from attendo.models.settings import BertConfig, ClassifierConfig, GPTConfig, ModelConfig, VisionConfig
from attendo.pictures import PictureClassifier
from attendo.recipe import DataConfig, RunConfig, TaskName
from attendo.tasks.language_model import GPT_PARTS, LLAMA_PARTS
from attendo.tasks.masked import PARTS as BERT_PARTS
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import BOS, PAD
from attendo.training.settings import TrainingConfig
from tests.interop import tokenizers
from tests.interop.foreign import randomise
from tests.numerals import ENGLISH
from tests.untrained import tokenizer as own_tokenizer

MAX_LENGTH = 53
SIZES: dict[str, Any] = {"n_layers": 2, "d_model": 22, "d_ff": 17, "n_heads": 2}
TEXTS = [" ".join(ENGLISH[:3]), ENGLISH[5], " ".join(ENGLISH[2:9])]
BIASED: dict[str, Any] = {**GPT_PARTS, "output_bias": True}
LABELS = ["no", "yes", "perhaps"]
ROBERTA = {"n_segments": 1, "n_separators": 2, "position_offset": 2}
LEARNED: dict[str, Any] = {"positions": "learned", "n_positions": MAX_LENGTH}


@pytest.fixture(scope="module")
def both() -> TokenizerPair:
    made = own_tokenizer()
    return TokenizerPair(made, made)


def bundle_of(
    path: Path, task: TaskName, config: ModelConfig, tokenizers: TokenizerPair | None, **facts: Any
) -> Bundle:
    """A bundle of random weights, as if it had been trained here."""
    torch.manual_seed(3)
    model = build_model(config)
    randomise(model, by=0.3)
    run = RunConfig(
        task=task,
        data=DataConfig(source="text", max_length=MAX_LENGTH),
        model=config,  # type: ignore[arg-type]
        training=TrainingConfig(steps=1),
    )
    texts = {"data.json": plain_json(facts)}
    return create_bundle(path, config=run, tokenizers=tokenizers, texts=texts, weights=weights_of(model))


def loaded(kind: Any, folder: Path) -> Any:
    model, about = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(about.values())  # nothing missing, nothing left over
    return model.eval()


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("GPT2LMHeadModel", {**GPT_PARTS, "n_positions": MAX_LENGTH}),
        ("LlamaForCausalLM", {**LLAMA_PARTS, "n_key_heads": 1, "d_key": 8, "d_value": 8}),
    ],
)
def test_a_language_model(name: str, parts: dict[str, Any], both: TokenizerPair, tmp_path: Path) -> None:
    config = GPTConfig(vocab_size=both.source.vocab_size, **SIZES, **parts)
    bundle = bundle_of(tmp_path / "ours", "language-model", config, both)
    assert export_huggingface(bundle, tmp_path / "theirs").class_name == name
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    model, ours = loaded(transformers.AutoModelForCausalLM, tmp_path / "theirs"), bundle.model()
    assert isinstance(ours, GPT) and type(model).__name__ == name
    for text in (*TEXTS, "</s> is text"):
        ids = tokenizer(text, return_tensors="pt").input_ids
        assert ids[0].tolist() == both.source.encode(text)
        with torch.inference_mode():
            close(ours(ids), model(input_ids=ids).logits)
    found = model.generate(ids, max_new_tokens=7, do_sample=False)[0].tolist()
    generator = attendo.generator.Generator.from_bundle(bundle)
    ((more, _, _),) = generator._search(both.source.encode(text), 7, attendo.SearchOptions(beam=1))
    assert found[len(ids[0]) :][: len(more)] == more


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("BertForMaskedLM", {**LEARNED, "activation": "gelu"}),
        ("BertForPreTraining", {**LEARNED, "activation": "gelu", "next_sentence": True}),
        ("RobertaPreLayerNormForMaskedLM", {**BERT_PARTS, **LEARNED}),
        ("RobertaForMaskedLM", {**LEARNED, "activation": "gelu", **ROBERTA}),
        ("RobertaForMaskedLM", {**LEARNED, "activation": "gelu", **ROBERTA, "position_offset": 1}),
    ],
)
def test_a_masked_language_model(name: str, parts: dict[str, Any], both: TokenizerPair, tmp_path: Path) -> None:
    config = BertConfig(vocab_size=both.source.vocab_size + 1, **SIZES, **parts)
    bundle = bundle_of(tmp_path / "ours", "masked-language-model", config, both)
    assert export_huggingface(bundle, tmp_path / "theirs").class_name == name
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    kind = transformers.AutoModelForPreTraining if "Training" in name else transformers.AutoModelForMaskedLM
    model, ours = loaded(kind, tmp_path / "theirs"), bundle.model()
    assert isinstance(ours, Bert) and type(model).__name__ == name
    gaps = ["one [MASK].", "([MASK]) three", "one[MASK], two [MASK]!", "one [MASK] three"]
    texts, filler = [*TEXTS, *gaps], Filler.from_bundle(bundle)
    with torch.inference_mode():
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        logits = model(**inputs)[0]
        rows = [*map(both.source.encode, TEXTS), *map(filler.encoded, gaps)]
        assert rows[-1] == [*both.source.encode("one"), both.source.vocab_size, *both.source.encode("three")]
        batch = segments_batch(rows)
        assert torch.equal(by_our_numbers(tokenizer)[inputs["input_ids"]], batch.ids_BT)
        real = inputs["attention_mask"].bool()
        close(ours(batch)[real][:, 2:], logits[real][:, 2:])  # but for <pad> and <s>, which may change places
    guesses = filler.fill(texts[-1], top=3)[0]
    hidden = logits[-1][inputs["input_ids"][-1] == tokenizer.mask_token_id][0]
    hidden[[0, 1, 2, 3, tokenizer.mask_token_id]] = -torch.inf
    assert [guess.piece for guess in guesses] == tokenizer.convert_ids_to_tokens(hidden.topk(3).indices.tolist())


def by_our_numbers(tokenizer: Any) -> torch.Tensor:
    """Our id for each of theirs."""
    ours = torch.arange(len(tokenizer))
    ours[[tokenizer.pad_token_id, tokenizer.bos_token_id]] = torch.tensor([PAD, BOS])
    return ours


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("BertForSequenceClassification", LEARNED),
        ("RobertaForSequenceClassification", {**LEARNED, **ROBERTA}),
        ("RobertaPreLayerNormForSequenceClassification", {**LEARNED, **ROBERTA, "norm_place": "pre"}),
        ("RobertaPreLayerNormForSequenceClassification", {**LEARNED, "norm_place": "pre"}),
        (
            "DistilBertForSequenceClassification",
            {**LEARNED, "n_segments": 0, "pooler_activation": "relu", "norm_eps": 1e-12},
        ),
    ],
)
def test_a_classifier(name: str, parts: dict[str, Any], both: TokenizerPair, tmp_path: Path) -> None:
    config = ClassifierConfig(vocab_size=both.source.vocab_size + 1, n_labels=3, activation="gelu", **SIZES, **parts)
    bundle = bundle_of(tmp_path / "ours", "classify", config, both, labels=LABELS)
    assert export_huggingface(bundle, tmp_path / "theirs").class_name == name
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    model = loaded(transformers.AutoModelForSequenceClassification, tmp_path / "theirs")
    assert [model.config.id2label[number] for number in range(3)] == LABELS
    classifier = TextClassifier.from_bundle(bundle)
    for texts in ([TEXTS[0]], [TEXTS[1], TEXTS[2]]):
        inputs = tokenizer(*texts, return_tensors="pt")
        assert ("token_type_ids" in inputs) == bool(config.n_segments)
        with torch.inference_mode():
            close(classifier.probabilities([texts]), model(**inputs).logits.softmax(-1))


def test_a_classifier_of_pictures(tmp_path: Path) -> None:
    scale: dict[str, Any] = {"mean": (20.0, 30.0, 50.0), "deviation": (70.0, 90.0, 110.0)}
    config = VisionConfig(n_labels=3, height=6, width=9, patch=3, norm_place="pre", activation="gelu", **scale, **SIZES)
    bundle = bundle_of(tmp_path / "ours", "classify-images", config, None, labels=LABELS)
    assert export_huggingface(bundle, tmp_path / "theirs").class_name == "ViTForImageClassification"
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "theirs")
    model = loaded(transformers.AutoModelForImageClassification, tmp_path / "theirs")
    generator = np.random.default_rng(1)
    pictures = [generator.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((6, 9), (31, 17))]
    with torch.inference_mode():
        expected = model(**processor(images=pictures, return_tensors="pt")).logits.softmax(-1)
    close(PictureClassifier.from_bundle(bundle).probabilities(pictures), expected)
    assert [model.config.id2label[number] for number in range(3)] == LABELS


@pytest.mark.parametrize(
    ("task", "config", "words"),
    [
        (
            "classify",
            ClassifierConfig(vocab_size=308, n_labels=3, pooling="mean", **SIZES, **LEARNED, activation="gelu"),
            r"model\.pooling = 'mean', and there it is 'first'",
        ),
        ("language-model", GPTConfig(vocab_size=307, **SIZES), r"model\.positions = 'sinusoidal'"),
        (
            "language-model",
            GPTConfig(vocab_size=307, **SIZES, **BIASED),
            r"model\.output_bias = True, and there it is False",
        ),
        (
            "masked-language-model",
            BertConfig(vocab_size=308, **SIZES, **LEARNED, activation="relu"),
            r"model\.activation = 'relu'",
        ),
    ],
)
def test_what_has_no_counterpart_is_named(
    task: TaskName, config: ModelConfig, words: str, both: TokenizerPair, tmp_path: Path
) -> None:
    bundle = bundle_of(tmp_path / "ours", task, config, both, labels=LABELS)
    with pytest.raises(ForeignError, match=words):
        export_huggingface(bundle, tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_a_sentence_encoder_goes_back_with_how_its_vectors_are_made(tmp_path: Path) -> None:
    tokenizer = tokenizers.word_piece(tmp_path / "theirs", lower=True)
    sizes = {"hidden_size": 22, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 17}
    model = transformers.BertModel(transformers.BertConfig(vocab_size=len(tokenizer), **sizes))
    tokenizer.save_pretrained(tmp_path / "theirs")
    model.save_pretrained(tmp_path / "theirs")
    kind = "sentence_transformers.models."
    modules = [{"path": "", "type": f"{kind}Transformer"}, {"path": "1_Pooling", "type": f"{kind}Pooling"}]
    (tmp_path / "theirs" / "modules.json").write_text(
        plain_json({"all": [*modules, {"path": "2_Normalize", "type": f"{kind}Normalize"}]})
        .split(":", 1)[1]
        .rstrip("}\n ")
    )
    (tmp_path / "theirs" / "1_Pooling").mkdir()
    (tmp_path / "theirs" / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    bundle = import_model(tmp_path / "theirs", out=tmp_path / "ours")
    export_huggingface(bundle, tmp_path / "again")
    again = import_model(tmp_path / "again", out=tmp_path / "ours again")
    assert again.config.model == bundle.config.model
    assert (again.config.model.text_vector, again.config.model.unit_vectors) == ("first", True)  # type: ignore[union-attr]
    vectors = Embedder.from_bundle(bundle).embed(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(vectors, Embedder.from_bundle(again).embed(TEXTS))
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "again"))
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    assert (tmp_path / "again" / "vocab.txt").exists() or (tmp_path / "again" / "tokenizer.json").exists()
