"""Folders of Hugging Face become bundles that say the same; those that mean harm, or are not whole, become nothing."""

import json
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import attendo
from attendo.decoding.search import SearchOptions
from attendo.drafting import one_line
from attendo.errors import ConfigError, ForeignError
from attendo.inspection.ranking import rank_heads
from attendo.interop.folder import LARGEST_FILE, Folder, open_folder, said_id
from attendo.interop.vocabulary import Order
from attendo.tasks.translate import TranslationJudge
from attendo.translator import Translator, nats_per_piece
from tests.cli.command import attendo as command
from tests.cli.command import unchanged
from tests.interop import models
from tests.interop.foreign import assert_as_generated

TEXTS = ["The old man rides 5 bicycles.", "naïve  ÄÖÜ!", "a", "The tiny man (don't) été"]


def load(bundle: Path) -> Translator:
    return attendo.load(bundle, engine="torch", device="cpu")


def assert_same(bundle: Path, model: Any, tokenizer: Any, **options: Any) -> None:
    """Greedy search finds the ids that `generate` finds, with what attendo never writes ruled out."""
    translator, order = load(bundle), Order.from_json(attendo.open_bundle(bundle).interop()["order"])
    before = translator.tokenizers.target.before
    seen = set()
    for text in TEXTS:
        source = translator.tokenizers.source.encode(text)
        search = SearchOptions(beam=1)
        ((found,),) = translator.engine.search([source], [23], search, prefixes=[before] if before else None)
        with torch.inference_mode():
            ids = model.generate(
                **tokenizer(text, return_tensors="pt"),
                num_beams=1,
                do_sample=False,
                max_new_tokens=23,
                **{"suppress_tokens": [tokenizer.pad_token_id, tokenizer.unk_token_id], **options},
            )[0, 1:].tolist()
        ids = [id for id in ids if id != tokenizer.eos_token_id]
        assert list(found.ids) == [order.back[id] for id in ids]
        if not before:
            said = tokenizer.decode(ids, skip_special_tokens=True)
            assert one_line(translator.tokenizers.target.decode(found.ids)) == said
        by_text = translator.translate(text, beam=1, split=False, check=False, max_length=23)
        assert by_text.text == one_line(translator.tokenizers.target.decode(found.ids))
        seen.add(found.ids)
    assert len(seen) > 1


def assert_same_beams(bundle: Path, model: Any, tokenizer: Any, **options: Any) -> None:
    """Beam search finds the ids that `generate` finds, in their order and with their scores."""
    translator, order = load(bundle), Order.from_json(attendo.open_bundle(bundle).interop()["order"])
    search = SearchOptions(beam=4, n_best=3, length_penalty="power", alpha=0.8, stopping="heuristic", no_repeat_ngram=2)
    drafts = translator.drafter.drafts(TEXTS, max_length=23, split=False, check=False)
    found = translator.search([sentence for draft in drafts for sentence in draft.sentences], search)
    with torch.inference_mode():
        generated = model.generate(
            **tokenizer(TEXTS, return_tensors="pt", padding=True),
            num_beams=4,
            num_return_sequences=3,
            length_penalty=0.8,
            early_stopping=False,
            no_repeat_ngram_size=2,
            max_new_tokens=24,
            return_dict_in_generate=True,
            output_scores=True,
            **{"suppress_tokens": [tokenizer.pad_token_id, tokenizer.unk_token_id], **options},
        )
    assert_as_generated(found, generated, order, eos=tokenizer.eos_token_id, at_least=3)


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian")
    return models.with_endings(models.marian, folder / "theirs"), folder / "theirs"


@pytest.fixture(scope="module")
def m2m100(tmp_path_factory):
    folder = tmp_path_factory.mktemp("m2m100")
    theirs, bundle = models.with_endings(models.m2m100, folder / "theirs"), folder / "bundle"
    languages = ("--source-language", "en", "--target-language", "de")
    return theirs, bundle, command("import", folder / "theirs", "--out", bundle, *languages, "--quiet")


class TestTheSameTranslations:
    def test_marian_by_the_command(self, marian, tmp_path):
        (model, tokenizer), folder = marian
        found = command("import", folder, "--out", tmp_path / "bundle", "--json").json()
        assert found == {"bundle": str(tmp_path / "bundle"), "task": "translate"}
        assert_same(tmp_path / "bundle", model, tokenizer)
        assert_same_beams(tmp_path / "bundle", model, tokenizer)
        facts = command("info", tmp_path / "bundle", "--json").json()
        assert facts["data"]["imported"] == {"architecture": "MarianMTModel", "folder": "theirs"}
        assert facts["scores"]["weights"] == "imported from theirs"
        assert "Marian" in (tmp_path / "bundle" / "card.md").read_text()

    def test_scores_are_theirs(self, marian, tmp_path):
        (model, tokenizer), folder = marian
        attendo.import_model(folder, out=tmp_path / "bundle")
        target = "The green man"
        (score,) = load(tmp_path / "bundle").score(["The old man"], [target])
        labels = tokenizer(text_target=target, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            loss = model(**tokenizer("The old man", return_tensors="pt"), labels=labels).loss
        assert score.n_pieces == labels.shape[1]
        assert score.log_prob == pytest.approx(-float(loss) * labels.shape[1], abs=1e-4)

    def test_bart(self, tmp_path):
        model, tokenizer = models.with_endings(models.bart, tmp_path / "theirs")
        attendo.import_model(tmp_path / "theirs", out=tmp_path / "bundle")
        translator = load(tmp_path / "bundle")
        assert translator.tokenizers.source.pieces(translator.tokenizers.source.before) == ["their <s>"]
        assert_same(tmp_path / "bundle", model, tokenizer, forced_bos_token_id=0)
        assert_same_beams(tmp_path / "bundle", model, tokenizer, forced_bos_token_id=0)

    def test_pegasus(self, tmp_path):
        model, tokenizer = models.with_endings(models.pegasus, tmp_path / "theirs")
        attendo.import_model(tmp_path / "theirs", out=tmp_path / "bundle")
        assert_same(tmp_path / "bundle", model, tokenizer)
        assert_same_beams(tmp_path / "bundle", model, tokenizer)

    def test_m2m100_for_one_pair_of_languages(self, m2m100):
        (model, tokenizer), bundle, found = m2m100
        assert (found.code, found.out, found.err) == (0, f"{bundle}\n", "")
        assert load(bundle).languages == ("en", "de")
        assert_same(bundle, model, tokenizer, forced_bos_token_id=tokenizer.get_lang_id("de"))
        assert_same_beams(bundle, model, tokenizer, forced_bos_token_id=tokenizer.get_lang_id("de"))
        inspected = attendo.inspect(bundle, "The old man")
        assert isinstance(inspected, attendo.Inspection)
        assert inspected.source.pieces[0] == "__en__"
        assert inspected.target.pieces[0] == "__de__"
        assert (inspected.tokens[0].chosen.piece, inspected.tokens[0].chosen.log_prob) == ("__de__", 0.0)
        assert [one.piece for one in inspected.tokens[0].alternatives] == ["__de__"]
        translator = load(bundle)
        translation = translator.translate("The old man", split=False, check=False, scores=True)
        assert inspected.log_prob == pytest.approx(translation.log_prob, abs=1e-4)
        opened, pair = attendo.open_bundle(bundle), (["The old man"], ["The green man"])
        loss = nats_per_piece(translator.score(*pair))
        assert rank_heads(opened, *pair, device="cpu").whole.loss == pytest.approx(loss, abs=1e-4)
        valid = list(zip(*pair, strict=True))
        prepared: Any = SimpleNamespace(tokenizers=opened.tokenizers, valid=valid, facts={"pairs": {}})
        judge = TranslationJudge(opened.model(), prepared, opened.config, torch.device("cpu"))
        assert nats_per_piece(judge.validator.translator.score(*pair)) == pytest.approx(loss, abs=1e-4)

    @pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
    def test_what_a_target_has_to_begin_with_is_certain(self, engine, m2m100):
        (model, tokenizer), bundle, _ = m2m100
        source, target = "The old man", "The green man"
        labels = tokenizer(text_target=target, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            logits = model(**tokenizer(source, return_tensors="pt"), labels=labels).logits[0]
        language, *others = logits.log_softmax(-1).gather(1, labels[0, :, None])[:, 0].tolist()
        assert language < -1  # what it would count, were it not forced
        reference, translator = load(bundle), attendo.load(bundle, engine=engine, device="cpu")
        (score,) = translator.score([source], [target])
        assert score.n_pieces == labels.shape[1]
        assert score.log_prob == pytest.approx(sum(others), abs=1e-4)

        searches = [SearchOptions(beam=1)]
        if engine == "torch":
            searches += [SearchOptions(), SearchOptions(sample=True), SearchOptions(beam=4, diversity_groups=2)]
        n_given = len(translator.tokenizers.target.encode("The"))
        for options in searches:
            for prefix in (None, "The"):
                (draft,) = translator.drafter.drafts(
                    [source], prefixes=[prefix], max_length=11, split=False, check=False
                )
                found, expected = (
                    one.search(draft.sentences, options, scores=True)[0][0] for one in (translator, reference)
                )
                assert translator.tokenizers.target.pieces(found.ids[:1]) == ["__de__"]
                assert found.token_log_probs[0] == 0
                assert found.log_prob == pytest.approx(sum(found.token_log_probs))
                assert found.score == pytest.approx(found.log_prob / options.penalty(len(found.ids) + 1))
                assert found.ids == expected.ids
                assert found.score == pytest.approx(expected.score, abs=1e-4)
                if prefix:  # what a user forces counts
                    assert list(found.token_log_probs[1:n_given]) == pytest.approx(others[: n_given - 1], abs=1e-4)

    @pytest.mark.parametrize(
        ("make", "source", "target"), [(models.nllb, "eng_Latn", "deu_Latn"), (models.mbart50, "en_XX", "de_DE")]
    )
    def test_languages_of_one_tokenizer_file(self, make, source, target, tmp_path):
        model, tokenizer = models.with_endings(make, tmp_path / "theirs")
        attendo.import_model(
            tmp_path / "theirs", out=tmp_path / "bundle", source_language=source, target_language=target
        )
        assert load(tmp_path / "bundle").languages == (source.partition("_")[0], target.partition("_")[0])
        forced = tokenizer.convert_tokens_to_ids(target)
        assert_same(tmp_path / "bundle", model, tokenizer, forced_bos_token_id=forced)
        assert_same_beams(tmp_path / "bundle", model, tokenizer, forced_bos_token_id=forced)

    def test_a_t5_is_told_what_to_do(self, tmp_path):
        model, tokenizer = models.with_endings(models.t5, tmp_path / "theirs")
        attendo.import_model(tmp_path / "theirs", out=tmp_path / "plain")
        assert_same(tmp_path / "plain", model, tokenizer)
        assert_same_beams(tmp_path / "plain", model, tokenizer)
        attendo.import_model(
            tmp_path / "theirs", out=tmp_path / "told", source_language="English", target_language="German"
        )
        assert load(tmp_path / "told").languages == ("en", "de")
        told = load(tmp_path / "told").tokenizers.source.encode("The old man")
        plain = load(tmp_path / "plain").tokenizers.source.encode("translate English to German: The old man")
        assert told == plain
        with pytest.raises(ConfigError, match="both languages"):
            attendo.import_model(tmp_path / "theirs", out=tmp_path / "half", source_language="English")

    def test_a_marian_of_several_target_languages(self, marian, tmp_path):
        (_, tokenizer), folder = marian
        shutil.copytree(folder, tmp_path / "theirs")
        vocabulary = json.loads((folder / "vocab.json").read_text())
        replaced = list(vocabulary)[-2:-1]
        vocabulary = {">>fra<<" if piece in replaced else piece: id for piece, id in vocabulary.items()}
        (tmp_path / "theirs" / "vocab.json").write_text(json.dumps(vocabulary))
        with pytest.raises(ConfigError, match=r"of 1 languages.*--target-language"):
            attendo.import_model(tmp_path / "theirs", out=tmp_path / "bundle")
        attendo.import_model(tmp_path / "theirs", out=tmp_path / "bundle", target_language="fra")
        source = load(tmp_path / "bundle").tokenizers.source
        theirs = type(tokenizer).from_pretrained(tmp_path / "theirs")
        order = Order.from_json(attendo.open_bundle(tmp_path / "bundle").interop()["order"])
        ids = theirs(">>fra<< The man", add_special_tokens=False)["input_ids"]
        assert source.encode("The man") == [order.back[id] for id in ids]
        assert source.pieces(source.before) == [">>fra<<"]

    def test_an_mbart_of_25_languages_ends_a_source_with_its_language(self, tmp_path):
        model, tokenizer = models.with_endings(models.mbart25, tmp_path / "theirs")
        attendo.import_model(
            tmp_path / "theirs", out=tmp_path / "bundle", source_language="en_XX", target_language="de_DE"
        )
        source = load(tmp_path / "bundle").tokenizers.source
        assert source.pieces(source.encode("man"))[-2:] == ["</s>", "en_XX"]
        start = tokenizer.convert_tokens_to_ids("de_DE")
        never = [tokenizer.pad_token_id, tokenizer.unk_token_id, start]
        assert_same(tmp_path / "bundle", model, tokenizer, decoder_start_token_id=start, suppress_tokens=never)
        assert_same_beams(tmp_path / "bundle", model, tokenizer, decoder_start_token_id=start, suppress_tokens=never)

    @pytest.mark.parametrize(
        ("source", "target", "words"),
        [
            (None, "de", "of 100 languages.*--source-language"),
            ("en", None, "--target-language"),
            ("en", "ger", "--target-language ger: none of the 100 languages.*nearest"),
        ],
    )
    def test_a_language_that_is_missing_or_unknown(self, source, target, words, tmp_path):
        models.m2m100(tmp_path / "theirs")
        with pytest.raises(ConfigError, match=words):
            attendo.import_model(
                tmp_path / "theirs", out=tmp_path / "bundle", source_language=source, target_language=target
            )

    def test_a_model_without_languages_has_none_to_choose(self, tmp_path):
        models.bart(tmp_path / "theirs")
        with pytest.raises(ConfigError, match="BART has no languages"):
            attendo.import_model(tmp_path / "theirs", out=tmp_path / "bundle", target_language="de")

    def test_a_model_of_pictures_has_none_either(self, tmp_path):
        sizes = {"hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 7}
        vit = transformers.ViTConfig(image_size=4, patch_size=2, **sizes)
        transformers.ViTForImageClassification(vit).save_pretrained(tmp_path / "theirs")
        text("preprocessor_config.json", "{}")(tmp_path / "theirs")
        with pytest.raises(ConfigError, match="ViT has no languages"):
            attendo.import_model(tmp_path / "theirs", out=tmp_path / "bundle", target_language="de")
        assert not (tmp_path / "bundle").exists()

    def test_half_precision_and_shards(self, marian, tmp_path):
        _, folder = marian
        whole = attendo.import_model(folder, out=tmp_path / "whole").weights()
        for half in (torch.float16, torch.bfloat16):
            shutil.copytree(folder, tmp_path / str(half))
            (tmp_path / str(half) / "model.safetensors").unlink()
            tensors = {name: one.to(half) for name, one in load_file(folder / "model.safetensors").items()}
            split(tensors, tmp_path / str(half))
            found = attendo.import_model(tmp_path / str(half), out=tmp_path / f"bundle-{half}").weights()
            assert found.keys() == whole.keys()
            for name, tensor in found.items():
                assert tensor.dtype == torch.float32
                assert torch.equal(tensor, whole[name].to(half).float())


def split(tensors: dict[str, torch.Tensor], folder: Path) -> None:
    """The tensors in three files and an index."""
    names = sorted(tensors)
    where = {name: f"model-{number % 3}.safetensors" for number, name in enumerate(names)}
    for file in set(where.values()):
        save_file({name: tensors[name] for name in names if where[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))


def config(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        found = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**found, **values}))

    return change


def ids(**values: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "generation_config.json").write_text(json.dumps(values))

    return change


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return changed


def header(change: Callable[[dict[str, Any]], object], *, length: int | None = None) -> Callable[[Path], None]:
    """A safetensors file whose header says something else."""

    def changed(folder: Path) -> None:
        content = (folder / "model.safetensors").read_bytes()
        (size,) = struct.unpack("<Q", content[:8])
        said = json.loads(content[8 : 8 + size])
        change(said)
        new = json.dumps(said).encode()
        (folder / "model.safetensors").write_bytes(
            struct.pack("<Q", len(new) if length is None else length) + new + content[8 + size :]
        )

    return changed


def text(name: str, content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content)


class Marking:
    """What leaves a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def pickled(name: str) -> Callable[[Path], None]:
    """A pickle that leaves a file beside the folder, instead of the weights."""

    def change(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        torch.save(Marking(folder.parent / "ran"), folder / name)

    return change


def linked(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).rename(folder.parent / "elsewhere")
        (folder / name).symlink_to(folder.parent / "elsewhere")

    return change


def circle(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(folder / "other")
        (folder / "other").symlink_to(folder / name)

    return change


def sparse(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.truncate(LARGEST_FILE + 1)

    return change


def sparse_rows(n: int) -> Callable[[Path], None]:
    """A vocabulary as large as a tensor for which the file has room, but no bytes."""

    def change(folder: Path) -> None:
        config(vocab_size=n)(folder)
        header(lambda said: said.update(x={"dtype": "U8", "shape": [n], "data_offsets": [0, n]}))(folder)
        with (folder / "model.safetensors").open("ab") as file:
            file.truncate(file.tell() + n)

    return change


def shards(**values: Any) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / "model.safetensors.index.json").write_text(json.dumps(values))

    return change


def twice(folder: Path) -> None:
    """Two files have a tensor, with different values, and the index names the first."""
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors, folder / "model-0.safetensors")
    save_file({FIRST: -tensors.pop(FIRST), "other": torch.zeros(2)}, folder / "model-1.safetensors")
    where = dict.fromkeys((FIRST, *tensors), "model-0.safetensors")
    shards(weight_map={**where, "other": "model-1.safetensors"})(folder)


def exchanged(folder: Path) -> None:
    """Every tensor is there, in another file than the index says."""
    split(load_file(folder / "model.safetensors"), folder)
    index = folder / "model.safetensors.index.json"
    where = json.loads(index.read_text())["weight_map"]
    following = {f"model-{number}.safetensors": f"model-{(number + 1) % 3}.safetensors" for number in range(3)}
    shards(weight_map={name: following[file] for name, file in where.items()})(folder)


def without(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change


def a_folder(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return change


FIRST = "model.shared.weight"
HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pickle only": (pickled("pytorch_model.bin"), "only as pytorch_model.bin.*could run code.*save_pretrained"),
    "a pickle by another name": (pickled("model.safetensors"), "model.safetensors is damaged"),
    "no weights": (without("model.safetensors"), "model.safetensors is missing"),
    "a link to other weights": (linked("model.safetensors"), "leads out of the folder.*cp -rL"),
    "a link to another config": (linked("config.json"), "leads out of the folder"),
    "a link to another vocabulary": (linked("vocab.json"), "leads out of the folder"),
    "an index that leads out": (shards(weight_map={FIRST: "../elsewhere.safetensors"}), "leads out of the folder"),
    "an index of a name with a zero": (shards(weight_map={FIRST: "x\0y"}), r"no file can be .x\\x00y"),
    "an index of half a letter": (shards(weight_map={FIRST: "x\ud800"}), r"no file can be .x\\ud800"),
    "an index of an endless name": (shards(weight_map={FIRST: "x" * 300}), "no file can be .xxx.*too long"),
    "links in a circle": (circle("config.json"), "no file can be .config.json"),
    "an index of nothing": (shards(weights=[]), "no weight_map"),
    "an index of a missing file": (shards(weight_map={FIRST: "x.safetensors"}), "x.safetensors is missing"),
    "an index of a missing tensor": (shards(weight_map={"x": "model.safetensors"}), "lacks the tensor x"),
    "a tensor in two files": (
        twice,
        f"the tensor {FIRST} twice, in model-0.safetensors and in model-1.safetensors",
    ),
    "an index of the wrong file": (exchanged, r"model-\d.safetensors lacks the tensor"),
    "remote code": (config(auto_map={"AutoModel": "evil.Model"}), "code of its own.*auto_map"),
    "trusted code": (config(trust_remote_code=True), "code of its own.*trust_remote_code"),
    "a tokenizer of remote code": (
        text("tokenizer_config.json", '{"auto_map": {"AutoTokenizer": ["evil.Tokenizer", null]}}'),
        "tokenizer_config.json asks for code of its own.*auto_map",
    ),
    "an absurd vocabulary": (config(vocab_size=10**12), "vocab_size = 1000000000000"),
    "absurd layers": (config(encoder_layers=10**9), "n_encoder_layers = 1,000,000,000"),
    "an absurd width": (config(d_model=2**40), "d_model = 1,099,511,627,776"),
    "layers that are not there": (config(encoder_layers=2), "lacks the tensor model.encoder.layers.1"),
    "a number that is none": (config(d_model="wide"), "d_model"),
    "an id beyond the vocabulary": (ids(decoder_start_token_id=10**6), "beyond"),
    "an unknown architecture": (config(architectures=["EvilModel"]), "EvilModel.*MarianMTModel"),
    "no architecture": (config(architectures=None), "the architecture None"),
    "an unknown activation": (config(activation_function="exec"), "activation_function = 'exec'"),
    "a wrong shape": (weights(lambda all: all.update({FIRST: all[FIRST][:, :-1].clone()})), f"{FIRST} has shape"),
    "a missing tensor": (
        weights(lambda all: all.pop("model.encoder.layers.0.fc1.weight")),
        "lacks the tensor model.encoder.layers.0.fc1.weight",
    ),
    "an extra tensor": (
        weights(lambda all: all.update({"extra.weight": torch.zeros(2)})),
        "has the tensor extra.weight",
    ),
    "an absurd header": (header(dict.copy, length=2**60), "header claims"),
    "an absurd tensor": (header(lambda said: said[FIRST].update(shape=[2**40, 2**20])), "does not fit"),
    "a tensor without columns": (
        header(lambda said: said.update(x={"dtype": "U8", "shape": [10**12, 0], "data_offsets": [0, 0]})),
        "does not fit",
    ),
    "a vocabulary of a sparse file": (sparse_rows(2**23), "8,388,608 rows is more"),
    "a negative shape": (header(lambda said: said[FIRST].update(shape=[-1, 2])), "impossible shape"),
    "an unknown type": (header(lambda said: said[FIRST].update(dtype="F8_E4M3")), "F8_E4M3"),
    "a header of nothing": (text("model.safetensors", "\x08\0\0\0\0\0\0\0[1,2,33]"), "damaged"),
    "an empty file": (text("model.safetensors", ""), "header claims"),
    "no tokenizer": (
        without("vocab.json", "source.spm", "target.spm"),
        "has no tokenizer",
    ),
    "broken JSON": (text("config.json", "{"), "config.json is not valid JSON"),
    "deep JSON": (text("config.json", "[" * 100_000), "config.json is not valid JSON"),
    "JSON that is a list": (text("config.json", "[]"), "must hold keys and values"),
    "no text": (lambda folder: (folder / "config.json").write_bytes(b"\xff\xfe"), "not UTF-8"),
    "no config": (without("config.json"), "config.json is missing"),
    "a folder as a config": (
        a_folder("config.json"),
        "config.json is missing",
    ),
    "a vocabulary of other things": (text("vocab.json", '{"a": [1]}'), "damaged or of an unknown form"),
    "a huge vocabulary": (sparse("vocab.json"), "no such file needs more"),
    "a broken SentencePiece file": (text("source.spm", "no"), "no SentencePiece file"),
    "a SentencePiece file less": (without("target.spm"), "target.spm is missing"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_or_broken_folder_is_refused_with_a_sentence(what, marian, tmp_path):
    _, folder = marian
    shutil.copytree(folder, tmp_path / "theirs")
    change, words = HOSTILE[what]
    change(tmp_path / "theirs")
    with unchanged_if_small(tmp_path):
        found = command("import", tmp_path / "theirs", "--out", tmp_path / "bundle", "--quiet")
    assert found.code == 4
    assert found.out == ""
    (line,) = found.err.splitlines()
    assert re.search(words, line), line


def test_what_is_said_of_a_pickle_helps(marian, tmp_path):
    (model, _), folder = marian
    shutil.copytree(folder, tmp_path / "theirs")
    (tmp_path / "theirs" / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "theirs" / "pytorch_model.bin")
    with pytest.raises(ForeignError, match=r"NAME\.from_pretrained"):
        attendo.import_model(tmp_path / "theirs", out=tmp_path / "bundle")
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    getattr(transformers, name).from_pretrained(tmp_path / "theirs").save_pretrained(tmp_path / "theirs")
    weights = attendo.import_model(tmp_path / "theirs", out=tmp_path / "bundle").weights()
    expected = attendo.import_model(folder, out=tmp_path / "other").weights()
    assert all(torch.equal(weights[name], one) for name, one in expected.items())


def test_the_pickle_of_these_tests_would_run(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "model.safetensors").touch()
    pickled("model.bin")(tmp_path / "theirs")
    assert not (tmp_path / "ran").exists()
    torch.load(tmp_path / "theirs" / "model.bin", weights_only=False)
    assert (tmp_path / "ran").exists()


def unchanged_if_small(folder: Path) -> Any:
    """Nothing is left behind; a file of hundreds of megabytes is not read for that."""
    small = all(path.stat().st_size < LARGEST_FILE for path in folder.rglob("*") if path.is_file())
    return unchanged(folder if small else folder / "nothing")


@pytest.mark.parametrize(
    ("config", "generation", "expected"),
    [
        (7, None, 7),
        (None, 5, 5),
        (7, 5, 5),
        ([7, 5], None, 7),
        (7, [5, 7, 3], 7),
        (2, [5, 7], 5),
        ([7, 5], [3, 5], 3),
        (-1, None, None),
        (7, -1, 7),
        ([], None, None),
    ],
)
def test_which_id_counts_is_what_generate_goes_by(config, generation, expected, tmp_path):
    text("generation_config.json", json.dumps({"eos_token_id": generation}))(tmp_path)
    assert said_id(Folder(tmp_path, {"eos_token_id": config}), "eos_token_id") == expected


@pytest.mark.parametrize(("name", "words"), [("missing", "does not exist"), ("file", "is a file")])
def test_what_is_no_folder(name, words, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ForeignError, match=words):
        open_folder(tmp_path / name)


def test_a_bundle_is_never_written_over(marian, tmp_path):
    _, folder = marian
    (tmp_path / "bundle").mkdir()
    found = command("import", folder, "--out", tmp_path / "bundle")
    assert found.code == 4
    assert "exists already" in found.err
