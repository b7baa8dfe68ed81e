"""Two modules beside each other: the same outputs, and the same gradients by a table of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.nn.convert.tables import Row, filled_in

Module = TypeVar("Module", bound=nn.Module)

TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12}


def filled(module: Module, seed: int = 2, spread: float = 0.4) -> Module:
    """Random numbers for every parameter, so that none may stand in another's place."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            is_gain = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(float(is_gain) + spread * noise)
    return module


def random(*shape: int, seed: int, dtype: torch.dtype, trained: bool = True) -> Tensor:
    """Normal numbers, that a gradient is wanted of."""
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return made.requires_grad_(trained)


def assert_near(found: Tensor | None, expected: Tensor | None, tolerance: float, what: str) -> None:
    """Equal within `tolerance` of the largest expected number, or of 1."""
    if found is None or expected is None:
        given = expected if found is None else found
        assert given is None or not given.any(), f"{what}: only one of them has a gradient"
        return
    found, expected = found.detach(), expected.detach()
    assert found.shape == expected.shape, what
    size = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
    worst = float((found - expected).abs().max()) if expected.numel() else 0.0
    assert worst <= tolerance * size, f"{what}: off by {worst:.2e}, size {size:.2e}"


def assert_alike(
    rows: Iterable[Row],
    ours: nn.Module,
    theirs: nn.Module,
    run_ours: Callable[[], Tensor],
    run_theirs: Callable[[], Tensor],
    *,
    tolerance: float,
    inputs: Sequence[Tensor] = (),
) -> None:
    """The same output, and the same gradients of `inputs` and of every parameter in the table."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more are slower for tensors as small as these
    try:
        found, of_ours = _with_gradients(ours, run_ours, inputs)
        expected, of_theirs = _with_gradients(theirs, run_theirs, inputs)
    finally:
        torch.set_num_threads(threads)
    assert_near(found, expected, tolerance, "output")
    for n, (a, b) in enumerate(zip(of_ours, of_theirs, strict=True)):
        assert a is not None
        assert_near(a, b, tolerance, f"gradient of input {n}")
    our_state, their_state = (m.state_dict(keep_vars=True) for m in (ours, theirs))
    compared: set[str] = set()
    for row in filled_in(rows, our_state):
        compared.update(row.names)
        if row.theirs not in their_state or not their_state[row.theirs].requires_grad:
            continue
        expected_gradient = their_state[row.theirs].grad
        parts: Sequence[Tensor | None] = [None] * len(row.names)
        if expected_gradient is not None:
            parts = row.fit.split(expected_gradient)
        for name, part in zip(row.names, parts, strict=True):
            assert_near(our_state[name].grad, part, tolerance, f"gradient of {name}")
    assert compared == set(our_state)


def _with_gradients(
    module: nn.Module, run: Callable[[], Tensor], inputs: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor | None]]:
    """The output, and what of a random sum over it flows back to the inputs."""
    module.zero_grad(set_to_none=True)
    for given in inputs:
        given.grad = None
    output = run()
    (output * random(*output.shape, seed=97, dtype=output.dtype, trained=False)).sum().backward()
    return output.detach(), [given.grad for given in inputs]
