"""A beam search as a tree: every candidate that was considered, what became of it, and where the runner-up lost."""

from dataclasses import dataclass
from typing import Literal

from attendo.decoding.beam import ROOT, Seen
from attendo.decoding.search import SearchOptions

State = Literal["kept", "dropped", "finished"]


@dataclass(frozen=True, kw_only=True)
class Node:
    """A prefix, as its last id: `log_prob` is that of the id, `total` of the whole, `score` with the length penalty.

    kept: it went on, or was about to when the search ended. dropped: it fell out of the beam. finished: it ended.
    """

    number: int
    parent: int | None  # None: the root, which has no id
    step: int  # ids of the prefix
    id: int
    log_prob: float
    total: float
    score: float
    rank: int  # among all candidates of its step, from 1
    state: State


@dataclass(frozen=True)
class RunnerUp:
    """The second best, as the last node of its path, and where it lost.

    parted: the first nodes that the best and the second best do not share. behind_from: the step from which on the
    second's total stays below the best's, as long as both go on; None: it was not behind, and what came after decided.
    """

    node: Node
    parted: tuple[Node, Node]
    behind_from: int | None


class BeamTree:
    """Watches a beam search of one sentence, as `TorchEngine.watched` has it; node 0 is the root."""

    def __init__(self, options: SearchOptions, bos: int) -> None:
        self.options = options
        root = Node(number=0, parent=None, step=0, id=bos, log_prob=0.0, total=0.0, score=0.0, rank=1, state="kept")
        self.nodes = [root]
        self._numbers = {ROOT: 0}

    def __call__(self, seen: Seen) -> None:
        live = set(seen.live.node_BW[0][seen.live.log_prob_BW[0].isfinite()].tolist())
        found = zip(
            seen.node_BC[0].tolist(),
            seen.parent_BC[0].tolist(),
            seen.candidates.id_BC[0].tolist(),
            seen.candidates.token_log_prob_BC[0].tolist(),
            seen.candidates.log_prob_BC[0].tolist(),
            seen.ended_BC[0].tolist(),
            strict=True,
        )
        for rank, (node, parent, id_, log_prob, total, ended) in enumerate(found, start=1):
            if total == float("-inf"):  # nothing that may come next
                continue
            self._numbers[node] = len(self.nodes)
            self.nodes.append(
                Node(
                    number=len(self.nodes),
                    parent=self._numbers[parent],
                    step=seen.length,
                    id=id_,
                    log_prob=log_prob,
                    total=total,
                    score=total / self.options.penalty(seen.length),
                    rank=rank,
                    state="finished" if ended else "kept" if node in live else "dropped",
                )
            )

    def finished(self) -> list[Node]:
        """What ended, best first; of equal scores the earlier."""
        return sorted((node for node in self.nodes if node.state == "finished"), key=lambda node: -node.score)

    def path(self, node: Node) -> list[Node]:
        """From the first id to this one."""
        path = []
        while node.parent is not None:
            path.append(node)
            node = self.nodes[node.parent]
        return path[::-1]

    def best_path(self) -> list[Node]:
        return self.path(self.finished()[0])

    def runner_up(self) -> RunnerUp | None:
        """The second that ended; where one alone did, the best prefix that was alive to the end."""
        best, *others = self.finished()
        last = self.nodes[-1].step
        open_ = [node for node in self.nodes if node.step == last and node.state == "kept"]
        if not others and not open_:
            return None
        node = others[0] if others else max(open_, key=lambda node: node.score)
        pairs = list(zip(self.path(best), self.path(node), strict=False))
        parted = next(pair for pair in pairs if pair[0] is not pair[1])  # at the latest where the shorter one ends
        behind_from = None
        for ours, theirs in reversed(pairs):
            if theirs.total >= ours.total:
                break
            behind_from = theirs.step
        return RunnerUp(node, parted, behind_from)
