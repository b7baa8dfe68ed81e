"""The backends: what each can do, which one takes a problem, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from regard._arguments import WrongValue
from regard._attention import forward, native
from regard._attention.eager import is_surely, without_autocast
from regard._attention.problem import Problem
from regard._attention.scores import dropper
from regard.observation import Observation, See


@dataclass(frozen=True)
class Backend:
    """A way to compute attention: for what it is used here, or why it is not."""

    name: str
    available: bool
    used_for: str
    kernel: str | None = None  # the build of the kernel in use
    why_not: str | None = None

    def __str__(self) -> str:
        if not self.available:
            return f"{self.name}: not available, {self.why_not}"
        return f"{self.name}{f' ({self.kernel})' if self.kernel else ''}: {self.used_for}"


def backends() -> list[Backend]:
    """The backends of `regard.attention`, in the order in which they are tried.

    >>> [backend.name for backend in backends()]
    ['native', 'torch']
    """
    return [
        Backend(
            "native",
            available=not native.missing,
            used_for="float32, bfloat16, float16 and float64 on the CPU; not the gradients of "
            "bias and sinks, and of softcap",
            kernel=native.kernel(),
            why_not=native.missing or None,
        ),
        Backend(
            "torch",
            available=True,
            used_for="other devices, and other gradients",
        ),
    ]


def choose(call: str, backend: str | None, q: Tensor, k: Tensor) -> str:
    """The backend that takes these: the one named, or the first that can."""
    if backend not in (None, "native", "torch"):
        raise WrongValue(
            f"{call}: backend must be 'native', 'torch' or None; got {backend!r}. "
            "None takes the first that can; regard.backends() lists them."
        )
    if backend == "torch":
        return backend
    reason = native.why_not(q, k)
    if not reason:
        return "native"
    if backend is None:
        return "torch"
    raise WrongValue(f"{call}: backend 'native' needs {reason}. backend=None takes 'torch' for it.")


def run(backend: str, problem: Problem, see: See | None) -> tuple[Tensor, Observation | None]:
    """The output, and what was asked for in `see`."""
    if backend == "native" and problem.has_keys and problem.q.shape[3]:
        return native.attend(problem, see)
    with without_autocast(problem.q.device):
        return forward.attend(problem, see, dropper(backend, problem))


def has_native_backward(backend: str, problem: Problem, wanted: Sequence[bool]) -> bool:
    """Does the native backend make the gradients, too? `wanted` is as `backward` takes it.

    Those of bias and sinks, and what a softcap does to them, are the torch backend's.
    """
    return (
        backend == "native"
        and not any(is_surely(n == 0) for n in problem.scores_shape)
        and problem.q.shape[3] > 0
        and problem.v.shape[3] > 0
        and problem.options.softcap is None
        and not (wanted[3] or wanted[4])
    )
