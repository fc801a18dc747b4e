import gzip
import json

import pytest

from tests.cli.command import attendo, unchanged
from tests.numerals import sentence_pairs

PAIRS = sentence_pairs(40, seed=61)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.en").write_text("".join(f"{source}\n" for source, _ in PAIRS))
    (tmp_path / "test.de").write_text("".join(f"{target}\n" for _, target in PAIRS))
    (tmp_path / "short.de").write_text("eins.\n")
    (tmp_path / "test.tsv.gz").write_bytes(gzip.compress("".join(f"{s}\t{t}\n" for s, t in PAIRS).encode()))
    return tmp_path


@pytest.fixture
def worse(trained, tmp_path):
    """A bundle that is certainly worse: a third of its embeddings are gone."""
    weights = {name: tensor.clone() for name, tensor in trained.bundle.weights().items()}
    weights["decoder.embedding.weight" if "decoder.embedding.weight" in weights else "encoder.embedding.weight"][
        ::3
    ] = 0
    return trained.bundle.copy(tmp_path / "worse", weights).path


def test_the_scores_for_people(trained, files):  # noqa: ARG001 (files makes them)
    result = attendo("evaluate", trained.path, "test.en", "test.de")
    lines = result.out.splitlines()
    assert (result.code, result.err, len(lines)) == (0, "", 5)
    assert [line.split(" = ")[0] for line in lines] == ["BLEU", "chrF2", "TER", "perplexity", "Search: beam"]
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in lines[0]


def test_the_scores_for_machines(trained, files):  # noqa: ARG001
    found = attendo("evaluate", trained.path, "test.en", "test.de", "--json").json()
    assert set(found) == {"bleu", "chrf", "ter", "sentences", "perplexity", "beam", "search"}
    for metric in ("bleu", "chrf", "ter"):
        assert set(found[metric]) == {"score", "signature"}
    assert found["bleu"]["score"] > 50
    assert found["perplexity"] > 1
    assert (found["sentences"], found["beam"]) == (40, 5)
    packed = attendo("evaluate", trained.path, "test.tsv.gz", "--json", "--quiet", "--beam", 5).json()
    assert packed == found


def test_the_translations_can_be_kept(trained, files):
    result = attendo("evaluate", trained.path, "test.en", "test.de", "--output", "found.de", "--beam", 1)
    assert result.code == 0
    translated = attendo("translate", trained.path, "--beam", 1, stdin=(files / "test.en").read_bytes())
    assert (files / "found.de").read_text() == translated.out


def test_the_literatures_metric(trained, files):
    raw = attendo("evaluate", trained.path, "test.en", "test.de", "--literature", "--json").json()
    assert "tok:none" in raw["literature"]["signature"]
    tokenised = "".join(f"{target[:-1].lower()} .\n" for _, target in PAIRS)
    (files / "test.lc.norm.tok.de").write_text(tokenised)
    given = attendo(
        "evaluate", trained.path, "test.en", "test.de", "--literature-reference", "test.lc.norm.tok.de", "--json"
    ).json()
    assert given["literature"] == raw["literature"]
    text = attendo("evaluate", trained.path, "test.en", "test.de", "--literature").out
    assert text.splitlines()[-1].startswith("literature's BLEU (lowercased, normalised, Moses tokens) = ")


def test_against_says_in_words_that_a_difference_is_real(trained, files, worse):  # noqa: ARG001
    result = attendo("evaluate", trained.path, "test.en", "test.de", "--against", worse)
    verdict = result.out.splitlines()[-1]
    assert verdict.startswith(f"{trained.path} is better than {worse} by ")
    assert "it is real" in verdict
    found = attendo("evaluate", trained.path, "test.en", "test.de", "--against", worse, "--json", "--seed", 3).json()
    assert found["against"]["real"] is True
    assert found["against"]["bleu"]["difference"] > 0
    assert found["against"]["baseline"] == str(worse)


def test_against_itself_says_that_there_is_no_difference(trained, files):  # noqa: ARG001
    result = attendo("evaluate", trained.path, "test.en", "test.de", "--against", trained.path)
    assert "cannot be told apart: they gave the same output for all 40 sentences." in result.out.splitlines()[-1]


def test_how_it_was_searched_is_told(trained, files):  # noqa: ARG001
    given = ["evaluate", trained.path, "test.en", "test.de", "--json"]
    sampled = attendo(*given, "--sample", "--top-p", 0.9).json()
    assert (sampled["beam"], sampled["search"]) == (None, {"sample": True, "top_p": 0.9, "seed": 1})
    assert attendo(*given, "--sample", "--seed", 3).json()["search"] == {"sample": True, "seed": 3}
    diverse = ["--beam", 4, "--diversity-groups", 2, "--no-repeat-ngram", 3, "--max-length", 61]
    found = attendo(*given, *diverse).json()["search"]
    assert found == {"beam": 4, "diversity_groups": 2, "no_repeat_ngram": 3, "max_length": 61}
    words = attendo(*given[:-1], *diverse).out.splitlines()[-1]
    assert words == "Search: beam = 4, diversity_groups = 2, no_repeat_ngram = 3, max_length = 61"


def test_an_ensemble_is_evaluated(trained, files, worse):  # noqa: ARG001
    given = ["evaluate", trained.path, "test.en", "test.de", "--beam", 1]
    alone, both = attendo(*given, "--json").json(), attendo(*given, "--ensemble", worse, "--json").json()
    assert both["perplexity"] > alone["perplexity"]
    assert alone["search"] == {"beam": 1}
    assert both["search"] == {"beam": 1, "bundles": [str(trained.path), str(worse)]}
    words = attendo(*given, "--ensemble", worse).out.splitlines()[-1]
    assert words == f"Search: beam = 1, bundles = {trained.path} + {worse}"
    verdict = attendo(*given, "--ensemble", worse, "--against", worse).out.splitlines()[-1]
    assert f"{trained.path} + {worse}" in verdict


def test_a_monster_among_good_lines(trained, files):
    long = "one two three four five. " * 4000
    (files / "test.en").write_text(f"two.\n{long}\nthree.\n")
    (files / "test.de").write_text("zwei.\neins zwei.\ndrei.\n")
    found = attendo("evaluate", trained.path, "test.en", "test.de", "--beam", 1, "--json", "--output", "found.de")
    assert json.loads(found.out)["sentences"] == 3
    lines = (files / "found.de").read_text().split("\n")
    assert (lines[0], lines[2], len(lines)) == ("zwei.", "drei.", 4)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["BUNDLE", "nowhere.en", "test.de"], 3, "nowhere.en: there is no such file"),
        (["BUNDLE", "test.en", "short.de"], 3, "test.en has 40 lines and short.de has 1"),
        (["BUNDLE", "test.en"], 3, "has to end in .tsv, .jsonl or .tmx"),
        (["nowhere", "test.en", "test.de"], 4, "there is no folder nowhere"),
        (["BUNDLE", "test.en", "test.de", "--against", "nowhere"], 4, "there is no folder nowhere"),
        (["BUNDLE", "test.en", "test.de", "--n-best", "1"], 2, "No such option"),
        (["BUNDLE", "test.en", "test.de", "--seed", "3"], 2, "--seed 3: nothing is random here without --sample or"),
        (["BUNDLE", "test.en", "test.de", "--sample", "--beam", "5"], 2, "--beam cannot be used with --sample"),
        (["BUNDLE", "test.en", "test.de", "--literature-reference", "nowhere"], 3, "nowhere: there is no such file"),
        (["BUNDLE", "test.en", "test.de", "--literature-reference", "short.de"], 3, "40 translations but 1 references"),
        (["BUNDLE", "test.en", "test.de", "--output", "none/x"], 2, "--output none/x: there is no folder none"),
        (["BUNDLE", "test.en", "test.de", "--output", "."], 2, "File '.' is a directory"),
        (["BUNDLE", "test.en", "test.de", "--device", "mps"], 2, "--device mps"),
    ],
)
def test_what_cannot_be_evaluated(trained, files, monkeypatch, arguments, code, words):
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    given = [trained.path if argument == "BUNDLE" else argument for argument in arguments]
    with unchanged(files):
        result = attendo("evaluate", *given)
    assert (result.code, result.out) == (code, ""), result.err
    assert words in result.err


def test_the_precision_is_said(trained):
    given = ["evaluate", trained.path, trained.source, trained.target, "--beam", 1, "--json"]
    exact, rounded = (attendo(*given, "--precision", precision).json() for precision in ("float32", "int8"))
    assert exact["search"] == {"beam": 1}
    assert rounded["search"] == {"beam": 1, "precision": "int8"}
    assert rounded["bleu"]["score"] == pytest.approx(exact["bleu"]["score"], abs=3)
