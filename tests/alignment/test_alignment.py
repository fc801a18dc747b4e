import json
import math
import shutil

import numpy as np
import pytest
import torch

from attendo.alignment.aligner import Aligner
from attendo.alignment.fitting import fit, fit_view, view_of, views
from attendo.alignment.links import Line, View, pharaoh, piece_links, places_of, solid
from attendo.alignment.maps import AttentionMaps, attention_maps, transformer_of
from attendo.bundle import open_bundle
from attendo.data.batch import make_batch
from attendo.errors import BundleError
from attendo.reporting import Silent
from attendo.text.words import word_spans
from attendo.translator import load
from tests.numerals import sentence_pairs
from tests.untrained import untrained_bundle


class Listening(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def aligner(trained) -> Aligner:
    return Aligner.from_bundle(trained.bundle, device="cpu")


# --- words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["A man, a plan.", "  x\ty\u3000z ", "", "été – 3.14"])
def test_words_stand_between_white_space(text):
    assert [text[start:end] for start, end in word_spans(text)] == text.split()


def test_where_a_script_has_no_spaces_a_character_is_a_word():
    text = "我爱Python 3。ไทย"
    assert [text[start:end] for start, end in word_spans(text)] == ["我", "爱", "Python", "3。", "ไ", "ท", "ย"]


def test_a_piece_belongs_to_the_word_of_its_first_letter():
    text = 'go home. "Yes" – !'
    line = Line(text)
    spans = [(0, 2), (2, 5), (5, 7), (7, 8), (8, 10), (10, 13), (13, 14), (14, 16), (16, 18)]
    # go, ho, me, the full stop, a quotation mark, Yes, another one, a dash and an exclamation mark by themselves
    assert line.owners(text, spans, range(len(line.characters))) == [0, 1, 1, None, None, 2, None, 3, 4]


def test_markup_is_counted_with_the_words_it_touches_but_links_nothing():
    source, target = Line("a <b>red</b> car"), Line("ein <b>rotes</b> Auto")
    for line, read, order in (
        (source, "a red car", ["<b>", "</b>"]),
        (target, "ein rotes Auto", ["</b>", "<b>"]),  # a translation may have them in another order
    ):
        places, end = places_of(line, 0, read, order)
        assert end == len(line.characters)
        assert "".join(line.characters[place] for place in places) == solid(read)
        assert line.owners(read, word_spans(read), places) == [0, 1, 2]


def test_what_is_placed_at_the_end_belongs_to_the_sentence():
    line = Line("see https://a.b now")
    assert places_of(line, 0, "see", ["https://a.b"]) == ([0, 1, 2], len("seehttps://a.b"))


def test_pharaoh():
    assert pharaoh(((0, 0), (1, 2))) == "0-0 1-2"
    assert pharaoh(()) == ""


# --- views --------------------------------------------------------------------------------------------------------


def test_a_view_is_a_head_or_a_mean_now_or_one_position_later():
    torch.manual_seed(3)
    cross = tuple(torch.rand(2, 3, 5, 7) for _ in range(2))
    maps = AttentionMaps((), (), cross, torch.zeros(2, 5, 1))
    assert torch.equal(View(2, 3).weights(maps), cross[1][:, 2])
    torch.testing.assert_close(View(1).weights(maps), cross[0].mean(1))
    torch.testing.assert_close(View().weights(maps), (cross[0].mean(1) + cross[1].mean(1)) / 2)
    read = View(2, 3, read=True).weights(maps)
    assert torch.equal(read[:, :-1], cross[1][:, 2, 1:])
    assert torch.equal(read[:, -1], cross[1][:, 2, -1])
    assert [View(2, 3).name, View(1).name, View().name] == ["cross.2.3", "cross.1", "cross"]


def test_a_piece_is_linked_to_what_it_looks_at_most_and_never_to_the_end():
    weights = torch.tensor(
        [[[0.1, 0.3, 0.6], [0.5, 0.4, 0.1], [0, 0, 1]], [[0.2, 0.7, 0.1], [0.1, 0.8, 0.1], [1, 0, 0]]]
    )
    assert piece_links(weights, [2, 1], [2, 1]) == [[1, 0], [0]]
    assert piece_links(weights, [0, 2], [2, 2]) == [[], [1, 1]]


# --- which fits ---------------------------------------------------------------------------------------------------


def test_the_fit_of_links_by_hand():
    """Links (e, f): (1, 8) three times, (2, 9) once, (2, 8) once."""
    sources, targets = np.array([1, 1, 1, 2, 2]), np.array([8, 8, 8, 9, 8])
    often, seldom = 4 / 5, 1 / 5
    expected = [
        *3 * [math.log((3 - 1 + often) / 3 / often)],
        math.log((1 - 1 + seldom) / 2 / seldom),
        math.log((1 - 1 + often) / 2 / often),
    ]
    assert fit(sources, targets) == pytest.approx(sum(expected) / 5)
    assert fit(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)) == 0


def test_links_that_tell_much_fit_better_than_others():
    generator = np.random.default_rng(5)
    sources = generator.integers(0, 13, size=701)
    translations = (3 * sources + 1) % 13
    by_chance = generator.permutation(sources)
    assert fit(sources, translations) > 2
    assert fit(by_chance, translations) < 0.1
    assert fit(np.full(701, 3), translations) == pytest.approx(0, abs=0.05)


def test_a_trained_model_aligns_word_by_word(tiny, aligner):
    """Its language has a word for a word, so the alignment is known."""
    sources = [source for source, _ in sentence_pairs(61, seed=23)]
    found = tiny.translate_many(sources, align=aligner)
    right = total = 0
    for one in found:
        expected = {(i, i) for i in range(len(one.source.split()))}
        assert one.alignment is not None
        right += len(expected & set(one.alignment))
        total += len(expected | set(one.alignment))
    assert right / total > 0.9


def test_sentences_of_a_line_are_counted_on(tiny, aligner):
    one, other = "two red seven.", "ten four."
    apart = [tiny.translate(text, align=aligner).alignment for text in (one, other)]
    together = tiny.translate(f"  {one}  {other}", align=aligner)
    shifted = tuple((i + 3, j + len(tiny.translate(one).text.split())) for i, j in apart[1])
    assert together.alignment == apart[0] + shifted
    assert tiny.translate("  ", align=aligner).alignment == ()
    assert tiny.translate(one).alignment is None


def test_alignments_do_not_depend_on_the_engine_or_the_batch(trained, aligner):
    sources = [source for source, _ in sentence_pairs(17, seed=29)]
    fast, slow = (load(trained.path, engine=engine) for engine in ("ctranslate2", "torch"))
    together = [one.alignment for one in fast.translate_many(sources, align=aligner)]
    assert together == [slow.translate(source, align=aligner).alignment for source in sources]


def test_the_choice_is_the_best_of_all_and_kept_in_the_bundle(trained, aligner):
    facts = trained.bundle.alignment()
    view, found = fit_view(trained.bundle.model(), trained.bundle.tokenizers, sentence_pairs(83, seed=3), Silent())
    assert facts.keys() == found.keys() == {"from", "read", "fit", "pairs"}
    assert found["pairs"] == 83
    assert aligner.view.name == facts["from"]
    fits = _fits(trained.bundle, sentence_pairs(83, seed=3))
    assert len(fits) == 2 * (1 + 1 + 2)
    assert found["fit"] == pytest.approx(fits[view], abs=1e-3)
    assert fits[view] == pytest.approx(max(fits.values()), abs=1e-3)
    assert min(fits.values()) < fits[view] - 0.5


def _fits(bundle, pairs):
    """How well every view's links fit: pair by pair, each target piece with the source piece it looks at most."""
    model, both = bundle.model(), bundle.tokenizers
    linked: dict[View, list[int]] = {view: [] for view in views(model.config)}
    written: list[int] = []
    for pair in pairs:
        source, target = both.source.encode(pair[0]), both.target.encode(pair[1])
        maps = attention_maps(model, make_batch([source], [target]))
        written += target
        for view, found in linked.items():
            places = view.weights(maps)[0, : len(target), : len(source)].argmax(-1)
            found += [source[place] for place in places.tolist()]
    return {view: fit(np.array(found), np.array(written)) for view, found in linked.items()}


def test_a_bundle_that_knows_no_head_finds_one_and_keeps_it(trained, tmp_path):
    folder = tmp_path / "runs"
    shutil.copytree(trained.path, folder / "run")
    shutil.copytree(trained.path.parent / ".cache", folder / ".cache")
    (folder / "run" / "alignment.json").unlink()
    bundle = open_bundle(folder / "run")
    view = view_of(bundle, transformer_of(bundle), Silent())
    assert bundle.alignment() == trained.bundle.alignment()
    assert view.name == bundle.alignment()["from"]


def test_without_validation_pairs_it_is_a_layers_mean_and_that_is_said(tmp_path):
    bundle = untrained_bundle(tmp_path / "bundle", n_decoder_layers=3)
    reporter = Listening()
    assert view_of(bundle, transformer_of(bundle), reporter) == View(2)
    assert "does not say which head aligns best" in reporter.said[0]
    assert bundle.alignment() == {}


@pytest.mark.parametrize(
    "facts",
    [{"from": "cross.9", "read": True}, {"from": "encoder.1.1", "read": True}, {"read": True}, {"from": "cross.x"}],
    ids=str,
)
def test_a_damaged_choice_is_an_error_that_says_what_to_do(tmp_path, facts):
    bundle = untrained_bundle(tmp_path / "bundle")
    bundle.write("alignment.json", json.dumps(facts))
    with pytest.raises(BundleError, match=r"alignment.json is damaged .* Delete it"):
        view_of(bundle, transformer_of(bundle), Silent())
