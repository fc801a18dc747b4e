"""Every task from its files to a bundle: it learns, goes on where it stopped, and refuses what is not its own."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from attendo import run
from attendo.bundle import Bundle, open_bundle
from attendo.classifier import TextClassifier
from attendo.config import merge, read_yaml
from attendo.data.prepare import open_prepared
from attendo.decoding.search import SearchOptions
from attendo.errors import BundleError, ConfigError, DataError
from attendo.filler import MASK, Embedder, Filler
from attendo.generator import Generator
from attendo.inspection.page import inspection_page
from attendo.inspection.pictures import write_pictures
from attendo.inspection.reading import read
from attendo.inspection.telling import in_words
from attendo.models.bert import Bert
from attendo.models.settings import ClassifierConfig, GPTConfig
from attendo.recipe import RecipeName
from attendo.reporting import Silent
from attendo.tasks import classify, language_model
from attendo.text.tokenizer import Kind, train_tokenizer
from attendo.translator import load

from .family import COLOURS, TINY, preset_of, settings_of, write_labels, write_text
from .tasks import made_up, reverse, write_task
from .test_resume import StopsAt, assert_same, stop

NAMES = ["gpt", "llama", "bert", "classifier", "spans", "t5", "bart"]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return settings_of(tmp_path_factory.mktemp("family"))


@pytest.fixture(scope="module")
def bundles(settings: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bundle]:
    folder = tmp_path_factory.mktemp("bundles")
    return {name: run.train(settings=settings[name], preset=preset_of(name), out=folder / name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_stopped_and_resumed_it_ends_with_the_very_bytes(
    name: str, settings: dict[str, dict[str, Any]], bundles: dict[str, Bundle], tmp_path: Path
) -> None:
    def go(reporter: StopsAt) -> Bundle:
        return run.train(settings=settings[name], preset=preset_of(name), out=tmp_path / "run", reporter=reporter)

    stop(go, 7)
    assert open_bundle(tmp_path / "run").checkpoints()[-1] == 7
    assert_same(run.resume(tmp_path / "run"), bundles[name])


def test_two_processes_resumed_end_with_the_very_bytes(settings: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """What is hidden and what follows what is drawn in each process, and each sees its part of a batch."""
    shared = merge(
        settings["bert"],
        {"noise": {"next_sentence": True}, "data": {"max_length": 41}, "training": {"processes": 2, "threads": 1}},
    )
    whole = run.train(settings=shared, out=tmp_path / "whole")
    stop(lambda reporter: run.train(settings=shared, out=tmp_path / "run", reporter=reporter), 7)
    assert_same(run.resume(tmp_path / "run"), whole)


FURTHER = {  # name: what a run starts from, its task, and how it learns
    "frozen layers": ("bert", "classify", {"frozen_layers": 1}),
    "adapters": ("bert", "classify", {"lora_rank": 3}),
    "a language model with adapters": ("llama", "language-model", {"lora_rank": 3}),
    "a masked language model with adapters": ("bert", "masked-language-model", {"lora_rank": 3}),
    "a translator of a model that mends": ("t5", "translate", {}),
}


@pytest.mark.parametrize("name", FURTHER)
def test_trained_further_and_resumed_it_ends_with_the_very_bytes(
    name: str, settings: dict[str, dict[str, Any]], bundles: dict[str, Bundle], tmp_path: Path
) -> None:
    start, task, training = FURTHER[name]
    data = write_task(tmp_path, made_up(60), reverse) if task == "translate" else settings[start]["data"]
    if task == "classify":
        data = settings["classifier"]["data"]
    further = {
        "task": task,
        "data": data,
        "adapt_from": str(bundles[start].path),
        "training": {**TINY["training"], **training},
    }
    whole = run.train(settings=further, out=tmp_path / "whole")
    stop(lambda reporter: run.train(settings=further, out=tmp_path / "run", reporter=reporter), 7)
    assert_same(run.resume(tmp_path / "run"), whole)
    before, after = bundles[start].weights(), whole.weights()
    moved = {name for name in after if name not in before or not after[name].equal(before[name])}
    assert any("query.weight" in name for name in moved)
    if training.get("lora_rank"):  # adapters of queries and values, merged, and the new labels
        assert all(".query." in name or ".value." in name or name.startswith(("pooler", "labels")) for name in moved)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_has_a_score_a_card_and_a_report(name: str, bundles: dict[str, Bundle]) -> None:
    bundle = bundles[name]
    assert 0 < bundle.scores()["loss"] < 9
    card = (bundle.path / "card.md").read_text(encoding="utf-8")
    for metric, score, _ in bundle.scores()["table"]:
        assert f"| {metric} | {score} |" in card
    assert "<svg" in (bundle.path / "report.html").read_text(encoding="utf-8")
    validations = [entry for entry in bundle.read_log() if entry["event"] == "validation"]
    assert [entry["step"] for entry in validations] == [6, 12, 14]
    measured = "accuracy" if name in ("classifier", "spans") else "loss"
    values = [entry[measured] if measured == "accuracy" else -entry[measured] for entry in validations]
    best = [all(value > before for before in values[:i]) for i, value in enumerate(values)]
    assert [entry["best"] for entry in validations] == best
    assert bundle.copy(bundle.path.parent / f"{name}-copy", bundle.weights()).scores() == bundle.scores()


def test_the_llama_preset_has_llamas_parts(bundles: dict[str, Bundle]) -> None:
    model = bundles["llama"].config.model
    assert isinstance(model, GPTConfig)
    parts = (model.positions, model.norm, model.norm_place, model.activation, model.n_key_heads, model.embedding_scale)
    assert parts == ("rotary", "rmsnorm", "pre", "swiglu", 2, "one")
    assert not model.biases and not model.output_bias
    model = bundles["gpt"].config.model
    assert isinstance(model, GPTConfig)
    assert (model.positions, model.n_positions, model.activation) == ("learned", 17, "gelu-tanh")


@pytest.mark.parametrize(
    ("bounds", "preset", "dropout"),
    [
        ({}, "auto", 0.1),
        ({"epochs": 2}, "auto", 0.0),
        ({"epochs": 5}, "auto", 0.1),
        ({"minutes": 60}, "auto", 0.1),
        ({"minutes": 1e-4}, "auto", 0.0),
        ({"minutes": 0.01}, "auto", 0.1),
        ({"minutes": 0.01}, "base", 0.0),  # which takes much longer for a pass
    ],
)
def test_a_text_that_is_read_a_few_times_needs_no_dropout(
    bounds: dict[str, float], preset: RecipeName, dropout: float, bundles: dict[str, Bundle]
) -> None:
    bundle = bundles["gpt"]
    corpus = open_prepared(bundle.path.parent / ".cache" / bundle.data()["store"])
    assert corpus is not None
    chosen = [
        language_model.resolve(
            {"training": given}, preset, bundle.config.data, corpus, None, speed=lambda: 20_000.0
        ).model
        for given in (bounds, {"steps": 1, "batch_tokens": 16})
    ]
    assert [model.residual_dropout for model in chosen if isinstance(model, GPTConfig)] == [dropout, 0.0]


def test_several_files_are_one_text(settings: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    first, second = write_text(tmp_path, 40), tmp_path / "more.txt"
    second.write_text("a word of its own\n" * 30, encoding="utf-8")
    data = {"source": str(first), "more": [str(second)]}
    bundle = run.train(settings=merge(settings["gpt"], {"data": data, "training": {"steps": 2}}), out=tmp_path / "run")
    assert second.name in (bundle.path / "card.md").read_text(encoding="utf-8")


# --- the verbs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt", "llama"])
class TestGenerating:
    def test_a_stream_is_what_is_generated(self, name: str, bundles: dict[str, Bundle]) -> None:
        generator = Generator.from_bundle(bundles[name], device="cpu")
        for options in (SearchOptions(sample=True, seed=5), SearchOptions(beam=1), None):
            (one,) = generator.generate("bako", options=options, max_length=70)  # several times the context
            assert "".join(generator.stream("bako", options=options, max_length=70)) == one.text
            assert one.text and one.log_prob < 0

    def test_a_stream_gives_each_piece_when_it_is_there(self, name: str, bundles: dict[str, Bundle]) -> None:
        generator = Generator.from_bundle(bundles[name], device="cpu")
        steps, made = [0], generator.model.lean_step

        def counting() -> Any:
            step = made()

            def counted(*arguments: Any) -> Any:
                steps.append(steps[-1] + 1)
                return step(*arguments)

            return counted

        generator.model.lean_step = counting  # type: ignore[method-assign]
        stream = generator.stream("bako", options=SearchOptions(beam=1), max_length=30)
        at = [steps[-1] for _ in stream]
        assert at[0] <= 4 and len(at) > 5, at  # bytes wait until they are a character
        assert all(0 < after - before <= 4 for before, after in pairwise(at[:-1])), at

    def test_a_search_is_what_scoring_step_by_step_gives(self, name: str, bundles: dict[str, Bundle]) -> None:
        """The greedy text is the likeliest next id again and again, by the model without a cache."""
        generator = Generator.from_bundle(bundles[name], device="cpu")
        begin = generator._begin("delu", 1)
        ids = list(begin)
        with torch.no_grad():
            for _ in range(generator.context - len(begin) - 1):
                logits = generator.model(torch.tensor([ids]))[0, -1]
                logits[[0, 1, 3]] = -torch.inf
                ids.append(int(logits.argmax()))
        (one,) = generator.generate("delu", options=SearchOptions(beam=1), max_length=len(ids) - len(begin))
        assert one.text == generator._text(begin, ids[len(begin) :])

    def test_several_draws_and_beams(self, name: str, bundles: dict[str, Bundle]) -> None:
        generator = Generator.from_bundle(bundles[name], device="cpu")
        drawn = generator.generate("goja ", options=SearchOptions(sample=True, n_best=3), max_length=40)
        assert len({one.text for one in drawn}) == 3
        found = generator.generate("goja ", options=SearchOptions(beam=4, n_best=2), max_length=5)
        assert len(found) == 2
        assert generator.generate("", max_length=3) == generator.generate("", max_length=3)

    def test_perplexity_is_the_mean_loss_over_windows(self, name: str, bundles: dict[str, Bundle]) -> None:
        bundle = bundles[name]
        generator = Generator.from_bundle(bundle, device="cpu")
        text = " ".join(made_up(60, seed=7))
        found = generator.score([text])
        ids, total = torch.tensor(generator.tokenizer.encode(text)), 0.0
        for start in range(0, len(ids) - 1, generator.context):
            window = ids[start : start + generator.context + 1]
            with torch.no_grad():
                logits = generator.model(window[None, :-1])[0]
            total += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
        assert found.n_pieces == len(ids) - 1
        assert found.nats == pytest.approx(total / (len(ids) - 1), abs=1e-5)
        assert found.n_characters == len(text)


def test_gaps_are_filled_with_the_likeliest(bundles: dict[str, Bundle]) -> None:
    filler = Filler.from_bundle(bundles["bert"], device="cpu")
    first, second = filler.fill("bako [MASK] fimi [MASK].", top=5)
    assert len(first) == len(second) == 5
    assert [guess.probability for guess in first] == sorted((guess.probability for guess in first), reverse=True)
    for guess in first:
        word = guess.piece.removeprefix("▁")
        assert guess.text == f"bako{' ' if guess.piece.startswith('▁') else ''}{word} fimi [MASK]."
    assert all(guess.text.startswith("bako [MASK] fimi") and guess.text.endswith(".") for guess in second)
    with pytest.raises(DataError, match=r"has no gap. Write \[MASK\]"):
        filler.fill("bako")


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_what_touches_a_gap_is_read_as_in_a_text(kind: Kind, bundles: dict[str, Bundle]) -> None:
    tokenizer = train_tokenizer([*made_up(300, seed=3), "x bako, x. delu (x) x"] * 2, kind=kind, vocab_size=350)
    model = bundles["bert"].model()
    assert isinstance(model, Bert)
    filler = Filler(model, tokenizer, max_length=64, device=torch.device("cpu"))
    for text in ("x.", "bako x, delu.", "bako x delu x.", "(x) fimi", "x"):
        ids = tokenizer.encode(text)
        pieces = tokenizer.pieces(ids)
        expected = [
            tokenizer.vocab_size if piece.strip("▁") == "x" else id_ for id_, piece in zip(ids, pieces, strict=True)
        ]
        assert filler.encoded(text.replace("x", MASK)) == expected, pieces


def test_vectors_do_not_depend_on_the_batch(bundles: dict[str, Bundle]) -> None:
    for name in ("bert", "classifier"):
        embedder = Embedder.from_bundle(bundles[name], device="cpu")
        texts = ["bako", "delu fimi goja hune kipo", "lasu " * 40]
        vectors = embedder.embed(texts)
        assert vectors.shape == (3, 24)
        for text, vector in zip(texts, vectors, strict=True):
            assert embedder.embed([text])[0] == pytest.approx(vector, abs=1e-5)
        assert embedder.embed(texts, pooling="first")[1] != pytest.approx(vectors[1], abs=1e-3)


def test_the_first_vector_of_a_model_without_layers_is_refused(bundles: dict[str, Bundle]) -> None:
    embedder = Embedder.from_bundle(bundles["spans"], device="cpu")
    assert embedder.embed(["bako"]).shape == (1, bundles["spans"].config.model.d_model)
    with pytest.raises(ConfigError, match="no layers, so that its first vector is the same for every text"):
        embedder.embed(["bako"], pooling="first")


def test_texts_that_lose_their_end_are_counted(bundles: dict[str, Bundle]) -> None:
    said: list[str] = []

    class Said(Silent):
        def say(self, text: str) -> None:
            said.append(text)

    Embedder.from_bundle(bundles["bert"], device="cpu").embed(["bako", "lasu " * 300], reporter=Said())
    assert said == [f"1 of 2 texts lost their end: longer than {bundles['bert'].config.data.max_length} pieces."]


def test_a_text_of_three_parts_is_refused(bundles: dict[str, Bundle]) -> None:
    classifier = TextClassifier.from_bundle(bundles["classifier"], device="cpu")
    with pytest.raises(DataError, match="text 2 of 2 has 3 parts, with a tab between: a classifier reads one or two"):
        classifier.classify(["bako", ["delu", "fimi", "goja"]])


WRONG = [
    (
        "gpt",
        lambda bundle: load(bundle.path),
        "a language model, which attendo translate cannot use. Use attendo generate",
    ),
    ("bert", lambda bundle: Generator.from_bundle(bundle), "masked language model, which attendo generate cannot use"),
    ("gpt", lambda bundle: TextClassifier.from_bundle(bundle), "which attendo classify cannot use"),
    ("t5", lambda bundle: Embedder.from_bundle(bundle), "a denoising model, which attendo embed cannot use"),
]


@pytest.mark.parametrize(("name", "use", "words"), WRONG)
def test_the_wrong_verb_is_refused(name: str, use: Any, words: str, bundles: dict[str, Bundle]) -> None:
    with pytest.raises(BundleError, match=words):
        use(bundles[name])


# --- learning ---------------------------------------------------------------------------------------------------------


def test_a_classifier_learns_from_nothing_and_from_a_masked_language_model(
    settings: dict[str, dict[str, Any]], bundles: dict[str, Bundle], tmp_path: Path
) -> None:
    labels = write_labels(tmp_path, 140, seed=2)
    longer = {"training": {"steps": 90, "validate_every": 30, "checkpoint_every": 30}}
    quiet = {"model": {"residual_dropout": 0.0, "attention_dropout": 0.0, "word_dropout": 0.0}}
    scratch = merge(settings["classifier"], longer, quiet, {"data": {"source": str(labels)}})
    bundle = run.train(settings=scratch, out=tmp_path / "scratch")
    assert bundle.scores()["accuracy"] > 0.9
    classifier = TextClassifier.from_bundle(bundle, device="cpu")
    for label, word in COLOURS.items():
        (one,) = classifier.classify([f"kipo {word} hune"])
        assert one.label == label and sum(one.probabilities.values()) == pytest.approx(1)

    start = bundles["bert"]
    tuned = {
        "task": "classify",
        "data": {"source": str(labels)},
        "adapt_from": str(start.path),
        "training": {**scratch["training"], "steps": 5, "frozen_layers": 1},
    }
    bundle = run.train(settings=tuned, out=tmp_path / "tuned")
    before, after = start.weights(), bundle.weights()
    assert bundle.tokenizers == start.tokenizers
    model = bundle.config.model
    assert isinstance(model, ClassifierConfig)
    assert (model.pooling, model.residual_dropout) == ("first", 0.3)  # it was trained with next sentences
    with pytest.raises(ConfigError, match=r"training\.frozen_layers = 9: the encoder has 2 layers"):
        run.train(settings=merge(tuned, {"training": {"frozen_layers": 9}}), out=tmp_path / "wrong")
    for name in after:
        frozen = name.startswith(("encoder.embedding.", "encoder.blocks.0."))
        if frozen:
            assert torch.equal(after[name], before[name]), name
        elif name.startswith("encoder.blocks.1.attention.query.weight"):
            assert not torch.equal(after[name], before[name])


def test_a_classifier_from_nothing_finds_spans_unless_there_are_texts_to_compare(
    settings: dict[str, dict[str, Any]], bundles: dict[str, Bundle], tmp_path: Path
) -> None:
    few = {**settings["classifier"], "model": {}, "training": {"steps": 2, "batch_tokens": 200}}
    layers = run.train(settings=few, out=tmp_path / "two").config.model
    ones = merge(few, {"data": {"source": str(write_labels(tmp_path, two=False))}})
    alone = run.train(settings=ones, out=tmp_path / "one").config.model
    asked = run.train(settings=merge(ones, {"model": {"d_ff": 20}}), out=tmp_path / "asked").config.model
    by_name = run.train(settings=ones, preset="tiny", out=tmp_path / "tiny").config.model
    named = run.train(settings=merge(few, {"model": {"pooling": "spans", "n_layers": 0}}), out=tmp_path / "named")
    models = (layers, alone, asked, by_name, named.config.model)
    found = [(model.pooling, model.n_layers, model.d_model) for model in models]  # type: ignore[union-attr]
    expected = [("mean", 2, 128), ("spans", 0, 300), ("mean", 2, 128), ("mean", 4, 128), ("spans", 0, 300)]
    assert found == expected
    shared = {"model": {"share_layers": "all", "n_layers": 0}}
    with pytest.raises(ConfigError, match=r"model\.share_layers = 'all': has no effect, since n_layers is 0"):
        run.train(settings=merge(ones, shared), out=tmp_path / "wrong")
    with pytest.raises(ConfigError, match=r"model\.n_filters = 7: has no effect, since pooling is 'max'"):
        run.train(settings=merge(ones, {"model": {"n_filters": 7, "pooling": "max"}}), out=tmp_path / "wrong")
    with pytest.raises(ConfigError, match="must be a list of numbers of at least 1"):
        run.train(settings=merge(ones, {"model": {"span_widths": [3, 0]}}), out=tmp_path / "wrong")
    # What has learned to find spans goes on with that.
    further = merge(ones, {"adapt_from": str(bundles["spans"].path), "data": {"max_length": 37}})
    more = run.train(settings=further, out=tmp_path / "more").config.model
    assert more == bundles["spans"].config.model


def test_spans_tell_a_word_and_say_which(settings: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    longer = {"training": {"steps": 60, "validate_every": 30, "checkpoint_every": 30}}
    labels = write_labels(tmp_path, 140, seed=2, two=False)
    bundle = run.train(
        settings=merge(settings["spans"], longer, {"data": {"source": str(labels)}}), out=tmp_path / "run"
    )
    assert bundle.scores()["accuracy"] > 0.9
    seen = read(bundle, "kipo ruzo hune dame tesa")
    assert next(iter(seen.probabilities)) == "red"
    words = dict(zip(seen.positions, seen.evidence, strict=True))
    assert max(words, key=words.__getitem__) == "▁ruzo"
    classifier = TextClassifier.from_bundle(bundle, device="cpu")
    bias = classifier.model.labels.bias
    logits = torch.tensor([seen.probabilities[label] for label in classifier.labels]).log()
    told = classifier.labels.index("red")
    expected = (logits - bias)[told] - (logits - bias).mean()
    assert sum(seen.evidence) == pytest.approx(expected.item(), abs=1e-4)

    page = inspection_page(seen, name="run")
    assert "What each piece says for &#x27;red&#x27;" in page and "Every head" not in page
    assert [path.name for path in write_pictures(seen, tmp_path / "inside")] == ["evidence.png"]
    assert "What each piece says for 'red' (+) or against it (-)" in in_words(seen, 80)
    with pytest.raises(ConfigError, match="this model has no attention"):
        in_words(seen, 80, "encoder.1.1")
    with pytest.raises(ConfigError, match="this model has no attention"):
        read(bundle, "kipo ruzo", without=["1.1"])


def test_a_classifier_of_a_model_that_told_nothing_from_its_first_vector(
    settings: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    few = {"training": {"steps": 2}}
    masked = merge(settings["bert"], few, {"noise": {"next_sentence": False}})
    start = run.train(settings=masked, out=tmp_path / "masked")
    training = classify.choose("auto", max_length=29, texts=100, start=start)["training"]
    assert (training["epochs"], training["learning_rate"]) == (20, 0.001)  # 0.04 / 24 would be more
    tuned = {**settings["classifier"], "model": {}, "adapt_from": str(start.path)}
    model = run.train(settings=merge(tuned, few, {"data": {"max_length": 29}}), out=tmp_path / "tuned").config.model
    assert isinstance(model, ClassifierConfig)
    assert (model.pooling, model.residual_dropout, model.word_dropout) == ("mean", 0.3, 0.2)
    nothing = merge(masked, {"adapt_from": str(start.path), "training": {"lora_rank": 2, "frozen_layers": 2}})
    nothing["model"] = {}
    with pytest.raises(ConfigError, match=r"training\.frozen_layers = 2: every layer that adapters are for"):
        run.train(settings=nothing, out=tmp_path / "nothing")


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_what_mends_text_can_be_taught_to_translate(
    name: str, bundles: dict[str, Bundle], settings: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    data = write_task(tmp_path, made_up(60), reverse)
    tuned = {
        "data": data,
        "adapt_from": str(bundles[name].path),
        "training": {**settings[name]["training"], "steps": 60, "validate_every": 20, "learning_rate": 0.002},
    }
    bundle = run.train(settings=tuned, out=tmp_path / "run")
    assert bundle.config.task == "translate" and bundle.config.noise is None
    assert bundle.config.model.n_extra == (100 if name == "t5" else 1)
    losses = [entry["loss"] for entry in bundle.read_log() if entry["event"] == "validation"]
    assert losses[-1] < losses[0] - 0.2
    # It begins with what was learned before: a step that moves nothing leaves those weights.
    still = merge(tuned, {"training": {"steps": 1, "learning_rate": 1e-12}})
    begun, before = run.train(settings=still, out=tmp_path / "still").weights(), bundles[name].weights()
    assert begun.keys() == before.keys()
    for key in before:
        torch.testing.assert_close(begun[key], before[key], rtol=0, atol=1e-6)


def test_masks_and_sentinels_are_never_written(bundles: dict[str, Bundle]) -> None:
    engine = load(bundles["t5"].path, device="cpu", engine="torch").engine
    size = bundles["t5"].tokenizers.target.vocab_size
    found = engine.search([[7, 8, 9]], [30], SearchOptions(sample=True, n_best=40, temperature=50.0))
    assert max(id_ for one in found[0] for id_ in one.ids) < size


# --- mistakes ---------------------------------------------------------------------------------------------------------

MISTAKES = [
    ("gpt", {"training": {"bpe_dropout": 0.1}}, r"training\.bpe_dropout = 0\.1: belongs to pairs"),
    ("gpt", {"model": {"window": 3}}, r"model\.window = 3: has no effect"),
    ("gpt", {"model": {"n_positions": 5}}, r"model\.n_positions = 5: rows have data\.max_length \(17\) pieces"),
    ("gpt", {"model": {"kind": "rnn"}}, r"unknown setting model\.n_layers|model\.kind"),
    ("gpt", {"model": {"vocab_size": 99}}, r"model\.vocab_size = 99: follows from the data"),
    ("gpt", {"task": "guess"}, r"task = 'guess': must be one of translate, language-model"),
    ("bert", {"noise": {"masked": 0.9, "replaced": 0.5}}, r"noise\.masked = 0\.9: and replaced \(0\.5\)"),
    ("classifier", {"data": {"more": ["other.tsv"]}}, r"other\.tsv: a classifier learns from one file"),
    ("classifier", {"training": {"frozen_layers": 1}}, r"training\.frozen_layers = 1: .* start from a model \(--from"),
]


@pytest.mark.parametrize(("name", "change", "words"), MISTAKES)
def test_mistakes_are_found_before_a_bundle_is_made(
    name: str, change: dict[str, Any], words: str, settings: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        run.train(settings=merge(settings[name], change), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_bundle_of_another_task_to_start_from(bundles: dict[str, Bundle], tmp_path: Path) -> None:
    data = write_task(tmp_path, made_up(40), reverse)
    with pytest.raises(BundleError, match="a language model, which attendo train --from cannot use"):
        run.train(settings={"data": data, "adapt_from": str(bundles["gpt"].path)}, out=tmp_path / "run")


def test_data_that_changed_are_not_resumed(settings: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    text = write_text(tmp_path)
    stopping = merge(settings["gpt"], {"data": {"source": str(text)}})
    stop(lambda reporter: run.train(settings=stopping, out=tmp_path / "run", reporter=reporter), 3)
    shutil.rmtree(tmp_path / ".cache")
    text.write_text(text.read_text() + "more\n")
    with pytest.raises(DataError, match=r"not what .* was trained on"):
        run.resume(tmp_path / "run")


def test_the_config_of_a_run_repeats_it(bundles: dict[str, Bundle], tmp_path: Path) -> None:
    again = run.train(settings=read_yaml(bundles["bert"].path / "config.yaml"), out=tmp_path / "run")
    scores = [json.loads((one.path / "scores.json").read_text()) for one in (again, bundles["bert"])]
    assert scores[0] == scores[1]
