"""Hugging Face models: their attention goes to the watch, and their masks stay small."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard._watch.call import Call, as_autocast
from regard._watch.masks import Meaning, meaning_of
from regard.run import Options

__all__ = ["HuggingFace", "Pattern"]

NAME = "regard"

# Arguments that have no part in what attention computes.
_HARMLESS = frozenset(
    (
        "position_ids", "use_cache", "output_router_logits", "encoder_hidden_states",
        "encoder_attention_mask", "output_attentions", "output_hidden_states", "return_dict",
        "cache_position", "past_key_values", "past_key_value", "position_embeddings",
        "num_items_in_batch", "logits_to_keep", "layer_idx", "deterministic",
    )
)  # fmt: skip
Attend = Callable[[nn.Module, Call], tuple[Tensor, Call] | None]


@dataclass(frozen=True, eq=False)
class Pattern:
    """Which keys a query may attend to, said by position and padding instead of N × N.

    A model that computes with its mask, or asks it for what is not here, gets `whole` instead.
    """

    causal: bool
    window: tuple[int | None, int | None] | None
    position: int  # query i stands at i + position, as key j at j
    start: int  # the position of the first key in the text
    keys: Tensor | None  # (B, Nk), True where there is a real token
    queries: Tensor | None  # (B, Nq)
    shape: tuple[int, int, int, int]  # of the mask that it stands for
    make: Callable[[], Tensor]  # that mask, as transformers would have made it
    mask: Tensor | None = None  # (B, 1, Nq, Nk), for a pattern that has no such name
    dtype: torch.dtype = torch.bool
    ndim: int = 4

    def dim(self) -> int:
        return 4

    def to(self, *_: object, **__: object) -> Pattern:
        return self

    def contiguous(self, *_: object, **__: object) -> Pattern:
        return self

    def clone(self, *_: object, **__: object) -> Pattern:
        return self

    def detach(self) -> Pattern:
        return self

    @cached_property
    def whole(self) -> Tensor:
        """The mask that it stands for, (B, 1, Nq, Nk)."""
        return self.make()

    @property
    def shuts_nothing(self) -> bool:
        return not self.causal and self.window is None and self.keys is None and self.mask is None

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*_made_whole(args), **_made_whole(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.whole, name)

    def __getitem__(self, index: Any) -> Any:
        return self.whole[index]

    def __len__(self) -> int:
        return self.shape[0]

    def __add__(self, other: Any) -> Any:
        # What shuts nothing is no mask to transformers, and adds nothing.
        return other if self.shuts_nothing else self.whole + other

    __radd__ = __add__


def _made_whole(x: Any) -> Any:
    """The same with masks in the place of patterns, however deep in lists they are."""
    if isinstance(x, Pattern):
        return x.whole
    if isinstance(x, dict):
        return {key: _made_whole(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(_made_whole(each) for each in x)
    return x


def _let_operators_through() -> None:
    """Give patterns the operators of tensors, which Python asks the class for."""

    def through(name: str) -> Callable[..., Any]:
        def operate(self: Pattern, *args: Any) -> Any:
            return getattr(self.whole, name)(*_made_whole(args))

        return operate

    both = ("sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "matmul")
    names = [f"__{name}__" for name in (*both, *(f"r{each}" for each in both))]
    names += [f"__{name}__" for name in ("neg", "invert", "lt", "le", "gt", "ge", "eq", "ne")]
    for name in (*names, "__bool__", "__abs__", "__iter__"):
        setattr(Pattern, name, through(name))
    Pattern.__hash__ = object.__hash__


_let_operators_through()


class HuggingFace:
    """The models of transformers inside a model, set to our attention while it is entered."""

    _lock = threading.Lock()
    _active: ClassVar[list[HuggingFace]] = []
    # What each config said before the first of us came, and how many of us are there.
    _before: ClassVar[dict[int, tuple[Any, Any, int]]] = {}

    def __init__(self, model: nn.Module, attend: Attend) -> None:
        from transformers import PreTrainedModel

        self._attend = attend
        self._models = [m for m in model.modules() if isinstance(m, PreTrainedModel)]
        self._configs: list[Any] = []
        self.refused: list[str] = []  # the classes that keep an attention of their own

    @staticmethod
    def is_needed(model: nn.Module) -> bool:
        """Has the model a part of transformers?"""
        return any(
            base.__module__ == "transformers.modeling_utils" and base.__name__ == "PreTrainedModel"
            for module in model.modules()
            for base in type(module).__mro__
        )

    def enter(self) -> None:
        from transformers import AttentionInterface, AttentionMaskInterface

        with self._lock:
            if not self._active:
                AttentionInterface.register(NAME, _attention)
                AttentionMaskInterface.register(NAME, _mask)
            self._active.append(self)
            for model in self._models:
                if model._can_set_attn_implementation():
                    self._set(model.config)
                else:
                    self.refused.append(type(model).__name__)

    def _set(self, config: Any) -> None:
        if any(config is each for each in self._configs):
            return
        self._configs.append(config)
        _, said, count = self._before.get(
            id(config), (config, getattr(config, "_attn_implementation_internal", None), 0)
        )
        self._before[id(config)] = config, said, count + 1
        config._attn_implementation_internal = NAME

    @classmethod
    def said_before(cls, config: Any) -> str | None:
        """The implementation that a config names while nobody watches."""
        found = cls._before.get(id(config))
        return getattr(config, "_attn_implementation", None) if found is None else found[1]

    def leave(self) -> None:
        from transformers import AttentionInterface, AttentionMaskInterface

        with self._lock:
            for config in self._configs:
                _, said, count = self._before.pop(id(config))
                if count > 1:
                    self._before[id(config)] = config, said, count - 1
                else:
                    config._attn_implementation_internal = said
            self._configs.clear()
            if self in self._active:
                self._active.remove(self)
            if not self._active:
                AttentionInterface._global_mapping.pop(NAME, None)
                AttentionMaskInterface._global_mapping.pop(NAME, None)


# ── the functions that transformers calls ─────────────────────────────────────────────────────


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Pattern | Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    unknown = [
        name
        for name, value in others.items()
        if name not in _HARMLESS and value is not None and value is not False
    ]
    if unknown:
        raise ValueError(
            f"watch(): attention of {type(module).__name__} must have arguments that are known; "
            f"got {', '.join(sorted(unknown))}. Nothing is left out silently: please report it; "
            'model.set_attn_implementation("eager") runs without being watched.'
        )
    meaning, start = _meaning(module, query, key, attention_mask, is_causal, sliding_window)
    options = meaning.options
    bias = position_bias if options.bias is None else options.bias
    if position_bias is not None and options.bias is not None:
        bias = options.bias + position_bias
    if bias is not None and bias.shape[-1] != key.shape[2]:
        bias = bias[..., : key.shape[2]]
    sinks = None if s_aux is None else s_aux.to(query.dtype)
    options = replace(options, scale=scaling, softcap=softcap, bias=bias, sinks=sinks)
    query, key, value = as_autocast(query, key, value)
    queries, keys = meaning.queries, meaning.keys
    call = Call(
        query, key, value, options, dropout, False, queries, keys, start, grows=meaning.grows
    )
    unused = _unused(call)
    if unused:
        call = _without_last(call, unused)
    for active in reversed(HuggingFace._active):
        done = active._attend(module, call)
        if done is not None:
            out, call = done
            break
    else:  # a model that nobody watches, which shares its config with one that is
        out, _ = call.compute(None)
    found = call.weights() if _wants_weights(others) else None
    if found is not None and unused:
        found = torch.nn.functional.pad(found, (0, unused))
    return out.transpose(1, 2).contiguous(), found


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
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    mask: Pattern | Tensor | None,
    is_causal: bool | None,
    sliding_window: int | None,
) -> tuple[Meaning, int]:
    """What the mask means, and the position of the first key."""
    n_queries, n_keys = query.shape[2], key.shape[2]
    if isinstance(mask, Pattern):
        if mask.mask is not None:
            options = Options(mask=mask.mask[..., :n_keys], position=mask.position)
            found = meaning_of(query, key, options)
            if found.queries is None and mask.queries is not None:
                found = replace(found, queries=mask.queries)
            return found, mask.start
        keys = mask.keys
        if keys is not None and keys.shape[1] != n_keys:
            keys = keys[:, :n_keys]
        options = Options(causal=mask.causal, window=mask.window, position=mask.position)
        if keys is not None:
            options = replace(options, mask=keys[:, None, None, :])
        return Meaning(options, mask.queries, keys), mask.start
    if isinstance(mask, Tensor):
        mask = mask[..., :n_keys]
        options = Options(mask=mask) if mask.dtype == torch.bool else Options(bias=mask)
        return meaning_of(query, key, options), 0
    # Without a mask the module says what it is, as for PyTorch's SDPA, aligned to the first key.
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if HuggingFace.said_before(getattr(module, "config", None)) == "eager" and is_causal is None:
        causal = False  # eager attention knows masks only
    if not causal:
        return Meaning(Options(position=0)), 0
    if n_queries == 1:  # the last one, which may look at everything
        return Meaning(Options(causal=True)), 0
    window = None if sliding_window is None else (sliding_window - 1, None)
    return Meaning(Options(causal=True, window=window, position=0)), 0


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
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int | Tensor = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | Pattern | None = None,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **others: Any,
) -> Pattern | None:
    """What transformers asks for a mask with; what it gets is a pattern."""
    from transformers.masking_utils import causal_mask_function

    if isinstance(attention_mask, Pattern):
        return attention_mask  # made already, for all layers of a kind
    size = (batch_size, 1, q_length, kv_length)
    function = causal_mask_function if mask_function is None else mask_function
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
    before = HuggingFace.said_before(others.get("config"))
    make = partial(
        _whole_mask,
        before == "eager",
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
    dtype = others.get("dtype", torch.float32) if before == "eager" else torch.bool
    position = q_offset - kv_offset
    pattern = partial(
        Pattern, position=position, start=kv_offset, keys=keys, shape=size, make=make, dtype=dtype
    )
    shape = _recognise(function)
    if shape is not None and not use_vmap:
        causal, window = shape
        if keys is None and not kv_offset and _is_left_out(before, shape, size, others):
            return None
        # Queries of another sequence than the keys' have a padding of their own.
        if not causal and q_length != kv_length:
            queries = None
        return pattern(causal, window, queries=queries)
    whole = make() if before != "eager" else _whole_mask(False, **make.keywords)
    return pattern(False, None, queries=queries, mask=whole)


def _whole_mask(is_eager: bool, **given: Any) -> Tensor:
    """The mask that transformers makes for its sdpa, or for its eager attention."""
    from transformers.masking_utils import eager_mask, sdpa_mask

    given |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    whole = eager_mask(**given) if is_eager else sdpa_mask(**given)
    assert whole is not None
    return whole


def _is_left_out(
    before: str | None,
    shape: tuple[bool, tuple[int | None, int | None] | None],
    size: tuple[int, int, int, int],
    others: dict[str, Any],
) -> bool:
    """Would transformers have made no mask, all tokens being real?

    A model may go another way without one: the same that it goes unwatched.
    """
    causal, window = shape
    _, _, n_queries, n_keys = size
    if window is not None and n_keys >= (others.get("local_size") or 0):
        return False
    if not causal:
        return before in ("sdpa", "eager") and bool(others.get("allow_is_bidirectional_skip"))
    allowed = before == "sdpa" and bool(others.get("allow_is_causal_skip", True))
    return allowed and n_queries in (1, n_keys)


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
