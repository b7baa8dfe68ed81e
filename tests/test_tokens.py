"""`rms_norm`, `turn` and `gated` are their formulas, whichever of the two ways they go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from helpers.attention_problems import threads
from helpers.kernels import KERNELS, using
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard import _native, _tokens
from regard._tokens import gated, rms_norm, turn

HALVES = [torch.bfloat16, torch.float16]
TYPES = [torch.float32, *HALVES]
EPS = 1e-5


class Counting:
    """regard._native, whose calls are counted, those that were done."""

    def __init__(self) -> None:
        self.calls = 0

    def __getattr__(self, name: str) -> Callable[..., bool]:
        def call(*arguments: Any) -> bool:
            done = getattr(_native, name)(*arguments)
            self.calls += done
            return done

        return call


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting()
    monkeypatch.setattr(_tokens, "_native", counting)
    return counting


@pytest.fixture(params=KERNELS)
def _kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    with using(request.param):
        yield


def made(*shape: int, seed: int = 0) -> Tensor:
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def angles(tokens: int, width: int, batch: int = 1) -> tuple[Tensor, Tensor]:
    found = made(batch, 1, tokens, width, seed=5)
    return found.cos(), found.sin()


def problems(dtype: torch.dtype, width: int) -> list[tuple[Any, Any, tuple[Any, ...]]]:
    """The function, PyTorch's way, and what is given: rows (2, 3, 5) of this width."""
    x, weight, other = (
        each.to(dtype)
        for each in (made(2, 3, 5, width), made(width, seed=1), made(2, 3, 5, width, seed=2))
    )
    turned = width - width % 2
    cosine, sine = (each.to(dtype) for each in angles(5, turned))
    found: list[tuple[Any, Any, tuple[Any, ...]]] = [
        (rms_norm, _tokens._rms_norm_by_torch, (x, weight, EPS)),
        (gated, lambda gate, hidden: torch.nn.functional.silu(gate) * hidden, (x, other)),
    ]
    for pairing in ("halves", "neighbours") if turned else ():
        found.append((turn, _tokens._turn_by_torch, (x, cosine, sine, pairing)))
    return found


def doubles(given: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x.double() if isinstance(x, Tensor) else x for x in given)


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("width", [1, 2, 7, 8, 17, 64, 97, 577])
def test_they_are_as_right_as_pytorchs(native: Counting, dtype: torch.dtype, width: int) -> None:
    for function, by_torch, given in problems(dtype, width):
        native.calls = 0
        found = function(*given)
        assert native.calls == 1
        assert found.dtype == dtype
        exact = by_torch(*doubles(given))
        floor = torch.finfo(dtype).eps * float(exact.abs().max())
        error = float((found - exact).abs().max())
        assert error <= 2 * float((by_torch(*given) - exact).abs().max()) + floor


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_bits_depend_on_neither_threads_nor_other_vectors(dtype: torch.dtype) -> None:
    x, weight, hidden = (
        each.to(dtype) for each in (made(331, 2, 97), made(97, seed=1), made(331, 2, 97, seed=2))
    )
    cosine, sine = (each.to(dtype) for each in angles(331, 64))
    for function in (
        lambda part: rms_norm(x[part], weight, EPS),
        lambda part: gated(x[part], hidden[part]),
        lambda part: turn(
            x[part].transpose(0, 1)[None], cosine[:, :, part], sine[:, :, part], "halves"
        )[0].transpose(0, 1),
    ):
        with threads(1):
            expected = torch.cat([function(slice(n, n + 1)) for n in range(len(x))])
        for count in (1, 2, 4):
            with threads(count):
                assert torch.equal(function(slice(None)), expected)


@pytest.mark.parametrize("width", [1, 2, 7, 97])
def test_gradients_are_pytorchs_and_do_not_change_the_bits(native: Counting, width: int) -> None:
    for function, by_torch, given in problems(torch.float32, width):
        wanted = (0, 1) if function is not turn else (0,)
        leaves = [x.clone().requires_grad_() if n in wanted else x for n, x in enumerate(given)]
        native.calls = 0
        found = function(*leaves)
        assert native.calls == 1
        assert torch.equal(found, function(*given))
        into = [leaves[n] for n in wanted]
        grads = torch.autograd.grad(found.pow(3).sum(), into, create_graph=True)
        theirs = torch.autograd.grad(by_torch(*leaves).pow(3).sum(), into, create_graph=True)
        for one, other in zip(grads, theirs, strict=True):
            size = max(1.0, float(other.detach().abs().max()))
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * size)
        # Gradients of gradients, too.
        again, theirs = (
            torch.autograd.grad(torch.stack([x.square().sum() for x in each]).sum(), into)
            for each in (grads, theirs)
        )
        for one, other in zip(again, theirs, strict=True):
            size = max(1.0, float(other.abs().max()))
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * size)


def test_of_no_use_are_gradients_that_nobody_wants() -> None:
    x, weight = made(3, 5), made(5, seed=1).requires_grad_()
    rms_norm(x, weight, EPS).sum().backward()
    assert weight.grad is not None
    gate = made(3, 5).requires_grad_()
    gated(gate, x).sum().backward()
    assert gate.grad is not None


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_what_is_not_finite_comes_through_as_in_pytorchs(dtype: torch.dtype) -> None:
    for function, by_torch, given in problems(dtype, 19):
        x = given[0]
        x[0, 0, 0, 3], x[0, 1, 2, 18], x[1, 2, 4, 0] = torch.nan, torch.inf, -torch.inf
        found, expected = function(*given), by_torch(*given)
        assert torch.equal(found.isnan(), expected.isnan())
        assert torch.equal(found.isinf(), expected.isinf())


def test_empty_ones_and_steps_are_honoured(native: Counting) -> None:
    weight = made(11, seed=1)
    for x in (made(3, 22)[:, ::2], made(11, 3).mT, made(1, 11).expand(3, 11), made(7, 11)[::3]):
        torch.testing.assert_close(
            rms_norm(x, weight, EPS), rms_norm(x.contiguous(), weight, EPS), rtol=0, atol=0
        )
        assert torch.equal(gated(x, x.flip(0)), gated(x.contiguous(), x.flip(0)))
    assert native.calls == 16
    cosine, sine = angles(5, 6, batch=2)
    for x in (
        made(2, 5, 3, 7).transpose(1, 2),
        made(2, 3, 5, 14)[..., ::2],
        made(2, 3, 10, 7)[:, :, ::2],
    ):
        found = turn(x, cosine, sine, "halves")
        torch.testing.assert_close(found, _tokens._turn_by_torch(x, cosine, sine, "halves"))
    assert rms_norm(made(0, 11), weight, EPS).shape == (0, 11)
    assert gated(made(3, 0), made(3, 0)).shape == (3, 0)
    assert turn(made(2, 3, 0, 7), *angles(0, 6), "halves").shape == (2, 3, 0, 7)


def test_what_is_not_plain_is_pytorchs(native: Counting) -> None:
    x, weight = made(3, 5), made(5, seed=1)
    assert rms_norm(x.double(), weight.double(), EPS).dtype == torch.float64
    assert rms_norm(x.bfloat16(), weight, EPS).dtype == torch.float32  # as types are joined
    assert rms_norm(x.to("meta"), weight.to("meta"), EPS).is_meta
    assert gated(x, weight).shape == (3, 5)
    batched = torch.func.vmap(rms_norm, (0, None, None))(x, weight, EPS)
    assert native.calls == 0
    torch.testing.assert_close(batched, rms_norm(x, weight, EPS))
    compiled = torch.compile(gated, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, x), gated(x, x))


class Seen(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.functions: list[Any] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.functions.append(func)
        return func(*args, **(kwargs or {}))


def test_what_a_function_mode_lets_pass_keeps_its_bits() -> None:
    for function, _, given in problems(torch.bfloat16, 97):
        with Seen() as seen:
            passed = function(*given)
        assert function in seen.functions
        assert torch.equal(passed, function(*given))
