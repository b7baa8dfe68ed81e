"""How right gradients of attention have to be: against autograd through eager float64."""

from __future__ import annotations

import torch
from helpers.attention_problems import Problem, assert_right, floor, largest, unit
from torch import Tensor


def of_eager(problem: Problem, dtype: torch.dtype, flowing: Tensor) -> dict[str, Tensor]:
    """The gradients of q, k, v, bias and sinks through the eager computation, in `dtype`."""
    inputs = {
        name: getattr(problem, name).detach().to(dtype).requires_grad_() for name in ("q", "k", "v")
    }
    options = {
        name: given.to(dtype) if isinstance(given, Tensor) and given.is_floating_point() else given
        for name, given in problem.options.items()
    }
    for name in ("bias", "sinks"):
        if name in options:
            inputs[name] = options[name] = options[name].detach().requires_grad_()
    copied = Problem(inputs["q"], inputs["k"], inputs["v"], options, problem.random)
    output = copied.eager.output
    found = torch.autograd.grad(output, list(inputs.values()), flowing.to(dtype))
    return dict(zip(inputs, found, strict=True))


def assert_gradients_are_right(problem: Problem, found: dict[str, Tensor], flowing: Tensor) -> None:
    """CONTRACT: at most three times as wrong as those of eager, plus what is allowed."""
    dtype = problem.q.dtype
    truth, peer = (of_eager(problem, precision, flowing) for precision in (torch.float64, dtype))
    size = unit(dtype) * floor(problem)
    for name, gradient in found.items():
        expected = truth[name].numpy()
        assert gradient.dtype == dtype
        assert gradient.shape == expected.shape
        allowance = size * largest(expected) * largest(flowing)
        assert_right(f"d{name}", gradient, expected, peer[name], allowance, factor=3)
