"""`regard._linear.linear` is `torch.nn.functional.linear`, whichever of the two ways it goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from helpers.attention_problems import threads
from helpers.kernels import KERNELS, using
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, Dataset

from regard import _linear, _native
from regard._linear import MOST_ROWS, linear, linears


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with threads(1):
        yield


class Counting:
    """regard._native, whose linear maps are counted, those that it made."""

    def __init__(self) -> None:
        self.calls = 0

    def linear(self, *arguments: Any) -> bool:
        done = _native.linear(*arguments)
        self.calls += done
        return done


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting()
    monkeypatch.setattr(_linear, "_native", counting)
    return counting


@pytest.fixture(params=KERNELS)
def _kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    with using(request.param):
        yield


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def must_be_as_right_as_torch(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """The error against float64 is at most twice that of PyTorch's own, plus a few roundings."""
    exact = functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    found, theirs = linear(x, weight, bias), functional.linear(x, weight, bias)
    assert found.shape == theirs.shape
    assert found.stride() == theirs.stride()
    assert found.dtype == theirs.dtype
    size = functional.linear(x.double().abs(), weight.double().abs())
    if bias is not None:
        size = size + bias.double().abs()
    floor = 4 * 2.0**-24 * float(size.max())
    assert float((found - exact).abs().max()) <= 2 * float((theirs - exact).abs().max()) + floor


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, MOST_ROWS, MOST_ROWS + 1])
@pytest.mark.parametrize(("n_in", "n_out"), [(1, 3), (7, 1), (16, 5), (577, 193), (67, 1031)])
def test_it_is_as_right_as_pytorchs(native: Counting, rows: int, n_in: int, n_out: int) -> None:
    x, weight, bias = made(rows, n_in), made(n_out, n_in, seed=1), made(n_out, seed=2)
    must_be_as_right_as_torch(x, weight, bias)
    must_be_as_right_as_torch(x, weight, None)
    assert native.calls == (2 if rows <= MOST_ROWS else 0)


@pytest.mark.parametrize("shape", [(11,), (1, 11), (2, 3, 11), (1, 1, 5, 11)], ids=str)
def test_any_number_of_axes_may_stand_in_front(native: Counting, shape: tuple[int, ...]) -> None:
    must_be_as_right_as_torch(made(*shape), made(7, 11, seed=1), made(7, seed=2))
    assert native.calls == 1


def test_steps_are_honoured(native: Counting) -> None:
    weight = made(7, 29, seed=1)[:, 5:16]  # from row to row 29, not 11
    for x in (
        made(2, 5, 11)[:, -1:],
        made(3, 23)[:, 2:13],
        made(11, 3).mT,
        made(3, 22)[:, ::2],
        made(1, 11).expand(3, 11),
    ):
        must_be_as_right_as_torch(x, weight, None)
    must_be_as_right_as_torch(made(3, 11), made(1, 11, seed=1).expand(7, 11), None)
    must_be_as_right_as_torch(made(3, 1), made(7, 5, seed=1)[:, 2:3], None)
    assert native.calls == 7
    must_be_as_right_as_torch(made(3, 11), made(11, 7, seed=1).mT, None)
    must_be_as_right_as_torch(made(3, 11), weight, made(14, seed=2)[::2])
    assert native.calls == 7


def test_a_rows_bits_do_not_depend_on_threads_or_other_rows(native: Counting) -> None:
    x, weight, bias = made(MOST_ROWS, 577), made(1031, 577, seed=1), made(1031, seed=2)
    expected = torch.cat([linear(row, weight, bias) for row in x.split(1)])
    for count in (1, 2, 4):
        with threads(count):
            assert torch.equal(linear(x, weight, bias), expected)
            for rows in range(1, MOST_ROWS):
                assert torch.equal(linear(x[:rows], weight, bias), expected[:rows])
    assert native.calls == MOST_ROWS * 4


def test_what_is_not_finite_comes_through_as_in_pytorchs(native: Counting) -> None:
    x, weight, bias = made(5, 19), made(7, 19, seed=1), made(7, seed=2)
    x[1, 3], x[2, 18], x[3, 0] = torch.nan, torch.inf, -torch.inf
    weight[2, 17], weight[4, 5], bias[6] = torch.inf, torch.nan, -torch.inf
    x[4, 17] = 0  # times infinity
    found, theirs = linear(x, weight, bias), functional.linear(x, weight, bias)
    torch.testing.assert_close(found, theirs, equal_nan=True)
    assert native.calls == 1


def test_gradients_flow(native: Counting) -> None:
    tensors = [made(3, 5), made(7, 5, seed=1), made(7, seed=2)]
    for wanted in range(3):
        given = [x.clone().requires_grad_(n == wanted) for n, x in enumerate(tensors)]
        found = torch.autograd.grad(linear(*given).square().sum(), given[wanted])
        theirs = torch.autograd.grad(functional.linear(*given).square().sum(), given[wanted])
        torch.testing.assert_close(found[0], theirs[0])
        with torch.no_grad():
            blind = linear(*given)
        assert not blind.requires_grad
        assert torch.equal(blind, linear(*given))
        assert native.calls == 3
        native.calls = 0


def test_gradients_of_gradients_flow() -> None:
    x, weight, bias = made(3, 5), made(7, 5, seed=1), made(7, seed=2)

    def second(function: Any) -> torch.Tensor:
        given = [part.clone().requires_grad_() for part in (x, weight, bias)]
        (first,) = torch.autograd.grad(function(*given).pow(3).sum(), given[0], create_graph=True)
        return torch.autograd.grad(first.square().sum(), given[1])[0]

    torch.testing.assert_close(second(linear), second(functional.linear), rtol=1e-5, atol=1e-5)


def test_parameters_go_the_short_way_when_no_gradient_is_recorded(native: Counting) -> None:
    layer = torch.nn.Linear(5, 7)
    with torch.inference_mode():
        torch.testing.assert_close(linear(made(3, 5), layer.weight, layer.bias), layer(made(3, 5)))
    assert native.calls == 1


class Seen(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.functions: list[Any] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.functions.append(func)
        return func(*args, **(kwargs or {}))


def test_a_function_mode_is_handed_the_call_and_what_it_lets_pass_keeps_its_bits(
    native: Counting,
) -> None:
    x, weight = made(3, 577), made(7, 577, seed=1)
    with Seen() as seen:
        passed = linear(x, weight, None)
    assert linear in seen.functions
    assert torch.equal(passed, linear(x, weight, None))
    assert native.calls == 2


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_halves_are_rounded_once(native: Counting, dtype: torch.dtype) -> None:
    x, weight, bias = made(3, 577).to(dtype), made(7, 577, seed=1).to(dtype), made(7, seed=2)
    found = linear(x, weight, bias.to(dtype))
    assert native.calls == 1
    exact = functional.linear(x.double(), weight.double(), bias.to(dtype).double())
    assert found.dtype == dtype
    unit = torch.finfo(dtype).eps / 2
    assert bool(((found - exact).abs() <= unit * exact.abs() + 1e-4).all())
    # Of two types it is PyTorch's to say what is wrong.
    with pytest.raises(RuntimeError, match="same dtype"):
        linear(x, weight.float(), None)


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("rows", [MOST_ROWS + 1, 97, 211])
def test_many_rows_of_halves_have_the_bits_of_each_alone(
    native: Counting, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, rows: int
) -> None:
    monkeypatch.setitem(_linear.ROWS, dtype, 1 << 40)  # whatever PyTorch has on this processor
    x, weight, bias = (
        each.to(dtype) for each in (made(rows, 577), made(67, 577, seed=1), made(67, seed=2))
    )
    expected = torch.cat([linear(row, weight, bias) for row in x.split(1)])
    for count in (1, 2, 4):
        with threads(count):
            assert torch.equal(linear(x, weight, bias), expected)
    assert native.calls == rows + 3
    exact = functional.linear(x.double(), weight.double(), bias.double())
    unit = torch.finfo(dtype).eps / 2
    assert bool(((expected - exact).abs() <= unit * exact.abs() + 1e-4).all())
    monkeypatch.setitem(_linear.ROWS, dtype, MOST_ROWS)
    assert linear(x, weight, bias).shape == (rows, 67)
    assert native.calls == rows + 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_several_maps_of_one_x_are_one_call_with_the_same_bits(
    native: Counting, dtype: torch.dtype
) -> None:
    x = made(2, 3, 577).to(dtype)
    maps = [
        (made(outputs, 577, seed=outputs).to(dtype), made(outputs).to(dtype) if biased else None)
        for outputs, biased in ((193, True), (1, False), (67, False), (331, True))
    ]
    for count in (1, 2, 4):
        native.calls = 0
        with threads(count), torch.no_grad():
            found = linears(x, maps)
            assert native.calls == 1
            for y, (weight, bias) in zip(found, maps, strict=True):
                assert torch.equal(y, linear(x, weight, bias))
    # With gradients, or a map that is not for here, each by itself.
    maps[1] = (maps[1][0].requires_grad_(), None)
    native.calls = 0
    for one, other in zip(linears(x, maps), found, strict=True):
        assert torch.equal(one, other)
    assert native.calls == 4
    with torch.no_grad(), pytest.raises(RuntimeError):
        linears(x, [*maps, (made(3, 576).to(dtype), None)])


def test_what_is_not_plain_is_pytorchs(native: Counting) -> None:
    x, weight, bias = made(3, 5), made(7, 5, seed=1), made(7, seed=2)
    given = x.double(), weight.double(), bias.double()
    assert torch.equal(linear(*given), functional.linear(*given))
    assert linear(x.to("meta"), weight.to("meta")).is_meta
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight, bias).dtype == torch.bfloat16
    zeros = torch._efficientzerotensor((3, 5))  # pyright: ignore[reportPrivateImportUsage]
    assert torch.equal(linear(zeros, weight, bias), bias.expand(3, 7))
    conjugate = torch.complex(x, x).conj().imag  # shows the negative of what is in memory
    assert conjugate.is_neg()
    torch.testing.assert_close(linear(conjugate, weight), functional.linear(-x, weight))
    batched = torch.func.vmap(linear, (0, None, None))(x, weight, bias)
    torch.testing.assert_close(batched, functional.linear(x, weight, bias))
    assert native.calls == 0


def test_it_compiles_as_pytorchs(native: Counting) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(linear, fullgraph=True, backend="eager")
    given = made(3, 5), made(7, 5, seed=1), made(7, seed=2)
    with torch.no_grad():
        assert torch.equal(compiled(*given), functional.linear(*given))
    assert native.calls == 0


@pytest.mark.parametrize(
    ("x", "weight"), [((0, 5), (7, 5)), ((3, 5), (0, 5)), ((3, 0), (7, 0)), ((2, 0, 5), (7, 5))]
)
def test_sizes_of_zero_are_pytorchs(x: tuple[int, ...], weight: tuple[int, ...]) -> None:
    found, theirs = linear(made(*x), made(*weight)), functional.linear(made(*x), made(*weight))
    assert torch.equal(found, theirs)


@pytest.mark.parametrize(
    ("x", "weight", "bias"),
    [((3, 5), (7, 4), (7,)), ((3, 5), (7, 5), (6,)), ((3, 5), (7, 5, 1), (7,))],
)
def test_what_does_not_fit_is_refused_by_pytorch(
    x: tuple[int, ...], weight: tuple[int, ...], bias: tuple[int, ...]
) -> None:
    with pytest.raises(RuntimeError):
        linear(made(*x), made(*weight), made(*bias))


def test_a_bias_that_is_repeated_and_a_weight_of_one_axis_are_pytorchs(native: Counting) -> None:
    x, weight = made(3, 5), made(7, 5, seed=1)
    for bias in (made(1, seed=2), made(3, 7, seed=2)):
        assert torch.equal(linear(x, weight, bias), functional.linear(x, weight, bias))
    assert torch.equal(linear(x, weight[0]), functional.linear(x, weight[0]))
    assert native.calls == 0


class Mapped(Dataset[Tensor]):
    """A linear map done by whoever asks for an item."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, item: int) -> Tensor:
        return linear(made(3, 577, seed=item), made(1031, 577, seed=1))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_it_works_in_a_forked_process() -> None:
    here = Mapped()
    with threads(2):
        expected = [here[item] for item in range(len(here))]  # threads have been started
        loader = DataLoader(
            here, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60
        )
        for found, known in zip(loader, expected, strict=True):
            assert torch.equal(found, known)


def test_gradients_of_a_bias_that_is_repeated_are_pytorchs() -> None:
    x, weight = torch.randn(2, 3), torch.randn(5, 3)
    bias = torch.randn(1, 5, requires_grad=True)
    linear(x, weight, bias).sum().backward()
    assert bias.grad is not None
    assert torch.equal(bias.grad, torch.full((1, 5), 2.0))
    assert torch.equal(linear(x.to_sparse(), weight), functional.linear(x.to_sparse(), weight))
