"""attendo export --to ctranslate2: what the plain `ctranslate2` package makes of the folder."""

import json

import ctranslate2
import numpy as np
import pytest
import tokenizers

from attendo.decoding.search import SearchOptions
from attendo.engines.choice import open_engine
from attendo.errors import AttendoError
from attendo.interop.ctranslate2 import export_ctranslate2
from attendo.text.tokenizer import BOS, PAD, UNK
from tests.cli.command import attendo, unchanged
from tests.untrained import recurrent_bundle, sentences, untrained_bundle

TEXTS = sentences(13)
GREEDY = SearchOptions(beam=1)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """Of a model that would say what never comes, if it could."""
    folder = tmp_path_factory.mktemp("bundle")
    drawn = untrained_bundle(folder / "drawn", seed=9, positions="rotary")
    weights = drawn.weights()
    weights["output.bias"][[PAD, BOS, UNK]] = 9
    return drawn.copy(folder / "en-de", weights)


@pytest.fixture(scope="module")
def folders(bundle, tmp_path_factory):
    """float32 and int8."""
    folder = tmp_path_factory.mktemp("exported")
    return [export_ctranslate2(bundle, folder / precision, precision=precision) for precision in ("float32", "int8")]


def greedy(translator, tokenizer, **options):
    found = translator.translate_batch(
        [tokenizer.encode(text).tokens for text in TEXTS], beam_size=1, max_decoding_length=29, **options
    )
    return [[tokenizer.token_to_id(piece) for piece in one.hypotheses[0]] for one in found]


def test_the_package_alone_translates_as_our_engine(bundle, folders):
    """Nothing is told to it but the pieces: it adds EOS and leaves out what never comes."""
    sources = bundle.tokenizers.source.encode_batch(TEXTS)
    expected = open_engine([bundle], engine="torch").search(sources, [29] * len(TEXTS), GREEDY)
    tokenizer = tokenizers.Tokenizer.from_file(str(folders[0] / "tokenizer.json"))
    found = greedy(ctranslate2.Translator(str(folders[0])), tokenizer)
    assert found == [list(one[0].ids) for one in expected]
    assert len({tuple(ids) for ids in found}) > 9  # they say something


def test_int8_in_the_file_is_what_ctranslate2_makes_of_float32_itself(folders):
    whole, small = folders
    size = [(folder / "model.bin").stat().st_size for folder in folders]
    assert size[1] < 0.6 * size[0]  # biases, norms and positions stay as they are
    tokenizer = tokenizers.Tokenizer.from_file(str(small / "tokenizer.json"))
    made = ctranslate2.Translator(str(whole), compute_type="int8")
    read = ctranslate2.Translator(str(small))
    assert "int8" in read.compute_type
    assert greedy(made, tokenizer) == greedy(read, tokenizer)
    pieces = [tokenizer.encode(text).tokens for text in TEXTS]
    for one, other in zip(made.score_batch(pieces, pieces), read.score_batch(pieces, pieces), strict=True):
        np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-5)


def test_the_readme_says_how(bundle, folders, monkeypatch, capsys):
    engine, source = open_engine([bundle], engine="torch"), bundle.tokenizers.source
    found = engine.search(source.encode_batch(TEXTS), [29] * len(TEXTS), GREEDY)
    ended = [(text, one[0].ids) for text, one in zip(TEXTS, found, strict=True) if one[0].finished]
    library = tokenizers.Tokenizer.from_str(bundle.tokenizers.target.to_json())
    monkeypatch.chdir(folders[0])
    text = (folders[0] / "README.md").read_text(encoding="utf-8").replace("beam_size=5", "beam_size=1")
    code = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert len(code) == 3
    for text, ids in ended:
        exec("\n".join(code), {"text": text})
        assert capsys.readouterr().out == library.decode(ids) + "\n"
    assert len(ended) > 2


def test_the_command(bundle, folders, tmp_path):
    result = attendo(
        "export", bundle.path, "--to", "ctranslate2", "--precision", "int8", "--out", tmp_path / "new", "--json"
    )
    assert result.json() == {"out": str(tmp_path / "new")}
    for file in folders[1].iterdir():
        assert (tmp_path / "new" / file.name).read_bytes() == file.read_bytes()
    with unchanged(tmp_path):
        again = attendo("export", bundle.path, "--to", "ctranslate2", "--out", tmp_path / "new")
    assert (again.code, again.out) == (4, "")
    assert "new exists already. Choose another folder" in again.err


@pytest.mark.parametrize(
    ("parts", "words"),
    [({"positions": "complex"}, "positions 'complex'"), ({"norm": "batchnorm"}, "norm 'batchnorm'")],
)
def test_a_model_that_ctranslate2_cannot_run_is_refused(tmp_path, parts, words):
    bundle = untrained_bundle(tmp_path / "bundle", **parts)
    with unchanged(tmp_path), pytest.raises(AttendoError, match=words):
        export_ctranslate2(bundle, tmp_path / "new")


def test_a_translator_that_is_no_transformer_is_refused(tmp_path):
    bundle = recurrent_bundle(tmp_path / "bundle")
    with unchanged(tmp_path), pytest.raises(AttendoError, match="its kind is 'rnn'"):
        export_ctranslate2(bundle, tmp_path / "new")


def test_a_damaged_bundle_leaves_nothing_behind(tmp_path):
    bundle = untrained_bundle(tmp_path / "bundle")
    file = bundle.weights_file
    file.write_bytes(file.read_bytes()[:-3])
    with unchanged(tmp_path), pytest.raises(AttendoError, match="damaged"):
        export_ctranslate2(bundle, tmp_path / "new")


def test_the_vocabularies_are_the_pieces(bundle, folders):
    for side in ("source", "target"):
        pieces = json.loads((folders[0] / f"{side}_vocabulary.json").read_text())
        assert pieces == bundle.tokenizers.source.pieces(range(bundle.tokenizers.source.vocab_size))
