"""An inspection in lines of text, for a terminal."""

import math
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from attendo.inspection.inspector import Inspection
from attendo.inspection.tree import BeamTree, Node

SHADES = " ░▒▓█"  # nothing, from 0.1, 0.3, 0.5, 0.7 on
SPACE = "▁"


def in_words(seen: Inspection, width: int) -> list[str]:
    """All of it: the two sentences, what belongs together, how sure each piece is, and the search."""
    lines = [
        f"source       {seen.source.text}",
        f"translation  {seen.target.text}",
        f"score {seen.score:.3f}, log p {seen.log_prob:.3f}",
    ]
    if seen.without:
        lines.append(f"without {', '.join(map(str, seen.without))}")
    lines += ["", *alignment_lines(seen, width), "", *token_lines(seen)]
    if seen.tree is not None:
        lines += ["", *tree_lines(seen, seen.tree), "", *runner_up_lines(seen, seen.tree)]
    return lines


def alignment_lines(seen: Inspection, width: int) -> list[str]:
    """Each target word with the source words it belongs to; where there is room, how much each looks at each."""
    lines = [f"Where each word looks: {seen.view.in_words}"]
    weights, links = seen.word_weights(), seen.links()
    longest = max((cell_len(word.text) for word in seen.target.words), default=0)
    for j, word in enumerate(seen.target.words):
        partners = [i for i, target in links if target == j]
        text = " ".join(f"{seen.source.words[i].text} ({weights[j][i]:.2f})" for i in partners) or "–"
        lines.append(f"  {_padded(word.text, longest)}  ← {text}")
    alone = [word.text for i, word in enumerate(seen.source.words) if i not in {source for source, _ in links}]
    if alone:
        lines.append(f"  nothing looks most at: {' '.join(alone)}")
    table = _table(seen, weights, longest)
    return [*lines, "", *table] if table and max(map(cell_len, table)) <= width else lines


def _table(seen: Inspection, weights: Sequence[Sequence[float]], longest: int) -> list[str]:
    """Source words across, target words down, the weight as a shade under the word."""
    columns = [max(2, cell_len(word.text)) for word in seen.source.words]
    head = " ".join(_padded(word.text, size) for word, size in zip(seen.source.words, columns, strict=True))
    lines = [f"  {' ' * longest}  {head.rstrip()}"]
    for word, row in zip(seen.target.words, weights, strict=True):
        cells = [_padded(shade(weight) * 2, size) for weight, size in zip(row, columns, strict=True)]
        lines.append(f"  {_padded(word.text, longest)}  {' '.join(cells)}".rstrip())
    return lines


def shade(weight: float) -> str:
    return SHADES[min(len(SHADES) - 1, max(0, math.ceil(5 * weight - 0.5 + 1e-9)))]


def token_lines(seen: Inspection) -> list[str]:
    """Each piece with its probability, and what else was likely."""
    lines = ["How sure each piece is, and the likeliest at its place"]
    longest = max(cell_len(token.chosen.piece) for token in seen.tokens)
    for token in seen.tokens:
        others = [
            f"{one.piece} {math.exp(one.log_prob):.3f}" for one in token.alternatives if one.piece != token.chosen.piece
        ]
        likeliest = token.alternatives[0].piece == token.chosen.piece
        mark = " " if likeliest else "!"  # another piece was likelier
        lines.append(
            f"  {_padded(token.chosen.piece, longest)} {mark} {math.exp(token.chosen.log_prob):.3f}   "
            f"{'  '.join(others)}"
        )
    return lines


def tree_lines(seen: Inspection, tree: BeamTree) -> list[str]:
    """The prefixes that were in the beam, as far as they got."""
    shown = _shown(tree)
    children: dict[int, list[Node]] = {}
    for node in tree.nodes[1:]:
        if node.number in shown:
            children.setdefault(node.parent or 0, []).append(node)
    dropped = sum(node.state == "dropped" for node in tree.nodes)
    lines = [
        f"The beam of {tree.options.beam}, with log p of each prefix; {dropped} other candidates never got in",
        "★ ● it ended   × it fell out of the beam   … it was alive when the search ended",
        "  <s>",
    ]
    return lines + [f"  {line}" for line in _branches(seen, tree, tree.nodes[0], children)]


def _shown(tree: BeamTree) -> set[int]:
    """What was in the beam or ended, with the way to it."""
    return {node.number for node in tree.nodes if node.state != "dropped"}


def _branches(seen: Inspection, tree: BeamTree, node: Node, children: dict[int, list[Node]]) -> Iterator[str]:
    """A line for each stretch without a fork."""
    below = sorted(children.get(node.number, []), key=lambda child: -_hope(child, children))
    for child in below:
        last = child is below[-1]
        stretch = [child]
        while len(children.get(stretch[-1].number, [])) == 1:
            stretch.append(children[stretch[-1].number][0])
        end = stretch[-1]
        pieces = "".join(seen.target_tokenizer.pieces([one.id for one in stretch]))
        text = pieces.replace(SPACE, " ").strip() or SPACE
        yield f"{'└' if last else '├'}─ {text}{_fate(tree, end, children)}"
        for line in _branches(seen, tree, end, children):
            yield f"{' ' if last else '│'}  {line}"


def _hope(node: Node, children: dict[int, list[Node]]) -> float:
    """The best score that came of a node."""
    found = [_hope(child, children) for child in children.get(node.number, [])]
    return max([node.score if node.state == "finished" else -math.inf, *found])


def _fate(tree: BeamTree, node: Node, children: dict[int, list[Node]]) -> str:
    if node.state == "finished":
        mark = "★" if node is tree.finished()[0] else "●"
        return f"  {mark} score {node.score:.3f}, log p {node.total:.3f}"
    if children.get(node.number):
        return f"  {node.total:.2f}"
    if node.step == tree.nodes[-1].step:
        return f"  {node.total:.2f} …"
    return f"  {node.total:.2f} × after step {node.step}"


def runner_up_lines(seen: Inspection, tree: BeamTree) -> list[str]:
    """Where the second best lost."""
    found = tree.runner_up()
    if found is None:
        return ["There was no second path."]
    ours, theirs = found.parted
    our_piece, their_piece = (seen.target_tokenizer.pieces([node.id])[0] for node in found.parted)
    verdict = f"From step {found.behind_from} on it was behind."
    if found.behind_from is None:
        verdict = "It was not behind as long as both went on: what came after, or the length penalty, decided."
    return [
        f"★ the translation, score {tree.finished()[0].score:.3f}. The runner-up"
        + ("" if found.node.state == "finished" else ", which had not ended,")
        + f" is {seen.spelled(found.node)!r}, score {found.node.score:.3f}.",
        f"They part at step {ours.step}: {our_piece} (p {math.exp(ours.log_prob):.2f}) against {their_piece} "
        f"(p {math.exp(theirs.log_prob):.2f}). {verdict}",
    ]


def _padded(text: str, width: int) -> str:
    """A Chinese character is two columns wide."""
    return text + " " * (width - cell_len(text))
