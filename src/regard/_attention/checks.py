"""Is what was given in order? What is wrong is refused with a message before any work is done."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard._arguments import WrongType, WrongValue, flag, number, shown, whole
from regard._attention.eager import is_causal_bias, is_plain, lost_its_memory
from regard._attention.options import Options, Window, broadcasts, four_axes
from regard._attention.problem import computed_in
from regard._attention.segments import (
    ids_of,
    key_lists,
    scattered,
    spans_of,
    spans_of_lengths,
)
from regard.observation import See

# What the numbers of a tensor must be, and the types that are.
_FLOATS = (
    "float16, bfloat16, float32 or float64",
    (torch.float32, torch.float64, torch.float16, torch.bfloat16),
)
_NUMBERS = ("floating-point numbers", _FLOATS[1])
_FLAGS = ("boolean, True = may attend", (torch.bool,))
_SIGNED = (torch.int64, torch.int32, torch.int16, torch.int8)
_UNSIGNED = (torch.uint64, torch.uint32, torch.uint16, torch.uint8)
_INTEGERS = ("whole numbers", _SIGNED + _UNSIGNED)

_FURTHEST = 2**40  # so that positions cannot overflow
_WIDEST = 2**42  # a window so wide has every key for every position
_LONGEST = 2**62  # what lengths are counted with


def check(call: str, tensors: dict[str, Tensor], given: Options) -> Options:
    """The options as a `Problem` holds them; TypeError or ValueError if `call` cannot be computed.

    `tensors` are q, k and v, or q and k.
    """
    q, k = tensors["q"], tensors["k"]
    for name, x in tensors.items():
        _check_tensor(call, name, x, q, _FLOATS, f"{name}.float() makes it float32.")
        if x.dtype != q.dtype:
            raise WrongType(
                f"{call}: {name} must have q's type {q.dtype}; got {x.dtype}. "
                f"{name}.to(q.dtype) converts it."
            )
    _check_shapes(call, q, k, tensors.get("v"))
    shape = (*q.shape[:3], k.shape[2])
    window = None if given.window is None else _check_window(call, given.window)
    causal = flag(call, "causal", given.causal)
    position, scale, softcap, sinks = given.position, given.scale, given.softcap, given.sinks
    if position is not None:
        remedy = "Query i stands at i + position, key j at j."
        position = whole(call, "position", position, -_FURTHEST, _FURTHEST, remedy)
    cells: dict[str, Tensor | None] = {"mask": given.mask, "bias": given.bias}
    for name, x in cells.items():
        if is_causal_bias(x):
            said = Options(causal, position=position)
            causal, position = _stand_for(call, name, x, said, *shape[2:])
            cells[name] = None
        elif x is not None:
            cells[name] = _check_cells(call, name, x, q, shape)
    if scale is not None:
        scale = number(call, "scale", scale, remedy="None is 1/√D.")
    if softcap is not None:  # what a float32 can be divided by, and holds
        remedy = "None leaves the scores as they are."
        softcap = number(call, "softcap", softcap, 1e-30, 1e30, remedy)
    lengths = None if given.lengths is None else _check_lengths(call, given.lengths, q)
    if sinks is not None:
        remedy = "It is one logit for each head of q; sinks.to(q.dtype) is of q's type."
        _check_tensor(call, "sinks", sinks, q, _NUMBERS, remedy, "(H,)", q.shape[1:2])
    mask, bias = cells.values()
    segments, indices = given.segments, given.indices
    if segments is not None:
        segments = _check_segments(call, segments, q, k, position)
    if indices is not None:
        indices = _check_indices(call, indices, q, k.shape[2])
    numbers = scale, softcap, sinks, position
    return Options(causal, window, mask, bias, lengths, *numbers, segments, indices)


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


def _check_tensor(
    call: str,
    name: str,
    x: object,
    q: Tensor,
    kind: tuple[str, tuple[torch.dtype, ...]],
    why: str,
    axes: str = "",
    shape: Sequence[int] = (),
) -> Tensor:
    """x, if it is a dense tensor of one of the types of this kind, on q's device, and of this
    shape, if its axes are named."""
    check_dense(call, name, x)
    assert isinstance(x, Tensor)
    expected, types = kind
    if x.dtype not in types:
        raise WrongType(f"{call}: {name} must be {expected}; got {x.dtype}. {why}")
    if x.device != q.device:
        raise WrongValue(
            f"{call}: {name} must be on q's device {q.device}; got {x.device}. "
            f"{name}.to(q.device) moves it."
        )
    if axes and tuple(x.shape) != tuple(shape):
        found = f"{axes} = {tuple(shape)}; got {tuple(x.shape)}"
        raise WrongValue(f"{call}: {name} must be {found}. {why}")
    return x


def _check_shapes(call: str, q: Tensor, k: Tensor, v: Tensor | None) -> None:
    if q.dim() != 4:
        raise WrongValue(
            f"{call}: q must be (B, H, Nq, D), four axes; got {tuple(q.shape)}. "
            "q[None] adds an axis in front."
        )
    batch, heads, _, width = q.shape
    why = ""
    if k.dim() != 4:
        why = "It needs four axes, as q does."
    elif k.shape[3] != width:
        why = "The last axis must equal q's D."
    elif k.shape[0] != batch:
        why = "The first axis must equal q's B."
    if why:
        kv_heads, n_keys = k.shape[1:3] if k.dim() == 4 else ("Hkv", "Nk")
        raise WrongValue(
            f"{call}: k must be (B, Hkv, Nk, D) = ({batch}, {kv_heads}, {n_keys}, {width}); "
            f"got {tuple(k.shape)}. {why}"
        )
    kv_heads = k.shape[1]
    if heads % kv_heads if kv_heads else heads:
        raise WrongValue(
            f"{call}: q's number of heads H must be a multiple of k's Hkv; got H = {heads} in q "
            f"{tuple(q.shape)}, Hkv = {kv_heads} in k {tuple(k.shape)}. "
            "Consecutive query heads share a key head, in groups of equal size."
        )
    if v is not None and (v.dim() != 4 or v.shape[:3] != k.shape[:3]):
        sizes = ", ".join(str(size) for size in k.shape[:3])
        raise WrongValue(
            f"{call}: v must be (B, Hkv, Nk, Dv) = ({sizes}, Dv); got {tuple(v.shape)}. "
            "All axes but the last must equal k's."
        )


# ── options ───────────────────────────────────────────────────────────────────────────────────


def _stand_for(
    call: str, name: str, given: object, options: Options, n_queries: int, n_keys: int
) -> tuple[bool, int | None]:
    """`causal` and `position` as PyTorch's CausalBias says them, which the options must not
    contradict. As in PyTorch, a square one or one of the upper left fits all lengths, and starts at
    0; another stands beside the end."""
    from torch.nn.attention.bias import CausalBias, CausalVariant

    assert isinstance(given, CausalBias)
    found = (given.seq_len_q, given.seq_len_kv)
    is_first = found[0] == found[1] or given.variant == CausalVariant.UPPER_LEFT
    if not is_first and found != (n_queries, n_keys):
        raise WrongValue(
            f"{call}: {name} must be for (Nq, Nk) = ({n_queries}, {n_keys}); got one for {found}. "
            f"causal_lower_right({n_queries}, {n_keys}) is."
        )
    meant, said = 0 if is_first else n_keys - n_queries, options.offset(n_queries, n_keys)
    if (options.causal or options.position is not None) and said != meant:
        raise WrongValue(
            f"{call}: {name} puts query 0 at {meant}; got "
            f"{'causal=True and ' if options.causal else ''}position={options.position}, which "
            f"puts it at {said}. Leave out one of them."
        )
    return True, 0 if is_first else None


def _check_window(call: str, window: object) -> Window | None:
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise WrongValue(
            f"{call}: window must be (left, right); got {shown(window)}. "
            "Each is a number of keys, or None for all on that side."
        )
    remedy = "(0, 0) is the query's own position alone; None is unbounded."
    sides = zip(("window's left", "window's right"), window, strict=True)
    left, right = (
        None if side is None else min(whole(call, name, side, 0, None, remedy), _WIDEST)
        for name, side in sides
    )
    return None if left is None and right is None else (left, right)


def _check_cells(call: str, name: str, x: object, q: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A mask or bias with four axes, if it broadcasts to the scores without growing them."""
    kind, remedy = _FLOATS, "Which keys may be attended to is said by a mask."
    if name == "mask":
        kind = _FLAGS
        remedy = "What is to be added to the scores is a bias; mask.bool() makes 0 and 1 a mask."
    x = _check_tensor(call, name, x, q, kind, remedy)
    found = tuple(x.shape)
    if not broadcasts(found, shape):
        raise WrongValue(
            f"{call}: {name} must broadcast to (B, H, Nq, Nk) = {tuple(shape)}; got {found}. "
            "Each axis, from the last, must be of that length or 1."
        )
    return four_axes(x)


def _check_lengths(call: str, lengths: object, q: Tensor) -> Tensor:
    if not isinstance(lengths, Tensor):
        if not isinstance(lengths, Sequence):
            raise WrongType(
                f"{call}: lengths must be a tensor or a sequence of whole numbers; "
                f"got {type(lengths).__name__}. Give one for each sequence of the batch."
            )
        remedy = "It is how many keys are real; None leaves all in place."
        counts = [whole(call, "each of lengths", n, -_LONGEST, _LONGEST, remedy) for n in lengths]
        lengths = torch.tensor(counts, dtype=torch.int64, device=q.device)
    remedy = "It is how many keys of each sequence are real; lengths.long() makes whole numbers."
    given = _check_tensor(call, "lengths", lengths, q, _INTEGERS, remedy, "(B,)", q.shape[:1])
    found = given.to(torch.int64)
    if given.dtype == torch.uint64:  # what is too large for int64 came out as less than 0
        found = torch.where(found < 0, _LONGEST, found)
    return found


def _check_segments(
    call: str, segments: object, q: Tensor, k: Tensor, position: int | None
) -> Tensor:
    """(1 or B, Nq, 3), from ids or cumulative lengths, of all or of (queries, keys)."""
    batch, _, n_queries, _ = q.shape
    if isinstance(segments, Tensor) and segments.dim() == 3:  # as this function gives them
        remedy = "They are the first key, the end and the position of each query."
        _check_tensor(call, "segments", segments, q, ("int64", (torch.int64,)), remedy)
        if segments.shape[0] not in (1, batch) or segments.shape[1:] != (n_queries, 3):
            raise WrongValue(
                f"{call}: segments must be (B, Nq, 3) = ({batch}, {n_queries}, 3); "
                f"got {tuple(segments.shape)}. {remedy}"
            )
        return segments
    pair = tuple(segments) if isinstance(segments, tuple | list) else (segments, segments)
    sizes = (n_queries, k.shape[2])
    if len(pair) != 2 or (pair[0] is pair[1] and sizes[0] != sizes[1]):
        got = "one for both" if len(pair) == 2 else f"{len(pair)}"
        raise WrongValue(
            f"{call}: segments must be (those of the queries, those of the keys), where there are "
            f"{sizes[0]} queries and {sizes[1]} keys; got {got}. Each is a tensor of ids (B, N), "
            "or of cumulative lengths from 0 to N."
        )
    names = ("segments",) * 2 if pair[0] is pair[1] else ("segments[0]", "segments[1]")
    queries, keys = (
        _check_ids(call, name, x, q, size) for name, x, size in zip(names, pair, sizes, strict=True)
    )
    if queries.dim() == keys.dim() == 1 and queries.shape == keys.shape:
        return spans_of_lengths(queries, keys, n_queries, position)
    queries, keys = (
        ids_of(x, size) if x.dim() == 1 else x
        for x, size in zip((queries, keys), sizes, strict=True)
    )
    return spans_of(queries, keys, position)


def _check_ids(call: str, name: str, x: object, q: Tensor, n_tokens: int) -> Tensor:
    """Ids (1 or B, N), or cumulative lengths, if they are any."""
    remedy = "They are ids (B, N), or cumulative lengths from 0 to N."
    x = _check_tensor(call, name, x, q, ("whole numbers", _SIGNED), remedy)
    looks = x.device.type == "cpu" and is_plain((x,))
    if x.dim() == 1:
        if x.shape[0] < 1 or (looks and (x[0] != 0 or x[-1] != n_tokens or (x.diff() < 0).any())):
            raise WrongValue(
                f"{call}: {name}, cumulative lengths, must ascend from 0 to N = {n_tokens}; "
                f"got {shown(x.tolist() if looks else tuple(x.shape))}. Ids have two axes, (B, N)."
            )
        return x
    if x.dim() != 2 or x.shape[0] not in (1, q.shape[0]) or x.shape[1] != n_tokens:
        raise WrongValue(
            f"{call}: {name} must be ids (B, N) = ({q.shape[0]}, {n_tokens}), or cumulative "
            f"lengths, of one axis; got {tuple(x.shape)}. Tokens of one id make a segment; less "
            "than 0 is padding."
        )
    ids = x.to(torch.int64)
    if looks and scattered(ids).any():
        raise WrongValue(
            f"{call}: {name} must have the tokens of a segment next to one another; got an id that "
            "comes back after others. What belongs together in another way is said by a mask."
        )
    return ids


def _check_indices(call: str, indices: object, q: Tensor, n_keys: int) -> Tensor:
    """(1 or B, 1 or H, Nq, K), ascending; what is no key is −1."""
    batch, heads, n_queries, _ = q.shape
    remedy = "They are the keys that each query may attend to; less than 0 is none."
    x = _check_tensor(call, "indices", indices, q, ("whole numbers", _SIGNED), remedy)
    found = tuple(x.shape)
    if x.dim() == 3:
        x = x[:, None]
    if x.dim() != 4 or not broadcasts(x.shape[:3], (batch, heads, n_queries)):
        raise WrongValue(
            f"{call}: indices must be (B, Nq, K) or (B, H, Nq, K), with B = {batch}, H = {heads}, "
            f"Nq = {n_queries}; got {found}. {remedy}"
        )
    if x.device.type == "cpu" and is_plain((x,)) and (x >= n_keys).any():
        raise WrongValue(
            f"{call}: indices must be less than Nk = {n_keys}; got {int(x.max())}. {remedy}"
        )
    return key_lists(x, n_queries, n_keys)


# ── what stands beside them ───────────────────────────────────────────────────────────────────


def check_dropout(call: str, dropout: object) -> float:
    chance = number(call, "dropout", dropout, remedy="It is a chance, from 0 to below 1.")
    if not 0.0 <= chance < 1.0:
        raise WrongValue(
            f"{call}: dropout must be in [0, 1); got {shown(dropout)}. 0 drops nothing."
        )
    return chance


def check_see(call: str, see: object, q: Tensor | None = None, k: Tensor | None = None) -> None:
    """Is it a See? And, if q and k are given, one whose tensors fit them?"""
    if not isinstance(see, See):
        raise WrongType(
            f"{call}: see must be a regard.See, or None; got {shown(see)}. "
            "regard.See(entropy=True, top=8) is one."
        )
    if q is None or k is None:
        return
    (batch, heads, n_queries, _), n_keys = q.shape, k.shape[2]
    if see.queries is not None:
        remedy = "It says which queries count, True = counts."
        shape = (batch, n_queries)
        _check_tensor(call, "see.queries", see.queries, q, _FLAGS, remedy, "(B, Nq)", shape)
    if see.norms is not None:
        remedy = "They are the lengths of the values, by query head."
        shape = (batch, heads, n_keys)
        _check_tensor(call, "see.norms", see.norms, q, _NUMBERS, remedy, "(B, H, Nk)", shape)
    if see.spans is not None:
        _check_spans(call, see.spans, see.n_spans, q, n_keys)


def _check_spans(call: str, spans: Tensor, n_spans: int, q: Tensor, n_keys: int) -> None:
    remedy = "It is the span that each key belongs to, −1 for none."
    _check_tensor(call, "see.spans", spans, q, ("whole numbers", _SIGNED), remedy)
    if spans.shape[-1] != n_keys or (spans.dim() == 2 and spans.shape[0] not in (1, q.shape[0])):
        raise WrongValue(
            f"{call}: see.spans must be (Nk,) or (B, Nk), with B = {q.shape[0]}, Nk = {n_keys}; "
            f"got {tuple(spans.shape)}. {remedy}"
        )
    if spans.device.type == "cpu" and is_plain((spans,)) and spans.numel():
        least, most = (int(x) for x in spans.aminmax())
        if least < -1 or most >= n_spans:
            raise WrongValue(
                f"{call}: see.spans must be from −1 to {n_spans - 1}, as there are {n_spans} "
                f"spans; got {least if least < -1 else most}. {remedy}"
            )


def check_lse(call: str, lse: object, q: Tensor) -> Tensor:
    """lse, contiguous and in the type of the computation."""
    remedy = "It is that of all queries, as regard.attention(…, see=regard.See()) reports it."
    found = _check_tensor(call, "lse", lse, q, _NUMBERS, remedy, "(B, H, Nq)", q.shape[:3])
    return found.detach().to(computed_in(q.dtype)).resolve_neg().contiguous()
