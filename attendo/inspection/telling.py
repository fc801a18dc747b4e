"""What was seen in lines of text, for a terminal."""

import math
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from torch import Tensor

from attendo.inspection.inspector import Inspection
from attendo.inspection.reading import Reading
from attendo.inspection.rollout import stretched
from attendo.inspection.seen import Choice, Seen
from attendo.inspection.tree import BeamTree, Node

SHADES = " ░▒▓█"  # nothing, from 0.1, 0.3, 0.5, 0.7 on
SPACE = "▁"
MOST_LABELS = 10
MOST_PARTNERS = 3


def in_words(seen: Inspection | Reading, width: int, name: str | None = None) -> list[str]:
    """All of it. `name`: the map of a head, a layer or a kind that is asked for, as `Seen.map` takes it."""
    if isinstance(seen, Reading):
        return _reading_lines(seen, width, name)
    lines = _translation_lines(seen, width)
    return lines if name is None else [*lines, "", *map_lines(seen, name, width)]


def _reading_lines(seen: Reading, width: int, name: str | None) -> list[str]:
    """What was read, what the model makes of it, and where it looks: by the mean of all heads, if no map is named."""
    parts = [[f"read  {seen.heading}", *_without_lines(seen)]]
    if seen.probabilities:
        parts.append(label_lines(seen))
    if seen.guesses:
        parts.append(guess_lines(seen))
    if seen.evidence:
        parts.append(evidence_lines(seen))
    if seen.picture is None:
        if seen.kinds or name is not None:
            parts.append(map_lines(seen, name or seen.kinds[0], width))
    elif name is None:
        title = "How much of each patch has come to the label: attention rollout"
        parts.append([title, *patch_lines(seen.picture.rollout_RQ)])
    else:
        patches = patch_lines(seen.picture.over(seen.map(name)[1]))
        parts.append([f"What is looked at for the label: {map_in_words(name)}", *patches])
    return [line for number, part in enumerate(parts) for line in ([""] if number else []) + part]


def label_lines(seen: Reading) -> list[str]:
    """The likeliest labels."""
    shown = list(seen.probabilities.items())[:MOST_LABELS]
    longest = max(cell_len(label) for label, _ in shown)
    lines = [f"  {_padded(label, longest)}  {share:.3f}  {'█' * round(30 * share)}".rstrip() for label, share in shown]
    rest = len(seen.probabilities) - len(shown)
    return ["The likeliest labels", *lines, *([f"  and {rest} others"] if rest else [])]


def evidence_lines(seen: Reading) -> list[str]:
    """What each piece says for the likeliest label, or against it."""
    longest = max(map(cell_len, seen.positions))
    lines = [evidence_in_words(seen)]
    for piece, value, share in zip(seen.positions, seen.evidence, seen.evidence_shares, strict=True):
        bar = ("█" if share > 0 else "░") * round(20 * abs(share))
        lines.append(f"  {_padded(piece, longest)}  {value:+.3f}  {bar}".rstrip())
    return lines


def evidence_in_words(seen: Reading) -> str:
    return f"What each piece says for {next(iter(seen.probabilities))!r} (+) or against it (-)"


def guess_lines(seen: Reading) -> list[str]:
    """What the model expects: after each piece, or in each gap."""
    if not seen.goes_on:
        return [
            "The likeliest pieces in each gap",
            *(f"  {seen.positions[one.position]}  {_chances(one.likeliest)}" for one in seen.guesses),
        ]
    longest = max(map(cell_len, seen.positions))
    lines = ["What comes after each piece, how likely that is, and the likeliest there"]
    for one in seen.guesses:
        begin = f"  {_padded(seen.positions[one.position], longest)} →"
        if one.given is None:
            lines.append(f"{begin} {' ' * longest}           {_chances(one.likeliest)}")
            continue
        others = [choice for choice in one.likeliest if choice.piece != one.given.piece]
        mark = " " if one.likeliest[0].piece == one.given.piece else "!"  # another piece was likelier
        sure = f"{mark} {math.exp(one.given.log_prob):.3f}"
        lines.append(f"{begin} {_padded(one.given.piece, longest)} {sure}   {_chances(others)}")
    return lines


def _chances(choices: Sequence[Choice]) -> str:
    return "  ".join(f"{one.piece} {math.exp(one.log_prob):.3f}" for one in choices)


def map_lines(seen: Seen, name: str, width: int) -> list[str]:
    """Each piece with those that it looks at most; where there is room, how much each looks at each."""
    kind, weights_TS = seen.map(name)
    rows, columns = seen.labels(kind)
    longest = max(map(cell_len, rows))
    lines = [f"Where each piece looks: {map_in_words(name)}"]
    best = weights_TS.topk(min(MOST_PARTNERS, len(columns)))
    for row, values, places in zip(rows, best.values.tolist(), best.indices.tolist(), strict=True):
        pairs = zip(places, values, strict=True)
        partners = [f"{columns[place]} ({value:.2f})" for place, value in pairs if value >= 0.05 or value == values[0]]
        lines.append(f"  {_padded(row, longest)}  ← {'  '.join(partners)}")
    table = _table(rows, columns, weights_TS.tolist(), longest)
    return [*lines, "", *table] if max(map(cell_len, table)) <= width else lines


def map_in_words(name: str) -> str:
    return ("the mean of all heads of {}", "the mean of the heads of {}", "head {}")[name.count(".")].format(name)


def patch_lines(weights_RQ: Tensor) -> list[str]:
    """A patch is two characters, from nothing for the smallest weight to black for the largest."""
    shares = stretched(weights_RQ).tolist()
    edge = "─" * (2 * len(shares[0]))
    return [
        f"  ┌{edge}┐",
        *(f"  │{''.join(shade(share) * 2 for share in row)}│" for row in shares),
        f"  └{edge}┘  from {weights_RQ.min():.4f} to {weights_RQ.max():.4f}",
    ]


def _translation_lines(seen: Inspection, width: int) -> list[str]:
    """The two sentences, what belongs together, how sure each piece is, and the search."""
    lines = [
        f"source       {seen.source.text}",
        f"translation  {seen.target.text}",
        f"score {seen.score:.3f}, log p {seen.log_prob:.3f}",
    ]
    lines += [*_without_lines(seen), *([seen.missing] if seen.missing else [])]
    lines += ["", *alignment_lines(seen, width), "", *token_lines(seen)]
    if seen.tree is not None:
        lines += ["", *tree_lines(seen, seen.tree), "", *runner_up_lines(seen, seen.tree)]
    return lines


def _without_lines(seen: Seen) -> list[str]:
    return [f"without {', '.join(map(str, seen.without))}"] if seen.without else []


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
    target, source = ([word.text for word in side.words] for side in (seen.target, seen.source))
    table = _table(target, source, weights, longest)
    return [*lines, "", *table] if max(map(cell_len, table)) <= width else lines


def _table(rows: Sequence[str], columns: Sequence[str], weights: Sequence[Sequence[float]], longest: int) -> list[str]:
    """What is looked at across, who looks down, the weight as a shade under the word."""
    sizes = [max(2, cell_len(column)) for column in columns]
    head = " ".join(_padded(column, size) for column, size in zip(columns, sizes, strict=True))
    lines = [f"  {' ' * longest}  {head.rstrip()}"]
    for name, row in zip(rows, weights, strict=True):
        cells = [_padded(shade(weight) * 2, size) for weight, size in zip(row, sizes, strict=True)]
        lines.append(f"  {_padded(name, longest)}  {' '.join(cells)}".rstrip())
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
