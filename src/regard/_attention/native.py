"""The native backend: hands tensors and options to regard._native, which reads them in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch  # before regard._native, which shares its OpenMP runtime
from torch import Tensor

from regard._attention.eager import PLAIN, is_eager
from regard._attention.options import Options
from regard._attention.problem import Problem, Tile, new_gradient, new_observation, new_output
from regard.observation import Observation, See

missing = ""  # why there is no native backend
if TYPE_CHECKING:
    from regard import _native
else:
    try:
        from regard import _native
    except ImportError as error:
        missing = f"regard._native cannot be imported: {error}"

# Looked up once: the smallest call is measured in microseconds.
_float32 = torch.float32
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_get_num_threads = torch.get_num_threads
_is_grad_enabled = torch.is_grad_enabled
_isfinite = math.isfinite
_full, _causal = Options(), Options(causal=True)


def kernel() -> str | None:
    """The build of the kernel in use, None if there is none."""
    return None if missing else _native.kernel()


def why_not(q: Tensor, k: Tensor) -> str:
    """What this backend would need, and what it got; empty if it can."""
    if missing:
        return f"a compiled kernel; got none, as {missing}"
    if q.device.type != "cpu":
        return f"tensors on the CPU; got q on {q.device}"
    if q.dtype not in _TYPES:
        return f"float32, bfloat16 or float16; got q in {q.dtype}"
    if max(lengths := (q.shape[2], k.shape[2])) > _native.MOST:
        return f"less than 2³¹ queries and keys; got {lengths}"
    return ""


def short_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    scale: float | None,
    see: See | None = None,
    layout: str = "joined",
) -> tuple[Tensor, Observation | None] | None:
    """Attention without options, the short way; None if these arguments need the long one.

    The long way checks all over again, and says what is wrong. So here every doubt is a None.
    """
    if (
        missing
        or not is_eager()
        or type(q) not in PLAIN
        or type(k) not in PLAIN
        or type(v) not in PLAIN
        or q.dtype not in _TYPES
        or (_is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad))
        or q.is_nested
        or v.is_nested
        or (causal is not True and causal is not False)
        or (see is not None and (type(see) is not See or see.queries is not None))
    ):
        return None
    q_shape, v_shape = q.shape, v.shape
    if len(q_shape) != 4 or len(v_shape) != 4:
        return None
    batch, heads, rows, width = q_shape
    n_keys, value_width = v_shape[2:]
    # Of wider rows the kernel itself asks that their numbers lie side by side.
    is_spread = width == 1 and not q.stride(3) == k.stride(-1) == v.stride(3) == 1
    if layout == "query" and (is_spread or width != value_width):
        layout = "contiguous"
    options = _causal if causal else _full
    if scale is None:
        scale = options.factor(width)
    elif type(scale) is not float or not _isfinite(scale):
        return None
    position, seen = options.offset(rows, n_keys), None
    out = new_output(q, (batch, heads, rows, value_width), layout)
    if see is not None:
        seen = new_observation(see, (batch, heads, rows, n_keys), _float32, "cpu", position)
    call = (q, k, v, options, scale, position, 0.0, 0)
    return (out, seen) if _native.attention(call, out, seen, None, _get_num_threads()) else None


def attend(problem: Problem, see: See | None) -> tuple[Tensor, Observation | None]:
    """The output (B, H, Nq, Dv), and what was asked for in `see`. No size may be 0 but Dv."""
    out = problem.new_output()
    if problem.layout == "query" and out.stride(3) != 1 and out.shape[3] > 1:
        joined, seen = attend(replace(problem, layout="joined"), see)
        return out.copy_(joined), seen
    seen = None if see is None else problem.new_observation(see)
    queries = None if see is None or see.queries is None else _in_memory(see.queries)
    _run(_native.attention, problem, out, seen, queries)
    return out, seen


def backward(
    problem: Problem, grad: Tensor, out: Tensor, lse: Tensor, wanted: Sequence[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v from that of the output; empty where none is wanted.

    `out` and `lse` are what `attend` found. There may be no softcap, and no size may be 0.
    """
    tensors = zip((problem.q, problem.k, problem.v), wanted, strict=True)
    dq, dk, dv = (new_gradient(x, x.dtype, want) for x, want in tensors)
    made = (x if want else None for x, want in zip((dq, dk, dv), wanted, strict=True))
    _run(_native.attention_backward, problem, _rows(out), lse, _rows(grad), *made)
    return dq, dk, dv


def weights(problem: Problem, lse: Tensor, tile: Tile) -> Tensor:
    """The weights of a tile, (B, H, rows, keys), from the lse of the whole rows."""
    out = torch.empty((*lse.shape[:2], *tile.shape), dtype=_float32, device="cpu")
    _run(_native.weights, problem, lse, tile, out)
    return out


def pooled(
    problem: Problem, lse: Tensor, tile: Tile, shape: tuple[int, int], maximum: bool
) -> Tensor:
    """A picture of a tile, (B, H, *shape), from the lse of the whole rows."""
    out = torch.empty((*lse.shape[:2], *shape), dtype=_float32, device="cpu")
    _run(_native.pooled, problem, lse, tile, out, maximum)
    return out


def kept(
    shape: tuple[int, ...], tile: Tile, dropout: float, seed: Tensor, first: int = 0
) -> Tensor:
    """What dropout multiplies the weights of a tile by: 0, or 1 / (1 − dropout).

    (B, H, rows, keys), with B and H of `shape`; the first sequence is number `first` of the call.
    """
    out = torch.empty((*shape[:2], *tile.shape), dtype=_float32, device="cpu")
    _native.kept(out, first, tile, dropout, int(seed), _get_num_threads())
    return out


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """a · b for pairs of matrices, (B, H, rows, inner) by (B, H, inner, columns).

    Of type float32 or float64, any strides. The bits of a cell depend on its row and column alone.
    """
    out = torch.empty((*a.shape[:3], b.shape[3]), dtype=a.dtype, device="cpu")
    run = _native.multiply_floats if a.dtype == _float32 else _native.multiply_doubles
    threads = _get_num_threads()
    if not (run(a, b, out, threads) or run(_in_memory(a), _in_memory(b), out, threads)):
        raise RuntimeError(f"regard._native.multiply: cannot read {a.shape} and {b.shape}")
    return out


def _run(work: Callable[..., bool], problem: Problem, *arguments: object) -> None:
    """Have it done with tensors where they lie, or else with copies that the kernel can read."""
    options = problem.options
    seed = 0 if problem.seed is None else int(problem.seed)
    place = problem.factor, problem.offset, problem.dropout, seed
    threads = _get_num_threads()
    if work((problem.q, problem.k, problem.v, options, *place), *arguments, threads):
        return
    copies = {
        name: _in_memory(x if name in ("mask", "lengths") else x.to(_float32))
        for name in ("mask", "bias", "lengths", "sinks")
        if (x := getattr(options, name)) is not None
    }
    if "sinks" in copies:
        copies["sinks"] = copies["sinks"].contiguous()
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
