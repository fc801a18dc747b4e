import json

import pytest

from tests.cli.command import attendo, unchanged


def test_one_text(trained):
    result = attendo("translate", trained.path, "--text", "five green.")
    assert (result.code, result.out, result.err) == (0, "fünf grün.\n", "")


def test_lines_of_standard_input(trained):
    result = attendo("translate", trained.path, "--quiet", stdin="one.\n\ntwo three.\n \nfour.")
    assert (result.code, result.out, result.err) == (0, "eins.\n\nzwei drei.\n \nvier.\n", "")


def test_no_lines_give_no_lines(trained):
    assert attendo("translate", trained.path, stdin="").out == ""


@pytest.mark.parametrize("strange", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"])
def test_a_line_ends_at_a_line_feed_only(trained, strange):
    result = attendo("translate", trained.path, stdin=f"one.\ntwo{strange}three.\nfour.\n")
    lines = result.out.split("\n")
    assert len(lines) == 4
    assert (lines[0], lines[2], lines[3]) == ("eins.", "vier.", "")


def test_windows_line_ends_and_a_byte_order_mark(trained):
    plain = attendo("translate", trained.path, stdin="one.\ntwo.\n")
    windows = attendo("translate", trained.path, stdin=b"\xef\xbb\xbfone.\r\ntwo.\r\n")
    assert windows.out == plain.out == "eins.\nzwei.\n"


def test_json_is_one_object_a_line(trained):
    result = attendo("translate", trained.path, "--json", "--n-best", 2, stdin="five.\n\ntwo.\n")
    found = [json.loads(line) for line in result.out.split("\n")[:-1]]
    assert [one["source"] for one in found] == ["five.", "", "two."]
    assert [one["text"] for one in found] == ["fünf.", "", "zwei."]
    assert "fünf" in result.out
    first = found[0]
    assert first["parts"] == 1
    assert (first["warnings"], first["terms"]) == ([], [])
    for candidate in first["candidates"]:
        assert set(candidate) == {"text", "log_prob", "score", "finished", "pieces"}
        assert sum(piece["log_prob"] for piece in candidate["pieces"]) == pytest.approx(candidate["log_prob"])
    assert (first["score"], first["log_prob"]) == (
        first["candidates"][0]["score"],
        first["candidates"][0]["log_prob"],
    )


def test_n_best_are_numbered_lines_with_scores(trained):
    result = attendo("translate", trained.path, "--n-best", 3, stdin="one two.\nthree.\n")
    rows = [line.split("\t") for line in result.out.split("\n")[:-1]]
    assert [row[0] for row in rows] == ["1", "1", "1", "2", "2", "2"]
    scores = [float(row[1]) for row in rows]
    assert scores[:3] == sorted(scores[:3], reverse=True)
    assert (rows[0][2], rows[3][2]) == ("eins zwei.", "drei.")


def test_the_options_of_the_search_arrive(trained):
    short = attendo("translate", trained.path, "--text", "one two three.", "--max-length", 1, "--json").json()
    assert not short["candidates"][0]["finished"]
    greedy = attendo("translate", trained.path, "--text", "one two.", "--beam", 1, "--json").json()
    plain = attendo(
        *("translate", trained.path, "--text", "one two.", "--length-penalty", "none", "--json", "--stopping", "first"),
        *("--batch-size", 1, "--batch-tokens", 7),
    ).json()
    assert plain["score"] == plain["log_prob"]
    assert greedy["score"] != greedy["log_prob"]
    alpha = attendo(
        "translate", trained.path, "--text", "one two.", *("--length-penalty", "power", "--alpha", 0), "--json"
    ).json()
    assert alpha["score"] == alpha["log_prob"]


def rows(result):
    return [line.split("\t") for line in result.out.split("\n")[:-1]]


def test_samples_can_be_drawn_again_in_any_company(trained):
    hot = ["translate", trained.path, "--sample", "--temperature", 2, "--n-best", 3]
    found = attendo(*hot, stdin="one two.\nthree.\n")
    assert [row[0] for row in rows(found)] == ["1", "1", "1", "2", "2", "2"]
    again = attendo(*hot, "--batch-size", 1, "--seed", 1, stdin="three.\none two.\n")
    assert [row[2] for row in rows(again)] == [row[2] for row in rows(found)[3:] + rows(found)[:3]]
    other = attendo(*hot, "--seed", 2, stdin="one two.\nthree.\n")
    assert [row[2] for row in rows(other)] != [row[2] for row in rows(found)]
    cold = attendo("translate", trained.path, "--sample", "--top-k", 1, "--text", "one two.")
    nucleus = attendo("translate", trained.path, "--sample", "--top-p", 0.01, "--text", "one two.")
    assert cold.out == nucleus.out == "eins zwei.\n"


def test_diverse_translations(trained):
    given = ["translate", trained.path, "--beam", 6, "--n-best", 6, "--text", "one two."]
    diverse = rows(attendo(*given, "--diversity-groups", 3, "--diversity", 9))
    assert diverse[0][2] == "eins zwei."
    assert diverse != rows(attendo(*given))


def test_no_repeated_ngrams(trained):
    text = ["translate", trained.path, "--text", "one one one one."]
    assert attendo(*text).out == "eins eins eins eins.\n"
    assert "eins eins" not in attendo(*text, "--no-repeat-ngram", 1).out


def test_a_prefix_for_all_lines(trained):
    result = attendo("translate", trained.path, "--prefix", "acht", stdin="one.\n\ntwo three.\n")
    lines = result.out.split("\n")
    assert [line.startswith("acht") for line in lines] == [True, False, True, False]
    assert lines[1] == ""


def test_a_prefix_for_each_line(trained, tmp_path):
    path = tmp_path / "prefixes.de"
    path.write_text("acht\n\n\nneun zwei\n")
    given = ["translate", trained.path, "--prefixes", path]
    lines = attendo(*given, stdin="one.\ntwo three.\n\nfour.\n").out.split("\n")
    assert lines[0].startswith("acht")
    assert lines[1:3] == ["zwei drei.", ""]
    assert lines[3].startswith("neun zwei")
    fewer = attendo(*given, stdin="one.\n" * 3)
    assert (fewer.code, fewer.out.count("\n")) == (3, 3)
    assert f"--prefixes {path}: the input ends after line 3, and {path} goes on." in fewer.err
    more = attendo(*given, stdin="one.\n" * 7)
    assert (more.code, more.out.count("\n")) == (3, 4)
    assert f"--prefixes {path}: {path} ends after line 4, and the input goes on." in more.err
    path.write_text("acht\n")
    assert attendo(*given, "--text", "one.").out.startswith("acht")


def test_what_came_before_a_prefix_that_cannot_be_used_is_translated(trained, tmp_path):
    path = tmp_path / "prefixes.de"
    path.write_text("acht\n\neins zwei drei vier fünf sechs\nneun\n")
    given = ["translate", trained.path, "--prefixes", path, "--max-length", 5]
    result = attendo(*given, stdin="one.\n" * 4)
    assert (result.code, result.out.count("\n")) == (3, 2)
    assert result.out.startswith("acht")
    assert (
        f"--prefixes {path}, line 3: max_length = 5: the prefix 'eins zwei drei vier fünf sechs' alone has"
        in result.err
    )
    assert result.err.count("\n") == 1


def test_fewer_translations_than_asked_for_are_reported_once(trained):
    given = ["translate", trained.path, "--n-best", 5, "--max-length", 1, "--prefix", "eins"]
    result = attendo(*given, stdin="\none two.\nthree.\n")
    assert [row[0] for row in rows(result)] == ["1", "2", "3"]
    assert result.err.count("has only") == 1
    assert "Line 2 has only 1 of the 5 translations asked for: " in result.err
    assert "Line 3: cut at the limit of 1 pieces." in result.err
    assert attendo(*given, "--quiet", stdin="one two.\n").err == ""


def test_an_ensemble(trained, tmp_path):
    weights = {name: tensor * 1.1 for name, tensor in trained.bundle.weights().items()}
    other = trained.bundle.copy(tmp_path / "other", weights).path
    twin = trained.bundle.copy(tmp_path / "twin", trained.bundle.weights()).path
    alone, twins, both = (
        attendo("translate", trained.path, *more, "--text", "five green.", "--json").json()
        for more in ([], ["--ensemble", twin], ["--ensemble", other, "--ensemble", twin])
    )
    assert twins["log_prob"] == pytest.approx(alone["log_prob"], abs=1e-4)
    assert both["log_prob"] != pytest.approx(alone["log_prob"], abs=1e-5)
    (tmp_path / "pair.tsv").write_text(f"five green.\t{both['text']}\n")
    scored = attendo(
        *("score", trained.path, tmp_path / "pair.tsv", "--ensemble", other, "--ensemble", twin, "--json")
    ).json()
    assert scored["log_prob"] == pytest.approx(both["log_prob"], abs=1e-4)


def test_a_long_line_is_reported_on_standard_error(trained):
    long = "one two three four five " * 4000
    result = attendo("translate", trained.path, "--beam", 1, stdin=f"two.\n{long}\nthree.\n")
    lines = result.out.split("\n")
    assert (len(lines), lines[0], lines[2]) == (4, "zwei.", "drei.")
    words = "Line 2: a sentence is longer than the 61 pieces the model was trained for: translated in parts."
    assert words in result.err


def test_a_terminal_is_told_what_to_do(trained):
    assert "Ctrl-D" in attendo("translate", trained.path, stdin="one.\n", typed=True).err
    assert attendo("translate", trained.path, "--quiet", stdin="one.\n", typed=True).err == ""
    assert attendo("translate", trained.path, "--text", "one.", typed=True).err == ""


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "words"),
    [
        (["nowhere", "--text", "one"], b"", 4, "there is no folder nowhere"),
        ([".", "--text", "one"], b"", 4, "is not a bundle"),
        (["BUNDLE", "--n-best", 6, "--beam", 5], b"", 2, "attendo: --n-best = 6: must be at most beam, which is 5"),
        (["BUNDLE", "--n-best", 2, "--beam", 1], b"", 2, "widen the beam"),
        (["BUNDLE", "--alpha", -1], b"", 2, "--alpha = -1.0: must be a number of at least 0"),
        (["BUNDLE", "--alpha", "nan"], b"", 2, "--alpha = nan"),
        (["BUNDLE", "--top-k", 3], b"", 2, "--top-k = 3: works only with sampling: ask for that too"),
        (["BUNDLE", "--sample", "--temperature", 0], b"", 2, "--temperature = 0.0: must be a number greater than 0"),
        (["BUNDLE", "--sample", "--top-p", 2], b"", 2, "--top-p = 2.0: must be greater than 0 and at most 1"),
        (["BUNDLE", "--diversity-groups", 2], b"", 2, "--diversity-groups = 2: must divide beam, which is 5"),
        (
            ["BUNDLE", "--sample", "--diversity-groups", 5],
            b"",
            2,
            "--diversity-groups = 5: cannot be used with sampling",
        ),
        (["BUNDLE", "--diversity", 1], b"", 2, "--diversity = 1.0: works only between groups"),
        (["BUNDLE", "--diversity", 1e300, "--diversity-groups", 5], b"", 2, "--diversity = 1e+300: must be"),
        (["BUNDLE", "--no-repeat-ngram", -1], b"", 2, "--no-repeat-ngram = -1"),
        (["BUNDLE", "--seed", 1], b"", 2, "--seed 1: nothing is random here without --sample"),
        (["BUNDLE", "--sample", "--beam", 5], b"", 2, "--beam cannot be used with --sample, which has no beam"),
        (["BUNDLE", "--sample", "--stopping", "exact"], b"", 2, "--stopping cannot be used with --sample"),
        (["BUNDLE", "--prefix", "", "--prefixes", "x"], b"", 2, "give one of the two"),
        (["BUNDLE", "--prefixes", "nowhere.de"], b"one.\n", 3, "nowhere.de: there is no such file"),
        (["BUNDLE", "--ensemble", "BUNDLE"], b"", 2, "is in the ensemble twice"),
        (
            ["BUNDLE", "--prefix", "eins zwei", "--max-length", 1],
            b"one.\n",
            2,
            "--max-length = 1: the prefix 'eins zwei'",
        ),
        (["BUNDLE", "--prefix", "eins\nzwei"], b"one.\n", 3, "line breaks"),
        (["BUNDLE", "--ensemble", "nowhere"], b"", 4, "there is no folder nowhere"),
        (["BUNDLE", "--text", "one\ntwo", "--no-split"], b"", 2, "line breaks"),
        (["BUNDLE", "--text", "one\ntwo", "--n-best", 2], b"", 2, "line breaks"),
        (["BUNDLE", "--glossary", "nowhere.tsv"], b"", 3, "nowhere.tsv: there is no such file"),
        (["BUNDLE", "--glossary", "x.tsv", "--no-check"], b"", 2, "Leave out one of the two"),
        (["BUNDLE", "--out", "x.txt"], b"", 2, "--out x.txt: is for a --document"),
        (["BUNDLE", "--document", "x.txt", "--json"], b"", 2, "--document and --json"),
        (["BUNDLE", "--document", "nowhere.txt"], b"", 3, "nowhere.txt"),
        (["BUNDLE"], b"\xff\xfe\n", 3, "standard input, line 1: byte 1"),
        (["BUNDLE"], b"\x1f\x8b\x08\x00", 3, "gzip"),
        (["BUNDLE"], bytes(range(254, -1, -1)), 3, "looks like a binary file"),
        (["BUNDLE", "--device", "cuda", "--text", "one"], b"", 2, "--device cuda: torch finds no such device here"),
    ],
)
def test_what_cannot_be_done(trained, tmp_path, monkeypatch, arguments, stdin, code, words):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    given = [trained.path if argument == "BUNDLE" else argument for argument in arguments]
    with unchanged(tmp_path), unchanged(trained.path):
        result = attendo("translate", *given, stdin=stdin)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("attendo: ")
    assert words in result.err
    assert result.err.count("\n") == 1


def test_what_came_before_an_error_of_the_input_is_translated(trained):
    result = attendo("translate", trained.path, stdin=b"one.\ntwo.\n\xff\xfe\nthree.\n")
    assert (result.code, result.out) == (3, "eins.\nzwei.\n")
    assert result.err.startswith("attendo: standard input, line 3: byte 1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--engine", "ctranslate2", "--sample"], "the ctranslate2 engine cannot search so: its samples"),
        (["--engine", "ctranslate2", "--stopping", "exact"], "it knows 'first' only. Use the torch engine."),
        (["--engine", "torch", "--precision", "int8"], "--precision = 'int8': the torch engine has float32 only."),
        (
            ["--precision", "int8", "--device", "mps"],
            "--precision = 'int8': the ctranslate2 engine computes on the CPU",
        ),
    ],
)
def test_engines_that_cannot(trained, arguments, words):
    result = attendo("translate", trained.path, *arguments, "--text", "one.")
    assert (result.code, result.out) == (2, "")
    assert words in result.err


@pytest.mark.parametrize("arguments", [["--engine", "torch"], ["--engine", "ctranslate2"], ["--precision", "int8"]])
def test_engines_that_can(trained, arguments):
    result = attendo("translate", trained.path, *arguments, stdin="one two.\nfive green.\n")
    assert (result.code, result.out, result.err) == (0, "eins zwei.\nfünf grün.\n", "")


def test_printed_scores_are_those_of_both_engines(trained):
    given = ["translate", trained.path, "--text", "five green.", "--json"]
    fast, reference = (attendo(*given, "--engine", engine).json() for engine in ("ctranslate2", "torch"))
    assert fast["log_prob"] == pytest.approx(reference["log_prob"], rel=0, abs=1e-4)


def test_truncated_weights(trained, tmp_path):
    bundle = trained.bundle.copy(tmp_path / "small", trained.bundle.weights())
    path = bundle.path / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with unchanged(tmp_path):
        result = attendo("translate", bundle.path, "--text", "one")
    assert (result.code, result.out) == (4, "")
    assert "weights.safetensors is damaged" in result.err


def test_several_sentences_of_a_line(trained):
    text = "  one. two three.\tfour."
    assert attendo("translate", trained.path, "--text", text).out == "  eins. zwei drei.\tvier.\n"
    assert attendo("translate", trained.path, "--text", "one.\n\ntwo.").out == "eins.\n\nzwei.\n"


def test_what_must_survive_is_put_right(trained):
    result = attendo("translate", trained.path, "--text", "one {name} two 17.", "--json").json()
    assert "{name}" in result["text"]
    assert "17" in result["text"]
    assert [one["kind"] for one in result["warnings"] if one["kind"] == "lost"] == []
    free = attendo("translate", trained.path, "--text", "one {name} two 17.", "--no-check").out
    assert "{name}" not in free
    placed = attendo("translate", trained.path, "--text", "one {name} two.", "--engine", "ctranslate2")
    assert placed.out == "eins {name} zwei.\n"
    for how in (("--engine", "ctranslate2"), ("--precision", "int8"), ("--sample", "--seed", "3")):
        result = attendo("translate", trained.path, "--text", "one 17 two.", *how)
        assert "17" in result.out.split()
        assert "not in the translation" not in result.err


def test_a_glossary(trained, tmp_path):
    terms = tmp_path / "terms.tsv"
    terms.write_text("two\tdrei\nten\tzehn\n", encoding="utf-8")
    result = attendo("translate", trained.path, "--glossary", terms, stdin="one two.\nfour.\n")
    first, second = result.out.splitlines()
    assert "drei" in first
    assert second == "vier."
    assert result.err.endswith("Glossary: two → drei: used 1 time.\n")


def test_a_document(trained, tmp_path):
    document, out = tmp_path / "in.md", tmp_path / "out.md"
    document.write_text("# one.\n\n```\ntwo\n```\n\n- three.\n", encoding="utf-8")
    expected = "# eins.\n\n```\ntwo\n```\n\n- drei.\n"
    assert attendo("translate", trained.path, "--document", document).out == expected
    assert attendo("translate", trained.path, "--document", document, "--out", out).out == ""
    assert out.read_text(encoding="utf-8") == expected
