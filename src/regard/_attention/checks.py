"""Is what was given in order? Every wrong argument is refused in words before any work is done."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard._arguments import WrongType, WrongValue, flag, number, shown, whole
from regard._attention.causal_bias import is_causal_bias, position_of
from regard._attention.problem import Problem
from regard._attention.tensors import (
    FLOATS,
    check_dense,
    check_device,
    check_shapes,
    check_types,
)
from regard.observation import See

__all__ = ["Window", "check", "check_dropout", "check_lse", "check_see"]

Window = tuple[int | None, int | None]
_FURTHEST = 2**40  # so that positions cannot overflow
_WIDEST = 2**42  # a window so wide reaches every key from every position
_LONGEST = 2**62  # what lengths are counted with


def check(
    call: str,
    tensors: dict[str, Tensor],
    *,
    causal: bool = False,
    window: Window | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    position: int | None = None,
    layout: str = "joined",
) -> Problem:
    """The problem that the arguments of `call` pose; TypeError or ValueError if they pose none.

    `tensors` are q, k and v. Without v, the values have no columns. `layout` is the problem's.
    """
    q, k, v = tensors["q"], tensors["k"], tensors.get("v")
    check_types(call, tensors)
    check_shapes(call, q, k, v)
    left, right = _check_window(call, window)
    shape = (*q.shape[:3], k.shape[2])
    causal = flag(call, "causal", causal)
    position = _check_position(call, position)
    if is_causal_bias(mask):
        causal, position = _stand_for(call, "mask", mask, causal, position, shape)
        mask = None
    if is_causal_bias(bias):
        causal, position = _stand_for(call, "bias", bias, causal, position, shape)
        bias = None
    return Problem(
        q,
        k,
        k[..., :0] if v is None else v,
        causal=causal,
        left=left,
        right=right,
        position=position,
        mask=None if mask is None else _check_mask(call, mask, q, shape),
        bias=None if bias is None else _check_bias(call, bias, q, shape),
        lengths=None if lengths is None else _check_lengths(call, lengths, q),
        scale=None if scale is None else _check_scale(call, scale),
        softcap=None if softcap is None else _check_softcap(call, softcap),
        sinks=None if sinks is None else _check_sinks(call, sinks, q),
        layout=layout,
    )


# ── which keys ────────────────────────────────────────────────────────────────────────────────


def _stand_for(
    call: str,
    name: str,
    given: object,
    causal: bool,
    position: int | None,
    shape: tuple[int, ...],
) -> tuple[bool, int | None]:
    """`causal` and `position` as PyTorch's CausalBias says them, which must not contradict."""
    n_queries, n_keys = shape[2:]
    found = position_of(call, name, given, n_queries, n_keys)
    end = n_keys - n_queries
    said = end if position is None else position
    if (causal or position is not None) and said != (end if found is None else found):
        raise WrongValue(
            f"{call}: {name} puts query 0 at {end if found is None else found}; got "
            f"{'causal=True and ' if causal else ''}position={position}, which puts it at {said}. "
            f"Leave out one of them."
        )
    return True, found


def _check_window(call: str, window: object) -> Window:
    if window is None:
        return None, None
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise WrongValue(
            f"{call}: window must be (left, right); got {shown(window)}. "
            "Each is a number of keys, or None for all on that side."
        )
    left, right = (
        side if side is None else whole(call, f"window's {name}", side)
        for name, side in zip(("left", "right"), window, strict=True)
    )
    if (left is not None and left < 0) or (right is not None and right < 0):
        raise WrongValue(
            f"{call}: window must be (left, right), each 0 or more; got {shown(tuple(window))}. "
            "(0, 0) is the query's own position alone; None is unbounded."
        )
    return (
        None if left is None else min(left, _WIDEST),
        None if right is None else min(right, _WIDEST),
    )


def _check_position(call: str, position: object) -> int | None:
    if position is None:
        return None
    remedy = "Query i stands at i + position, key j at j."
    return whole(call, "position", position, -_FURTHEST, _FURTHEST, remedy)


def _check_mask(call: str, mask: object, q: Tensor, shape: tuple[int, ...]) -> Tensor:
    check_dense(call, "mask", mask)
    assert isinstance(mask, Tensor)
    if mask.dtype != torch.bool:
        raise WrongType(
            f"{call}: mask must be boolean, True = may attend; got {mask.dtype}. "
            "What is to be added to the scores is a bias; mask.bool() makes 0 and 1 a mask."
        )
    check_device(call, "mask", mask, q)
    return _four_axes(call, "mask", mask, shape)


def _check_bias(call: str, bias: object, q: Tensor, shape: tuple[int, ...]) -> Tensor:
    check_dense(call, "bias", bias)
    assert isinstance(bias, Tensor)
    if bias.dtype not in FLOATS:
        raise WrongType(
            f"{call}: bias must be float16, bfloat16, float32 or float64; got {bias.dtype}. "
            "Which keys may be attended to is said by a mask."
        )
    check_device(call, "bias", bias, q)
    return _four_axes(call, "bias", bias, shape)


def _four_axes(call: str, name: str, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x with axes of length 1 in front, if it broadcasts to the scores without growing them."""
    found = tuple(x.shape)
    full = (1,) * (4 - len(found)) + found
    # Not `n in (1, size)`: torch.compile says no where one of two equal sizes became a constant.
    if len(full) > 4 or any(n != 1 and n != size for n, size in zip(full, shape, strict=True)):
        raise WrongValue(
            f"{call}: {name} must broadcast to (B, H, Nq, Nk) = {tuple(shape)}; got {found}. "
            "Each axis, from the last, must be of that length or 1."
        )
    return x.view(full) if len(found) < 4 else x


def _check_lengths(call: str, lengths: object, q: Tensor) -> Tensor:
    batch = q.shape[0]
    if not isinstance(lengths, Tensor):
        if not isinstance(lengths, Sequence):
            raise WrongType(
                f"{call}: lengths must be a tensor or a sequence of whole numbers; "
                f"got {type(lengths).__name__}. Give one for each sequence of the batch."
            )
        remedy = "It is how many keys are real; None leaves all in place."
        counts = [whole(call, "each of lengths", n, -_LONGEST, _LONGEST, remedy) for n in lengths]
        lengths = torch.tensor(counts, dtype=torch.int64, device=q.device)
    check_dense(call, "lengths", lengths)
    if lengths.dtype.is_floating_point or lengths.dtype.is_complex or lengths.dtype == torch.bool:
        raise WrongType(
            f"{call}: lengths must be whole numbers; got {lengths.dtype}. "
            "lengths.long() makes them so; which keys are real is said by a mask."
        )
    check_device(call, "lengths", lengths, q)
    if tuple(lengths.shape) != (batch,):
        raise WrongValue(
            f"{call}: lengths must be (B,) = ({batch},); got {tuple(lengths.shape)}. "
            "It is the number of real keys of each sequence, from the left."
        )
    found = lengths.to(torch.int64)
    if lengths.dtype == torch.uint64:  # what is too large for int64 came out as less than 0
        found = torch.where(found < 0, _LONGEST, found)
    return found


# ── how much ──────────────────────────────────────────────────────────────────────────────────


def _check_scale(call: str, scale: object) -> float:
    return number(call, "scale", scale, remedy="None is 1/√D.")


def _check_softcap(call: str, softcap: object) -> float:
    # What a float32 can be divided by, and holds.
    return number(call, "softcap", softcap, 1e-30, 1e30, "None leaves the scores as they are.")


def _check_sinks(call: str, sinks: object, q: Tensor) -> Tensor:
    check_dense(call, "sinks", sinks)
    assert isinstance(sinks, Tensor)
    if sinks.dtype not in FLOATS:
        raise WrongType(
            f"{call}: sinks must be floating-point numbers; got {sinks.dtype}. "
            "sinks.to(q.dtype) makes them so."
        )
    check_device(call, "sinks", sinks, q)
    if tuple(sinks.shape) != (q.shape[1],):
        raise WrongValue(
            f"{call}: sinks must be (H,) = ({q.shape[1]},); got {tuple(sinks.shape)}. "
            "It is one logit for each head of q."
        )
    return sinks


def check_dropout(call: str, dropout: object) -> float:
    chance = number(call, "dropout", dropout, remedy="It is a chance, from 0 to below 1.")
    if not 0.0 <= chance < 1.0:
        raise WrongValue(
            f"{call}: dropout must be in [0, 1); got {shown(dropout)}. 0 drops nothing."
        )
    return chance


def check_see(call: str, see: object, q: Tensor) -> None:
    if not isinstance(see, See):
        raise WrongType(
            f"{call}: see must be a regard.See, or None; got {shown(see)}. "
            "regard.See(entropy=True, top=8) is one."
        )
    if see.queries is not None:
        check_dense(call, "see.queries", see.queries)
        expected = (q.shape[0], q.shape[2])
        if tuple(see.queries.shape) != expected:
            raise WrongValue(
                f"{call}: see.queries must be (B, Nq) = {expected}; got "
                f"{tuple(see.queries.shape)}. It says which queries count, True = counts."
            )
        check_device(call, "see.queries", see.queries, q)


def check_lse(call: str, lse: object, problem: Problem) -> Tensor:
    """lse, contiguous and in the type of the computation."""
    expected = problem.scores_shape[:3]
    check_dense(call, "lse", lse)
    assert isinstance(lse, Tensor)
    if lse.dtype not in FLOATS:
        raise WrongType(
            f"{call}: lse must be floating-point numbers; got {lse.dtype}. "
            "It is what regard.attention(…, see=regard.See()) reports."
        )
    check_device(call, "lse", lse, problem.q)
    if tuple(lse.shape) != expected:
        raise WrongValue(
            f"{call}: lse must be (B, H, Nq) = {expected}; got {tuple(lse.shape)}. "
            "It is that of all queries, as regard.attention(…, see=regard.See()) reports it."
        )
    return lse.detach().to(problem.dtype).resolve_neg().contiguous()
