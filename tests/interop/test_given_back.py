"""Imported bundles, perhaps trained on, in other runtimes: with the tokenizer that they came with, and its ids."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ctranslate2
import pytest
import torch
import transformers

import attendo
from attendo.bundle import Bundle
from attendo.decoding.search import Ids, SearchOptions
from attendo.engines.choice import open_engine
from attendo.errors import ForeignError
from attendo.interop.argos import export_argos
from attendo.interop.ctranslate2 import export_ctranslate2
from attendo.interop.importing import import_model, order_of_bundle
from attendo.interop.vocabulary import Order
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.text.tokenizer import BOS, EOS, PAD, UNK
from tests.cli.command import attendo as command
from tests.cli.command import unchanged
from tests.interop import models
from tests.interop.test_exporting import with_another_start

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


class TestWhatIsRefused:
    def test_argos_translate(self, tmp_path: Path) -> None:
        models.marian(tmp_path / "theirs")
        bundle = import_model(tmp_path / "theirs", out=tmp_path / "bundle")
        out = tmp_path / "x.argosmodel"
        with unchanged(tmp_path), pytest.raises(ForeignError, match=r"imported.*Use --to ctranslate2 or"):
            export_argos(bundle, out, languages=("en", "de"))
        assert command("export", bundle.path, "--to", "argos", "--languages", "en", "de", "--out", out).code == 4
