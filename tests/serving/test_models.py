"""Which bundle a request means."""

import copy

import pytest

from attendo.errors import ConfigError
from attendo.serving.limits import Refusal
from attendo.serving.models import Models, named_bundles


def speaking(tiny, languages):
    other = copy.copy(tiny)
    other.languages = languages
    return other


def test_bundles_have_the_names_of_their_folders_or_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd=name").mkdir()
    found = named_bundles(["runs/en-de-1", "old=runs/a/en-de-1", "./x/../here/", "mine=odd=name"])
    assert found == {
        "en-de-1": "runs/en-de-1",
        "old": "runs/a/en-de-1",
        "here": "./x/../here/",
        "mine": "odd=name",
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["a/x", "b/x"], "a/x is called 'x' already"),
        (["x=a", "x=b"], "a is called 'x' already"),
        (["=a"], "the name '' must be of letters"),
        (["a b"], "the name 'a b' must be of letters"),
        (["ü=a"], "the name 'ü' must be of letters"),
    ],
)
def test_names_that_cannot_be(given, words):
    with pytest.raises(ConfigError, match=words):
        named_bundles(given)


def test_languages_decide_where_they_leave_one(tiny):
    models = Models(
        {
            "one": speaking(tiny, ("en", "de")),
            "two": speaking(tiny, ("en", "fr")),
            "three": speaking(tiny, ("de", "en")),
            "four": speaking(tiny, ("en", "fr")),
            "dumb": speaking(tiny, None),
        }
    )
    assert models.choose(source="en", target="de") == "one"
    assert models.choose(target="de") == "one"
    assert models.choose(source="de") == "three"
    assert models.choose(model="four") == "four"
    assert models.choose(model="four", source="en", target="fr") == "four"
    assert models.choose(model="dumb") == "dumb"
    assert models.pairs() == {("en", "de"), ("en", "fr"), ("de", "en")}
    for asked, words in (
        ({}, r"several models .*say which.*one \(en→de\), two \(en→fr\).*dumb \(languages unknown\)"),
        ({"source": "en", "target": "fr"}, r"several models translate.*two \(en→fr\), four \(en→fr\)"),
        ({"model": "five"}, "there is no 'five'. There are: one"),
        (
            {"model": "one", "target": "fr"},
            r"no model .* 'any' and target 'fr'. There are: one \(en→de\)",
        ),
        ({"source": "zh"}, "no model translates source 'zh'"),
        ({"model": "dumb", "source": "en"}, "no model translates"),
    ):
        with pytest.raises(Refusal, match=words) as refused:
            models.choose(**asked)
        assert refused.value.status == 422


def test_the_only_model_needs_no_name(tiny):
    assert Models({"x": tiny}).choose() == "x"


def test_nothing_to_serve():
    with pytest.raises(ConfigError, match="nothing to serve"):
        Models({})
