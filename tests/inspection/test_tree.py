"""The tree is the search: its best path is the result, its scores are the search's."""

import math

import pytest
import torch

from attendo.decoding.search import Hypothesis, SearchOptions
from attendo.engines.torch_engine import TorchEngine
from attendo.inspection.tree import BeamTree, Node
from attendo.text.tokenizer import BOS, EOS
from tests.untrained import VOCAB_SIZE, untrained_model

SOURCES = [[261, 270, 281, 290], [300, 299, 266], [264, 265, 266, 267, 268, 269, 270]]
MORE = [[261 + (7 * i + 3 * j * j) % 46 for j in range(2 + i % 7)] for i in range(23)]
LIMIT = 11


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    return TorchEngine(untrained_model(VOCAB_SIZE, seed=5), torch.device("cpu"))


def grown(engine: TorchEngine, source: list[int], options: SearchOptions) -> tuple[BeamTree, list[Hypothesis]]:
    tree = BeamTree(options, BOS)
    return tree, engine.watched(source, LIMIT, options, tree)


def ids(tree: BeamTree, node: Node) -> tuple[int, ...]:
    path = tree.path(node)
    assert path[-1].id == EOS
    return tuple(one.id for one in path[:-1])


@pytest.mark.parametrize("source", SOURCES, ids=len)
@pytest.mark.parametrize(
    "options",
    [SearchOptions(beam=1), SearchOptions(beam=2), SearchOptions(beam=5), SearchOptions(beam=5, stopping="exact")],
    ids=lambda options: f"{options.beam} {options.stopping}",
)
def test_the_best_path_is_the_result(engine, source, options):
    tree, watched = grown(engine, source, options)
    (found,) = engine.search([source], [LIMIT], options)
    assert watched[0].ids == found[0].ids  # watching changes nothing
    best = tree.finished()[0]
    assert ids(tree, best) == found[0].ids
    assert best.score == pytest.approx(found[0].score, abs=1e-5)
    assert best.total == pytest.approx(found[0].log_prob, abs=1e-5)
    assert [node.log_prob for node in tree.best_path()] == pytest.approx(found[0].token_log_probs, abs=1e-5)
    (scored,) = engine.score([source], [found[0].ids])
    assert math.fsum(scored) == pytest.approx(best.total, abs=1e-4)


def test_what_ended_is_what_n_best_gives(engine):
    by_score_alone = 0
    for source in MORE:
        tree, _ = grown(engine, source, SearchOptions(beam=5))
        (found,) = engine.search([source], [LIMIT], SearchOptions(beam=5, n_best=5))
        assert [ids(tree, node) for node in tree.finished()[:5]] == [one.ids for one in found]
        assert [node.score for node in tree.finished()[:5]] == pytest.approx([one.score for one in found], abs=1e-5)
        by_score_alone += [one.log_prob for one in found] != sorted((one.log_prob for one in found), reverse=True)
    assert by_score_alone  # or nobody could tell


def require_fair(tree: BeamTree, now: list[Node], step: int) -> None:
    """That one step of a beam of 3 chose as it should."""
    assert [node.total for node in now] == sorted((node.total for node in now), reverse=True)
    assert [node.rank for node in now] == sorted(node.rank for node in now)
    kept = [node for node in now if node.state == "kept"]
    dropped = [node for node in now if node.state == "dropped" and node.id != EOS]
    assert len(kept) <= 3
    assert {node.state for node in now if node.id == EOS and node.rank > 3} <= {"dropped"}
    assert {node.state for node in now if node.id == EOS and node.rank <= 3} <= {"finished"}
    assert not dropped or min(node.total for node in kept) >= max(node.total for node in dropped)
    for node in now:
        parent = tree.nodes[node.parent or 0]
        assert (parent.step, parent.state) == (step - 1, "kept")
        assert node.total == pytest.approx(parent.total + node.log_prob, abs=1e-5)
        assert node.score == pytest.approx(node.total / SearchOptions().penalty(step))


def test_a_step_keeps_the_best_and_drops_the_rest(engine):
    too_late = 0
    for source in MORE:
        tree, _ = grown(engine, source, SearchOptions(beam=3))
        assert [node.number for node in tree.nodes] == list(range(len(tree.nodes)))
        too_late += sum(node.id == EOS and node.rank > 3 for node in tree.nodes)
        for step in range(1, tree.nodes[-1].step + 1):
            require_fair(tree, [node for node in tree.nodes if node.step == step], step)
    assert too_late  # an end beyond the beam is dropped, and there must be one


def test_where_the_runner_up_lost(engine):
    for source in SOURCES:
        tree, _ = grown(engine, source, SearchOptions(beam=4))
        found = tree.runner_up()
        assert found is not None
        assert found.node is tree.finished()[1]
        ours, theirs = tree.best_path(), tree.path(found.node)
        step = found.parted[0].step
        assert ours[: step - 1] == theirs[: step - 1]
        assert (ours[step - 1], theirs[step - 1]) == found.parted
        assert found.parted[0] != found.parted[1]
        shared = min(len(ours), len(theirs))
        behind = [theirs[i].total < ours[i].total for i in range(shared)]
        if found.behind_from is None:
            assert not behind[-1]
        else:
            assert all(behind[found.behind_from - 1 :])
            assert not behind[found.behind_from - 2] or found.behind_from == 1


def test_a_prefix_that_had_not_ended_can_be_the_runner_up(engine):
    tree, _ = grown(engine, SOURCES[1], SearchOptions(beam=1))
    found = tree.runner_up()
    assert len(tree.finished()) == 1
    assert found is None or found.node.state == "kept"
