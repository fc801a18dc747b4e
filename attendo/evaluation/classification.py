"""How well labels are told: accuracy, F1, and which are taken for which."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attendo.errors import DataError


@dataclass(frozen=True)
class ClassificationScores:
    """matrix[i, j] is how many of label i were taken for label j."""

    labels: tuple[str, ...]
    matrix: NDArray[np.int64]

    @property
    def count(self) -> int:
        return int(self.matrix.sum())

    @property
    def accuracy(self) -> float:
        """The share of all that was told right."""
        return float(np.trace(self.matrix) / self.count)

    @property
    def standard_error(self) -> float:
        """Of the accuracy: √(p (1 - p) / n)"""
        return float(np.sqrt(self.accuracy * (1 - self.accuracy) / self.count))

    @property
    def f1(self) -> tuple[float, ...]:
        """Of each label: 2 right / (2 right + wrongly given + missed); 0 where it neither occurs nor is given."""
        right, real, given = np.diag(self.matrix), self.matrix.sum(1), self.matrix.sum(0)
        return tuple((2 * right / np.maximum(real + given, 1)).tolist())

    @property
    def macro_f1(self) -> float:
        """The mean of F1 over the labels that occur or are given: a rare one counts as much as a frequent one."""
        there = (self.matrix.sum(0) + self.matrix.sum(1)) > 0
        return float(np.mean(np.array(self.f1)[there]))

    def to_json(self) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy,
            "macro_f1": self.macro_f1,
            "count": self.count,
            "labels": list(self.labels),
            "f1": list(self.f1),
            "confusion": self.matrix.tolist(),
        }

    def table(self) -> list[list[str]]:
        """Rows for a bundle's card: metric, score, note."""
        return [
            ["accuracy", f"{self.accuracy:.2%}", f"of {self.count:,}"],
            ["F1, macro", f"{self.macro_f1:.4f}", "mean over the labels"],
        ]

    def in_words(self) -> list[str]:
        lines = [f"accuracy = {self.accuracy:.2%} of {self.count:,}", f"F1 = {self.macro_f1:.4f}, mean over labels"]
        width = max(len(label) for label in self.labels)
        lines += [
            f"  {label:<{width}}  F1 {score:.4f}  {int(row.sum()):,} of them, {int(row[number]):,} told right"
            for number, (label, score, row) in enumerate(zip(self.labels, self.f1, self.matrix, strict=True))
        ]
        return lines


def classification_scores(truth: Sequence[int], guesses: Sequence[int], labels: Sequence[str]) -> ClassificationScores:
    """truth and guesses are numbers of labels, item by item."""
    if len(truth) != len(guesses) or not truth:
        raise DataError(f"there are {len(truth)} labels and {len(guesses)} guesses: as many of both, and one at least.")
    matrix = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(matrix, (np.asarray(truth), np.asarray(guesses)), 1)
    return ClassificationScores(tuple(labels), matrix)


CELL, MARGIN = 56, 16


def confusion_picture(scores: ClassificationScores) -> str:
    """The matrix as an SVG picture: a row for each label, a column for each guess; darker is a larger share."""
    n, longest = len(scores.labels), max(len(label) for label in scores.labels)
    left, top = MARGIN + min(longest, 24) * 8 + 24, MARGIN + 44
    title = f"Confusion matrix: accuracy {scores.accuracy:.1%} of {scores.count:,}"
    told = f"{title}; across: told as"
    # A letter is about 7 wide.
    width, height = max(left + n * CELL, MARGIN + 7 * len(told)) + MARGIN, top + n * CELL + MARGIN
    shares = scores.matrix / np.maximum(scores.matrix.sum(1, keepdims=True), 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="{MARGIN + 8}" fill="#1b1f27">{escape(told)}</text>',
    ]
    for i, label in enumerate(scores.labels):
        middle = top + i * CELL + CELL / 2
        short = escape(label if len(label) <= 24 else label[:23] + "…")
        parts.append(
            f'<text x="{left - 8}" y="{middle}" fill="#1b1f27" text-anchor="end" dominant-baseline="central">'
            f"{short}</text>"
        )
        parts.append(
            f'<text x="{left + i * CELL + CELL / 2}" y="{top - 8}" fill="#1b1f27" text-anchor="middle">'
            f"{escape(label if len(label) <= 7 else label[:6] + '…')}</text>"
        )
        for j in range(n):
            share, count = float(shares[i, j]), int(scores.matrix[i, j])
            ink = "#ffffff" if share > 0.5 else "#1b1f27"
            x, y = left + j * CELL, top + i * CELL
            parts.append(
                f'<rect x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" fill="#2463c7" '
                f'fill-opacity="{share:.3f}" stroke="#e1e4ea"/>'
                f'<text x="{x + CELL / 2}" y="{y + CELL / 2}" fill="{ink}" text-anchor="middle" '
                f'dominant-baseline="central">{count:,}</text>'
            )
    return "\n".join([*parts, "</svg>\n"])
