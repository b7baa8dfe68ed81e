"""The native backend: hands addresses, sizes and strides to regard._native, which trusts them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch  # before regard._native, which shares its OpenMP runtime
from torch import Tensor

from regard._attention.eager import PLAIN, is_eager
from regard._attention.options import Options
from regard._attention.problem import Problem, Tile, new_gradient, new_observation
from regard.observation import Observation, See

missing = ""  # why there is no native backend
if TYPE_CHECKING:
    from regard import _native
    from regard._native import Cells
else:
    try:
        from regard import _native
    except ImportError as error:
        missing = f"regard._native cannot be imported: {error}"

MOST = 2**31 - 1  # queries, and keys: the kernel counts them in 32 bits

_PLAIN = Options()
_NO_WINDOW = (None, None)

# Looked up once: the smallest call is measured in microseconds.
_float32 = torch.float32
_strided = torch.strided
_empty_like = torch.empty_like
_empty_strided = torch.empty_strided
_get_num_threads = torch.get_num_threads
_is_grad_enabled = torch.is_grad_enabled


def kernel() -> str | None:
    """The build of the kernel in use, None if there is none."""
    return None if missing else _native.kernel()


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
        or not (q.is_cpu and k.is_cpu and v.is_cpu)
        or not (q.dtype is k.dtype is v.dtype is _float32)
        or not (q.layout is k.layout is v.layout is _strided)
        or (_is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad))
        or q.is_neg()
        or k.is_neg()
        or v.is_neg()
        or q.is_nested
        or k.is_nested
        or v.is_nested
        or (causal is not True and causal is not False)
        or (see is not None and (type(see) is not See or see.queries is not None))
    ):
        return None
    q_shape, k_shape, v_shape = q.shape, k.shape, v.shape
    if len(q_shape) != 4 or len(k_shape) != 4 or len(v_shape) != 4:
        return None
    batch, heads, rows, width = q_shape
    k_batch, kv_heads, n_keys, k_width = k_shape
    v_batch, v_heads, n_values, value_width = v_shape
    if (
        k_width != width
        or n_values != n_keys
        or v_heads != kv_heads
        or not k_batch == v_batch == batch
        or not (batch and heads and rows and width and kv_heads and n_keys and value_width)
        or heads % kv_heads
    ):
        return None
    if scale is None:
        scale = 1.0 / math.sqrt(width)
    elif type(scale) is not float or not math.isfinite(scale):
        return None
    q_strides, k_strides, v_strides = q.stride(), k.stride(), v.stride()
    if (
        (q_strides[3] != 1 and width > 1)
        or (k_strides[3] != 1 and width > 1)
        or (v_strides[3] != 1 and value_width > 1)
    ):
        return None
    q_data, k_data, v_data = q.data_ptr(), k.data_ptr(), v.data_ptr()
    if not (q_data and k_data and v_data) or n_keys > MOST or rows > MOST:
        return None
    ends = q_strides[3] == k_strides[3] == v_strides[3] == 1
    if layout == "query" and value_width == width and ends:
        out = _empty_like(q, requires_grad=False)
        out_strides = out.stride()
        if out_strides[3] != 1:
            return None
    else:
        row = heads * value_width
        if layout == "joined":
            out_strides = (rows * row, value_width, row, 1)
        else:
            out_strides = (rows * row, rows * value_width, value_width, 1)
        shape = (batch, heads, rows, value_width)
        out = _empty_strided(shape, out_strides, dtype=_float32, device="cpu")
    arguments = (
        q_data,
        q_shape,
        q_strides,
        k_data,
        k_shape,
        k_strides,
        v_data,
        v_shape,
        v_strides,
        out.data_ptr(),
        out_strides,
        scale,
        causal,
        _get_num_threads(),
    )
    if see is None:
        _native.attention(*arguments)
        return out, None
    position = _PLAIN.offset(rows, n_keys)
    seen = new_observation(see, (batch, heads, rows, n_keys), _float32, "cpu", position)
    _native.attention_with(*arguments, position=position, **_wanted(seen, see))
    return out, seen


def attend(
    problem: Problem, see: See | None, dropout: float = 0.0, seed: Tensor | None = None
) -> tuple[Tensor, Observation | None]:
    """The output (B, H, Nq, Dv), and what was asked for in `see`. No size may be 0 but Dv."""
    out = problem.new_output()
    if problem.layout == "query" and out.stride(3) != 1 and out.shape[3] > 1:
        joined, seen = attend(replace(problem, layout="joined"), see, dropout, seed)
        return out.copy_(joined), seen
    q, k, v = _rows(problem.q), _rows(problem.k), _rows(problem.v)
    seen = None if see is None else problem.new_observation(see)
    options = _Options(problem)
    counted = None if see is None or see.queries is None else _in_memory(see.queries)
    _native.attention_with(
        *_tensor(q),
        *_tensor(k),
        *_tensor(v),
        out.data_ptr(),
        out.stride(),
        problem.factor,
        problem.options.causal,
        _get_num_threads(),
        **options.arguments,
        sinks=_address(options.sinks),
        **_dropout(dropout, seed),
        **({} if seen is None or see is None else _wanted(seen, see)),
        counted=None if counted is None else (counted.data_ptr(), counted.stride()),
    )
    return out, seen


def backward(
    problem: Problem,
    grad: Tensor,
    out: Tensor,
    lse: Tensor,
    wanted: Sequence[bool],
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v from that of the output; empty where none is wanted.

    `out` and `lse` are what `attend` found with the same dropout and seed. There may be no softcap,
    and no size may be 0.
    """
    q, k, v = _rows(problem.q), _rows(problem.k), _rows(problem.v)
    grad, out = _rows(grad), _rows(out)
    dq, dk, dv = (
        new_gradient(x, _float32, want)
        for x, want in zip((problem.q, problem.k, problem.v), wanted, strict=True)
    )
    options = _Options(problem)
    del options.arguments["softcap"]
    _native.attention_backward(
        *_tensor(q),
        *_tensor(k),
        *_tensor(v),
        out.data_ptr(),
        out.stride(),
        lse.data_ptr(),
        grad.data_ptr(),
        grad.stride(),
        dq.data_ptr(),
        dq.stride(),
        dk.data_ptr(),
        dk.stride(),
        dv.data_ptr(),
        dv.stride(),
        problem.factor,
        problem.options.causal,
        _get_num_threads(),
        **options.arguments,
        sinks=_address(options.sinks),
        **_dropout(dropout, seed),
    )
    return dq, dk, dv


def kept(
    shape: tuple[int, ...], tile: Tile, dropout: float, seed: Tensor, first: int = 0
) -> Tensor:
    """What dropout multiplies the weights of a tile by: 0, or 1 / (1 − dropout).

    (B, H, rows, keys), with B and H of `shape`; the first sequence is number `first` of the call.
    """
    batch, heads = shape[:2]
    box = _rectangle(tile)
    out = torch.empty((batch, heads, box[1], box[3]), dtype=_float32, device="cpu")
    for b, to in enumerate(out):
        _native.kept(to.data_ptr(), first + b, heads, box, dropout, int(seed), _get_num_threads())
    return out


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """a · b for pairs of matrices, (B, H, rows, inner) by (B, H, inner, columns).

    Of type float32 or float64, any strides. The bits of a cell depend on its row and column alone.
    """
    out = torch.empty((*a.shape[:3], b.shape[3]), dtype=a.dtype, device="cpu")
    run = _native.multiply_floats if a.dtype == _float32 else _native.multiply_doubles
    run(*_tensor(a), *_tensor(b), out.data_ptr(), _get_num_threads())
    return out


def _dropout(dropout: float, seed: Tensor | None) -> dict[str, Any]:
    return {} if seed is None else {"dropout": dropout, "seed": int(seed)}


def _wanted(seen: Observation, see: See) -> dict[str, Any]:
    """Where what is to be seen shall be written."""
    wanted: dict[str, Any] = {
        "lse": seen.lse.data_ptr(),
        "entropy": _address(seen.entropy),
        "distance": _address(seen.distance),
        "received": _address(seen.received),
    }
    if see.top:
        wanted["top"] = (see.top, _address(seen.top_keys), _address(seen.top_weights))
    if see.map is not None:
        wanted["map"] = (*see.map, _address(seen.map))
    return wanted


def weights(problem: Problem, lse: Tensor, tile: Tile) -> Tensor:
    """The weights of a tile, (B, H, rows, keys), from the lse of the whole rows."""
    batch, heads, _, _ = problem.scores_shape
    shape = (batch, heads, tile.row_end - tile.row, tile.key_end - tile.key)
    out = torch.empty(shape, dtype=_float32, device="cpu")
    q, k, options = _rows(problem.q), _rows(problem.k), _Options(problem)
    _native.weights(
        *_tensor(q),
        *_tensor(k),
        lse.data_ptr(),
        out.data_ptr(),
        problem.factor,
        problem.options.causal,
        _get_num_threads(),
        rectangle=_rectangle(tile),
        **options.arguments,
    )
    return out


def pooled(
    problem: Problem, lse: Tensor, tile: Tile, shape: tuple[int, int], maximum: bool
) -> Tensor:
    """A picture of a tile, (B, H, *shape), from the lse of the whole rows."""
    batch, heads, _, _ = problem.scores_shape
    out = torch.empty((batch, heads, *shape), dtype=_float32, device="cpu")
    q, k, options = _rows(problem.q), _rows(problem.k), _Options(problem)
    _native.pooled(
        *_tensor(q),
        *_tensor(k),
        lse.data_ptr(),
        out.data_ptr(),
        problem.factor,
        problem.options.causal,
        _get_num_threads(),
        rectangle=_rectangle(tile),
        shape=shape,
        maximum=maximum,
        **options.arguments,
    )
    return out


class _Options:
    """The options of a problem as the kernel takes them; keeps alive what they point to."""

    def __init__(self, problem: Problem) -> None:
        shape, n_keys, options = problem.scores_shape, problem.k.shape[2], problem.options
        self.mask = None if options.mask is None else _in_memory(options.mask)
        self.bias = None if options.bias is None else _in_memory(options.bias.to(_float32))
        self.lengths = None
        if options.lengths is not None:
            self.lengths = _in_memory(options.lengths).clamp(0, n_keys).contiguous()
        self.sinks = None
        if options.sinks is not None:
            self.sinks = _in_memory(options.sinks.to(_float32)).contiguous()
        self.arguments: dict[str, Any] = {
            "position": problem.offset,
            "window": tuple(-1 if side is None else side for side in options.window or _NO_WINDOW),
            "mask": _cells(self.mask, shape),
            "bias": _cells(self.bias, shape),
            "lengths": _address(self.lengths),
            "softcap": options.softcap or 0.0,
        }


def _cells(x: Tensor | None, shape: tuple[int, ...]) -> Cells | None:
    """Address and strides of x as broadcast to the scores, which copies nothing."""
    return None if x is None else (x.data_ptr(), x.expand(shape).stride())


def _tensor(x: Tensor) -> tuple[int, torch.Size, tuple[int, ...]]:
    return x.data_ptr(), x.shape, x.stride()


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()


def _rectangle(tile: Tile) -> tuple[int, int, int, int]:
    return tile.row, tile.row_end - tile.row, tile.key, tile.key_end - tile.key


def _in_memory(x: Tensor) -> Tensor:
    """x with the numbers that it shows at its address: not their negatives, nor none at all."""
    if x.data_ptr() and not x.is_neg():
        return x
    return x.clone() if x._is_zerotensor() else x.resolve_neg()  # zeros never written down


def _rows(x: Tensor) -> Tensor:
    """x with a contiguous last axis, and the numbers that it shows in memory."""
    x = _in_memory(x)
    return x if x.stride(3) == 1 or x.shape[3] <= 1 else x.contiguous()
