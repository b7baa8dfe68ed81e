"""What surrounds a call must not change it: default types, autocast, a compiler, masks made of the
lowest float, zeros that were never written down."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import regard
from regard import reference

BACKENDS = ("native", "torch")


@pytest.fixture(params=[torch.float64, torch.bfloat16], ids=str)
def another_default(request: pytest.FixtureRequest) -> Iterator[None]:
    torch.set_default_dtype(request.param)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("another_default")
def test_results_are_of_the_type_of_the_inputs_whatever_the_default_is() -> None:
    q, k, v = (torch.randn(2, 3, 7, 11, dtype=torch.float32) for _ in range(3))
    out = regard.attention(q, k, v)
    assert out.dtype == torch.float32
    expected = functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=5e-6)
    tile = regard.weights(q, k)
    assert tile.dtype == torch.float32
    torch.testing.assert_close(tile @ v, expected, atol=1e-5, rtol=5e-6)
    picture = regard.pooled(q, k, shape=(7, 7))
    torch.testing.assert_close(picture, tile, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_lowest_float_is_a_number_not_a_mask(backend: str, sign: int) -> None:
    q, k, v = (torch.randn(1, 2, 5, 7) for _ in range(3))
    bias = torch.full((5, 5), sign * torch.finfo(torch.float32).max)
    out = regard.attention(q, k, v, bias=bias, backend=backend)
    torch.testing.assert_close(out, v.mean(-2, keepdim=True).expand_as(out))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("score", [-88.9, 88.9, -180.0])
def test_a_block_of_keys_that_is_masked_adds_nothing_to_the_map(backend: str, score: float) -> None:
    mask = torch.arange(512) >= 256
    for queries in (3, 7):  # few, and many
        q, k = torch.full((1, 1, queries, 1), score), torch.ones(1, 1, 512, 1)
        _, seen = regard.attention(
            q, k, k, mask=mask, scale=1.0, see=regard.See(map=(1, 4)), backend=backend
        )
        assert seen.map is not None
        assert seen.map.flatten().tolist() == pytest.approx([0.0, 0.0, 0.5, 0.5], abs=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scores_that_fall_below_the_floats_weigh_nothing_and_hide_nothing(backend: str) -> None:
    q, v = torch.tensor([[[[1e20]]]]), torch.tensor([[[[1.0], [2.0], [3.0]]]])
    k = torch.tensor([[[[-1e20], [0.0], [1e-20]]]])
    expected = functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(regard.attention(q, k, v, backend=backend), expected)
    k[0, 0, 0] = -torch.inf
    assert not regard.attention(q, k, v, backend=backend).isfinite().any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_zeros_without_memory_are_zeros(backend: str) -> None:
    q, v = torch.randn(1, 2, 5, 7), torch.randn(1, 2, 11, 3)
    k = torch._efficientzerotensor((1, 2, 11, 7))  # pyright: ignore[reportPrivateImportUsage]
    out = regard.attention(q, k, v, backend=backend)
    torch.testing.assert_close(out, v.mean(-2, keepdim=True).expand_as(out))


def test_what_was_seen_does_not_change_with_the_sinks_it_came_from() -> None:
    q, sinks = torch.randn(1, 3, 5, 7), torch.zeros(3)
    _, seen = regard.attention(q, q, q, sinks=sinks, see=regard.See())
    sinks.add_(5)
    assert seen.sinks is not None
    assert not seen.sinks.any()


def test_a_named_backend_is_used_or_refused_for_tiles_too() -> None:
    class Other(torch.Tensor):
        pass

    q = torch.randn(1, 1, 5, 7).as_subclass(Other)
    with pytest.raises(ValueError, match="native"):
        regard.weights(q, q, backend="native")


# ── autocast ──────────────────────────────────────────────────────────────────────────────────


def qkv(requires_grad: bool = False, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    return [
        torch.randn(2, 3, n, 11, generator=random).to(dtype).requires_grad_(requires_grad)
        for n in (5, 7, 7)
    ]


def output(backend: str) -> list[Tensor]:
    return [regard.attention(*qkv(), causal=True, backend=backend)]


def observed(backend: str) -> list[Tensor]:
    see = regard.See(entropy=True, map=(2, 3), received=True)
    out, seen = regard.attention(*qkv(), see=see, backend=backend)
    assert seen.entropy is not None
    assert seen.map is not None
    assert seen.received is not None
    return [out, seen.lse, seen.entropy, seen.map, seen.received]


def gradients(backend: str) -> list[Tensor]:
    tensors = qkv(requires_grad=True)
    out = regard.attention(*tensors, softcap=20.0, backend=backend)
    return [out, *torch.autograd.grad(out.square().sum(), tensors)]


def tiles(backend: str) -> list[Tensor]:
    q, k, _ = qkv()
    return [regard.weights(q, k, backend=backend), regard.weights(q, k, rows=(1, 3), keys=(2, 5))]


def pictures(backend: str) -> list[Tensor]:
    q, k, _ = qkv()
    _, seen = regard.attention(q, k, k, see=regard.See(), backend=backend)
    return [
        regard.pooled(q, k, shape=(2, 3), backend=backend),
        regard.pooled(q, k, shape=(2, 3), lse=seen.lse, reduce="max", backend=backend),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("compute", [output, observed, gradients, tiles, pictures])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_changes_no_bit(
    backend: str, compute: Callable[[str], list[Tensor]], dtype: torch.dtype
) -> None:
    expected = compute(backend)
    with torch.autocast("cpu", dtype):
        found = compute(backend)
        assert (qkv()[0] @ qkv()[0].mT).dtype == dtype  # it is at work, and still is
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("kind", [None, torch.bool, torch.float32], ids=str)
def test_autocast_is_applied_to_pytorchs_signature(
    dtype: torch.dtype, kind: torch.dtype | None
) -> None:
    q, k, v = qkv(dtype=dtype)
    mask = None if kind is None else torch.eye(5, 7).to(kind)
    with torch.autocast("cpu", torch.bfloat16):
        if dtype == torch.float64 and kind == torch.float32:  # the mask is cast alone, and refused
            with pytest.raises(RuntimeError):
                functional.scaled_dot_product_attention(q, k, v, mask)
            with pytest.raises(TypeError, match="attn_mask"):
                regard.scaled_dot_product_attention(q, k, v, mask)
            return
        theirs = functional.scaled_dot_product_attention(q, k, v, mask)
        ours = regard.scaled_dot_product_attention(q, k, v, mask)
        mixed = regard.scaled_dot_product_attention(q.float(), k.bfloat16(), v.float(), mask)
    torch.testing.assert_close(ours, theirs, atol=0.02, rtol=0.02)
    kept = ours.dtype
    assert torch.equal(
        ours, regard.scaled_dot_product_attention(q.to(kept), k.to(kept), v.to(kept), mask)
    )
    assert mixed.dtype == torch.bfloat16


# ── a compiler ────────────────────────────────────────────────────────────────────────────────


def test_sizes_that_are_not_known_yet_fit_the_mask_that_fits_them() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        out, seen = regard.attention(
            q,
            k,
            v,
            causal=True,
            mask=mask,
            window=(q.shape[2], 0),
            position=k.shape[2] - q.shape[2],
            see=regard.See(entropy=True),
        )
        return out, seen.entropy

    torch._dynamo.reset()
    graphs = 0

    def count(graph: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        nonlocal graphs
        graphs += 1
        return graph.forward

    compiled = torch.compile(attend, dynamic=True, fullgraph=True, backend=count)
    for n_queries, n_keys in ((5, 7), (6, 11), (13, 17)):
        q, k, v = (torch.randn(1, 2, n, 4) for n in (n_queries, n_keys, n_keys))
        mask = torch.rand(n_queries, n_keys) < 0.7
        for one, other in zip(compiled(q, k, v, mask), attend(q, k, v, mask), strict=True):
            assert one is not None
            assert other is not None
            assert torch.equal(one, other)
    assert graphs == 1  # the sizes did not become constants


def test_pytorchs_signature_compiles_with_sizes_that_are_not_known_yet() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        causal = regard.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)
        return causal, regard.scaled_dot_product_attention(q, k, v, mask, scale=q.shape[2] ** -0.5)

    torch._dynamo.reset()
    compiled = torch.compile(attend, dynamic=True, fullgraph=True, backend="eager")
    for autocast in (False, True, False):
        for n_queries, n_keys in ((5, 7), (6, 11)):
            q, k, v = (torch.randn(1, 2, n, 4) for n in (n_queries, n_keys, n_keys))
            mask = torch.rand(n_queries, n_keys) < 0.7
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                for one, other in zip(compiled(q, k, v, mask), attend(q, k, v, mask), strict=True):
                    assert one.dtype == (torch.bfloat16 if autocast else torch.float32)
                    torch.testing.assert_close(one, other)


# ── far away ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("position", [-(2**40), -3, 0, 2**40 - 3, 2**40])
@pytest.mark.parametrize(
    "window",
    [(2**50, 2), (2**50, 2**50), (2, 2**50), (2**70, 2**70), (None, 2**50), (2**40, 2**40)],
    ids=str,
)
def test_windows_are_as_wide_as_they_are_said_to_be(
    backend: str, position: int, window: tuple[int | None, int | None]
) -> None:
    q, k, v = qkv()
    # NumPy's integers end at 2**63.
    left, right = (None if side is None else min(side, 2**60) for side in window)
    allowed = reference.allowed_keys(5, 7, window=(left, right), position=position)
    expected = regard.attention(q, k, v, mask=torch.from_numpy(allowed), backend=backend)
    found = regard.attention(q, k, v, position=position, window=window, backend=backend)
    torch.testing.assert_close(found, expected)
    tile = regard.weights(q, k, position=position, window=window, backend=backend)
    assert torch.equal(tile[0, 0] > 0, torch.from_numpy(allowed))


def test_a_backward_pass_changes_nothing_for_threads_that_start_meanwhile() -> None:
    q, k, v = (torch.randn(1, 4, 701, 64, requires_grad=True) for _ in range(3))
    over = threading.Event()

    def pull() -> None:
        while not over.is_set():
            out = regard.attention(q, k, v, softcap=5.0)  # its gradient is made of PyTorch's parts
            torch.autograd.grad(out.sum(), (q, k, v))

    found: list[int] = []
    expected = torch.get_num_threads()
    pulling = threading.Thread(target=pull)
    pulling.start()
    try:
        for _ in range(1500):
            new = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
            new.start()
            new.join()
    finally:
        over.set()
        pulling.join()
    assert set(found) == {expected}
