"""Encoders and decoders imported with their tokenizers: the same text in, the same numbers and the same text out."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import transformers
from tokenizers import AddedToken
from tokenizers.processors import RobertaProcessing, TemplateProcessing

import attendo
from attendo.bundle import Bundle
from attendo.classifier import TextClassifier
from attendo.decoding.beam import search
from attendo.decoding.search import Hypothesis, SearchOptions
from attendo.errors import ConfigError, ForeignError
from attendo.filler import Embedder, Filler
from attendo.generator import Generator
from attendo.interop.exporting import export_huggingface
from attendo.interop.importing import import_model, order_of_bundle
from attendo.pictures import PictureClassifier
from attendo.tasks import classify
from tests.cli.command import attendo as command
from tests.family import write_labels
from tests.interop import tokenizers
from tests.interop.foreign import assert_as_generated, make_endings_likely, randomise

TEXTS = ("The old man rides.", "don't, été!", "12 tiny bicycles", "green")
PAIRS = [("The old man.", "quick"), ("a", "The hopeful man rides 7 bicycles."), ("green", "")]
SIZES = {"hidden_size": 22, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 17}
N_PIECES = 13


class Imported(NamedTuple):
    bundle: Bundle
    tokenizer: Any
    model: Any
    folder: Path


def bert(folder: Path, name: str, **more: Any) -> tuple[Any, Any]:
    tokenizer = tokenizers.word_piece(folder, lower=True)
    config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=29, **SIZES, **more)
    return tokenizer, getattr(transformers, name)(config)


def roberta(folder: Path, name: str) -> tuple[Any, Any]:
    tokenizer = tokenizers.byte_level(folder, "RobertaTokenizer", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.add_special_tokens({"mask_token": AddedToken("<mask>", lstrip=True, special=True)})  # as theirs have it
    tokenizer.backend_tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=61, type_vocab_size=1, pad_token_id=1, **SIZES
    )
    return tokenizer, getattr(transformers, name)(config)


def multilingual(folder: Path) -> tuple[Any, Any]:
    """A BERT with the pieces of a RoBERTa, as multilingual sentence encoders are."""
    tokenizer, _ = roberta(folder, "RobertaModel")
    config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=61, pad_token_id=1, **SIZES)
    return tokenizer, transformers.BertModel(config)


def distilbert(folder: Path, name: str) -> tuple[Any, Any]:
    tokenizer = tokenizers.word_piece(folder, lower=False)
    sizes = {"dim": 22, "n_layers": 2, "n_heads": 2, "hidden_dim": 17, "max_position_embeddings": 31}
    return tokenizer, getattr(transformers, name)(transformers.DistilBertConfig(vocab_size=len(tokenizer), **sizes))


def gpt2(folder: Path) -> tuple[Any, Any]:
    tokenizer = tokenizers.byte_level(folder, "GPT2Tokenizer", ["<|endoftext|>"])
    sizes = {"n_positions": 59, "n_embd": 39, "n_layer": 2, "n_head": 3, "n_inner": 17}
    config = transformers.GPT2Config(vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=0, **sizes)
    return tokenizer, transformers.GPT2LMHeadModel(config)


def llama(folder: Path) -> tuple[Any, Any]:
    tokenizer = tokenizers.from_sentencepiece(
        folder, "LlamaTokenizer", "tokenizer.model", model_type="bpe", **{**tokenizers.LLAMA, "vocab_size": 400}
    )
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    sizes = {"num_key_value_heads": 1, "head_dim": 14, "max_position_embeddings": 67}
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), bos_token_id=1, eos_token_id=2, **sizes, **SIZES)
    return tokenizer, transformers.LlamaForCausalLM(config)


CASES: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    "bert": lambda folder: bert(folder, "BertForMaskedLM"),
    "bert alone": lambda folder: bert(folder, "BertModel"),
    "bert with labels": lambda folder: bert(folder, "BertForSequenceClassification"),
    "roberta": lambda folder: roberta(folder, "RobertaForMaskedLM"),
    "roberta with labels": lambda folder: roberta(folder, "RobertaForSequenceClassification"),
    "multilingual": multilingual,
    "distilbert": lambda folder: distilbert(folder, "DistilBertForMaskedLM"),
    "distilbert with labels": lambda folder: distilbert(folder, "DistilBertForSequenceClassification"),
    "gpt2": gpt2,
    "llama": llama,
}


LANGUAGE_MODELS = ("gpt2", "llama")


def import_case(name: str, folder: Path, ours: Path) -> Imported:
    torch.manual_seed(3)
    tokenizer, model = CASES[name](folder)
    randomise(model, by=0.3)
    if name in LANGUAGE_MODELS:
        make_endings_likely(model)
    tokenizer.save_pretrained(folder)
    model.eval().save_pretrained(folder)
    return Imported(import_model(folder, out=ours / "bundle"), tokenizer, model, folder)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Imported]:
    return cache(lambda name: import_case(name, tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("ours")))


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert"])
def test_gaps_are_filled_with_the_same_pieces(name: str, imported: Callable[[str], Imported]) -> None:
    bundle, tokenizer, model, _ = imported(name)
    filler = Filler.from_bundle(bundle)
    for text in ("The old [MASK] rides 12 bicycles.", "[MASK] man", "green [MASK]", "a [MASK], [MASK]!"):
        batch = tokenizer(text.replace("[MASK]", tokenizer.mask_token), return_tensors="pt")
        with torch.inference_mode():
            logits = model(**batch).logits[0][batch.input_ids[0] == tokenizer.mask_token_id]
            logits[:, tokenizer.all_special_ids] = -torch.inf
            best = logits.topk(3).indices
        found = filler.fill(text, top=3)
        assert [[guess.piece for guess in gap] for gap in found] == [
            tokenizer.convert_ids_to_tokens(row.tolist()) for row in best
        ]


@pytest.mark.parametrize("name", ["bert", "bert alone", "multilingual", "roberta", "distilbert"])
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_texts_have_the_same_vectors(name: str, pooling: Any, imported: Callable[[str], Imported]) -> None:
    bundle, tokenizer, model, _ = imported(name)
    batch = tokenizer(list(TEXTS), padding=True, return_tensors="pt")
    with torch.inference_mode():
        vectors, real = model.base_model(**batch).last_hidden_state, batch["attention_mask"][..., None]
        expected = vectors[:, 0] if pooling == "first" else (vectors * real).sum(1) / real.sum(1)
    embedder = Embedder.from_bundle(bundle)
    np.testing.assert_allclose(embedder.embed(TEXTS, pooling=pooling), expected.numpy(), atol=1e-4)
    lengths = np.linalg.norm(embedder.embed(TEXTS, pooling=pooling, unit=True), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "bert alone", "roberta with labels", "distilbert", "gpt2", "llama"])
def test_inside_they_have_the_same_attention(name: str, imported: Callable[[str], Imported]) -> None:
    bundle, tokenizer, model, _ = imported(name)
    text = TEXTS[0]
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        expected = model(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
    found = attendo.inspect(bundle.path, text)
    assert isinstance(found, attendo.Reading)
    ours = found.maps.decoder if name in ("gpt2", "llama") else found.maps.encoder
    for mine, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["bert with labels", "roberta with labels", "distilbert with labels"])
def test_texts_and_pairs_have_the_same_labels(name: str, imported: Callable[[str], Imported]) -> None:
    bundle, tokenizer, model, _ = imported(name)
    classifier = TextClassifier.from_bundle(bundle)
    assert classifier.labels == ("LABEL_0", "LABEL_1")
    for texts in (*TEXTS, *PAIRS):
        one = [texts] if isinstance(texts, str) else [part for part in texts if part]
        with torch.inference_mode():
            expected = model(**tokenizer(*one, return_tensors="pt")).logits.softmax(-1)
        torch.testing.assert_close(classifier.probabilities([one]), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_texts_are_continued_alike(name: str, imported: Callable[[str], Imported]) -> None:
    bundle, tokenizer, model, _ = imported(name)
    order = order_of_bundle(bundle)
    assert order is not None
    generator, ours = Generator.from_bundle(bundle), bundle.tokenizers.source
    for prompt in (*TEXTS[:2], " green", "a\nb"):
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        (found,) = model.generate(ids, max_new_tokens=N_PIECES, do_sample=False, pad_token_id=0)
        begun = [order.back[id_] for id_ in ids[0]]
        assert ours.encode(prompt) == begun
        whole = ours.decode([order.back[id_] for id_ in found])
        (one,) = generator.generate(prompt, options=SearchOptions(beam=1), max_length=N_PIECES)
        assert one.text == whole[len(ours.decode(begun)) :]
        assert "".join(generator.stream(prompt, options=SearchOptions(beam=1), max_length=N_PIECES)) == one.text


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_a_beam_continues_alike(
    name: str, imported: Callable[[str], Imported], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, tokenizer, model, _ = imported(name)
    order, generator, ours = order_of_bundle(bundle), Generator.from_bundle(bundle), bundle.tokenizers.source
    assert order is not None
    searched: list[list[Hypothesis]] = []

    def recorded(*given: Any, **more: Any) -> list[list[Hypothesis]]:
        searched[:] = search(*given, **more)
        return searched

    monkeypatch.setattr("attendo.generator.search", recorded)
    options = SearchOptions(beam=4, n_best=3, length_penalty="power", alpha=0.8, stopping="heuristic")
    for prompt in TEXTS:
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        generated = model.generate(
            ids,
            num_beams=4,
            num_return_sequences=3,
            length_penalty=0.8,
            early_stopping=False,
            max_new_tokens=N_PIECES + 1,
            return_dict_in_generate=True,
            output_scores=True,
            pad_token_id=0,
        )
        found = generator.generate(prompt, options=options, max_length=N_PIECES)
        assert_as_generated(searched, generated, order, eos=tokenizer.eos_token_id, begun=ids.shape[1], at_least=1)
        texts = [
            ours.decode([order.back[id_] for id_ in row]) for row in (*ids.tolist(), *generated.sequences.tolist())
        ]
        assert [one.text for one in found] == [text[len(texts[0]) :] for text in texts[1:]]


def test_the_commands_take_it(imported: Callable[[str], Imported], tmp_path: Path) -> None:
    folder = imported("bert with labels").folder
    command("import", str(folder), "--out", str(tmp_path / "labels"), "--quiet")
    (line,) = command("classify", str(tmp_path / "labels"), "--text", "The old man.").out.splitlines()
    assert line.startswith("LABEL_")
    lines = command("generate", str(imported("bert").bundle.path), "--prompt", "The [MASK] man.", "--top", "2").out
    assert "man." in lines and "[MASK]" not in lines
    vector = command("embed", str(imported("roberta").bundle.path), "--text", "old", "--unit").json()
    assert sum(x * x for x in vector["vector"]) == pytest.approx(1, abs=1e-5)
    command("export", str(tmp_path / "labels"), "--to", "huggingface", "--out", str(tmp_path / "back"))
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_how_well_a_text_is_known_is_told_alike(imported: Callable[[str], Imported]) -> None:
    bundle, tokenizer, model, _ = imported("llama")
    text = "The old man rides 3 bicycles, oldly."
    ids = tokenizer(text, return_tensors="pt").input_ids
    with torch.inference_mode():
        expected = model(input_ids=ids, labels=ids).loss.item()
    assert Generator.from_bundle(bundle).score([text]).nats == pytest.approx(expected, abs=1e-4)


def test_an_encoder_alone_fills_nothing_and_says_so(imported: Callable[[str], Imported], tmp_path: Path) -> None:
    bundle = imported("bert alone").bundle
    with pytest.raises(ConfigError, match=r"mask_head = False.*attendo embed"):
        Filler.from_bundle(bundle).fill("The [MASK] man.")
    text = tmp_path / "text.txt"
    text.write_text("The old man.\n" * 40)
    with pytest.raises(ConfigError, match=r"mask_head = False.*--task classify"):
        attendo.train(
            settings={"task": "masked-language-model", "adapt_from": str(bundle.path), "data": {"source": str(text)}},
            out=tmp_path / "run",
        )


@pytest.mark.parametrize(
    ("name", "ways"),
    [("bert alone", {"frozen_layers": 1}), ("roberta", {"lora_rank": 2}), ("distilbert with labels", {})],
)
def test_a_classifier_is_made_of_it(
    name: str, ways: dict[str, int], imported: Callable[[str], Imported], tmp_path: Path
) -> None:
    bundle = imported(name).bundle
    labels = write_labels(tmp_path, 60)
    if name == "distilbert with labels":  # which knows its labels already
        labels.write_text(labels.read_text().replace("red\t", "LABEL_1\t").replace("blue\t", "LABEL_0\t"))
    settings = {
        "task": "classify",
        "adapt_from": str(bundle.path),
        "data": {"source": str(labels)},
        "training": {"steps": 3, "batch_tokens": 200, "learning_rate": 0.003, **ways},
    }
    chosen = classify.choose("auto", max_length=64, texts=60, start=bundle)
    assert (chosen["model"], chosen["training"]["epochs"]) == ({"kind": "classifier"}, 10)  # it goes on as it is
    assert chosen["training"]["learning_rate"] <= 1e-4
    trained = attendo.train(settings=settings, out=tmp_path / "run")
    assert trained.tokenizers == bundle.tokenizers
    kept = {"n_separators", "n_segments", "norm_eps", "position_offset"}
    assert all(getattr(trained.config.model, key) == getattr(bundle.config.model, key) for key in kept)
    before, after = bundle.weights(), trained.weights()
    moved = {name for name in before if name in after and not torch.equal(before[name], after[name])}
    assert "encoder.blocks.1.attention.query.weight" in moved
    assert ("encoder.blocks.0.attention.query.weight" in moved) == ("frozen_layers" not in ways)
    assert ("encoder.embedding.weight" in moved) == (not ways)
    model_class = export_huggingface(trained, tmp_path / "back").class_name
    assert model_class.endswith("ForSequenceClassification")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    model = getattr(transformers, model_class).from_pretrained(tmp_path / "back").eval()
    classifier = TextClassifier.from_bundle(trained)
    for texts in (["The old man."], ["green", "a quick man"]):
        with torch.inference_mode():
            expected = model(**tokenizer(*texts, return_tensors="pt")).logits.softmax(-1)
        torch.testing.assert_close(classifier.probabilities([texts]), expected, rtol=0, atol=1e-4)
    assert [model.config.id2label[number] for number in range(2)] == list(classifier.labels)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_language_model_is_trained_further(name: str, imported: Callable[[str], Imported], tmp_path: Path) -> None:
    bundle = imported(name).bundle
    text = tmp_path / "text.txt"
    text.write_text("".join(f"{line}\n" for line in tokenizers.LINES[:60]), encoding="utf-8")
    training = {"steps": 5, "batch_tokens": 120, "learning_rate": 0.003, "average": 0}
    settings = {"task": "language-model", "adapt_from": str(bundle.path), "data": {"source": str(text)}}
    trained = attendo.train(settings={**settings, "training": training}, out=tmp_path / "run")
    tested = "\n".join(tokenizers.LINES[100:110])
    before, after = (Generator.from_bundle(one).score([tested]).nats for one in (bundle, trained))
    assert after < before
    export_huggingface(trained, tmp_path / "back")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    ids = tokenizer(tokenizers.LINES[0], return_tensors="pt").input_ids
    with torch.inference_mode():
        expected = model(input_ids=ids, labels=ids).loss.item()
    assert Generator.from_bundle(trained).score([tokenizers.LINES[0]]).nats == pytest.approx(expected, abs=1e-4)


def test_a_masked_language_model_is_trained_further(imported: Callable[[str], Imported], tmp_path: Path) -> None:
    bundle = imported("roberta").bundle
    text = tmp_path / "text.txt"
    text.write_text("".join(f"{line}\n" for line in tokenizers.LINES), encoding="utf-8")
    settings = {"task": "masked-language-model", "adapt_from": str(bundle.path), "data": {"source": str(text)}}
    training = {"steps": 7, "batch_tokens": 400, "learning_rate": 0.01, "average": 0, "validate_every": 1}
    trained = attendo.train(settings={**settings, "training": training}, out=tmp_path / "run")
    losses = [entry["loss"] for entry in trained.read_log() if entry["event"] == "validation"]
    assert losses[-1] < losses[0]
    export_huggingface(trained, tmp_path / "back")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    model = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "back").eval()
    batch = tokenizer(f"The {tokenizer.mask_token} man rides.", return_tensors="pt")
    with torch.inference_mode():
        logits = model(**batch).logits[0][batch.input_ids[0] == tokenizer.mask_token_id]
        logits[:, tokenizer.all_special_ids] = -torch.inf
    (guesses,) = Filler.from_bundle(trained).fill("The [MASK] man rides.", top=3)
    assert [guess.piece for guess in guesses] == tokenizer.convert_ids_to_tokens(logits[0].topk(3).indices.tolist())


def test_pictures_of_any_size_have_the_same_labels(tmp_path: Path) -> None:
    torch.manual_seed(3)
    names = {"id2label": {0: "crane", 1: "dog", 2: "crane"}, "label2id": {"crane": 2, "dog": 1}}  # a bird, a machine
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(**SIZES, image_size=14, patch_size=7, **names)
    )
    randomise(model, by=0.3)
    processor = transformers.ViTImageProcessor(size={"height": 14, "width": 14}, image_std=[0.2, 0.3, 0.5])
    processor.save_pretrained(tmp_path / "theirs")
    model.eval().save_pretrained(tmp_path / "theirs")
    bundle = import_model(tmp_path / "theirs", out=tmp_path / "ours")
    generator = np.random.default_rng(1)
    pictures = [generator.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((14, 14), (31, 17), (5, 9))]
    with torch.inference_mode():
        inputs = transformers.AutoImageProcessor.from_pretrained(tmp_path / "theirs")(
            images=pictures, return_tensors="pt"
        )
        expected = model(**inputs).logits.softmax(-1)
    classifier = PictureClassifier.from_bundle(bundle)
    assert classifier.labels == ("crane", "dog", "crane (2)")
    torch.testing.assert_close(classifier.probabilities(pictures), expected, rtol=0, atol=1e-4)
    export_huggingface(bundle, tmp_path / "back")
    for name in ("model.safetensors", "preprocessor_config.json"):
        assert (tmp_path / "back" / name).exists()
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == (
        tmp_path / "theirs" / "model.safetensors"
    ).read_bytes()
    said = transformers.AutoConfig.from_pretrained(tmp_path / "back").to_dict()
    assert {**said, "_name_or_path": ""} == {**model.config.to_dict(), "_name_or_path": ""}


@pytest.mark.parametrize(("name", "piece"), [("bert", "[MASK]"), ("llama", "<s>")])
@pytest.mark.parametrize("id", [100_000, 2**31, 2**63])
def test_a_piece_beyond_the_vocabulary_is_refused(name: str, piece: str, id: int, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    import_case(name, tmp_path / "theirs", tmp_path / "ours")
    path = tmp_path / "theirs" / "tokenizer.json"
    library = json.loads(path.read_text(encoding="utf-8"))
    next(one for one in library["added_tokens"] if one["content"] == piece)["id"] = id
    path.write_text(json.dumps(library), encoding="utf-8")
    with pytest.raises(ForeignError, match=r"beyond|damaged"):
        attendo.import_model(tmp_path / "theirs", out=tmp_path / "again")
    assert not (tmp_path / "again").exists()
