"""Attention under PyTorch's own machinery: its operator checks, its compiler, forked workers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.attention_problems import assert_same_bits, on_each_backend, threads
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, Dataset

import regard

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "positions": {"causal": True, "window": (3, 1), "position": 2},
    "masks": {
        "mask": torch.arange(7) != 3,
        "bias": torch.linspace(-1, 1, 35).reshape(5, 7),
        "lengths": torch.tensor([7, 4]),
    },
    "scores": {"scale": 0.3, "softcap": 2.0, "sinks": torch.tensor([0.1, 0.2, 0.3])},
}
options = pytest.mark.parametrize("given", OPTIONS.values(), ids=list(OPTIONS))
SEE = regard.See(entropy=True, top=3, map=(2, 3), received=True, distance=True)
SEEN = ("lse", "entropy", "top_keys", "top_weights", "map", "received", "distance")


def inputs(requires_grad: bool = False, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    random = torch.Generator().manual_seed(1)
    return [
        torch.randn(shape, generator=random, dtype=dtype).requires_grad_(requires_grad)
        for shape in ((2, 3, 5, 4), (2, 1, 7, 4), (2, 1, 7, 2))
    ]


class Recorder(TorchDispatchMode):
    """Keeps the arguments with which our operators were called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.namespace == "regard":
            self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


EVERYTHING = {name: x for given in OPTIONS.values() for name, x in given.items()}


# Each two of backend, options and sight together.
@pytest.mark.parametrize(
    ("backend", "given", "look"),
    [
        ("native", {}, {}),
        ("native", EVERYTHING, {"see": SEE}),
        ("torch", {}, {"see": SEE}),
        ("torch", EVERYTHING, {}),
    ],
    ids=["native plain", "native seen", "torch seen", "torch plain"],
)
def test_the_operator_passes_opcheck(
    backend: str, given: dict[str, Any], look: dict[str, Any]
) -> None:
    with Recorder() as recorder:
        regard.attention(*inputs(), backend=backend, **look, **given)
    (call,) = recorder.calls
    operator, arguments, named = call
    arguments = tuple(
        x.detach().clone().requires_grad_(n < 3) if isinstance(x, Tensor) else x
        for n, x in enumerate(arguments)
    )
    torch.library.opcheck(operator, arguments, named)


@on_each_backend
@options
def test_the_operator_of_the_backward_pass_passes_opcheck(
    backend: str, given: dict[str, Any]
) -> None:
    q, k, v = inputs(requires_grad=True)
    inside = q.transpose(1, 2).contiguous().transpose(1, 2)  # as layers of a model hand it over
    with Recorder() as recorder:
        regard.attention(inside, k, v, backend=backend, **given).sum().backward()
    (call,) = (call for call in recorder.calls if "backward" in call[0].name())
    operator, arguments, named = call
    arguments = tuple(x.detach() if isinstance(x, Tensor) else x for x in arguments)
    torch.library.opcheck(operator, arguments, named)


@on_each_backend
@options
def test_it_compiles_to_one_graph_with_the_same_results(
    backend: str, given: dict[str, Any]
) -> None:
    def observed(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        output, seen = regard.attention(q * 2, k, v, see=SEE, backend=backend, **given)
        blind = regard.attention(q * 2, k, v, backend=backend, **given)
        return output + 1, blind, *(getattr(seen, name) for name in SEEN)

    torch._dynamo.reset()
    compiled = torch.compile(observed, fullgraph=True, backend="aot_eager")
    for one, other in zip(compiled(*inputs()), observed(*inputs()), strict=True):
        assert_same_bits(one, other)


@on_each_backend
def test_a_compiled_function_has_the_same_gradients(backend: str) -> None:
    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return regard.attention(q, k, v, causal=True, backend=backend).square().sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    one, other = inputs(requires_grad=True), inputs(requires_grad=True)
    compiled(*one).backward()
    loss(*other).backward()
    for x, y in zip(one, other, strict=True):
        assert x.grad is not None
        assert y.grad is not None
        torch.testing.assert_close(x.grad, y.grad)


def test_on_the_meta_device_only_shapes_are_made() -> None:
    q, k, v = (x.to("meta") for x in inputs())
    output, seen = regard.attention(q, k, v, see=SEE)
    expected, seen_expected = regard.attention(*inputs(), see=SEE)
    assert output.is_meta
    assert output.shape == expected.shape
    assert output.stride() == expected.stride()
    for name in SEEN:
        assert getattr(seen, name).is_meta
        assert getattr(seen, name).shape == getattr(seen_expected, name).shape


class Attended(Dataset[Tensor]):
    """Attention done by whoever asks for an item."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def __len__(self) -> int:
        return 4

    def __getitem__(self, item: int) -> Tensor:
        random = torch.Generator().manual_seed(item)
        q = torch.randn(2, 3, 97, 17, generator=random)
        output, _ = regard.attention(q, q, q, causal=True, see=SEE, backend=self.backend)
        return output


@on_each_backend
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_it_works_in_a_forked_data_loader_worker(backend: str) -> None:
    here = Attended(backend)
    with threads(2):
        expected = [here[item] for item in range(len(here))]  # threads have been started
        loader = DataLoader(
            here, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60
        )
        for found, known in zip(loader, expected, strict=True):
            torch.testing.assert_close(found, known)
