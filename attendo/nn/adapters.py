"""Low-rank adapters as bundles have them: beside the matrix W, A under the name W.down and B, times α/r, under W.up.

torch is not needed: whatever can be added and multiplied will do.
"""

from collections.abc import Mapping
from typing import Any

DOWN, UP = ".down", ".up"


def merged(weights: Mapping[str, Any]) -> dict[str, Any]:
    """W + B A in the place of every W with an adapter; what does not belong together stays."""
    plain = dict(weights)
    for name in [name.removesuffix(UP) for name in weights if name.endswith(UP)]:
        if name not in weights or name + DOWN not in weights:
            continue
        matrix, up, down = parts = weights[name], weights[name + UP], weights[name + DOWN]
        if any(part.ndim != 2 or part.dtype != matrix.dtype for part in parts):
            continue
        (rows, columns), rank = matrix.shape, len(down)
        if (*up.shape, *down.shape) == (rows, rank, rank, columns):
            plain[name] = matrix + up @ down
            del plain[name + UP], plain[name + DOWN]
    return plain
