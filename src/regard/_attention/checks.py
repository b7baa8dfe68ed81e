"""Is what was given in order? What is wrong is refused with a message before any work is done."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard._arguments import WrongType, WrongValue, flag, number, shown, whole
from regard._attention.eager import is_causal_bias, lost_its_memory
from regard._attention.options import Options, Window, four_axes
from regard._attention.problem import Problem
from regard.observation import See

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_FURTHEST = 2**40  # so that positions cannot overflow
_WIDEST = 2**42  # a window so wide has every key for every position
_LONGEST = 2**62  # what lengths are counted with


def check(call: str, tensors: dict[str, Tensor], given: Options, layout: str = "joined") -> Problem:
    """The problem that the arguments of `call` pose; TypeError or ValueError if they pose none.

    `tensors` are q, k and v. Without v, the values have no columns. `layout` is the problem's.
    """
    q, k, v = tensors["q"], tensors["k"], tensors.get("v")
    for name, x in tensors.items():
        _check_type(call, name, x, q)
    _check_shapes(call, q, k, v)
    shape = (*q.shape[:3], k.shape[2])
    window = None if given.window is None else _check_window(call, given.window)
    causal = flag(call, "causal", given.causal)
    position, mask, bias = given.position, given.mask, given.bias
    scale, softcap = given.scale, given.softcap
    if position is not None:
        remedy = "Query i stands at i + position, key j at j."
        position = whole(call, "position", position, -_FURTHEST, _FURTHEST, remedy)
    if is_causal_bias(mask):
        causal, position = _stand_for(call, "mask", mask, Options(causal, position=position), shape)
        mask = None
    if is_causal_bias(bias):
        causal, position = _stand_for(call, "bias", bias, Options(causal, position=position), shape)
        bias = None
    if scale is not None:
        scale = number(call, "scale", scale, remedy="None is 1/√D.")
    if softcap is not None:  # what a float32 can be divided by, and holds
        remedy = "None leaves the scores as they are."
        softcap = number(call, "softcap", softcap, 1e-30, 1e30, remedy)
    options = Options(
        causal,
        window,
        None if mask is None else _check_mask(call, mask, q, shape),
        None if bias is None else _check_bias(call, bias, q, shape),
        None if given.lengths is None else _check_lengths(call, given.lengths, q),
        scale,
        softcap,
        None if given.sinks is None else _check_sinks(call, given.sinks, q),
        position,
    )
    return Problem(q, k, k[..., :0] if v is None else v, options, layout)


# ── tensors ───────────────────────────────────────────────────────────────────────────────────


def check_dense(call: str, name: str, tensor: object) -> None:
    """Is it a tensor with its numbers in memory, or where its type has them?"""
    if not isinstance(tensor, Tensor):
        found = None if tensor is None else type(tensor).__name__
        raise WrongType(
            f"{call}: {name} must be a torch.Tensor; got {found}. "
            f"torch.as_tensor({name}) makes one of numbers."
        )
    if tensor.is_nested or tensor.layout != torch.strided:
        found = "a nested one" if tensor.is_nested else str(tensor.layout)
        raise WrongType(
            f"{call}: {name} must be a dense (strided) tensor; got {found}. "
            f"{name}.{'to_padded_tensor(0.0)' if tensor.is_nested else 'to_dense()'} makes one."
        )
    if lost_its_memory(tensor):
        raise WrongValue(
            f"{call}: {name} must have its numbers in memory; got {tuple(tensor.shape)} whose "
            "storage was resized to 0. Resize it back, and fill it, first."
        )


def _check_device(call: str, name: str, tensor: Tensor, q: Tensor) -> None:
    if tensor.device != q.device:
        raise WrongValue(
            f"{call}: {name} must be on q's device {q.device}; got {tensor.device}. "
            f"{name}.to(q.device) moves it."
        )


def _check_type(call: str, name: str, tensor: Tensor, q: Tensor) -> None:
    """q, k or v: dense, of q's type, which is a floating one, and on q's device."""
    check_dense(call, name, tensor)
    if tensor.dtype not in _FLOATS:
        raise WrongType(
            f"{call}: {name} must be float16, bfloat16, float32 or float64; "
            f"got {tensor.dtype}. {name}.float() makes it float32."
        )
    if tensor.dtype != q.dtype:
        raise WrongType(
            f"{call}: {name} must have q's type {q.dtype}; got {tensor.dtype}. "
            f"{name}.to(q.dtype) converts it."
        )
    _check_device(call, name, tensor, q)


def _check_shapes(call: str, q: Tensor, k: Tensor, v: Tensor | None) -> None:
    if q.dim() != 4:
        raise WrongValue(
            f"{call}: q must be (B, H, Nq, D), four axes; got {tuple(q.shape)}. "
            "q[None] adds an axis in front."
        )
    batch, heads, _, width = q.shape

    def refuse(name: str, width: str, expected: tuple[object, ...], x: Tensor, why: str) -> None:
        sizes = ", ".join(str(size) for size in expected)
        raise WrongValue(
            f"{call}: {name} must be (B, Hkv, Nk, {width}) = ({sizes}); got {tuple(x.shape)}. {why}"
        )

    if k.dim() != 4:
        refuse("k", "D", (batch, "Hkv", "Nk", width), k, "It needs four axes, as q does.")
    expected = (batch, *k.shape[1:3], width)
    if k.shape[3] != width:
        refuse("k", "D", expected, k, "The last axis must equal q's D.")
    if k.shape[0] != batch:
        refuse("k", "D", expected, k, "The first axis must equal q's B.")
    kv_heads = k.shape[1]
    if heads % kv_heads if kv_heads else heads:
        raise WrongValue(
            f"{call}: q's number of heads H must be a multiple of k's Hkv; got H = {heads} in q "
            f"{tuple(q.shape)}, Hkv = {kv_heads} in k {tuple(k.shape)}. "
            "Consecutive query heads share a key head, in groups of equal size."
        )
    if v is None:
        return
    if v.dim() != 4:
        refuse("v", "Dv", (*k.shape[:3], "Dv"), v, "It needs four axes, as k does.")
    if v.shape[:3] != k.shape[:3]:
        refuse("v", "Dv", (*k.shape[:3], v.shape[3]), v, "All axes but the last must equal k's.")


# ── options ───────────────────────────────────────────────────────────────────────────────────


def position_of(call: str, name: str, given: object, n_queries: int, n_keys: int) -> int | None:
    """Where PyTorch's CausalBias puts query 0, as `position` says it: None beside the end.

    As in PyTorch, a square one or one of the upper left fits all lengths, and starts at 0.
    """
    from torch.nn.attention.bias import CausalBias, CausalVariant

    assert isinstance(given, CausalBias)
    found = (given.seq_len_q, given.seq_len_kv)
    if found[0] == found[1] or given.variant == CausalVariant.UPPER_LEFT:
        return 0
    if found != (n_queries, n_keys):
        raise WrongValue(
            f"{call}: {name} must be for (Nq, Nk) = ({n_queries}, {n_keys}); got one for {found}. "
            f"causal_lower_right({n_queries}, {n_keys}) is."
        )
    return None


def _stand_for(
    call: str, name: str, given: object, options: Options, shape: tuple[int, ...]
) -> tuple[bool, int | None]:
    """`causal` and `position` as PyTorch's CausalBias says them, which must not contradict."""
    found = position_of(call, name, given, *shape[2:])
    meant, said = (Options(position=p).offset(*shape[2:]) for p in (found, options.position))
    if (options.causal or options.position is not None) and said != meant:
        raise WrongValue(
            f"{call}: {name} puts query 0 at {meant}; got "
            f"{'causal=True and ' if options.causal else ''}position={options.position}, which "
            f"puts it at {said}. Leave out one of them."
        )
    return True, found


def _check_window(call: str, window: object) -> Window | None:
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
    left = None if left is None else min(left, _WIDEST)
    right = None if right is None else min(right, _WIDEST)
    return None if left is None and right is None else (left, right)


def _check_mask(call: str, mask: Tensor, q: Tensor, shape: tuple[int, ...]) -> Tensor:
    check_dense(call, "mask", mask)
    if mask.dtype != torch.bool:
        raise WrongType(
            f"{call}: mask must be boolean, True = may attend; got {mask.dtype}. "
            "What is to be added to the scores is a bias; mask.bool() makes 0 and 1 a mask."
        )
    return _check_cells(call, "mask", mask, q, shape)


def _check_bias(call: str, bias: Tensor, q: Tensor, shape: tuple[int, ...]) -> Tensor:
    check_dense(call, "bias", bias)
    if bias.dtype not in _FLOATS:
        raise WrongType(
            f"{call}: bias must be float16, bfloat16, float32 or float64; got {bias.dtype}. "
            "Which keys may be attended to is said by a mask."
        )
    return _check_cells(call, "bias", bias, q, shape)


def _check_cells(call: str, name: str, x: Tensor, q: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x with four axes, if it broadcasts to the scores without growing them."""
    _check_device(call, name, x, q)
    found = tuple(x.shape)
    full = (1,) * (4 - len(found)) + found
    # Not `n in (1, size)`: torch.compile says no where one of two equal sizes became a constant.
    if len(full) > 4 or any(n != 1 and n != size for n, size in zip(full, shape, strict=True)):
        raise WrongValue(
            f"{call}: {name} must broadcast to (B, H, Nq, Nk) = {tuple(shape)}; got {found}. "
            "Each axis, from the last, must be of that length or 1."
        )
    return four_axes(x)


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
    _check_device(call, "lengths", lengths, q)
    if tuple(lengths.shape) != (batch,):
        raise WrongValue(
            f"{call}: lengths must be (B,) = ({batch},); got {tuple(lengths.shape)}. "
            "It is the number of real keys of each sequence, from the left."
        )
    found = lengths.to(torch.int64)
    if lengths.dtype == torch.uint64:  # what is too large for int64 came out as less than 0
        found = torch.where(found < 0, _LONGEST, found)
    return found


def _check_sinks(call: str, sinks: Tensor, q: Tensor) -> Tensor:
    check_dense(call, "sinks", sinks)
    if sinks.dtype not in _FLOATS:
        raise WrongType(
            f"{call}: sinks must be floating-point numbers; got {sinks.dtype}. "
            "sinks.to(q.dtype) makes them so."
        )
    _check_device(call, "sinks", sinks, q)
    if tuple(sinks.shape) != (q.shape[1],):
        raise WrongValue(
            f"{call}: sinks must be (H,) = ({q.shape[1]},); got {tuple(sinks.shape)}. "
            "It is one logit for each head of q."
        )
    return sinks


# ── what stands beside them ───────────────────────────────────────────────────────────────────


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
        _check_device(call, "see.queries", see.queries, q)


def check_lse(call: str, lse: object, problem: Problem) -> Tensor:
    """lse, contiguous and in the type of the computation."""
    expected = problem.scores_shape[:3]
    check_dense(call, "lse", lse)
    assert isinstance(lse, Tensor)
    if lse.dtype not in _FLOATS:
        raise WrongType(
            f"{call}: lse must be floating-point numbers; got {lse.dtype}. "
            "It is what regard.attention(…, see=regard.See()) reports."
        )
    _check_device(call, "lse", lse, problem.q)
    if tuple(lse.shape) != expected:
        raise WrongValue(
            f"{call}: lse must be (B, H, Nq) = {expected}; got {tuple(lse.shape)}. "
            "It is that of all queries, as regard.attention(…, see=regard.See()) reports it."
        )
    return lse.detach().to(problem.dtype).resolve_neg().contiguous()
