"""The native backend: hands tensors and options to regard._native, which reads them in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch  # before regard._native, which shares its OpenMP runtime
from torch import Tensor

from regard._attention.problem import Problem, Tile, new_gradient
from regard.observation import Observation, See

missing = ""  # why there is no native backend
if TYPE_CHECKING:
    from regard import _native as core
else:
    try:
        from regard import _native as core
    except ImportError as error:
        core, missing = None, f"regard._native cannot be imported: {error}"

# Looked up once: the smallest call is measured in microseconds.
_float32 = torch.float32
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_get_num_threads = torch.get_num_threads
_is_compiling = torch.compiler.is_compiling

# Which queries count, the labels of the keys, the norms of their values.
Asked = tuple[Tensor | None, Tensor | None, Tensor | None]
NOTHING: Asked = (None, None, None)


def kernel() -> str | None:
    """The build of the kernel in use, None if there is none."""
    return None if missing else core.kernel()


def why_not(q: Tensor, k: Tensor) -> str:
    """What this backend would need, and what it got; empty if it can."""
    if missing:
        return f"a compiled kernel; got none, as {missing}"
    if q.device.type != "cpu":
        return f"tensors on the CPU; got q on {q.device}"
    # What is exported shall take any length; the kernel itself refuses what it cannot count.
    if not _is_compiling() and max(lengths := (q.shape[2], k.shape[2])) > core.MOST:
        return f"less than 2³¹ queries and keys; got {lengths}"
    return ""


def attend(problem: Problem, see: See | None) -> tuple[Tensor, Observation | None]:
    """The output (B, H, Nq, Dv), and what was asked for in `see`. No size may be 0 but Dv."""
    out = problem.new_output()
    if problem.layout == "query" and out.stride(3) != 1 and out.shape[3] > 1:
        joined, seen = attend(replace(problem, layout="joined"), see)
        return out.copy_(joined), seen
    seen = None if see is None else problem.new_observation(see)
    _run(core.attention, problem, out, seen, NOTHING if see is None else _asked(problem, see))
    return out, seen


def _asked(problem: Problem, see: See) -> Asked:
    """The tensors of what is to be seen, as the kernel reads them."""
    queries = None if see.queries is None else _in_memory(see.queries)
    labels = norms = None
    if see.spans is not None:
        labels = _in_memory(see.spans).to(torch.int64)
        labels = (labels if labels.dim() == 2 else labels[None]).contiguous()
    if see.norms is not None:
        norms = _in_memory(see.norms).to(problem.dtype).contiguous()
    return queries, labels, norms


def backward(
    problem: Problem, grad: Tensor, out: Tensor, lse: Tensor, wanted: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v from that of the output; empty where none is wanted.

    `out` and `lse` are what `attend` found. There may be no softcap, and no size may be 0.
    """
    tensors = zip((problem.q, problem.k, problem.v), wanted, strict=True)
    dq, dk, dv = (new_gradient(x, x.dtype, want) for x, want in tensors)
    made = (x if want else None for x, want in zip((dq, dk, dv), wanted, strict=True))
    _run(core.attention_backward, problem, _rows(out), lse, _rows(grad), *made)
    return dq, dk, dv


def weights(problem: Problem, lse: Tensor, tile: Tile) -> Tensor:
    """The weights of a tile, (B, H, rows, keys), from the lse of the whole rows."""
    out = torch.empty((*lse.shape[:2], *tile.shape), dtype=problem.dtype, device="cpu")
    _run(core.weights, problem, lse, tile, out)
    return out


def pooled(
    problem: Problem, lse: Tensor, tile: Tile, shape: tuple[int, int], maximum: bool
) -> Tensor:
    """A picture of a tile, (B, H, *shape), from the lse of the whole rows."""
    out = torch.empty((*lse.shape[:2], *shape), dtype=problem.dtype, device="cpu")
    _run(core.pooled, problem, lse, tile, out, maximum)
    return out


def kept(
    shape: tuple[int, ...], tile: Tile, dropout: float, seed: Tensor, first: int = 0
) -> Tensor:
    """What dropout multiplies the weights of a tile by: 0, or 1 / (1 − dropout).

    (B, H, rows, keys), with B and H of `shape`; the first sequence is number `first` of the call.
    """
    out = torch.empty((*shape[:2], *tile.shape), dtype=_float32, device="cpu")
    core.kept(out, first, tile, dropout, int(seed), _get_num_threads())
    return out


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """a · b for pairs of matrices, (B, H, rows, inner) by (B, H, inner, columns).

    Of type float32 or float64, any strides. The bits of a cell depend on its row and column alone.
    """
    out = torch.empty((*a.shape[:3], b.shape[3]), dtype=a.dtype, device="cpu")
    run = core.multiply_floats if a.dtype == _float32 else core.multiply_doubles
    threads = _get_num_threads()
    if not (run(a, b, out, threads) or run(_in_memory(a), _in_memory(b), out, threads)):
        raise RuntimeError(f"regard._native.multiply: cannot read {a.shape} and {b.shape}")
    return out


def _run(work: Callable[..., bool], problem: Problem, *arguments: object) -> None:
    """Have it done with tensors where they lie, or else with copies that the kernel can read."""
    options = problem.options
    seed: Tensor | int = 0
    if problem.seed is not None:
        seed = problem.seed if problem.is_drawn else int(problem.seed)
    place = problem.factor, problem.offset, problem.dropout, seed
    threads = _get_num_threads()
    dtype = problem.dtype  # of what is computed with
    fits = all(x is None or x.dtype is dtype for x in (options.bias, options.sinks))
    if fits and work((problem.q, problem.k, problem.v, options, *place), *arguments, threads):
        return
    copies = {
        name: _in_memory(x.to(dtype) if name in ("bias", "sinks") else x)
        for name in ("mask", "bias", "lengths", "sinks", "segments", "indices")
        if (x := getattr(options, name)) is not None
    }
    for name in copies.keys() & {"sinks", "segments", "indices"}:
        copies[name] = copies[name].contiguous()
    if copies:
        options = replace(options, **copies)
    tensors = (_rows(x) for x in (problem.q, problem.k, problem.v))
    if not work((*tensors, options, *place), *arguments, threads):
        raise RuntimeError(f"regard._native.{work.__name__}: cannot read {problem}")


def _in_memory(x: Tensor) -> Tensor:
    """x with the numbers that it shows at its address: not their negatives, nor none at all."""
    return x.clone() if x._is_zerotensor() else x.resolve_neg()  # zeros never written down


def _rows(x: Tensor) -> Tensor:
    """x with a contiguous last axis, and the numbers that it shows in memory."""
    x = _in_memory(x)
    return x if x.stride(3) == 1 or x.shape[3] <= 1 else x.contiguous()
