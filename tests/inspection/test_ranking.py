import pytest
import torch

from attendo.alignment.heads import Head, heads_of, without_heads
from attendo.engines.torch_engine import TorchEngine
from attendo.errors import DataError
from attendo.evaluation.scores import bleu
from attendo.inspection.ranking import Ranking, Worth, rank_heads
from attendo.translator import Translator, nats_per_piece
from tests.numerals import sentence_pairs

PAIRS = sentence_pairs(23, seed=91)
SOURCES, REFERENCES = [source for source, _ in PAIRS], [target for _, target in PAIRS]


@pytest.fixture(scope="module")
def ranking(trained) -> Ranking:
    return rank_heads(trained.bundle, SOURCES, REFERENCES, with_bleu=True, device="cpu")


def test_every_head_is_missed_as_much_as_it_is(trained, ranking, tiny):
    assert {one.head for one in ranking.heads} == set(heads_of(trained.bundle.config.model))
    assert ranking.whole.loss == pytest.approx(nats_per_piece(tiny.score(SOURCES, REFERENCES)), abs=1e-4)
    head = Head("cross", 1, 2)
    (found,) = (one for one in ranking.heads if one.head == head)
    quiet = Translator(
        TorchEngine(without_heads(trained.bundle.model(), [head]), torch.device("cpu")),
        trained.bundle.tokenizers,
        max_length=61,
        languages=("en", "de"),
    )
    assert found.loss == pytest.approx(nats_per_piece(quiet.score(SOURCES, REFERENCES)), abs=1e-6)
    texts = [quiet.translate(source, beam=1, split=False, check=False).text for source in SOURCES]
    assert found.bleu == pytest.approx(bleu(texts, REFERENCES, target_language="de").score, abs=1e-6)


def test_the_one_that_is_missed_most_comes_first(trained, ranking):
    scores = [one.bleu for one in ranking.heads]
    assert scores == sorted(scores)
    by_loss = rank_heads(trained.bundle, SOURCES, REFERENCES, device="cpu")
    losses = [one.loss for one in by_loss.heads]
    assert losses == sorted(losses, reverse=True)
    assert by_loss.whole.bleu is None
    assert set(by_loss.to_json()) == {"pairs", "whole", "heads"}


def test_in_words():
    whole, one = Worth(None, 1.5, 30.0), Worth(Head("cross", 3, 2), 1.75, 20.5)
    lines = Ranking(whole, (one,), 1000, "nrefs:1").in_words()
    assert lines[0] == "All heads: loss 1.5000 nats per piece, BLEU 30.00 (nrefs:1), on 1,000 pairs."
    assert lines[2].split() == ["without", "loss", "added", "BLEU", "lost"]
    assert lines[3].split() == ["cross.3.2", "1.7500", "+0.2500", "20.50", "+9.50"]
    assert one.to_json(whole) == {"head": "cross.3.2", "loss": 1.75, "loss_added": 0.25, "bleu": 20.5, "bleu_lost": 9.5}
    assert "BLEU" not in " ".join(Ranking(Worth(None, 1.5, None), (), 7, None).in_words())


def test_pairs_are_needed(trained):
    with pytest.raises(DataError):
        rank_heads(trained.bundle, [], [], device="cpu")
