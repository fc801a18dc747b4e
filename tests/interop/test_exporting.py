"""Bundles as folders of Hugging Face Transformers: the same text in, the same pieces and probabilities out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

import attendo
from attendo.bundle import Bundle, weights_of
from attendo.decoding.search import SearchOptions
from attendo.errors import BundleError, ForeignError
from attendo.interop.exporting import counterpart, export_huggingface
from attendo.interop.importing import import_model
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.family import build_model
from attendo.models.settings import TransformerConfig
from attendo.recipe import choose
from attendo.text.tokenizer import BOS, CONTROLS, EOS, PAD
from tests.interop import models, tokenizers
from tests.interop.foreign import randomise
from tests.interop.test_importing import assert_same
from tests.numerals import ENGLISH
from tests.untrained import recurrent_bundle, untrained_bundle
from tests.untrained import tokenizer as own_tokenizer

LIMIT = 13
TEXTS = [" ".join(ENGLISH[:3]), ENGLISH[5], " ".join(ENGLISH[2:9]), "</s> is a text"]
LEARNED = {"positions": "learned", "n_positions": 113, "position_offset": 2, "embedding_norm": True}
CONCATENATED = {"positions": "sinusoidal-concatenated", "norm_place": "pre", "activation": "silu"}
T5_PARTS = {
    "positions": "t5",
    "scoring": "dot",
    "norm": "rmsnorm",
    "norm_place": "pre",
    "biases": False,
    "output_bias": False,
    "embedding_scale": "one",
}
# What each bundle becomes, and its parts.
OWN: dict[str, dict[str, Any]] = {
    "Marian": {"activation": "gelu", "n_decoder_layers": 3},
    "Pegasus": {"norm_place": "pre", "d_model": 33},
    "Pegasus, untied": {"norm_place": "pre", "activation": "silu", "tie_embeddings": "none"},
    "Blenderbot": {"norm_place": "pre", "positions": "learned", "n_positions": 113, "activation": "gelu-tanh"},
    "Blenderbot, of concatenated positions": CONCATENATED,
    "Blenderbot, of those and untied": {**CONCATENATED, "tie_embeddings": "none", "embedding_scale": "one"},
    "BART": {**LEARNED, "embedding_scale": "one"},
    "mBART": {**LEARNED, "norm_place": "pre"},
    "M2M100": {"sinusoid_layout": "fairseq", "norm_place": "pre", "output_bias": False},
    "T5": {**T5_PARTS, "tie_embeddings": "inputs", "activation": "geglu"},
}


def greedily(bundle: Bundle, texts: list[str]) -> list[str]:
    translator = attendo.load(bundle.path, engine="torch")
    return [one.text for one in translator.translate_many(texts, options=SearchOptions(beam=1), max_length=LIMIT)]


def theirs(folder: Path) -> tuple[Any, Any]:
    model, about = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not any(about.values())  # nothing missing, nothing left over
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


def generated(folder: Path, texts: list[str], **options: Any) -> list[str]:
    model, tokenizer = theirs(folder)
    encoded = tokenizer(texts, return_tensors="pt", padding=True)
    found = model.generate(**encoded, max_new_tokens=LIMIT, **options)
    return tokenizer.batch_decode(found, skip_special_tokens=True)


@pytest.fixture(scope="module", params=OWN)
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Bundle, Path]:
    folder = tmp_path_factory.mktemp("own")
    bundle = untrained_bundle(folder / "bundle", **{"tie_embeddings": "all", **OWN[request.param]})
    if request.param in ("M2M100", "T5"):  # which have no bias there
        weights = bundle.weights()
        weights["output.bias"].zero_()
        bundle.save_weights(weights, {})
    return export_huggingface(bundle, folder / "theirs").name, bundle, folder / "theirs"


class TestModelsThatWereTrainedHere:
    def test_become_what_they_are(self, own: tuple[str, Bundle, Path], request: pytest.FixtureRequest) -> None:
        assert own[0] == request.node.callspec.params["own"].partition(",")[0]

    def test_the_same_pieces_and_probabilities(self, own: tuple[str, Bundle, Path]) -> None:
        _, bundle, folder = own
        model, tokenizer = theirs(folder)
        encoded = tokenizer(TEXTS, return_tensors="pt", padding=True)
        lengths = encoded["attention_mask"].sum(1)
        for text, ids, length in zip(TEXTS, encoded["input_ids"].tolist(), lengths.tolist(), strict=True):
            assert ids[:length] == [*bundle.tokenizers.source.encode(text), EOS]
        torch.manual_seed(1)
        target = torch.randint(4, 300, (len(TEXTS), 7))
        target[:, 0] = model.config.decoder_start_token_id
        assert tokenizer.decode(target[0, :1]) == CONTROLS[BOS]
        # By our numbers: where an architecture has its padding elsewhere, <pad> and <s> have changed places.
        places = torch.arange(300)
        places[[tokenizer.pad_token_id, tokenizer.bos_token_id]] = torch.tensor([PAD, BOS])
        ours = bundle.model().double()  # as wild as these weights are, float32 would leave a digit less
        assert isinstance(ours, EncoderDecoder)
        with torch.no_grad():
            expected = ours(encoded["input_ids"], lengths, places[target]).log_softmax(-1)
            found = model.double()(**encoded, decoder_input_ids=target).logits.log_softmax(-1)
            found[..., [PAD, BOS]] = found[..., [tokenizer.pad_token_id, tokenizer.bos_token_id]]
        torch.testing.assert_close(found, expected, rtol=5e-5, atol=1e-4)

    def test_generate_gives_the_greedy_translation(self, own: tuple[str, Bundle, Path]) -> None:
        """Piece by piece: what bytes that are no text are decoded to is not the same everywhere."""
        _, bundle, folder = own
        model, tokenizer = theirs(folder)
        found = model.generate(**tokenizer(TEXTS[:3], return_tensors="pt", padding=True), max_new_tokens=LIMIT)
        expected = attendo.load(bundle.path, engine="torch").translate_many(
            TEXTS[:3], options=SearchOptions(beam=1), max_length=LIMIT, scores=True
        )
        for ids, translation in zip(found.tolist(), expected, strict=True):
            pieces = [one.piece for one in translation.candidates[0].pieces[:-1]]  # the last is the end
            assert tokenizer.convert_ids_to_tokens(ids, skip_special_tokens=True) == pieces

    def test_come_back(self, own: tuple[str, Bundle, Path], tmp_path: Path) -> None:
        """As translators that say the same."""
        name, bundle, folder = own
        back = import_model(folder, out=tmp_path / "back")
        found, expected = (
            attendo.load(one.path, engine="torch").translate_many(
                TEXTS[:3], options=SearchOptions(beam=1), max_length=LIMIT, scores=True
            )
            for one in (back, bundle)
        )
        for ours, theirs in zip(found, expected, strict=True):
            assert [one.piece for one in ours.candidates[0].pieces] == [
                one.piece for one in theirs.candidates[0].pieces
            ], name

    @pytest.mark.parametrize(("max_length", "n_positions"), [(61, 1024), (1009, 1061)])
    def test_there_are_positions_for_the_longest_text(self, tmp_path: Path, max_length: int, n_positions: int) -> None:
        parts = {"tie_embeddings": "all", **OWN["Pegasus"]}
        export_huggingface(untrained_bundle(tmp_path / "bundle", max_length=max_length, **parts), tmp_path / "theirs")
        model, _ = theirs(tmp_path / "theirs")
        assert model.config.max_position_embeddings == n_positions == len(model.model.decoder.embed_positions.weight)
        assert model.generation_config.max_length == max_length + 52  # with <s> and </s>


@pytest.mark.parametrize(("passes", "expected"), [(1, "Pegasus"), (18, "Blenderbot"), (120, "Pegasus")])
def test_what_auto_chooses_has_a_counterpart(passes: float, expected: str) -> None:
    parts = choose("auto", pairs=29_000, passes=passes)["model"]
    config = TransformerConfig(**{**parts, "source_vocab_size": 37, "target_vocab_size": 37})
    architecture, there, weights = counterpart(config, weights_of(build_model(config)), n_positions=41)
    assert architecture.name == expected
    assert weights.keys() == weights_of(build_model(there)).keys()


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"positions": "sinusoidal-concatenated", "norm_place": "post"}, "model.norm_place = 'post'"),
        ({"positions": "rotary"}, "model.positions = 'rotary'"),
        ({"share_layers": "all"}, "model.share_layers = 'all'"),
        ({"activation": "relu2"}, "model.activation = 'relu2'"),
    ],
)
def test_a_model_without_a_counterpart_is_refused_by_the_setting(
    tmp_path: Path, parts: dict[str, Any], named: str
) -> None:
    bundle = untrained_bundle(tmp_path / "bundle", **{"tie_embeddings": "all", **parts})
    with pytest.raises(ForeignError) as refused:
        export_huggingface(bundle, tmp_path / "theirs")
    assert named in str(refused.value)
    assert not (tmp_path / "theirs").exists()


def test_ids_for_what_is_hidden_go_out_as_rows_that_never_come(tmp_path: Path) -> None:
    """A translator that was made from a denoising model has them."""
    size = own_tokenizer().vocab_size + 7
    more: dict[str, Any] = {"n_extra": 7, "source_vocab_size": size, "target_vocab_size": size, "tie_embeddings": "all"}
    bundle = untrained_bundle(tmp_path / "bundle", **OWN["Pegasus"], **more)
    export_huggingface(bundle, tmp_path / "theirs")
    model, tokenizer = theirs(tmp_path / "theirs")
    assert model.config.vocab_size == len(tokenizer) + 7 == size
    assert set(range(len(tokenizer), len(tokenizer) + 7)) <= set(model.generation_config.suppress_tokens)
    assert generated(tmp_path / "theirs", TEXTS[:3]) == greedily(bundle, TEXTS[:3])


def test_what_is_no_transformer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ForeignError, match=r"model\.kind = 'rnn'"):
        export_huggingface(recurrent_bundle(tmp_path / "bundle"), tmp_path / "theirs")


def test_nothing_is_written_over(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="exists already"):
        export_huggingface(untrained_bundle(tmp_path / "bundle"), tmp_path)


def assert_the_same_tensors(folder: Path, other: Path) -> None:
    before, after = (load_file(one / "model.safetensors") for one in (folder, other))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


class TestImportedModels:
    """A BART, whose start is also its end: one row there, and two here."""

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("theirs")
        pieces = tokenizers.byte_level(folder, "BartTokenizer", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
        pieces.save_pretrained(folder)
        config = transformers.BartConfig(
            vocab_size=len(pieces),
            d_model=22,
            encoder_layers=2,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=17,
            decoder_ffn_dim=17,
            max_position_embeddings=67,
            forced_bos_token_id=0,
            forced_eos_token_id=None,
        )
        torch.manual_seed(3)
        model = transformers.BartForConditionalGeneration(config)
        randomise(model, by=0.3)
        model.save_pretrained(folder)
        return folder

    @pytest.fixture(scope="class")
    def bundle(self, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
        return import_model(folder, out=tmp_path_factory.mktemp("ours") / "bundle")

    def test_go_back_exactly(self, folder: Path, bundle: Bundle, tmp_path: Path) -> None:
        export_huggingface(bundle, tmp_path / "back")
        assert_the_same_tensors(folder, tmp_path / "back")
        _, tokenizer = theirs(tmp_path / "back")
        expected = transformers.AutoTokenizer.from_pretrained(folder)
        assert type(tokenizer) is type(expected)
        assert tokenizer("The old man.")["input_ids"] == expected("The old man.")["input_ids"]
        said, kept = (json.loads((one / "config.json").read_text()) for one in (tmp_path / "back", folder))
        assert {key: said[key] for key in kept} == kept
        assert generated(tmp_path / "back", ["The old man rides."], suppress_tokens=[1, 3, 4]) == greedily(
            bundle, ["The old man rides."]
        )

    def test_a_start_that_was_trained_on_gets_a_row_of_its_own(self, bundle: Bundle, tmp_path: Path) -> None:
        trained = with_another_start(bundle, tmp_path / "trained")
        export_huggingface(trained, tmp_path / "back")
        model, _ = theirs(tmp_path / "back")
        assert model.config.decoder_start_token_id == model.config.vocab_size - 1
        texts = ["The old man rides.", "tiny"]
        never = [1, 3, 4, model.config.decoder_start_token_id]  # <pad>, <unk>, <mask>, and where decoding starts
        assert generated(tmp_path / "back", texts, suppress_tokens=never) == greedily(trained, texts)
        assert all(greedily(trained, texts))
        assert greedily(trained, texts) != greedily(bundle, texts)


# A folder of theirs, and the languages it is imported for, which are not those that it was saved with.
MANY: dict[str, tuple[Any, str | None, str | None]] = {
    "M2M100": (models.m2m100, "de", "en"),
    "NLLB": (models.nllb, "deu_Latn", "deu_Latn"),  # to English these weights say the same of every text
    "mBART-50": (models.mbart50, "de_DE", "en_XX"),
    "mBART-25": (models.mbart25, "fr_XX", "de_DE"),
}


@pytest.fixture(scope="module", params=MANY)
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Bundle]:
    folder, (make, source, target) = tmp_path_factory.mktemp("many"), MANY[request.param]
    torch.manual_seed(3)
    make(folder / "theirs")
    bundle = import_model(folder / "theirs", out=folder / "bundle", source_language=source, target_language=target)
    return folder / "theirs", bundle


def with_another_start(bundle: Bundle, path: Path) -> Bundle:
    """As if it had been trained on: where decoding starts is no longer the copy of a piece."""
    weights = bundle.weights()
    torch.manual_seed(5)
    start_D = weights["encoder.embedding.weight"][BOS]
    start_D += torch.randn(start_D.shape)
    return bundle.copy(path, weights)


def assert_same_there(bundle: Bundle, folder: Path) -> Any:
    """The model of a folder generates what the bundle translates, with what attendo never writes ruled out."""
    model, tokenizer = theirs(folder)
    start, eos = model.generation_config.decoder_start_token_id, tokenizer.eos_token_id
    never = sorted({tokenizer.pad_token_id, tokenizer.unk_token_id, start} - {eos})
    assert_same(bundle.path, model, tokenizer, suppress_tokens=never)
    return model


class TestImportedModelsOfManyLanguages:
    def test_go_back_with_the_languages_they_were_imported_for(
        self, many: tuple[Path, Bundle], tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        folder, bundle = many
        export_huggingface(bundle, tmp_path / "back")
        assert_same_there(bundle, tmp_path / "back")
        assert_the_same_tensors(folder, tmp_path / "back")
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
        assert (tokenizer.src_lang, tokenizer.tgt_lang) == MANY[request.node.callspec.params["many"]][1:]

    def test_languages_that_the_tokenizer_was_not_told_are_told(self, tmp_path: Path) -> None:
        models.m2m100(tmp_path / "theirs")
        about = tmp_path / "theirs" / "tokenizer_config.json"
        told = json.loads(about.read_text())
        about.write_text(json.dumps({key: value for key, value in told.items() if not key.endswith("_lang")}))
        bundle = import_model(tmp_path / "theirs", out=tmp_path / "bundle", source_language="de", target_language="en")
        export_huggingface(bundle, tmp_path / "back")
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
        assert tokenizer.convert_ids_to_tokens(tokenizer("man")["input_ids"])[0] == "__de__"

    def test_a_start_of_its_own_leaves_all_other_ids_alone(
        self, many: tuple[Path, Bundle], tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        if request.node.callspec.params["many"] == "mBART-25":
            pytest.skip("decoding starts with a piece that is nothing else")
        trained = with_another_start(many[1], tmp_path / "trained")
        export_huggingface(trained, tmp_path / "back")
        model = assert_same_there(trained, tmp_path / "back")
        assert model.config.decoder_start_token_id == model.config.vocab_size - 1
        before, after = (transformers.AutoTokenizer.from_pretrained(one) for one in (many[0], tmp_path / "back"))
        known = before.get_vocab()
        assert {piece: id for piece, id in after.get_vocab().items() if piece in known} == known
        assert after.decode([model.config.decoder_start_token_id], skip_special_tokens=True) == ""
        assert model.generation_config.suppress_tokens == [model.config.decoder_start_token_id]

    def test_a_start_of_its_own_is_never_chosen_where_config_json_alone_tells(self, tmp_path: Path) -> None:
        models.m2m100(tmp_path / "theirs")
        (tmp_path / "theirs" / "generation_config.json").unlink()
        bundle = import_model(tmp_path / "theirs", out=tmp_path / "bundle", source_language="de", target_language="en")
        export_huggingface(with_another_start(bundle, tmp_path / "trained"), tmp_path / "back")
        assert not (tmp_path / "back" / "generation_config.json").exists()
        model, _ = theirs(tmp_path / "back")
        assert model.generation_config.suppress_tokens == [model.config.vocab_size - 1]


def test_a_t5_goes_back(tmp_path: Path) -> None:
    models.t5(tmp_path / "theirs")
    bundle = import_model(tmp_path / "theirs", out=tmp_path / "bundle")
    export_huggingface(bundle, tmp_path / "back")
    assert_same_there(bundle, tmp_path / "back")
    assert_the_same_tensors(tmp_path / "theirs", tmp_path / "back")


def gpt2(folder: Path) -> None:
    pieces = tokenizers.byte_level(folder, "GPT2Tokenizer", ["<|endoftext|>"])
    pieces.save_pretrained(folder)
    sizes = {"n_embd": 22, "n_layer": 1, "n_head": 2, "n_inner": 17, "n_positions": 67}
    config = transformers.GPT2Config(vocab_size=len(pieces), bos_token_id=0, eos_token_id=0, embd_pdrop=0.3, **sizes)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


@pytest.mark.parametrize("make", [models.marian, gpt2])
def test_what_attendo_has_no_setting_for_goes_back_as_it_was(make: Callable[[Path], Any], tmp_path: Path) -> None:
    make(tmp_path / "theirs")
    export_huggingface(import_model(tmp_path / "theirs", out=tmp_path / "bundle"), tmp_path / "back")
    said, kept = (json.loads((tmp_path / one / "config.json").read_text()) for one in ("back", "theirs"))
    assert {key: said[key] for key in kept} == kept
