"""What takes most of a training step on a CPU, and of a step of decoding, for tensors: attendo/native/kernels.c.

Tensors are float32; linear layers and the loss multiply in bfloat16 where autocast asks for it and the processor can.
Without the library everything is done by torch, as it is on a GPU, in other precisions and with several threads.
Whoever calls a function here asks `serves` first, or `decodes`, and does by torch what it does not serve: the slow
twin.
"""

import ctypes
import functools
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Parameter

from attendo import native

_long, _float, _pointer = ctypes.c_long, ctypes.c_float, ctypes.c_void_p


class _Heads(ctypes.Structure):
    """[B, H, T, K] in any order of the first three."""

    _fields_ = (("at", _pointer), ("batch", _long), ("head", _long), ("position", _long))


class _Mask(ctypes.Structure):
    _fields_ = (("at", _pointer), ("batch", _long), ("head", _long), ("query", _long), ("key", _long))


_ARGUMENTS: native.Signatures = {
    "attend": [*[_Heads] * 4, _Mask, *[_long] * 7, _float],
    "attend_few": [*[_Heads] * 4, _Mask, *[_long] * 7, _float],
    "attend_backward": [*[_Heads] * 7, _Mask, *[_long] * 7, _float],
    "cross_entropy": [*[_pointer] * 8, *[_long] * 3, _float, _long, _float],
    "add_dropped": [*[_pointer] * 3, _float, _pointer, _long],
    "linear": [*[_pointer] * 4, *[_long] * 3],
    "pack": [*[_pointer] * 2, *[_long] * 2],
    "packed_linear": [*[_pointer] * 4, *[_long] * 4],
    "linear_backward": [*[_pointer] * 6, *[_long] * 3, ctypes.c_int],
}
_IN_BFLOAT16 = ("linear", "linear_backward", "cross_entropy")  # there are these for products of bfloat16 as well


@functools.cache
def _opened(name: str, low: str | None) -> ctypes.CDLL:
    return native.opened(name, {**_ARGUMENTS, **{f"{one}_{low}": _ARGUMENTS[one] for one in _IN_BFLOAT16 if low}})


def _library() -> ctypes.CDLL:
    chosen = native.name()
    assert chosen is not None  # otherwise `serves` is False
    return _opened(chosen, native.bfloat16(chosen))


def serves(*tensors: Tensor) -> bool:
    """Whether these can be handed to the functions below: float32 on a CPU with one thread.

    Where autocast asks for bfloat16, the processor must have it: see `wants_bfloat16`. Tensors that only stand for
    others, as when a model is traced, have no numbers.
    """
    return (
        not torch.compiler.is_compiling()
        and (library := native.name()) is not None
        and all(type(tensor) in (Tensor, Parameter) for tensor in tensors)  # first: torch.export minds other questions
        and torch.get_num_threads() == 1
        and (not torch.is_autocast_enabled("cpu") or _serves_autocast(library))
        and all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)
    )


def _serves_autocast(library: str) -> bool:
    return torch.get_autocast_dtype("cpu") == torch.bfloat16 and native.bfloat16(library) is not None


def wants_bfloat16() -> bool:
    """Whether autocast asks for products of bfloat16. Everything given and made stays float32."""
    return torch.is_autocast_enabled("cpu")


def _multiplying(name: str, low: bool) -> Callable[..., None]:
    function: Callable[..., None] = getattr(
        _library(), f"{name}_{native.bfloat16(native.name() or '')}" if low else name
    )
    return function


def decodes(*tensors: Tensor) -> bool:
    """Whether `attend_few` and `PackedLinear` can have these: float32 on a CPU, while no gradients are made."""
    return (
        native.name() is not None
        and not torch.is_grad_enabled()
        and all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)
    )


def add_dropped(x: Tensor | None, y: Tensor, keep: Tensor, scale: float) -> Tensor:
    """x + y * keep * scale, or y * keep * scale; `keep` are bytes, 0 or 1. All of the same shape, and contiguous."""
    out = torch.empty_like(y)
    _library().add_dropped(_at(x), y.data_ptr(), keep.data_ptr(), scale, out.data_ptr(), y.numel())
    return out


def attend(queries_BHTK: Tensor, keys_BGSK: Tensor, values_BGSK: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """softmax(scale Q Kᵀ) V, [B, H, T, K'], laid out as [B, T, H, K']. The mask is of booleans, [B, H, T, S]."""
    return _attended(_library().attend, queries_BHTK, keys_BGSK, values_BGSK, mask, scale)


def attend_few(
    queries_BHTK: Tensor, keys_BGSK: Tensor, values_BGSK: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    """The same, faster where a sentence has a few queries."""
    return _attended(_library().attend_few, queries_BHTK, keys_BGSK, values_BGSK, mask, scale)


def _attended(
    function: Callable[..., None],
    queries_BHTK: Tensor,
    keys_BGSK: Tensor,
    values_BGSK: Tensor,
    mask: Tensor | None,
    scale: float,
) -> Tensor:
    (B, H, T, K), (G, S), V = queries_BHTK.shape, keys_BGSK.shape[1:3], values_BGSK.shape[3]
    out_BHTV = queries_BHTK.new_empty(B, T, H, V).transpose(1, 2)
    given = map(_heads, (queries_BHTK, keys_BGSK, values_BGSK, out_BHTV))
    function(*given, _mask(mask, (B, H, T, S)), B, H, H // G, T, S, K, V, scale)
    return out_BHTV


def attend_backward(
    gradient_BHTV: Tensor,
    queries_BHTK: Tensor,
    keys_BGSK: Tensor,
    values_BGSK: Tensor,
    mask: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and values."""
    (B, H, T, K), (G, S), V = queries_BHTK.shape, keys_BGSK.shape[1:3], values_BGSK.shape[3]
    made = [
        queries_BHTK.new_empty(B, length, n, size).transpose(1, 2)
        for length, n, size in ((T, H, K), (S, G, K), (S, G, V))
    ]
    given = map(_heads, (queries_BHTK, keys_BGSK, values_BGSK, gradient_BHTV, *made))
    _library().attend_backward(*given, _mask(mask, (B, H, T, S)), B, H, H // G, T, S, K, V, scale)
    return made[0], made[1], made[2]


def cross_entropy(
    hidden_PND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor,
    target_N: Tensor,
    *,
    smoothing: float,
    agreement: float,
    low: bool,
    training: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Label-smoothed cross-entropy of hidden Wᵀ + b at each position [N]; while training, the gradients of its sum.

    P: how often each position is seen, one or two times; two cost as R-Drop has it, with α `agreement`.
    """
    (P, N, D), V = hidden_PND.shape, len(weight_VD)
    loss_N = hidden_PND.new_empty(N)
    gradients = tuple(torch.empty_like(one) for one in (hidden_PND, weight_VD, bias_V)) if training else ()
    given = (hidden_PND, weight_VD, bias_V, target_N, loss_N, *(gradients or (None,) * 3))
    _multiplying("cross_entropy", low)(*map(_at, given), N, V, D, smoothing, P, agreement)
    return loss_N, gradients


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, *, low: bool) -> Tensor:
    """x Wᵀ + b, for x of any shape [..., K] and W: [N, K]."""
    N, K = weight.shape
    out = x.new_empty(*x.shape[:-1], N)
    _multiplying("linear", low)(x.data_ptr(), weight.data_ptr(), _at(bias), out.data_ptr(), x.numel() // K, N, K)
    return out


class PackedLinear:
    """x Wᵀ + b of W and b as they are now, with W laid out as the product reads it. W: [N, K]."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.shape = weight.shape
        N, K = weight.shape
        self._panels = weight.new_empty((N + -N % (2 * native.lanes())) * K)
        self._bias = None if bias is None else bias.contiguous()
        weight = weight.contiguous()
        _library().pack(weight.data_ptr(), self._panels.data_ptr(), N, K)

    def __call__(self, x_MK: Tensor) -> Tensor:
        return self.into(x_MK.new_empty(len(x_MK), self.shape[0]), x_MK)

    def into(self, out_MN: Tensor, x_MK: Tensor) -> Tensor:
        """Written into rows that may be far apart."""
        (N, K), M = self.shape, len(x_MK)
        x_MK = x_MK.contiguous()
        given = (x_MK, self._panels, self._bias, out_MN)
        _library().packed_linear(*map(_at, given), M, N, K, out_MN.stride(0))
        return out_MN


def linear_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    for_x: Tensor | None,
    for_weight: Tensor | None,
    for_bias: Tensor | None,
    *,
    add: bool,
    low: bool,
) -> None:
    """Writes the gradients of `linear` into the tensors given for them; to that of x it adds its own, if it shall."""
    N, K = weight.shape
    given = (gradient, x, weight, for_x, for_weight, for_bias)
    _multiplying("linear_backward", low)(*map(_at, given), x.numel() // K, N, K, add)


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _heads(x_BHTK: Tensor) -> _Heads:
    return _Heads(x_BHTK.data_ptr(), *x_BHTK.stride()[:3])


def _mask(mask: Tensor | None, shape: tuple[int, ...]) -> _Mask:
    if mask is None:
        return _Mask(None, 0, 0, 0, 0)
    mask = mask.expand(shape)
    return _Mask(mask.data_ptr(), *mask.stride())
