"""Imported bundles, perhaps trained on, in other runtimes: with the tokenizer that they came with, and its ids."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import ctranslate2
import numpy as np
import onnxruntime
import pytest
import torch
import transformers

import attendo
from attendo.bundle import Bundle
from attendo.decoding.search import Ids, SearchOptions
from attendo.engines.choice import open_engine
from attendo.errors import BundleError, ForeignError
from attendo.interop import onnx
from attendo.interop.argos import export_argos
from attendo.interop.ctranslate2 import export_ctranslate2
from attendo.interop.exporting import export_huggingface
from attendo.interop.importing import import_model, order_of_bundle
from attendo.interop.vocabulary import Order
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.text.tokenizer import BOS, EOS, PAD, UNK
from tests.cli.command import attendo as command
from tests.cli.command import unchanged
from tests.interop import models
from tests.interop.test_exporting import with_another_start
from tests.interop.test_onnx import DOCUMENT
from tests.interop.test_text_models import CASES as TEXT_MODELS
from tests.interop.test_text_models import SIZES, import_case

BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
TEXTS = ["The old man rides 5 bicycles.", "naïve  ÄÖÜ!", "a", "The tiny man (don't) été"]
LIMIT = 17
GREEDY = SearchOptions(beam=1)


def marian_of_languages(folder: Path) -> None:
    """It is told the language of the target in the source."""
    models.marian(folder)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    (replaced,) = list(vocabulary)[-2:-1]
    named = {">>fra<<" if piece == replaced else piece: id for piece, id in vocabulary.items()}
    (folder / "vocab.json").write_text(json.dumps(named))


class Case(NamedTuple):
    """How a folder of theirs is made, the languages that it is imported for, and whether it is trained on."""

    make: Callable[[Path], Any]
    source: str | None = None
    target: str | None = None
    trained: bool = False


CASES = {
    "Marian": Case(models.marian),
    "Marian, trained on": Case(models.marian, trained=True),
    "Marian of several languages": Case(marian_of_languages, None, "fra"),
    "BART": Case(models.bart),
    "BART, trained on": Case(models.bart, trained=True),
    "M2M100": Case(models.m2m100, "de", "en"),
    "NLLB": Case(models.nllb, "deu_Latn", "deu_Latn"),
    "mBART-50": Case(models.mbart50, "de_DE", "en_XX"),
    "mBART-25": Case(models.mbart25, "fr_XX", "de_DE"),
    "Pegasus": Case(models.pegasus),
    "T5": Case(models.t5, "old", "tiny"),
}
# What is typed before a text, and what a target has to begin with.
TYPED = {"T5": "translate old to tiny: ", "Marian of several languages": ">>fra<< "}
PREFIXES = {"BART": ["<s>"], "M2M100": ["__en__"], "NLLB": ["deu_Latn"], "mBART-50": ["en_XX"]}


class Imported(NamedTuple):
    name: str
    bundle: Bundle
    order: Order

    @property
    def sources(self) -> list[list[int]]:
        return self.bundle.tokenizers.source.encode_batch([*TEXTS])

    def found(self) -> list[Ids]:
        """By greedy search, and with what a target begins with."""
        before = self.bundle.tokenizers.target.before
        engine = open_engine([self.bundle], engine="torch")
        prefixes = [before] * len(TEXTS) if before else None
        return [one[0].ids for one in engine.search(self.sources, [LIMIT] * len(TEXTS), GREEDY, prefixes=prefixes)]

    def pieces(self, tokenizer: Any) -> list[list[str]]:
        """As they are made from text by others."""
        rows = tokenizer([TYPED.get(self.name, "") + text for text in TEXTS]).input_ids
        return [tokenizer.convert_ids_to_tokens(row) for row in rows]

    @property
    def prefix(self) -> list[str]:
        return PREFIXES.get(self.name.partition(",")[0], [])


@pytest.fixture(scope="module", params=CASES)
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    folder, case = tmp_path_factory.mktemp("imported"), CASES[request.param]
    torch.manual_seed(3)
    case.make(folder / "theirs")
    bundle = import_model(
        folder / "theirs", out=folder / "bundle", source_language=case.source, target_language=case.target
    )
    order = order_of_bundle(bundle)
    assert order is not None
    return Imported(request.param, with_another_start(bundle, folder / "on") if case.trained else bundle, order)


class TestCTranslate2:
    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, imported: Imported, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return export_ctranslate2(imported.bundle, tmp_path_factory.mktemp("ctranslate2") / "folder")

    def test_the_package_and_their_tokenizer_translate_as_we_do(self, imported: Imported, folder: Path) -> None:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        translator = ctranslate2.Translator(str(folder))
        prefix = [imported.prefix] * len(TEXTS) if imported.prefix else None
        found = translator.translate_batch(
            imported.pieces(tokenizer), target_prefix=prefix, beam_size=1, max_decoding_length=LIMIT
        )
        ids = [tokenizer.convert_tokens_to_ids(one.hypotheses[0]) for one in found]
        ours = imported.found()
        assert [tuple(imported.order.back[id] for id in row) for row in ids] == ours
        assert len(set(ours)) > 1

    def test_the_scores_are_ours_among_what_may_come(self, imported: Imported, folder: Path) -> None:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model, targets = imported.bundle.model().double(), imported.found()
        assert isinstance(model, EncoderDecoder)
        names = [tokenizer.convert_ids_to_tokens([imported.order.rows[id] for id in ids]) for ids in targets]
        scored = ctranslate2.Translator(str(folder)).score_batch(imported.pieces(tokenizer), names)
        for source, target, one in zip(imported.sources, targets, scored, strict=True):
            with torch.no_grad():
                ids_S, ids_T = torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]])
                logits_TV = model(ids_S, torch.tensor([len(source) + 1]), ids_T)[0]
            logits_TV[:, [PAD, BOS, UNK]] = -torch.inf
            expected_T = logits_TV.log_softmax(-1)[range(len(target) + 1), [*target, EOS]]
            torch.testing.assert_close(torch.tensor(one.log_probs).double(), expected_T, rtol=1e-5, atol=1e-4)

    def test_the_readme_says_how(
        self,
        imported: Imported,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.chdir(folder)
        text = (folder / "README.md").read_text(encoding="utf-8")
        lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
        code = "\n".join(lines).replace("beam_size=5", f"beam_size=1, max_decoding_length={LIMIT}")
        exec(code, {"text": TEXTS[-1]})
        ours = attendo.load(imported.bundle.path, engine="torch").translate(
            TEXTS[-1], beam=1, split=False, check=False, max_length=LIMIT
        )
        # Of M2M100 the tokenizer writes the languages that come, which are no text.
        assert re.sub("__[a-z]+__", "", capsys.readouterr().out) == f"{ours.text}\n"


class Session:
    """What onnxruntime makes of a graph, by the module that the graph is traced from: tracing takes seconds."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def get_inputs(self) -> list[SimpleNamespace]:
        values: list[torch.Tensor] = []
        for value in self.graph.inputs.values():
            values += [value] if isinstance(value, torch.Tensor) else [one for pair in value for one in pair]
        named = zip(self.graph.names()["inputs"], values, strict=True)
        return [SimpleNamespace(name=name, shape=value.shape) for name, value in named]

    @torch.no_grad()
    def run(self, _: None, given: dict[str, Any]) -> list[Any]:
        assert list(given) == self.graph.names()["inputs"]
        arguments = [
            torch.tensor(given[name])
            if isinstance(value, torch.Tensor)
            else [
                tuple(torch.tensor(given[f"{name}_{what}_{layer}"]) for what in ("keys", "values"))
                for layer in range(len(value))
            ]
            for name, value in self.graph.inputs.items()
        ]
        found = self.graph.module(*arguments)
        return [one.numpy() for one in (found if isinstance(found, list) else [found])]


RUNTIMES = ["torch", pytest.param("onnxruntime", marks=pytest.mark.proof)]


@pytest.fixture(params=RUNTIMES)
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Bundle], tuple[Path, Callable[[str], Any]]]:
    """Exports a bundle → the folder, and what opens a graph."""
    graphs: dict[str, Any] = {}

    def kept(model: torch.nn.Module, _: Path) -> dict[str, Any]:
        onnx._extend_tables(model)
        graphs.update({graph.file: graph for graph in onnx._graphs(model.eval())})
        return {name: graph.names() for name, graph in graphs.items()}

    if request.param == "torch":
        monkeypatch.setattr(onnx, "write_graphs", kept)
        monkeypatch.setattr(onnxruntime, "InferenceSession", lambda path: Session(graphs[Path(path).name]))
    return lambda bundle: (onnx.export_onnx(bundle, tmp_path / "onnx"), onnxruntime.InferenceSession)


class TestONNX:
    def test_the_loop_of_the_documentation_gives_our_ids(
        self, imported: Imported, opened: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, _ = opened(imported.bundle)
        loop, lines = (
            next(block for block in BLOCKS if words in block) for words in ("InferenceSession", 'about["prompt"]')
        )
        for line in lines.splitlines():  # each stands for the one that begins as it does
            name = line.partition(" =")[0]
            loop = re.sub(rf"^{name} = .*$", lambda _, line=line: line, loop, flags=re.MULTILINE)  # type: ignore[misc]
        monkeypatch.chdir(folder)
        names: dict[str, Any] = {"texts": TEXTS, "transformers": transformers}
        exec(loop.replace("<= 100", f"<= {LIMIT}"), names)
        eos, found = names["eos"], []
        for row in names["ids"][:, 1:].tolist():
            found.append(tuple(imported.order.back[id] for id in [*row, eos][: [*row, eos].index(eos)]))
        assert found == imported.found()
        about = names["about"]
        assert set(about["never"]) == {names["pad"], names["bos"], about["ids"]["unk"]} - {eos}
        assert about["prompt"] == TYPED.get(imported.name, "")
        assert names["tokenizer"].convert_ids_to_tokens(about["prefix"]) == imported.prefix

    @pytest.mark.parametrize("name", TEXT_MODELS)
    def test_a_model_of_one_text_reads_the_ids_of_its_tokenizer(self, name: str, opened: Any, tmp_path: Path) -> None:
        (tmp_path / "theirs").mkdir()
        bundle, _, model, _ = import_case(name, tmp_path / "theirs", tmp_path)
        folder, session = opened(bundle)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        about = json.loads((folder / "config.json").read_text())
        if name in ("gpt2", "llama"):
            decoder = session(folder / "decoder.onnx")
            past = {one.name: one.shape for one in decoder.get_inputs() if one.name.startswith("past_")}
            empty = {key: np.zeros((1, shape[1], 0, shape[3]), np.float32) for key, shape in past.items()}
            batch = tokenizer(TEXTS[0], return_tensors="pt")
            logits = decoder.run(None, {"ids": batch.input_ids.numpy(), **empty})[0]
            assert (about["never"], about["ids"]["eos"]) == ([], model.config.eos_token_id)
        else:
            batch = tokenizer(TEXTS[:2], ["old", "a man"], padding=True, return_tensors="pt")
            segments = batch.get("token_type_ids", torch.zeros_like(batch.input_ids))
            given = {"ids": batch.input_ids, "mask": batch.attention_mask, "segments": segments}
            graph = session(folder / "model.onnx")
            logits = graph.run(None, {key: value.numpy() for key, value in given.items()})[-1]
            ids = [about["ids"][key] for key in ("pad", "bos", "eos", "unk")]
            named = (tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.unk_token_id)
            assert tuple(ids) == named
            assert "labels" in about or about["ids"]["mask"] == tokenizer.mask_token_id
        with torch.inference_mode():
            expected = model(**batch)[0]
        real = batch.attention_mask.bool() if expected.dim() == 3 else ...
        torch.testing.assert_close(torch.tensor(logits)[real], expected[real], rtol=0, atol=1e-4)

    def test_pictures_have_no_ids(self, opened: Any, tmp_path: Path) -> None:
        config = transformers.ViTConfig(**SIZES, image_size=14, patch_size=7)
        transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "theirs")
        transformers.ViTImageProcessor(size={"height": 14, "width": 14}).save_pretrained(tmp_path / "theirs")
        bundle = import_model(tmp_path / "theirs", out=tmp_path / "bundle")
        folder, session = opened(bundle)
        pixels = torch.rand(3, 3, 14, 14) * 255
        (logits,) = session(folder / "model.onnx").run(None, {"pixels": pixels.numpy()})
        with torch.no_grad():
            torch.testing.assert_close(torch.tensor(logits), bundle.model()(pixels), rtol=0, atol=1e-4)
        assert "ids" not in json.loads((folder / "config.json").read_text())


class TestWhatIsRefused:
    @pytest.fixture(scope="class")
    @classmethod
    def bundle(cls, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
        folder = tmp_path_factory.mktemp("refused")
        models.marian(folder / "theirs")
        return import_model(folder / "theirs", out=folder / "bundle")

    def test_argos_translate(self, bundle: Bundle, tmp_path: Path) -> None:
        out = tmp_path / "x.argosmodel"
        with unchanged(tmp_path), pytest.raises(ForeignError, match=r"imported.*Use --to ctranslate2\."):
            export_argos(bundle, out, languages=("en", "de"))
        assert command("export", bundle.path, "--to", "argos", "--languages", "en", "de", "--out", out).code == 4

    @pytest.mark.parametrize("export", [export_ctranslate2, onnx.export_onnx, export_huggingface])
    def test_a_bundle_that_does_not_say_what_it_was(
        self, bundle: Bundle, export: Callable[[Bundle, Path], Any], tmp_path: Path
    ) -> None:
        copied = bundle.copy(tmp_path / "copied", bundle.weights())
        (copied.path / "interop.json").unlink()
        with unchanged(tmp_path), pytest.raises(BundleError, match=r"interop\.json is missing"):
            export(copied, tmp_path / "out")
