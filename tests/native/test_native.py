"""The compiled kernels beside their slow twins: the same numbers, whatever the sizes, from every library."""

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attendo import native
from attendo.data.batch import Batch, make_batch
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import Transformer, build
from attendo.native import kernels
from attendo.nn.attention import fused_attention
from attendo.nn.dropout import Dropout
from attendo.nn.linear import Linear, joint_products
from attendo.training.loss import batch_loss, projected_cross_entropy, projected_r_drop

CI = "CI" in os.environ


@pytest.fixture(params=native.LANES, autouse=True)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param not in native.there():
        if CI and request.param == "plain":
            pytest.fail("attendo/native was not built: is there a C compiler?")
        pytest.skip(f"no {request.param} here: it was not built, or this processor has no such instructions")
    monkeypatch.setattr(native, "name", lambda: request.param)
    assert kernels.serves(torch.zeros(1))


def by_both(monkeypatch: pytest.MonkeyPatch, compute: Callable[[], Any]) -> tuple[Any, Any]:
    """What the library gives, and what torch gives."""
    fast = compute()
    with monkeypatch.context() as patch:
        patch.setattr(native, "name", lambda: None)
        return fast, compute()


def gradients_of(out: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """out, and the gradients of the inputs from the same one each time."""
    upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)) / 4
    return out.detach(), *torch.autograd.grad(out, inputs, upstream)


def assert_close(fast: Any, slow: Any) -> None:
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


SIZES = [(0, 5), (1, 1), (7, 5), (13, 37), (101, 64), (211, 131), (19, 601), (601, 1201)]


@pytest.mark.parametrize(("rows", "n_out"), SIZES)
@pytest.mark.parametrize("bias", [True, False])
def test_linear(monkeypatch: pytest.MonkeyPatch, rows: int, n_out: int, bias: bool) -> None:
    torch.manual_seed(rows)
    layer, x = Linear(48, n_out, bias=bias), torch.randn(rows, 48, requires_grad=True)
    fast, slow = by_both(monkeypatch, lambda: gradients_of(layer(x), x, *layer.parameters()))
    for one, other in zip(fast, slow, strict=True):
        assert_sums(one, other.double())


def test_several_linear_layers_of_one_input(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    layers, x = [Linear(32, n) for n in (7, 48, 3)], torch.randn(5, 11, 32, requires_grad=True)
    parameters = [parameter for layer in layers for parameter in layer.parameters()]

    def compute() -> tuple[Tensor, ...]:
        first, second, third = joint_products(x, layers)
        return gradients_of(torch.cat([first.sin(), second, third], dim=-1), x, *parameters)

    assert_close(*by_both(monkeypatch, compute))


def test_an_output_that_is_not_used_has_no_gradient() -> None:
    layers, x = [Linear(16, 3), Linear(16, 5)], torch.randn(7, 16, requires_grad=True)
    joint_products(x, layers)[1].sum().backward()
    assert layers[0].weight.grad is None
    torch.testing.assert_close(x.grad, layers[1].weight.sum(0).expand(7, 16))


def test_rows_that_are_not_contiguous(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    layer, wide = Linear(16, 5), torch.randn(7, 32, requires_grad=True)
    compute = lambda: gradients_of(layer(wide[:, ::2]).t(), wide, layer.weight)  # noqa: E731
    assert_close(*by_both(monkeypatch, compute))


@pytest.mark.parametrize(("rows", "n_out", "n_in"), [(1, 1, 1), (7, 5, 13), (13, 37, 48), (101, 64, 128), (5, 601, 31)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_whose_weights_stay(rows: int, n_out: int, n_in: int, bias: bool) -> None:
    torch.manual_seed(rows)
    x, weight, b = torch.randn(rows, 2 * n_in)[:, ::2], torch.randn(n_out, n_in), torch.randn(n_out) if bias else None
    packed, expected = kernels.PackedLinear(weight, b), F.linear(x, weight, b)
    torch.testing.assert_close(packed(x), expected, rtol=1e-5, atol=1e-5)
    wide = torch.full((rows, n_out + 3), 7.0)
    packed.into(wide[:, :n_out], x)
    torch.testing.assert_close(wide[:, :n_out], expected, rtol=1e-5, atol=1e-5)
    assert (wide[:, n_out:] == 7).all()


def test_a_row_does_not_depend_on_the_others() -> None:
    torch.manual_seed(1)
    x, packed = torch.randn(101, 48), kernels.PackedLinear(torch.randn(67, 48), torch.randn(67))
    for first, last in ((0, 1), (3, 10), (90, 101)):
        assert torch.equal(packed(x)[first:last], packed(x[first:last]))


MASKS = ("none", "padding", "causal", "each head its own")


def masked(kind: str, B: int, H: int, T: int, S: int) -> Tensor | None:
    match kind:
        case "padding":
            return (torch.arange(S) < torch.randint(1, S + 1, (B, 1)))[:, None, None]
        case "causal":
            return torch.ones(T, S, dtype=torch.bool).tril(S - T)
        case "each head its own":
            return (torch.rand(B, H, T, S) < 0.7) | torch.eye(T, S, dtype=torch.bool)
    return None


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("T", "S"), [(1, 1), (7, 7), (5, 19), (61, 61), (113, 131)])
def test_attention(monkeypatch: pytest.MonkeyPatch, kind: str, T: int, S: int) -> None:
    torch.manual_seed(T)
    B, H = 3, 2
    queries = torch.randn(B, T, 3, H, 16)[:, :, 0].transpose(1, 2).requires_grad_()  # from one product for all three
    keys = torch.randn(B, S, H, 16).transpose(1, 2).requires_grad_()
    values = torch.randn(B, S, H, 32).transpose(1, 2).requires_grad_()
    mask = masked(kind, B, H, T, S)
    assert_close(
        *by_both(
            monkeypatch,
            lambda: gradients_of(fused_attention(queries, keys, values, scale=0.3, mask=mask), queries, keys, values),
        )
    )


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("T", "S", "G"), [(1, 1, 4), (1, 7, 2), (5, 19, 4), (3, 131, 1)])
def test_attention_of_a_few_queries(kind: str, T: int, S: int, G: int) -> None:
    torch.manual_seed(S)
    queries = torch.randn(3, T, 4, 32).transpose(1, 2)
    keys, values = torch.randn(3, G, S, 32), torch.randn(3, S, G, 48).transpose(1, 2)
    mask = masked(kind, 3, 4, T, S)
    expected = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(kernels.attend_few(queries, keys, values, mask, 0.3), expected, rtol=1e-5, atol=1e-5)


def test_a_few_queries_that_may_attend_to_nothing() -> None:
    queries, keys, values = torch.randn(1, 1, 2, 16), torch.randn(1, 1, 5, 16), torch.randn(1, 1, 5, 16)
    mask = torch.tensor([[False] * 5, [True] * 5])
    out = kernels.attend_few(queries, keys, values, mask, 1.0)
    assert (out[0, 0, 0] == 0).all()
    assert (out[0, 0, 1] != 0).all()


def test_attention_of_which_several_heads_share_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    queries = torch.randn(2, 6, 53, 16, requires_grad=True)
    keys, values = (torch.randn(2, 2, 17, 16, requires_grad=True) for _ in range(2))
    compute = lambda: gradients_of(fused_attention(queries, keys, values, scale=0.25), queries, keys, values)  # noqa: E731
    assert_close(*by_both(monkeypatch, compute))


def test_attention_to_nothing_is_zero_and_has_no_gradient() -> None:
    queries, keys, values = (torch.randn(1, 1, 3, 16, requires_grad=True) for _ in range(3))
    mask = torch.tensor([[True, True, True], [False, False, False], [True, False, True]])
    out = fused_attention(queries, keys, values, scale=1.0, mask=mask)
    out.sum().backward()
    assert (out[0, 0, 1] == 0).all()
    assert queries.grad is not None
    assert (queries.grad[0, 0, 1] == 0).all()
    assert queries.grad.isfinite().all()


def test_scores_that_differ_a_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(4)
    queries, keys, values = (torch.randn(1, 1, 9, 16, requires_grad=True) for _ in range(3))
    compute = lambda: gradients_of(fused_attention(queries, keys, values, scale=40.0), queries, keys, values)  # noqa: E731
    (fast, *_), (slow, *_) = by_both(monkeypatch, compute)
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("N", "V"), [(1, 2), (37, 3), (67, 101), (300, 1009), (29, 20_011)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss(monkeypatch: pytest.MonkeyPatch, N: int, V: int, smoothing: float) -> None:
    torch.manual_seed(V)
    hidden = torch.randn(N, 32, requires_grad=True)
    weight, bias = (torch.randn(V, 32) / 4).requires_grad_(), torch.randn(V, requires_grad=True)
    target = torch.randint(V, (N,))

    def compute() -> tuple[Tensor, ...]:
        loss = projected_cross_entropy(hidden, weight, bias, target, smoothing)
        return loss.detach() / N, *torch.autograd.grad(loss * 0.5, (hidden, weight, bias))

    fast, slow = by_both(monkeypatch, compute)
    assert_close(fast, slow)
    exact = F.cross_entropy(
        hidden.double() @ weight.double().T + bias.double(), target, label_smoothing=smoothing, reduction="mean"
    )
    torch.testing.assert_close(fast[0].double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("N", "V"), [(1, 2), (37, 3), (67, 101), (300, 1009), (29, 20_011)])
def test_the_loss_of_what_is_seen_twice(monkeypatch: pytest.MonkeyPatch, N: int, V: int) -> None:
    torch.manual_seed(V)
    hidden = torch.randn(2, N, 32, requires_grad=True)
    weight, bias = (torch.randn(V, 32) / 4).requires_grad_(), torch.randn(V, requires_grad=True)
    target = torch.randint(V, (N,))

    def compute() -> tuple[Tensor, ...]:
        loss = projected_r_drop(hidden, weight, bias, target, 0.1, 5.0)
        return loss.detach() / N, *torch.autograd.grad(loss * 0.5, (hidden, weight, bias))

    assert_close(*by_both(monkeypatch, compute))


def test_logits_that_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(5)
    hidden, weight = torch.randn(19, 16, requires_grad=True), (torch.randn(103, 16) * 50).requires_grad_()
    bias, target = torch.full((103,), -1e9), torch.randint(50, (19,))  # ids that never come have such a bias
    bias[:50] = 0

    def compute() -> tuple[Tensor, ...]:
        loss = projected_cross_entropy(hidden, weight, bias, target, 0.0)
        return loss.detach(), *torch.autograd.grad(loss, (hidden, weight))

    fast, slow = by_both(monkeypatch, compute)
    for one, other in zip(fast, slow, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


# --- products of bfloat16 ---------------------------------------------------------------------------------------------


@pytest.fixture(params=["tiles", "bfloat16"])
def bfloat16(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    name = native.name()
    assert name is not None
    if not native._asked(name, f"has_{request.param}"):
        pytest.skip(f"{name} has no products of bfloat16 ({request.param}), or this processor has none")
    monkeypatch.setattr(native, "bfloat16", lambda _: request.param)


def rounded(x: Tensor) -> Tensor:
    """Rounded to bfloat16, with the digits to multiply it exactly."""
    return x.detach().bfloat16().double()


def assert_sums(made: Tensor, exact: Tensor) -> None:
    """Sums of many products in float32: as exact as their largest allows."""
    torch.testing.assert_close(made.double(), exact, rtol=1e-5, atol=1e-6 * max([1.0, *exact.abs().flatten().tolist()]))


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize(("rows", "n_out"), SIZES)
def test_a_linear_layer_rounds_what_it_multiplies_and_nothing_else(rows: int, n_out: int) -> None:
    torch.manual_seed(rows)
    layer, x = Linear(48, n_out), torch.randn(rows, 48, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(x)
    upstream = torch.randn(rows, n_out)
    out.backward(upstream)
    assert out.dtype == torch.float32
    assert x.grad is not None
    assert layer.weight.grad is not None
    assert layer.bias.grad is not None
    assert_sums(out, rounded(x) @ rounded(layer.weight).T + layer.bias.detach().double())
    assert_sums(x.grad, rounded(upstream) @ rounded(layer.weight))
    assert_sums(layer.weight.grad, rounded(upstream).T @ rounded(x))
    assert_sums(layer.bias.grad, upstream.double().sum(0))


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("agreement", [None, 5.0])
@pytest.mark.parametrize(("N", "V"), [(1, 2), (37, 3), (67, 101), (31, 241), (300, 1009), (29, 20_011)])
def test_the_loss_rounds_what_it_multiplies_and_nothing_else(N: int, V: int, agreement: float | None) -> None:
    torch.manual_seed(V)
    hidden = torch.randn(1 if agreement is None else 2, N, 32, requires_grad=True)
    weight, bias = (torch.randn(V, 32) / 4).requires_grad_(), torch.randn(V, requires_grad=True)
    target = torch.randint(V, (N,))
    target[::3] = V - 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        if agreement is None:
            loss = projected_cross_entropy(hidden[0], weight, bias, target, 0.1)
        else:
            loss = projected_r_drop(hidden, weight, bias, target, 0.1, agreement)
    made = torch.autograd.grad(loss, (hidden, weight, bias))
    logits = (rounded(hidden) @ rounded(weight).T + bias.double()).detach().requires_grad_()
    exact = torch.stack([F.cross_entropy(one, target, label_smoothing=0.1, reduction="sum") for one in logits]).mean()
    if agreement is not None:
        one, other = logits.log_softmax(-1)
        exact = exact + agreement / 4 * ((one.exp() - other.exp()) * (one - other)).sum()
    (of_logits,) = torch.autograd.grad(exact, logits)
    assert_sums(loss, exact)
    assert_sums(made[2], of_logits.sum((0, 1)))
    # The gradient of the logits is rounded, too. One in float32 may fall to the other side than that in float64, and
    # then differs by the last digit of bfloat16; that of most does not.
    sides = [rounded((of_logits * (1 + apart)).float()) for apart in (-3e-5, 0.0, 3e-5)]
    unsure = (sides[2] - sides[0]).abs() + 3e-6 * of_logits.abs().max()
    of_hidden, of_weight = sides[1] @ rounded(weight), torch.einsum("pnv,pnd->vd", sides[1], rounded(hidden))
    bounds = unsure @ rounded(weight).abs(), torch.einsum("pnv,pnd->vd", unsure, rounded(hidden).abs())
    for one, other, bound in zip(made, (of_hidden, of_weight), bounds, strict=False):
        assert ((one.double() - other).abs() <= bound + 1e-6).all()


@pytest.mark.usefixtures("bfloat16")
def test_a_whole_model_in_bfloat16() -> None:
    model, batch = small_model("pre"), small_batch()
    found = []
    for low in (False, True):
        torch.manual_seed(8)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
            given = batch.source_BS, batch.source_lengths_B, batch.target_in_BT, batch.target_lengths_B
            assert model.hidden(*given).dtype == torch.float32
            torch.manual_seed(8)
            loss = batch_loss(model, batch, 0.1)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        found.append((loss.detach(), torch.cat([one.flatten() for one in gradients])))
    (exact, exact_gradient), (low_loss, low_gradient) = found
    torch.testing.assert_close(low_loss, exact, rtol=1e-2, atol=0.0)
    assert not torch.equal(low_loss, exact)
    assert (low_gradient - exact_gradient).norm() < 0.02 * exact_gradient.norm()


@pytest.mark.usefixtures("bfloat16")
def test_what_is_no_number_stays_so() -> None:
    x, layer = torch.ones(5, 16), Linear(16, 3)
    for number in (torch.nan, torch.inf, torch.tensor(0x7FFFFFFF, dtype=torch.int32).view(torch.float32).item()):
        x[2, 7] = number
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = layer(x)
        assert not out[2].isfinite().any()
        assert out[[0, 1, 3, 4]].isfinite().all()


@pytest.mark.usefixtures("bfloat16")
def test_autocast_gives_the_same_type_for_any_number_of_rows() -> None:
    layer = Linear(16, 3)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert [layer(torch.ones(rows, 16)).dtype for rows in (1, 64)] == [torch.float32, torch.float32]


def test_autocast_to_another_precision_is_left_to_torch() -> None:
    with torch.autocast("cpu", dtype=torch.float16):
        assert not kernels.serves(torch.zeros(2, 16))


def test_dropout_that_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.randn(7, 131, requires_grad=True), torch.randn(7, 131, requires_grad=True)
    dropout = Dropout(0.3)

    def compute() -> tuple[Tensor, ...]:
        torch.manual_seed(6)
        return gradients_of(dropout.added(x, y), x, y)

    fast, slow = by_both(monkeypatch, compute)
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    dropout.eval()
    torch.testing.assert_close(dropout.added(x, y), x + y)


def small_model(place: str) -> Transformer:
    torch.manual_seed(7)
    return build(
        TransformerConfig(
            source_vocab_size=53,
            target_vocab_size=53,
            d_model=32,
            d_ff=48,
            n_heads=2,
            n_encoder_layers=2,
            n_decoder_layers=3,
            norm_place=place,  # type: ignore[arg-type]
            residual_dropout=0.2,
        )
    ).train()


def small_batch() -> Batch:
    return make_batch([[5, 7, 11], [13], [6] * 23], [[17, 19], [23, 29, 31], [8] * 17])


@pytest.mark.parametrize("place", ["post", "pre"])
def test_a_whole_model(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    model, batch = small_model(place), small_batch()

    def compute() -> tuple[Tensor, ...]:
        torch.manual_seed(8)
        loss = batch_loss(model, batch, 0.1)
        return loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))

    assert_close(*by_both(monkeypatch, compute))


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_a_step_of_decoding(monkeypatch: pytest.MonkeyPatch, activation: str) -> None:
    torch.manual_seed(9)
    sizes = {"d_model": 64, "d_ff": 48, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 3}
    vocabulary = {"source_vocab_size": 53, "target_vocab_size": 53}
    model = build(TransformerConfig(**vocabulary, **sizes, activation=activation, norm_place="pre")).eval()  # type: ignore[arg-type]
    source = torch.randint(4, 53, (3, 37))

    def compute() -> list[Tensor]:
        with torch.inference_mode():
            cache, step, found = model.encode(source, torch.tensor([37, 5, 11])), model.lean_step(), []
            for ids in (torch.tensor([7, 8, 9]), torch.tensor([5, 11, 13]), torch.tensor([4, 17, 23, 29, 31, 37])):
                cache = cache if len(ids) == 3 else cache.select(torch.tensor([0, 0, 1, 1, 2, 2]))
                logits, cache = step(ids, cache)
                found.append(logits)
            return found

    assert_close(*by_both(monkeypatch, compute))


def test_what_it_does_not_serve() -> None:
    x = torch.zeros(2, 16)
    assert kernels.serves(x, x)
    assert not kernels.serves(x, x.double())
    assert not kernels.serves(x.to("meta"))
    assert not kernels.decodes(x)  # gradients would be lost
    with torch.no_grad():
        assert kernels.decodes(x, x)
        assert not kernels.decodes(x, x.double())
        assert not kernels.decodes(x.to("meta"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert kernels.serves(x) == (native.bfloat16(native.name() or "") is not None)
    torch.set_num_threads(2)
    try:
        assert not kernels.serves(x)
    finally:
        torch.set_num_threads(1)
