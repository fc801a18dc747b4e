"""A whole search in one call: encoder, decoder and beam in C (attendo/native/search.c), from ids to ids. Without torch.

Suffixes: B sentences, V vocabulary, D d_model.
"""

import ctypes
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attendo import native

Array = NDArray[np.float32]
Ids = Sequence[int]

_long, _float, _pointer = ctypes.c_long, ctypes.c_float, ctypes.c_void_p

PLACES = {"post": 0, "pre": 1, "sandwich": 2}  # the numbers that search.c gives to them
STOPPING = {"first": 0, "exact": 1, "heuristic": 2}
NO_MEMORY = -2
_NO_MEMORY = "there is not enough memory for this search: translate fewer sentences at once."


class NotNumbersError(ArithmeticError):
    """The logits of a model are not numbers."""


class _Matrix(ctypes.Structure):
    _fields_ = (
        ("panels", _pointer),
        ("bias", _pointer),
        ("out", _long),
        ("in_", _long),
        *((name, _pointer) for name in ("bytes", "units", "sums")),
    )


class _Norm(ctypes.Structure):
    _fields_ = (("gain", _pointer), ("shift", _pointer))


class _Norms(ctypes.Structure):
    _fields_ = (("first", _Norm), ("second", _Norm))


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, _Norms) for name in ("attention", "to_memory", "feed_forward")),
        *((name, _Matrix) for name in ("query", "keys_values", "joined")),
        *((name, _Matrix) for name in ("memory_query", "memory_keys_values", "memory_joined")),
        *((name, _Matrix) for name in ("inner", "gate", "outer")),
    )


class _Stack(ctypes.Structure):
    _fields_ = (
        ("words", _pointer),
        ("places", _pointer),
        ("embedded", _Norm),
        ("last", _Norm),
        ("layers", ctypes.POINTER(_Layer)),
        ("n_layers", _long),
    )


class _Model(ctypes.Structure):
    _fields_ = (
        ("encoder", _Stack),
        ("decoder", _Stack),
        ("logits", _Matrix),
        *((name, _long) for name in ("d_model", "n_heads", "d_head", "d_ff", "norm_place", "activation")),
        *((name, _float) for name in ("epsilon", "scale", "output_scale")),
    )


class _Request(ctypes.Structure):
    _fields_ = (
        *((name, _pointer) for name in ("sources", "starts", "prefixes", "prefix_starts", "limits", "penalties")),
        ("forbidden", _pointer),
        *((name, _long) for name in ("n_forbidden", "n_sentences", "beam", "n_best", "stopping", "n_certain")),
        *((name, _long) for name in ("scored", "bos", "eos")),
    )


_ARGUMENTS: native.Signatures = {
    "pack": [*[_pointer] * 2, *[_long] * 2],
    "pack_bytes": [*[_pointer] * 4, *[_long] * 2],
    "has_bytes": [],
    "search_begin": [ctypes.POINTER(_Model), ctypes.POINTER(_Request)],
    "search_step": [_pointer],
    "search_through": [_pointer],
    "search_last": [_pointer],
    "search_found": [*[_pointer] * 4],
    "search_end": [_pointer],
    "search_logits": [_pointer, _long, _long, *[_pointer] * 6, _long],
}
_RETURNS = {
    "search_begin": _pointer,
    **dict.fromkeys(("search_step", "search_through", "search_last", "has_bytes"), _long),
    "search_logits": ctypes.c_int,
}


@functools.cache
def _library(name: str) -> ctypes.CDLL:
    return native.opened(name, _ARGUMENTS, returns=_RETURNS)


def has_bytes() -> bool:
    """Whether the library that serves multiplies in 8 bits on this processor."""
    chosen = native.name()
    return chosen is not None and bool(_library(chosen).has_bytes())


# --- the model -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matrix:
    """x Wᵀ + b. weight: [out, in]."""

    weight: Array
    bias: Array | None = None


@dataclass(frozen=True)
class Norm:
    """LayerNorm, or without a bias RMSNorm."""

    gain: Array
    bias: Array | None = None


Norms = tuple[Norm, ...]  # of a sublayer: one, or two with sandwich-norm


@dataclass(frozen=True, kw_only=True)
class Attention:
    """keys_values: both in one, those of the keys first."""

    norms: Norms
    query: Matrix
    keys_values: Matrix
    output: Matrix


@dataclass(frozen=True, kw_only=True)
class FeedForward:
    norms: Norms
    inner: Matrix
    gate: Matrix | None
    outer: Matrix


@dataclass(frozen=True, kw_only=True)
class Layer:
    attention: Attention
    to_memory: Attention | None  # a decoder's
    feed_forward: FeedForward


@dataclass(frozen=True, kw_only=True)
class Stack:
    """words: the vectors of ids, places: those of positions, which are added."""

    words_VD: Array
    places_TD: Array  # zeros, if none are added
    embedded: Norm | None
    layers: tuple[Layer, ...]
    last: Norm | None


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A Transformer. All its attentions have heads of `d_head` numbers, a multiple of `native.lanes()`.

    activation: 0 relu, 1 gelu by tanh, 2 silu, 3 gelu. scale: of the products of queries and keys.
    """

    encoder: Stack
    decoder: Stack
    logits: Matrix
    n_heads: int
    d_head: int
    norm_place: Literal["post", "pre", "sandwich"]
    activation: int
    epsilon: float
    scale: float
    output_scale: float


class Model:
    """The parts, laid out as the library reads them; they are not needed any more.

    int8: matrices are rounded to 8 bits, a row by its largest number, and so is what they are multiplied with.
    """

    def __init__(self, parts: Parts, *, int8: bool = False) -> None:
        self._int8 = int8
        chosen = native.name()
        assert chosen is not None
        self.library = _library(chosen)
        self._held: list[Any] = []  # what the library is given the addresses of
        self.vocab_size = len(parts.logits.weight)
        self.n_remembered = len(parts.decoder.layers) * 2 * parts.n_heads * parts.d_head  # keys and values of an id
        self.source_vocab_size = len(parts.encoder.words_VD)
        d_ff, d_model = parts.encoder.layers[0].feed_forward.inner.weight.shape
        self.struct = _Model(
            encoder=self._stack(parts.encoder),
            decoder=self._stack(parts.decoder),
            logits=self._matrix(parts.logits),
            d_model=d_model,
            d_ff=d_ff,
            n_heads=parts.n_heads,
            d_head=parts.d_head,
            norm_place=PLACES[parts.norm_place],
            activation=parts.activation,
            epsilon=parts.epsilon,
            scale=parts.scale,
            output_scale=parts.output_scale,
        )

    def _stack(self, stack: Stack) -> _Stack:
        layers = (_Layer * len(stack.layers))(*map(self._layer, stack.layers))
        self._held.append(layers)
        return _Stack(
            self._at(stack.words_VD),
            self._at(stack.places_TD),
            self._norm(stack.embedded),
            self._norm(stack.last),
            layers,
            len(stack.layers),
        )

    def _layer(self, layer: Layer) -> _Layer:
        own, other, feed_forward = layer.attention, layer.to_memory, layer.feed_forward
        found = _Layer(
            attention=self._norms(own.norms),
            feed_forward=self._norms(feed_forward.norms),
            query=self._matrix(own.query),
            keys_values=self._matrix(own.keys_values),
            joined=self._matrix(own.output),
            inner=self._matrix(feed_forward.inner),
            outer=self._matrix(feed_forward.outer),
        )
        if feed_forward.gate is not None:
            found.gate = self._matrix(feed_forward.gate)
        if other is not None:
            found.to_memory = self._norms(other.norms)
            found.memory_query, found.memory_joined = self._matrix(other.query), self._matrix(other.output)
            found.memory_keys_values = self._matrix(other.keys_values)
        return found

    def _norms(self, norms: Norms) -> _Norms:
        return _Norms(*map(self._norm, norms))

    def _norm(self, norm: Norm | None) -> _Norm:
        return _Norm() if norm is None else _Norm(self._at(norm.gain), self._at(norm.bias))

    def _matrix(self, matrix: Matrix) -> _Matrix:
        N, K = matrix.weight.shape
        width = N + -N % (2 * native.lanes())  # in whole panels
        weight = np.ascontiguousarray(matrix.weight, np.float32)
        if not self._int8:
            panels = np.empty(width * K, np.float32)
            self.library.pack(weight.ctypes.data, panels.ctypes.data, N, K)
            return _Matrix(self._kept(panels), self._at(matrix.bias), N, K)
        rounded, units = np.empty(width * (K + -K % 4), np.int8), np.empty(width, np.float32)
        sums, bias = np.empty(width, np.int32), np.zeros(width, np.float32)
        bias[:N] = 0 if matrix.bias is None else matrix.bias
        made = [self._kept(array) for array in (rounded, units, sums)]
        self.library.pack_bytes(weight.ctypes.data, *made, N, K)
        return _Matrix(None, self._at(bias), N, K, *made)

    def _at(self, array: Array | None) -> int | None:
        return None if array is None else self._kept(np.ascontiguousarray(array, np.float32))

    def _kept(self, array: NDArray[Any]) -> int:
        self._held.append(array)
        return int(array.ctypes.data)


# --- a search ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """ids without EOS; log p of each and of EOS, or none."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]


class Search:
    """The search for translations of some sentences, by the rules of attendo/decoding/beam.py; a beam of 1 is greedy.

    sources: with their EOS. prefixes: what each translation begins with. penalties: what the log probability of n ids,
    with EOS, is divided by, for n from 0 to the longest limit and 1. n_certain: so many ids of every prefix have
    log p = 0. scored: whether log probabilities are wanted.
    """

    def __init__(
        self,
        model: Model,
        sources: Sequence[Ids],
        limits: Sequence[int],
        *,
        prefixes: Sequence[Ids] | None,
        penalties: Sequence[float],
        beam: int,
        n_best: int,
        stopping: str,
        forbidden: Ids,
        n_certain: int,
        scored: bool,
        bos: int,
        eos: int,
    ) -> None:
        self.model = model
        self.library = model.library
        self._limits = np.array(limits, np.int64)
        self._n_best = n_best
        self._scored = scored or beam > 1
        if len(limits) != len(sources) or (prefixes is not None and len(prefixes) != len(sources)):
            raise ValueError(f"there are {len(sources)} sources, and not as many limits or prefixes.")
        numbers, starts = _joined(sources)
        begun, prefix_starts = _joined(prefixes or [()] * len(sources))
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < model.source_vocab_size:
            raise ValueError(f"a source has an id that is none of the {model.source_vocab_size} of its vocabulary.")
        if begun.size and not 0 <= begun.min() <= begun.max() < model.vocab_size:
            raise ValueError(f"a prefix has an id that is none of the {model.vocab_size} of its vocabulary.")
        if (self._limits < np.diff(prefix_starts)).any():
            raise ValueError("a prefix must fit its limit, which must be at least 0.")
        divisors, never = np.array(penalties, np.float64), np.array(forbidden, np.int32)
        self._held = (numbers, starts, begun, prefix_starts, divisors, never)
        arrays = (numbers, starts, begun, prefix_starts, self._limits, divisors, never)
        request = _Request(
            *(array.ctypes.data for array in arrays),
            n_forbidden=len(never),
            n_sentences=len(sources),
            beam=beam,
            n_best=n_best,
            stopping=STOPPING[stopping],
            n_certain=n_certain,
            scored=scored,
            bos=bos,
            eos=eos,
        )
        self._eos = eos
        self.at = self.library.search_begin(model.struct, request)
        if not self.at:
            raise MemoryError(_NO_MEMORY)

    def __del__(self) -> None:
        if getattr(self, "at", None):
            self.library.search_end(self.at)

    def found(self) -> list[list[Found]]:
        """Of each sentence the best, once all have ended."""
        self._checked(self.library.search_through(self.at))
        room = int(((self._limits + 1) * self._n_best).sum())
        lengths = np.empty((len(self._limits), self._n_best), np.int64)
        ids, log_probs = np.empty(room, np.int32), np.empty(room, np.float32)
        self.library.search_found(self.at, lengths.ctypes.data, ids.ctypes.data, log_probs.ctypes.data)
        every_id, every_log_prob = ids.tolist(), log_probs.tolist() if self._scored else []
        results, at = [], 0
        for each, limit in zip(lengths.tolist(), self._limits.tolist(), strict=True):
            several = []
            for n in each:
                if n >= 0:
                    several.append(Found(tuple(every_id[at : at + n]), tuple(every_log_prob[at : at + n + 1])))
                at += limit + 1
            results.append(several)
        return results

    def ids(self) -> Iterator[int]:
        """Of the one sentence of a greedy search, each as soon as it is known."""
        while self._checked(self.library.search_step(self.at)):
            yield self.library.search_last(self.at)

    def _checked(self, told: int) -> int:
        if told == NO_MEMORY:
            raise MemoryError(_NO_MEMORY)
        if told < 0:
            raise NotNumbersError
        return told


@dataclass(frozen=True)
class Prefixes:
    """What is known of N prefixes of the same length, for searches that others do: a value that goes in and comes out.

    memory: the sources. of_N: whose each prefix is. slots_NT: where in the past of each length its keys and values are.
    """

    memory: Search
    of_N: NDArray[np.int64]
    slots_NT: NDArray[np.int32]
    pasts: tuple[Array, ...] = ()

    @property
    def length(self) -> int:
        return len(self.pasts)

    def select(self, rows_M: NDArray[np.int64]) -> "Prefixes":
        """Those of the given rows, with repeats and omissions."""
        return replace(self, of_N=self.of_N[rows_M], slots_NT=self.slots_NT[rows_M])

    def longer(self, ids_N: NDArray[np.int32], logits: int, width: int) -> "Prefixes":
        """With one more id each; the logits of the next are written to an address, in rows `width` apart."""
        n, model = len(ids_N), self.memory.model
        assert n == len(self.of_N)
        slots_NT = np.empty((n, self.length + 1), np.int32)
        slots_NT[:, :-1] = self.slots_NT
        pasts = (*self.pasts, np.empty(n * model.n_remembered, np.float32))
        addresses = np.array([past.ctypes.data for past in pasts], np.uintp)
        rows_then = np.array([past.size // model.n_remembered for past in pasts], np.int64)
        arrays = (np.ascontiguousarray(ids_N, np.int32), self.of_N, slots_NT, addresses, rows_then)
        given = [array.ctypes.data for array in arrays]
        if not self.memory.library.search_logits(self.memory.at, n, self.length, *given, logits, width):
            raise MemoryError(_NO_MEMORY)
        return Prefixes(self.memory, self.of_N, slots_NT, pasts)


def no_prefixes(model: Model, sources: Sequence[Ids]) -> Prefixes:
    """Before the first id, one for each source; they are with their EOS."""
    n = len(sources)
    memory = Search(
        model,
        sources,
        [0] * n,
        prefixes=None,
        penalties=[1.0, 1.0],
        beam=1,
        n_best=1,
        stopping="first",
        forbidden=(),
        n_certain=0,
        scored=False,
        bos=0,
        eos=0,
    )
    return Prefixes(memory, np.arange(n, dtype=np.int64), np.empty((n, 0), np.int32))


def _joined(sequences: Sequence[Ids]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """All ids, and where each sequence begins, and the last ends."""
    starts = np.zeros(len(sequences) + 1, np.int64)
    np.cumsum([len(one) for one in sequences], out=starts[1:])
    return np.fromiter((id for one in sequences for id in one), np.int32, int(starts[-1])), starts
