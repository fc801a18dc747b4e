import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import pytest
import sacrebleu
import torch

from attendo.engines.torch_engine import TorchEngine
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import build
from attendo.reporting import Silent
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import train_tokenizer
from attendo.translator import PairScore, Translator, perplexity
from attendo.validation import Validator

from .tasks import made_up, reverse

SOURCES = made_up(13, shortest=5, longest=7)
PAIRS = [(source, reverse(source)) for source in SOURCES]


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(1)
    both = train_tokenizer(SOURCES, kind="characters", vocab_size=300)
    model = build(
        TransformerConfig(
            source_vocab_size=both.vocab_size,
            target_vocab_size=both.vocab_size,
            n_encoder_layers=1,
            n_decoder_layers=1,
            d_model=6,
            d_ff=7,
            n_heads=2,
        )
    )
    engine = TorchEngine(model.eval(), torch.device("cpu"))
    return Translator(engine, TokenizerPair(both, both), max_length=100, languages=("xx", "yy"))


def test_bleu_by_another_engine(translator, monkeypatch):
    validator = Validator(translator, PAIRS, metric="bleu", beam=1)
    asked: list[int] = []
    search = translator.engine.search

    def record(sources, limits, options, **more):
        asked.append(options.beam)
        return search(sources, limits, options, **more)

    other = TorchEngine(model_of(translator), torch.device("cpu"))
    monkeypatch.setattr(other, "search", record)
    found = validator.bleu_by(other, precision="int8", beam=3)
    expected = [one.text for one in translator.translate_many(SOURCES, beam=3)]
    assert found.score == sacrebleu.corpus_bleu(expected, [[target for _, target in PAIRS]]).score
    assert asked == [3]


def model_of(translator: Translator) -> EncoderDecoder:
    assert isinstance(translator.engine, TorchEngine)
    return translator.engine.models[0]


def with_translations(monkeypatch: pytest.MonkeyPatch, translator: Translator, texts: Sequence[str]) -> list[int]:
    """Lets the translator say these texts; returns the beams it is asked for."""
    beams: list[int] = []

    def translate_many(sources: Sequence[str], *, beam: int, **_: Any) -> list[Any]:
        beams.append(beam)
        return [type("Translation", (), {"text": text}) for _, text in zip(sources, texts, strict=True)]

    monkeypatch.setattr(translator, "translate_many", translate_many)
    return beams


def test_loss_is_that_of_the_scores_and_without_smoothing(translator: Translator) -> None:
    facts = Validator(translator, PAIRS, metric="loss", beam=1).validate(model_of(translator)).facts
    scores = translator.score(SOURCES, [target for _, target in PAIRS])
    assert facts["loss"] == pytest.approx(-sum(s.log_prob for s in scores) / sum(s.n_pieces for s in scores))
    assert facts["perplexity"] == pytest.approx(perplexity(scores))


def test_bleu_is_sacrebleus_beside_that_of_copying(monkeypatch: pytest.MonkeyPatch, translator: Translator) -> None:
    said = [target if i % 2 else source for i, (source, target) in enumerate(PAIRS)]
    beams = with_translations(monkeypatch, translator, said)
    validator = Validator(translator, PAIRS, metric="bleu", beam=3)
    found = validator.validate(model_of(translator))
    references = [[target for _, target in PAIRS]]
    assert found.score == found.facts["bleu"] == pytest.approx(sacrebleu.corpus_bleu(said, references).score)
    assert found.facts["baseline_bleu"] == pytest.approx(sacrebleu.corpus_bleu(SOURCES, references).score)
    assert found.facts["bleu_signature"].startswith("nrefs:1")
    assert beams == [3]


def test_either_metric_is_better_when_higher(monkeypatch: pytest.MonkeyPatch, translator: Translator) -> None:
    with_translations(monkeypatch, translator, SOURCES)
    model = model_of(translator)
    by_bleu = Validator(translator, PAIRS, metric="bleu", beam=1).validate(model)
    by_loss = Validator(translator, PAIRS, metric="loss", beam=1).validate(model)
    assert by_bleu.score == by_bleu.facts["bleu"]
    assert by_loss.score == -by_loss.facts["loss"]
    assert by_bleu.facts == by_loss.facts


def test_samples_begin_with_the_worst_and_end_with_the_best(
    monkeypatch: pytest.MonkeyPatch, translator: Translator
) -> None:
    said = [target for _, target in PAIRS]
    said[7] = "nothing of it"
    with_translations(monkeypatch, translator, said)
    samples = Validator(translator, PAIRS, metric="bleu", beam=1).validate(model_of(translator)).facts["samples"]
    assert len(samples) == 5
    assert samples[0] == {
        "source": PAIRS[7][0],
        "reference": PAIRS[7][1],
        "translation": "nothing of it",
        "bleu": pytest.approx(0.0, abs=5),
    }
    assert samples[-1]["bleu"] == 100.0
    assert [sample["bleu"] for sample in samples] == sorted(sample["bleu"] for sample in samples)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_pairs_give_few_samples(translator: Translator, n: int) -> None:
    validator = Validator(translator, PAIRS[:n], metric="loss", beam=1)
    samples = validator.validate(model_of(translator)).facts["samples"]
    assert sorted(sample["source"] for sample in samples) == sorted(SOURCES[:n])


def test_final_has_all_metrics_with_the_beam_asked_for(monkeypatch: pytest.MonkeyPatch, translator: Translator) -> None:
    beams = with_translations(monkeypatch, translator, [target for _, target in PAIRS])
    scores, found, samples = Validator(translator, PAIRS, metric="bleu", beam=1).final(beam=5, reporter=Silent())
    assert found == pytest.approx(perplexity(translator.score(SOURCES, [target for _, target in PAIRS])))
    assert [scores.bleu.score, scores.chrf.score, scores.ter.score] == pytest.approx([100, 100, 0])
    assert (beams, len(samples)) == ([5], 5)


def test_a_model_that_diverged_can_still_be_scored(monkeypatch: pytest.MonkeyPatch, translator: Translator) -> None:
    with_translations(monkeypatch, translator, SOURCES)
    lost = PairScore(log_prob=-1e6, n_pieces=2)
    monkeypatch.setattr(translator, "score", lambda *_: [dataclasses.replace(lost) for _ in PAIRS])
    facts = Validator(translator, PAIRS, metric="loss", beam=1).validate(model_of(translator)).facts
    assert facts["loss"] == 5e5
    assert math.isfinite(facts["perplexity"])
