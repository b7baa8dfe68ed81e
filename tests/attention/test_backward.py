"""The native backward pass: when it runs, and what holds for its gradients beyond what all obey."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.attention_problems import (
    SMALL,
    Problem,
    assert_right,
    assert_same_bits,
    floor,
    laid_out,
    largest,
    problems,
    threads,
    unit,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import regard
from regard import _native
from regard._attention import native, operator

SIZES = SMALL * 9 + (16, 17, 33, 95, 97, 255, 257)


def some_problem(n_queries: int, n_keys: int, **options: Any) -> Problem:
    random = np.random.default_rng(n_queries * 1009 + n_keys)
    q, k, v = (
        torch.from_numpy(random.normal(size=shape)).float()
        for shape in ((2, 3, n_queries, 17), (2, 1, n_keys, 17), (2, 1, n_keys, 5))
    )
    return Problem(q, k, v, options, random)


def flowing_into(problem: Problem) -> Tensor:
    return problem.normal(*problem.square[:3], problem.v.shape[-1])


def gradients(problem: Problem, flowing: Tensor) -> tuple[Tensor, ...]:
    """Of q, k and v alone, which the native backend makes."""
    inputs = [x.detach().requires_grad_() for x in (problem.q, problem.k, problem.v)]
    output = regard.attention(*inputs, backend="native", **problem.options)
    return torch.autograd.grad(output, inputs, flowing)


def of_eager(problem: Problem, dtype: torch.dtype, flowing: Tensor) -> tuple[Tensor, ...]:
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in (problem.q, problem.k, problem.v))
    options = {
        name: given.to(dtype) if isinstance(given, Tensor) and given.is_floating_point() else given
        for name, given in problem.options.items()
    }
    output = Problem(q, k, v, options, problem.random).eager.output
    return torch.autograd.grad(output, (q, k, v), flowing.to(dtype))


@pytest.fixture
def backward_passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which backend made gradients, call by call."""
    passes: list[str] = []
    by_torch = operator.backward

    class Core:
        def __getattr__(self, name: str) -> Any:
            return getattr(_native, name)

        def attention_backward(self, *arguments: Any) -> bool:
            done = _native.attention_backward(*arguments)
            passes.extend(["native"] * done)
            return done

    def recorded(*arguments: Any) -> Any:
        passes.append("torch")
        return by_torch(*arguments)

    monkeypatch.setattr(native, "core", Core())
    monkeypatch.setattr(operator, "backward", recorded)
    return passes


NATIVE: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "positions": {"window": (3, 1), "position": 2},
    "mask": {"mask": torch.arange(11) != 3},
    "bias": {"bias": torch.linspace(-1, 1, 77).reshape(7, 11)},
    "lengths": {"lengths": torch.tensor([11, 4])},
    "sinks": {"sinks": torch.tensor([0.1, 0.2, 0.3])},
    "seen": {"see": regard.See(entropy=True, top=3)},
    "dropout": {"dropout": 0.5},
}


@pytest.mark.parametrize("options", NATIVE.values(), ids=list(NATIVE))
def test_the_native_backend_makes_its_own_gradients(
    backward_passes: list[str], options: dict[str, Any]
) -> None:
    problem = some_problem(7, 11)
    q, k, v = (x.requires_grad_() for x in (problem.q, problem.k, problem.v))
    found = regard.attention(q, k, v, **options)
    output = found[0] if isinstance(found, tuple) else found
    output.sum().backward()
    assert backward_passes == ["native"]
    assert q.grad is not None
    regard.attention(q, k, v, backend="torch", **options)


@pytest.mark.parametrize("name", ["bias", "sinks", "softcap", "backend"])
def test_what_the_native_backward_pass_cannot_do_is_the_torch_backends(
    backward_passes: list[str], name: str
) -> None:
    problem = some_problem(7, 11)
    given = {
        "bias": torch.zeros(7, 11, requires_grad=True),
        "sinks": torch.zeros(3, requires_grad=True),
        "softcap": 5.0,
        "backend": "torch",
    }
    options: dict[str, Any] = {name: given[name]}
    regard.attention(problem.q.requires_grad_(), problem.k, problem.v, **options).sum().backward()
    assert backward_passes == ["torch"]


@given(data=st.data())
def test_gradients_of_q_k_and_v_are_as_right_as_those_of_the_eager_computation(
    data: st.DataObject,
) -> None:
    problem = data.draw(problems(sizes=SIZES))
    problem.options.pop("softcap", None)
    flowing = flowing_into(problem)
    truth, peer = (of_eager(problem, x, flowing) for x in (torch.float64, torch.float32))
    size = unit(torch.float32) * floor(problem) * largest(flowing)
    for name, found, exact, eager in zip(
        "qkv", gradients(problem, flowing), truth, peer, strict=True
    ):
        expected = exact.numpy()
        assert_right(f"d{name}", found, expected, eager, size * largest(expected), factor=3)


@given(data=st.data())
def test_strides_change_no_bit_of_a_gradient(data: st.DataObject) -> None:
    problem = data.draw(problems(sizes=SIZES, layouts=False))
    problem.options.pop("softcap", None)
    flowing = flowing_into(problem)
    expected = gradients(problem, flowing)
    layout = data.draw(st.sampled_from(("heads inside", "sliced", "last axis outside", "stepped")))
    moved = {name: laid_out(getattr(problem, name), layout) for name in ("q", "k", "v")}
    for one, other in zip(
        gradients(replace(problem, **moved), laid_out(flowing, layout)), expected, strict=True
    ):
        assert_same_bits(one, other)


@given(data=st.data())
def test_a_query_that_sees_one_key_gives_q_and_k_a_gradient_of_exactly_zero(
    data: st.DataObject,
) -> None:
    # Its weight is 1 whatever q and k are.
    problem = data.draw(problems(sizes=SIZES, n_keys=1, sinks=False, magnitudes=(1.0, 6.0)))
    problem.options.pop("softcap", None)
    dq, dk, _ = gradients(problem, flowing_into(problem))
    assert not dq.any()
    assert not dk.any()


@given(data=st.data())
def test_keys_that_are_all_alike_leave_q_no_gradient_but_rounding(data: st.DataObject) -> None:
    # dQ is then (Σⱼ dSᵢⱼ) · k, and the gradients of a row of scores sum to zero.
    problem = data.draw(problems(sizes=SIZES, sinks=False))
    problem.options.pop("softcap", None)
    alike = problem.k[:, :, :1].expand_as(problem.k)
    flowing = flowing_into(problem)
    dq, _, _ = gradients(replace(problem, k=alike), flowing)
    size = largest(problem.v) * largest(flowing) * problem.v.shape[3] * largest(alike)
    assert dq.abs().max() <= 64 * unit(torch.float32) * math.sqrt(problem.n_keys) * size


def test_a_nan_in_one_sequence_changes_no_bit_of_the_other() -> None:
    problem = some_problem(97, 257, causal=True)
    flowing = flowing_into(problem)
    expected = gradients(problem, flowing)
    for name in ("q", "k", "v"):
        spoilt = getattr(problem, name).clone()
        spoilt[0, 0, 11] = math.nan
        found = gradients(replace(problem, **{name: spoilt}), flowing)
        assert not all(x[0].isfinite().all() for x in found)
        for one, other in zip(found, expected, strict=True):
            assert_same_bits(one[1], other[1])


@pytest.mark.parametrize("causal", [False, True])
def test_threads_that_share_the_keys_of_one_head_change_no_bit(causal: bool) -> None:
    problem = some_problem(101, 2311, causal=causal)
    problem = replace(problem, q=problem.q[:1, :1], k=problem.k[:1], v=problem.v[:1])
    flowing = flowing_into(problem)
    found: list[tuple[Tensor, ...]] = []
    for count in (1, 2, 4):
        with threads(count):
            found.append(gradients(problem, flowing))
    for other in found[1:]:
        for one, first in zip(other, found[0], strict=True):
            assert_same_bits(one, first)


def test_a_gradient_lies_in_memory_as_what_it_belongs_to() -> None:
    problem = some_problem(7, 11)
    moved = {name: laid_out(getattr(problem, name), "heads inside") for name in ("q", "k", "v")}
    problem = replace(problem, **moved)
    for gradient, x in zip(
        gradients(problem, flowing_into(problem)), (problem.q, problem.k, problem.v), strict=True
    ):
        assert gradient.stride() == x.stride()


def test_recomputing_the_forward_pass_changes_no_bit_of_a_gradient() -> None:
    problem = some_problem(97, 61, causal=True)
    flowing = flowing_into(problem)
    inputs = [x.detach().requires_grad_() for x in (problem.q, problem.k, problem.v)]
    output = checkpoint(regard.attention, *inputs, causal=True, use_reentrant=False)
    assert isinstance(output, Tensor)
    found = torch.autograd.grad(output, inputs, flowing)
    for one, other in zip(found, gradients(problem, flowing), strict=True):
        assert_same_bits(one, other)


def test_an_output_that_was_overwritten_is_not_used() -> None:
    problem = some_problem(7, 11)
    output = regard.attention(problem.q.requires_grad_(), problem.k, problem.v)
    output.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()
