"""Where a token stands, as interchangeable parts that act in one of two places.

On the embeddings: called with the vectors, the ids they are of and the position of the first, as `Embedding` does.
Inside attention: an `AttentionPositions`, which may change queries and keys, the scores, and what is made of values.

Suffixes: B batch, T positions or queries, S keys, D d_model, H heads, K head size (d_key, or d_value after the values),
P relative distances.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attendo.errors import DataError
from attendo.nn.linear import Linear
from attendo.nn.names import Layout


def sinusoids(n_positions: int, d_model: int, *, layout: Layout, base: float = 10000.0) -> Tensor:
    """PE(pos, 2i) = sin(pos / base^(2i / d_model)), PE(pos, 2i + 1) = cos(the same angle): [T, D].

    That is `interleaved`, the paper's layout. `halves` puts all sines before all cosines, as tensor2tensor and Marian
    do: the same columns in another order, with an odd d_model the extra column is a sine in both. `fairseq`, which
    M2M100 has, does so too, and has other frequencies, of which the last is 1 / base; it counts positions from 2 on,
    and with an odd d_model the extra column is zero.
    """
    if layout == "fairseq":
        half = d_model // 2
        exponents = torch.arange(half, dtype=torch.float64) / (half - 1)
        places = torch.arange(2, n_positions + 2, dtype=torch.float64)
        angles = places[:, None] * torch.exp(-math.log(base) * exponents)
        return F.pad(torch.cat((angles.sin(), angles.cos()), dim=1), (0, d_model % 2)).float()
    exponents = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model
    positions = torch.arange(n_positions, dtype=torch.float64)
    angles = positions[:, None] * torch.exp(-math.log(base) * exponents)
    sines, cosines = angles.sin(), angles[:, : d_model // 2].cos()
    if layout == "halves":
        return torch.cat((sines, cosines), dim=1).float()
    table = torch.empty(n_positions, d_model, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = sines, cosines
    return table.float()


def _reaching(table: Tensor, end: int, *, layout: Layout, base: float = 10000.0) -> Tensor:
    """The table itself where it has `end` positions, else a longer one on the same device and of the same type."""
    if end <= len(table):
        return table
    with torch.inference_mode(False):  # the table stays, and training cannot use what inference mode has made
        return sinusoids(2 * end, table.shape[1], layout=layout, base=base).to(table)


class SinusoidalPositions(nn.Module):
    """x + PE. Nothing to learn, so no limit on the length: the table grows when a longer text comes."""

    def __init__(self, *, d_model: int, layout: Layout = "interleaved") -> None:
        super().__init__()
        self.layout: Layout = layout
        self.register_buffer("table", sinusoids(256, d_model, layout=layout), persistent=False)
        self.table: Tensor

    def forward(self, x_BTD: Tensor, ids_BT: Tensor | None = None, *, offset: int = 0) -> Tensor:  # noqa: ARG002
        return x_BTD + self.places(offset, offset + x_BTD.shape[1])

    def places(self, start: int, end: int) -> Tensor:
        """PE of the positions from `start` to `end`: [T, D]."""
        table = self.table = _reaching(self.table, end, layout=self.layout)
        return table[start:end]


class ConcatenatedPositions(nn.Module):
    """[x ; PE] W + b, with W: [d_model, 2 d_model]: the position stands beside the word instead of on top of it.

    Added positions are the special case W = [1 ; 1], of two identity matrices; here W learns what of each to keep.
    """

    def __init__(self, *, d_model: int, layout: Layout = "interleaved") -> None:
        super().__init__()
        self.sinusoids = SinusoidalPositions(d_model=d_model, layout=layout)
        self.projection = Linear(2 * d_model, d_model)

    def forward(self, x_BTD: Tensor, ids_BT: Tensor | None = None, *, offset: int = 0) -> Tensor:  # noqa: ARG002
        places_TD = self.sinusoids.places(offset, offset + x_BTD.shape[1])
        return self.projection(torch.cat((x_BTD, places_TD.expand_as(x_BTD)), dim=-1))


class LearnedPositions(nn.Module):
    """x + P, a learned vector for each of `n_positions` places.

    In P, [before + n_positions, D], the first `before` vectors stand for no place, as in BART and RoBERTa.
    """

    def __init__(self, *, d_model: int, n_positions: int, before: int = 0) -> None:
        super().__init__()
        self.before = before
        self.weight = nn.Parameter(torch.empty(before + n_positions, d_model))

    def forward(self, x_BTD: Tensor, ids_BT: Tensor | None = None, *, offset: int = 0) -> Tensor:  # noqa: ARG002
        end, n_positions = offset + x_BTD.shape[1], len(self.weight) - self.before
        if end > n_positions:
            raise DataError(
                f"a sequence of {end} pieces is longer than the {n_positions} positions this model has learned. "
                "Shorten it, or train with a larger model.n_positions or with sinusoidal positions."
            )
        return x_BTD + self.weight[self.before + offset : self.before + end]


class ComplexPositions(nn.Module):
    """A word is a wave: r e^{i (ω pos + θ)} in each complex feature (Wang et al. 2020).

    The word's vector, d_model real numbers, is read as d_model / 2 complex ones, z = r e^{iθ}: its amplitude and first
    phase. `weight` holds the frequencies ω of every word, [vocab_size, d_model / 2], learned like the vectors. So
    z_j e^{i ω_j pos} is computed as a turn of each pair of features, and the real network goes on with real and
    imaginary parts side by side.
    """

    def __init__(self, *, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model // 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The frequencies of the sinusoids, the same for every word at first."""
        half = self.weight.shape[1]
        with torch.no_grad():
            self.weight.copy_(torch.exp(-math.log(10000.0) / half * torch.arange(half)).expand_as(self.weight))

    def forward(self, x_BTD: Tensor, ids_BT: Tensor, *, offset: int = 0) -> Tensor:
        positions_T1 = torch.arange(offset, offset + x_BTD.shape[1], device=x_BTD.device)[:, None]
        angles_BTK = F.embedding(ids_BT, self.weight) * positions_T1
        return turn_pairs(x_BTD, angles_BTK.sin(), angles_BTK.cos())


def turn_pairs(x: Tensor, sin: Tensor, cos: Tensor) -> Tensor:
    """(x₁, x₂) -> (x₁ cos a - x₂ sin a, x₁ sin a + x₂ cos a) for each pair of features (2i, 2i + 1)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class AttentionPositions(nn.Module):
    """What a position part may do inside attention; this one does nothing, and others override what they need.

    The queries stand at positions offset, offset + 1, …; the keys at 0, 1, …
    """

    needs_weights = False  # True: `gathered` is used, so that the fused kernel, which has no weights, is not

    def turned(self, x_BHTK: Tensor, *, offset: int) -> Tensor:  # noqa: ARG002
        """Queries or keys, with their positions worked in."""
        return x_BHTK

    def bias(self, queries_BHTK: Tensor, *, scale: float, offset: int, n_keys: int) -> Tensor | None:  # noqa: ARG002
        """What is added to the scores, broadcastable to [B, H, T, S]; `scale` is what the scores are multiplied by."""
        return None

    def gathered(self, weights_BHTS: Tensor, *, offset: int) -> Tensor | None:  # noqa: ARG002
        """What is added to the weighted sum of the values, [B, H, T, K]."""
        return None


class RotaryPositions(AttentionPositions):
    """Turns each pair of features (2i, 2i + 1) of queries and keys by pos * base^(-2i / d_key) (Su et al. 2021).

    q·k then depends on the distance of the two alone.
    """

    def __init__(self, *, d_key: int, base: float = 10000.0) -> None:
        super().__init__()
        self.base = base
        self.register_buffer("table", sinusoids(256, d_key, layout="halves", base=base), persistent=False)
        self.table: Tensor

    def turned(self, x_BHTK: Tensor, *, offset: int) -> Tensor:
        end = offset + x_BHTK.shape[2]
        table = self.table = _reaching(self.table, end, layout="halves", base=self.base)
        sin_TK, cos_TK = table[offset:end].chunk(2, dim=-1)
        return turn_pairs(x_BHTK, sin_TK, cos_TK)


class ShawPositions(AttentionPositions):
    """Learned vectors for relative distances, in the score and in the value (Shaw et al. 2018).

        score(t, s) = q_t · (k_s + a^K_{s-t}) / √d_key        output_t = Σ_s weight(t, s) (v_s + a^V_{s-t})

    Distances beyond `max_distance` either way are taken for `max_distance`. The vectors are the same for all heads.
    `keys`: [2 max_distance + 1, d_key], `values`: [2 max_distance + 1, d_value].
    """

    needs_weights = True

    def __init__(self, *, d_key: int, d_value: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.keys = nn.Parameter(torch.empty(2 * max_distance + 1, d_key))
        self.values = nn.Parameter(torch.empty(2 * max_distance + 1, d_value))

    def bias(self, queries_BHTK: Tensor, *, scale: float, offset: int, n_keys: int) -> Tensor:
        scores_BHTP = queries_BHTK @ (self.keys * scale).T
        return scores_BHTP.gather(-1, self._places(queries_BHTK, offset, n_keys).expand(*scores_BHTP.shape[:3], -1))

    def gathered(self, weights_BHTS: Tensor, *, offset: int) -> Tensor:
        places_TS = self._places(weights_BHTS, offset, weights_BHTS.shape[-1])
        summed_BHTP = weights_BHTS.new_zeros(*weights_BHTS.shape[:3], len(self.values))
        return summed_BHTP.scatter_add(-1, places_TS.expand_as(weights_BHTS), weights_BHTS) @ self.values

    def _places(self, like_BHTX: Tensor, offset: int, n_keys: int) -> Tensor:
        """Which row of the tables belongs to each query and key: [T, S]."""
        distances_TS = relative_distances(like_BHTX.shape[2], n_keys, offset=offset, device=like_BHTX.device)
        return distances_TS.clamp(-self.max_distance, self.max_distance) + self.max_distance


class BucketPositions(AttentionPositions):
    """A learned number added to the score for each head and bucket of distances (T5, Raffel et al. 2020).

    Near distances have a bucket each, farther ones share buckets that grow logarithmically up to `max_distance`. Where
    keys after the query can be seen (`both_ways`), half of the buckets are theirs. `weight`: [n_buckets, n_heads].
    One such part serves all layers of a stack.
    """

    def __init__(self, *, n_heads: int, n_buckets: int, max_distance: int, both_ways: bool) -> None:
        super().__init__()
        self.n_buckets = n_buckets
        self.max_distance = max_distance
        self.both_ways = both_ways
        self.weight = nn.Parameter(torch.empty(n_buckets, n_heads))

    def bias(self, queries_BHTK: Tensor, *, scale: float, offset: int, n_keys: int) -> Tensor:  # noqa: ARG002
        distances_TS = relative_distances(queries_BHTK.shape[2], n_keys, offset=offset, device=queries_BHTK.device)
        return F.embedding(self.buckets(distances_TS), self.weight).permute(2, 0, 1)

    def buckets(self, distances_TS: Tensor) -> Tensor:
        """The bucket of each distance, key position minus query position."""
        n_buckets, first = self.n_buckets, torch.zeros_like(distances_TS)
        if self.both_ways:
            n_buckets //= 2
            first = torch.where(distances_TS > 0, n_buckets, 0)
            back = distances_TS.abs()
        else:
            back = (-distances_TS).clamp(min=0)
        n_exact = n_buckets // 2
        growth = torch.log(back.clamp(min=1) / n_exact) / math.log(self.max_distance / n_exact)
        far = (n_exact + (growth * (n_buckets - n_exact)).long()).clamp(max=n_buckets - 1)
        return first + torch.where(back < n_exact, back, far)


def relative_distances(n_queries: int, n_keys: int, *, offset: int, device: torch.device) -> Tensor:
    """Key position minus query position: [T, S]."""
    queries_T = torch.arange(offset, offset + n_queries, device=device)
    return torch.arange(n_keys, device=device) - queries_T[:, None]
