"""attendo export --to argos: the package, used just as argostranslate 1.11 uses it.

That package itself pins versions that attendo cannot be installed beside; benchmarks/interop.py runs it.
"""

import json
import zipfile

import ctranslate2
import pytest
from sentencepiece import SentencePieceProcessor

from attendo.bundle import create_bundle, open_bundle, weights_of
from attendo.decoding.search import SearchOptions
from attendo.engines.choice import open_engine
from attendo.errors import AttendoError
from attendo.interop.argos import export_argos
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import train_tokenizer
from tests.cli.command import attendo, unchanged
from tests.numerals import ENGLISH, GERMAN
from tests.untrained import sentences, tokenizer, untrained_bundle, untrained_model

TEXTS = sentences(13)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return untrained_bundle(tmp_path_factory.mktemp("bundle") / "en-de", seed=9, positions="rotary")


def other_tokenizers(bundle, path, tokenizers, **about):
    """The same run with other tokenizers, and what is replaced in its data."""
    from dataclasses import replace

    model = untrained_model(tokenizers.source.vocab_size, seed=9, target_vocab_size=tokenizers.target.vocab_size)
    config = replace(bundle.config, model=model.config, data=replace(bundle.config.data, **about))
    return create_bundle(path, config=config, tokenizers=tokenizers, texts={}, weights=weights_of(model))


def translated(package, folder, texts):
    """As argostranslate does it with ARGOS_BEAM_SIZE=1, of whole lines."""
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder)
    (found,) = folder.iterdir()
    about = json.loads((found / "metadata.json").read_text())
    pieces = SentencePieceProcessor(model_file=str(found / "sentencepiece.model"))
    model = ctranslate2.Translator(str(found / "model"), compute_type="float32")
    results = model.translate_batch(
        [pieces.encode(text, out_type=str) for text in texts],
        target_prefix=None,
        replace_unknowns=True,
        max_batch_size=32,
        batch_type="tokens",
        beam_size=1,
        num_hypotheses=1,
        length_penalty=0.2,
        return_scores=True,
    )
    said = [pieces.decode_pieces(one.hypotheses[0]).replace("▁", " ").replace("_", " ") for one in results]
    return about, [text.removeprefix(" ") for text in said]


def ours(bundle, texts):
    found = open_engine([bundle], engine="torch").search(
        bundle.tokenizers.source.encode_batch(texts), [256] * len(texts), SearchOptions(beam=1)
    )
    return [bundle.tokenizers.target.decode(one[0].ids) for one in found]


def without_broken_characters(text):
    """What is no UTF-8 libraries replace by one or by several of these."""
    return text.replace("�", "").replace(" ⁇ ", "")


def test_it_translates_as_we_do(bundle, tmp_path):
    result = attendo("export", bundle.path, "--to", "argos", "--out", tmp_path / "en-de.argosmodel", "--json")
    assert result.json() == {"out": str(tmp_path / "en-de.argosmodel")}
    (tmp_path / "packages").mkdir()
    about, found = translated(tmp_path / "en-de.argosmodel", tmp_path / "packages", TEXTS)
    assert [without_broken_characters(text) for text in found] == [
        without_broken_characters(text) for text in ours(bundle, TEXTS)
    ]
    assert len(set(found)) > 7
    assert {about[name] for name in ("from_code", "from_name", "to_code", "to_name")} == {
        "en",
        "English",
        "de",
        "German",
    }


def test_a_tokenizer_for_each_side(bundle, tmp_path):
    """What the target's pieces spell SentencePiece sees without knowing them."""
    german = train_tokenizer([" ".join(GERMAN)] * 3, kind="bpe", vocab_size=311)
    apart = other_tokenizers(bundle, tmp_path / "bundle", TokenizerPair(tokenizer(), german))
    (tmp_path / "packages").mkdir()
    export_argos(apart, tmp_path / "x.argosmodel")
    _, found = translated(tmp_path / "x.argosmodel", tmp_path / "packages", TEXTS)
    assert [without_broken_characters(text) for text in found] == [
        without_broken_characters(text) for text in ours(apart, TEXTS)
    ]


def test_the_same_bundle_gives_the_same_bytes(bundle, tmp_path):
    one, other = (export_argos(open_bundle(bundle.path), tmp_path / f"{name}.argosmodel") for name in ("a", "b"))
    small = export_argos(bundle, tmp_path / "c.argosmodel", precision="int8", languages=("pt-BR", "xx"))
    with zipfile.ZipFile(one) as first, zipfile.ZipFile(other) as second, zipfile.ZipFile(small) as third:
        for name in first.namelist():
            assert name.endswith("README.md") or first.read(name) == second.read(name)
        about = json.loads(third.read("translate-pt-BR_xx-1_0/metadata.json"))
        assert (about["from_name"], about["to_name"]) == ("Portuguese", "xx")
    assert small.stat().st_size < one.stat().st_size


@pytest.mark.parametrize(
    ("out", "languages", "words"),
    [
        ("en-de", None, "by the ending .argosmodel"),
        ("x.argosmodel", ("../en", "de"), "'../en' is no language code"),
        ("there.argosmodel", None, "there.argosmodel exists already"),
    ],
)
def test_what_is_refused(bundle, tmp_path, out, languages, words):
    (tmp_path / "there.argosmodel").write_text("mine")
    with unchanged(tmp_path), pytest.raises(AttendoError, match=words):
        export_argos(bundle, tmp_path / out, languages=languages)


def test_languages_must_be_known(bundle, tmp_path):
    both = tokenizer()
    nameless = other_tokenizers(bundle, tmp_path / "bundle", TokenizerPair(both, both), languages=None)
    with unchanged(tmp_path):
        result = attendo("export", nameless.path, "--to", "argos", "--out", tmp_path / "x.argosmodel")
    assert (result.code, result.out) == (2, "")
    assert "does not say which languages it translates. Use --languages" in result.err


def test_wordpiece_is_refused(bundle, tmp_path):
    words = train_tokenizer([" ".join(ENGLISH), " ".join(GERMAN)] * 3, kind="wordpiece", vocab_size=311)
    cut = other_tokenizers(bundle, tmp_path / "bundle", TokenizerPair(words, words))
    with unchanged(tmp_path), pytest.raises(AttendoError, match="WordPiece tokenizer"):
        export_argos(cut, tmp_path / "x.argosmodel")


@pytest.mark.parametrize("options", [["--precision", "int8"], ["--languages", "en", "de"]])
def test_options_of_other_formats(bundle, tmp_path, options):
    with unchanged(tmp_path):
        result = attendo("export", bundle.path, "--to", "attendo", "--out", tmp_path / "x", *options)
    assert (result.code, result.out) == (2, "")
    assert options[0] in result.err


def test_an_unknown_format(bundle, tmp_path):
    with unchanged(tmp_path):
        result = attendo("export", bundle.path, "--to", "tensorflow", "--out", tmp_path / "x")
    assert (result.code, result.out) == (2, "")
    assert "'tensorflow' is not one of" in result.err
