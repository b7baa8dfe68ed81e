"""Hugging Face models: their attention goes to the watch, and their masks stay small."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard._watch.arguments import takes_mask
from regard._watch.call import Call, as_autocast
from regard._watch.masks import Meaning, meaning_of
from regard._watch.modules import Modules, Running
from regard._watch.pattern import Pattern
from regard._watch.unseen import Unseen
from regard.run import Options

__all__ = ["HuggingFace"]

# What transformers calls its own ways, by where they are written.
_WAYS = {
    "transformers.integrations.sdpa_attention": "sdpa",
    "transformers.integrations.flex_attention": "flex",
    "transformers.integrations.flash_attention": "flash",
}
# What the eager attention of a model may be made of, to be softmax(scale · q kᵀ + mask) v, with a
# softcap, a bias or sinks. One that names anything else is left to the model.
_EAGER = frozenset(
    (
        "F", "cat", "contiguous", "device", "dropout", "dtype", "expand", "float", "float32",
        "functional", "getattr", "hasattr", "head_dim", "logsumexp", "matmul", "max",
        "maybe_autocast", "nn", "num_key_value_groups", "repeat_kv", "reshape", "shape", "sigmoid",
        "sinks", "size", "softmax", "tanh", "to", "torch", "training", "transpose", "type",
        "unsqueeze", "values", "view",
    )
)  # fmt: skip
_MASKS = {"sdpa_mask": "sdpa", "eager_mask": "eager"}
_EAGER_ARGUMENTS = ("scaling", "dropout", "softcap", "position_bias", "sliding_window")
# Arguments that have no part in what attention computes.
_HARMLESS = frozenset(
    (
        "position_ids", "use_cache", "output_router_logits", "encoder_hidden_states",
        "encoder_attention_mask", "output_attentions", "output_hidden_states", "return_dict",
        "cache_position", "past_key_values", "past_key_value", "position_embeddings",
        "num_items_in_batch", "logits_to_keep", "layer_idx", "deterministic", "kernel_options",
    )
)  # fmt: skip
Attend = Callable[[Running, Call], tuple[Tensor, Call]]


class HuggingFace:
    """The models of transformers inside a model, whose attention is ours while it is entered.

    Nothing is written into the models or their configurations, which go on saying what they said:
    the doors are changed that transformers finds attention and masks by.
    """

    _lock = threading.RLock()
    _active: ClassVar[list[HuggingFace]] = []

    def __init__(self, models: list[Any], modules: Modules, attend: Attend, unseen: Unseen) -> None:
        """`models` are those of transformers."""
        self._modules = modules
        self._attend = attend
        self._unseen = unseen
        ours = [m for m in models if m._can_set_attn_implementation()]
        self._configs = {id(m.config) for m in ours}
        self._refused = [type(m).__name__ for m in models if m not in ours]

    @classmethod
    def of(
        cls, model: nn.Module, modules: Modules, attend: Attend, unseen: Unseen
    ) -> HuggingFace | None:
        """For a model that has a part of transformers, which is then imported already."""
        transformers = sys.modules.get("transformers.modeling_utils")
        if transformers is None:
            return None
        models = [m for m in model.modules() if isinstance(m, transformers.PreTrainedModel)]
        return cls(models, modules, attend, unseen) if models else None

    def refused(self) -> list[str]:
        """The classes that keep an attention of their own, as `run.unseen` says it."""
        return [
            f"{name}: transformers computes its attention in a way that cannot be replaced, so "
            "it was not seen."
            for name in dict.fromkeys(self._refused)
        ]

    def enter(self) -> None:
        with self._lock:
            self._active.append(self)
            _open_doors()

    def leave(self) -> None:
        """Also called again: an interrupt may have come in between."""
        with self._lock:
            if self in self._active:
                self._active.remove(self)
            if not self._active:
                _close_doors()

    @classmethod
    def around(cls, module: nn.Module) -> HuggingFace | None:
        """The one that watches this module."""
        return next((each for each in cls._active if id(module) in each._modules.by_id), None)

    @classmethod
    def is_watched(cls, config: Any) -> bool:
        return any(id(config) in each._configs for each in cls._active)


# ── the doors ─────────────────────────────────────────────────────────────────────────────────


def _open_doors() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import __name__ as own

    if not hasattr(AttentionInterface.get_interface, "before"):
        AttentionInterface.get_interface = _get_interface(AttentionInterface.get_interface)
    masks = AttentionMaskInterface._global_mapping
    for name, function in list(masks.items()):
        if getattr(function, "__module__", "") == own:
            masks[name] = _MaskDoor(function)


def _close_doors() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    door: Any = AttentionInterface.get_interface
    AttentionInterface.get_interface = getattr(door, "before", door)
    masks = AttentionMaskInterface._global_mapping
    for name, function in list(masks.items()):
        if isinstance(function, _MaskDoor):
            masks[name] = function.before


def _get_interface(before: Callable[..., Any]) -> Any:
    """The method by which a module of transformers finds its attention function."""

    def get_interface(self: Any, attn_implementation: str, default: Callable[..., Any]) -> Any:
        function = before(self, attn_implementation, default)
        way = _way(function, default)
        return function if way is None else partial(_attention, function, way)

    get_interface.before = before  # pyright: ignore[reportFunctionMemberAccess]
    return get_interface


@cache
def _way(function: Callable[..., Any], default: Callable[..., Any]) -> str | None:
    """How a function computes attention, if it is one of transformers' own."""
    where: str = getattr(function, "__module__", None) or ""
    if where in _WAYS:
        return _WAYS[where]
    code = getattr(function, "__code__", None)
    if function is not default or not where.startswith("transformers.models.") or code is None:
        return None
    is_known = _EAGER.issuperset(code.co_names) and set(_names(function)[5:]) <= set(
        _EAGER_ARGUMENTS
    )
    return "eager" if is_known else None


def _names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments of a function by name, those that it takes as **kwargs aside."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


class _MaskDoor:
    """A function that transformers makes masks with."""

    def __init__(self, before: Callable[..., Any]) -> None:
        self.before = before

    def __call__(self, *args: Any, **given: Any) -> Any:
        padding = given.get("attention_mask")
        has_axes = padding is None or (isinstance(padding, Tensor) and padding.dim() == 2)
        if args or not has_axes or not HuggingFace.is_watched(given.get("config")):
            return self.before(*args, **given)
        return _mask(self.before, **given)


# ── the functions that transformers calls ─────────────────────────────────────────────────────


def _attention(
    before: Callable[..., Any],
    way: str,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    *args: Any,
    **given: Any,
) -> tuple[Tensor, Tensor | None]:
    watch = HuggingFace.around(module)
    given |= dict(zip(_names(before)[5:], args, strict=False))
    q, k, v = as_autocast(query, key, value)
    meaning = None
    if watch is not None and _is_known(before, way, module, q, given):
        meaning = _meaning(before, way, module, q, k, attention_mask, given)
    if watch is None or meaning is None:
        if watch is not None and way in ("flex", "flash"):
            watch._unseen.add(watch._modules.of(module))
        return before(module, query, key, value, attention_mask, **given)
    found, start = meaning
    options, bias = found.options, given.get("position_bias")
    if bias is not None:
        bias = bias[..., : k.shape[2]]
        bias = bias if options.bias is None else bias + options.bias
        options = replace(options, bias=bias)
    sinks, dropout = _sinks(before, way, module, given), given.get("dropout", 0.0)
    options = replace(
        options,
        scale=given.get("scaling"),
        softcap=given.get("softcap") if "softcap" in _names(before) else None,
        sinks=None if sinks is None else sinks.to(q.dtype),
    )
    if way == "eager" and not module.training:
        dropout = 0.0
    call = Call(
        q, k, v, options, dropout, False, found.queries, found.keys, start, grows=found.grows
    )
    unused = _unused(call)
    if unused:
        call = _without_last(call, unused)
    out, call = watch._attend(watch._modules.of(module), call)
    weights = call.weights() if _wants_weights(given) else None
    if weights is not None and unused:
        weights = torch.nn.functional.pad(weights, (0, unused))
    return out.transpose(1, 2).contiguous(), weights


def _is_known(
    before: Callable[..., Any], way: str, module: nn.Module, q: Tensor, given: dict[str, Any]
) -> bool:
    """Is what is computed softmax(scale · q kᵀ + mask) v, arguments and module being these?"""
    if getattr(module, "compressor", None) is not None:
        return False  # there are keys among the others that are no tokens
    if way == "sdpa":
        return given.get("softcap") is None and given.get("cache") is None
    if way == "flex":
        on_cpu = q.device.type == "cpu" and given.get("s_aux") is not None
        return not given.get("dropout") and not on_cpu
    if way == "flash":
        known = {*_names(before), *_EAGER_ARGUMENTS, *_HARMLESS, "is_causal", "s_aux"}
        return all(x is None or x is False for name, x in given.items() if name not in known)
    return True


def _sinks(
    before: Callable[..., Any], way: str, module: nn.Module, given: dict[str, Any]
) -> Tensor | None:
    if way == "eager":
        return getattr(module, "sinks", None) if "sinks" in before.__code__.co_names else None
    return None if way == "sdpa" else given.get("s_aux")


def _unused(call: Call) -> int:
    """How many keys at the end no query can see: the free places of a cache that was made in
    advance."""
    if not call.options.causal:
        return 0
    return max(call.k.shape[2] - call.q.shape[2] - call.position, 0)


def _without_last(call: Call, count: int) -> Call:
    """The call without so many of its keys."""
    left = call.k.shape[2] - count
    changes: dict[str, Any] = {}
    for name in ("mask", "bias"):
        x = getattr(call.options, name)
        if x is not None and x.shape[-1] > 1:
            changes[name] = x[..., :left]
    options = replace(call.options, position=call.position, **changes)
    keys, queries = call.keys, call.queries
    if keys is not None and bool(keys[:, :left].all()):
        keys = queries = None
        if options.mask is not None and bool(options.mask.all()):
            options = replace(options, mask=None)
    elif keys is not None:
        keys = keys[:, :left]
    return replace(
        call,
        k=call.k[:, :, :left],
        v=call.v[:, :, :left],
        options=options,
        keys=keys,
        queries=queries,
    )


def _meaning(
    before: Callable[..., Any],
    way: str,
    module: nn.Module,
    q: Tensor,
    k: Tensor,
    mask: Any,
    given: dict[str, Any],
) -> tuple[Meaning, int] | None:
    """What the mask means, and the position of the first key; None where the model knows alone."""
    shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    if isinstance(mask, Pattern):
        if mask.is_written or mask.shape[2:] != shape[2:] or mask.shape[0] not in (1, shape[0]):
            mask = mask.whole
        elif mask.mask is None:
            options = Options(causal=mask.causal, window=mask.window, position=mask.position)
            if mask.keys is not None:
                options = replace(options, mask=mask.keys[:, None, None, :])
            return Meaning(options, mask.queries, mask.keys), mask.start
        else:
            found = meaning_of(q, k, Options(mask=mask.mask, position=mask.position))
            if found.queries is None and mask.queries is not None:
                found = replace(found, queries=mask.queries)
            return found, mask.start
    if mask is not None:
        options = _mask_options(before, way, mask, q, shape)
        return None if options is None else (meaning_of(q, k, options), 0)
    # Without a mask the module says what it is, as for PyTorch's SDPA, aligned to the first key.
    # Eager attention knows masks only, and so does flex_attention.
    causal, window = given.get("is_causal"), None
    if causal is None:
        causal = getattr(module, "is_causal", True)
    if way in ("eager", "flex") or not causal:
        return Meaning(Options(position=0)), 0
    if shape[2] == 1:  # the last one, which may look at everything
        return Meaning(Options(causal=True)), 0
    if way == "flash" and given.get("sliding_window") is not None:
        window = (given["sliding_window"] - 1, None)
    return Meaning(Options(causal=True, window=window, position=0)), 0


def _mask_options(
    before: Callable[..., Any], way: str, mask: Any, q: Tensor, shape: tuple[int, int, int, int]
) -> Options | None:
    """What a mask that the caller made says to each kind of attention. None: an error, or what
    only the model can make of it."""
    if way == "flex" and not isinstance(mask, Tensor):
        return Options(mask=_dense(mask, shape, q.device))
    if not isinstance(mask, Tensor) or mask.is_complex() or not _broadcasts(mask.shape, shape):
        return None
    if way == "eager":  # adds it, True and False as 1 and 0
        dtype = torch.promote_types(mask.dtype, q.dtype)
        comes_back = not {"to", "type"}.isdisjoint(before.__code__.co_names)
        return Options(bias=mask.to(dtype)) if dtype == q.dtype or comes_back else None
    if way == "flex":  # adds that of the first head to all
        is_whole = mask.dim() == 4 and (mask.shape[0], *mask.shape[2:]) == (shape[0], *shape[2:])
        return Options(bias=mask[:, :1].to(q.dtype)) if is_whole else None
    if not takes_mask(q, mask):
        return None
    return Options(mask=mask) if mask.dtype == torch.bool else Options(bias=mask)


def _broadcasts(mask: torch.Size, shape: tuple[int, int, int, int]) -> bool:
    sizes = (*(1 for _ in shape[len(mask) :]), *mask)
    return len(sizes) == 4 and all(
        size in (1, whole) for size, whole in zip(sizes, shape, strict=True)
    )


def _dense(mask: Any, shape: tuple[int, int, int, int], device: torch.device) -> Tensor:
    """A BlockMask of flex_attention as (B, H, Nq, Nk): what its function says, in its blocks."""
    from torch.nn.attention.flex_attention import create_mask

    blocks = mask.to_dense().bool()
    for axis, size in zip((2, 3), mask.BLOCK_SIZE, strict=True):
        blocks = blocks.repeat_interleave(size, axis)
    inside = create_mask(mask.mask_mod, *shape, device=str(device))
    return inside & blocks[..., : shape[2], : shape[3]]


def _wants_weights(others: dict[str, Any]) -> bool:
    if others.get("output_attentions"):
        return True
    try:
        from transformers.utils.output_capturing import _active_collector
    except ImportError:
        return False
    collected = _active_collector.get()
    return collected is not None and any("attentions" in name for name in collected)


def _mask(
    before: Callable[..., Any],
    *,
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int | Tensor = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | None = None,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **others: Any,
) -> Tensor | None:
    """What transformers asks for a mask with; what it gets is a pattern."""
    from transformers import masking_utils

    size = (batch_size, 1, q_length, kv_length)
    function = masking_utils.causal_mask_function if mask_function is None else mask_function
    q_offset, kv_offset = int(q_offset), int(kv_offset)
    keys = queries = None
    if attention_mask is not None:
        padding = attention_mask.to(device=device, dtype=torch.bool)
        missing = kv_offset + kv_length - padding.shape[-1]
        if missing > 0:
            padding = torch.nn.functional.pad(padding, (0, missing))
        keys = padding[:, kv_offset : kv_offset + kv_length]
        queries = padding[:, q_offset : q_offset + q_length]
        if bool(keys.all()):
            keys = queries = None
        elif queries.shape[1] != q_length:
            queries = None
    make = partial(
        _whole_mask,
        before,
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=function,
        attention_mask=attention_mask,
        use_vmap=use_vmap,
        device=device,
        **others,
    )
    way = _MASKS.get(before.__name__)
    dtype = others.get("dtype", torch.float32) if way == "eager" else torch.bool
    pattern = partial(
        Pattern,
        size,
        dtype,
        device,
        make,
        position=q_offset - kv_offset,
        start=kv_offset,
        keys=keys,
    )
    shape = None if use_vmap else _recognise(function)
    if shape is None:
        mask = _whole_mask(masking_utils.sdpa_mask, **make.keywords)
        return pattern(causal=False, window=None, queries=queries, mask=mask)
    causal, window = shape
    is_all = keys is None or (not q_offset and _is_real_so_far(keys, q_length))
    if is_all and not kv_offset and _is_left_out(way, shape, size, others, keys, q_offset):
        return None
    # Queries of another sequence than the keys' have a padding of their own.
    if not causal and q_length != kv_length:
        queries = None
    return pattern(causal=causal, window=window, queries=queries)


def _is_real_so_far(keys: Tensor, count: int) -> bool:
    """Are so many keys real, and those behind them free places of a cache?"""
    return bool(keys[:, :count].all()) and not bool(keys[:, count:].any())


def _whole_mask(before: Callable[..., Any], **given: Any) -> Tensor:
    """The mask that transformers makes for its sdpa, or for its eager attention."""
    if before.__name__ not in _MASKS:
        raise TypeError(
            f"watch(): a model that computes with its mask must have one of numbers; got that of "
            f"{before.__name__.removesuffix('_mask')}. "
            'model.set_attn_implementation("sdpa") or "eager" gives it one.'
        )
    whole = before(**given | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False})
    assert whole is not None
    return whole


def _is_left_out(
    way: str | None,
    shape: tuple[bool, tuple[int | None, int | None] | None],
    size: tuple[int, int, int, int],
    others: dict[str, Any],
    keys: Tensor | None,
    first: int,
) -> bool:
    """Would transformers have made no mask, all tokens being real?

    A model may go another way without one: the same that it goes unwatched.
    """
    causal, window = shape
    _, _, n_queries, n_keys = size
    if window is not None and n_keys >= (others.get("local_size") or 0):
        return False
    if not causal:
        skips = way is not None and bool(others.get("allow_is_bidirectional_skip"))
        return skips and keys is None
    if way != "sdpa" or not others.get("allow_is_causal_skip", True):
        return False
    # A cache that was made in advance, and is empty so far, has free places behind the queries.
    return first == 0 or (keys is None and n_queries in (1, n_keys))


def _recognise(
    function: Callable[..., Any],
) -> tuple[bool, tuple[int | None, int | None] | None] | None:
    """(causal, window) of a mask function of transformers; None for any other."""
    from transformers import masking_utils

    if function is masking_utils.causal_mask_function:
        return True, None
    if function is masking_utils.bidirectional_mask_function:
        return False, None
    cells = _closure(function)
    kind = getattr(function, "__qualname__", "")
    if getattr(function, "__module__", "") != masking_utils.__name__:
        return None
    if kind.startswith("sliding_window_overlay."):
        return False, (int(cells["sliding_window"]) - 1, None)
    if kind.startswith("sliding_window_bidirectional_overlay."):
        width = int(cells["sliding_window"])
        return False, (width, width)
    if kind.startswith("and_masks."):
        causal, left, right = False, None, None
        for part in cells["mask_functions"]:
            found = _recognise(part)
            if found is None:
                return None
            causal = causal or found[0]
            if found[1] is not None:
                left, right = _narrower(left, found[1][0]), _narrower(right, found[1][1])
        return causal, None if left is None and right is None else (left, right)
    return None


def _narrower(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables that a function carries with it."""
    code = getattr(function, "__code__", None)
    closure = getattr(function, "__closure__", None) or ()
    names = code.co_freevars if code is not None else ()
    return {name: cell.cell_contents for name, cell in zip(names, closure, strict=True)}
