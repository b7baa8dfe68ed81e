"""Hugging Face models: their attention goes to the watch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard._attention.options import broadcasts
from regard._attention.sdpa import as_autocast
from regard._watch import lasting
from regard._watch.call import Call
from regard._watch.hugging_face_keys import PACKED, spans_of_keys, with_sets, without_last
from regard._watch.hugging_face_masks import MaskFunction, Pattern
from regard._watch.masks import read_masks
from regard._watch.modules import Attend, Modules
from regard._watch.unseen import Unseen
from regard.run import Options

# The implementations of transformers, by where they are written.
_IMPLEMENTATIONS = {
    "transformers.integrations.sdpa_attention": "sdpa",
    "transformers.integrations.flex_attention": "flex",
    "transformers.integrations.flash_attention": "flash",
}
# What the eager attention of a model may be made of, to be softmax(scale · q kᵀ + mask) v, with a
# softcap, a bias or sinks. One that names anything else is left to the model.
_EAGER = {
    "F", "cat", "contiguous", "device", "dropout", "dtype", "expand", "float", "float32",
    "functional", "getattr", "hasattr", "head_dim", "logsumexp", "matmul", "max", "maybe_autocast",
    "nn", "num_key_value_groups", "repeat_kv", "reshape", "shape", "sigmoid", "sinks", "size",
    "softmax", "tanh", "to", "torch", "training", "transpose", "type", "unsqueeze", "values",
    "view",
}  # fmt: skip
_EAGER_ARGUMENTS = {"scaling", "dropout", "softcap", "position_bias", "sliding_window"}
# Arguments that have no part in what attention computes.
_HARMLESS = {
    "position_ids", "use_cache", "output_router_logits", "encoder_hidden_states",
    "encoder_attention_mask", "output_attentions", "output_hidden_states", "return_dict",
    "cache_position", "past_key_values", "past_key_value", "position_embeddings",
    "num_items_in_batch", "logits_to_keep", "layer_idx", "deterministic", "kernel_options",
}  # fmt: skip
_BLOCKS_OF_A_CACHE = (
    "what it computed with a cache was not seen, as some of its keys stand for blocks of tokens "
    "there, and it is not known which. A pass over the whole text is seen."
)


class HuggingFace:
    """The models of transformers inside a model, whose attention is ours while it is entered.

    Nothing is written into the models or their configurations, which go on saying what they said:
    what is replaced is how transformers finds attention and masks.
    """

    _entered: ClassVar[list[HuggingFace]] = []
    _is_in_place: ClassVar[bool] = False  # our way to find attention functions

    def __init__(self, modules: Modules, attend: Attend, unseen: Unseen) -> None:
        self._modules = modules
        self._attend = attend
        self._unseen = unseen
        # Without transformers, which is imported where there is a model of it, there is none.
        kind = getattr(sys.modules.get("transformers.modeling_utils"), "PreTrainedModel", ())
        every = (each.module for each in modules.by_id.values())
        models: list[Any] = [module for module in every if isinstance(module, kind)]
        self._has_any = bool(models)
        ours = [m for m in models if m._can_set_attn_implementation()]
        self._configs = {id(m.config) for m in ours}
        # Those that keep an attention of their own, as `run.unseen` says it.
        self.refused = [
            f"{name}: transformers computes its attention in a way that cannot be replaced, so "
            "it was not seen."
            for name in dict.fromkeys(type(m).__name__ for m in models if m not in ours)
        ]

    @classmethod
    def install(cls, every: Iterable[HuggingFace]) -> None:
        """Have transformers find attention and masks by way of these; by itself, if there are none.
        It can be done twice."""
        entered = [each for each in every if each._has_any]
        cls._entered = entered or cls._entered  # until all is put back
        if not cls._entered and lasting.now() is None and not cls._is_in_place:
            return
        from transformers import AttentionInterface, AttentionMaskInterface, masking_utils

        find: Any = AttentionInterface.get_interface
        find = getattr(find, "before", find)
        cls._is_in_place = bool(entered) or lasting.now() is not None
        AttentionInterface.get_interface = _get_interface(find) if cls._is_in_place else find
        masks = AttentionMaskInterface._global_mapping
        for name, function in list(masks.items()):
            if name == lasting.NAME:
                continue  # which stays as it is
            own = function.before if isinstance(function, MaskFunction) else function
            if entered and getattr(own, "__module__", "") == masking_utils.__name__:
                own = MaskFunction(own, cls.is_watched)
            masks[name] = own
        cls._entered = entered

    @classmethod
    def install_again(cls) -> None:
        """The same for those that are entered, as there was something else installed, or is not."""
        cls.install(cls._entered)

    @classmethod
    def is_watched(cls, config: Any) -> bool:
        return any(id(config) in each._configs for each in cls._entered)

    @classmethod
    def around(cls, module: nn.Module) -> HuggingFace | None:
        """The one that watches this module."""
        return next((each for each in cls._entered if id(module) in each._modules.by_id), None)


def _get_interface(before: Callable[..., Any]) -> Any:
    """The method by which a module of transformers finds its attention function."""

    def get_interface(self: Any, attn_implementation: str, default: Callable[..., Any]) -> Any:
        found = before(self, attn_implementation, default)
        return found if torch.compiler.is_compiling() else _seen(found, default)

    get_interface.before = before  # pyright: ignore[reportFunctionMemberAccess]
    return get_interface


@cache
def _seen(function: Callable[..., Any], default: Callable[..., Any]) -> Callable[..., Any]:
    """An attention function of transformers' own as one that is watched; any other as it is."""
    where: str = getattr(function, "__module__", None) or ""
    kind, code = _IMPLEMENTATIONS.get(where), getattr(function, "__code__", None)
    if function is default and where.startswith("transformers.models.") and code is not None:
        others = set(_names(function)[5:])
        kind = "eager" if _EAGER.issuperset(code.co_names) and others <= _EAGER_ARGUMENTS else None
    return function if kind is None else AttentionFunction(function, kind)


def _names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments of a function by name, those that it takes as **kwargs aside."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


class AttentionFunction:
    """An attention function of transformers: what a watched module computes goes to its watch.

    "regard" is our own: it takes what any of the others takes, masks as sdpa does.
    """

    def __init__(self, before: Callable[..., Any], kind: str) -> None:
        self._before = before
        self._kind = kind  # "eager", "sdpa", "flex", "flash" or "regard"

    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Any,
        *args: Any,
        **given: Any,
    ) -> tuple[Tensor, Tensor | None]:
        # What is compiled is not watched.
        watch = None if torch.compiler.is_compiling() else HuggingFace.around(module)
        installed = lasting.now()
        given |= dict(zip(_names(self._before)[5:], args, strict=False))
        call, is_own = None, self._kind == lasting.NAME
        is_served = installed is not None and (is_own or installed.serves(module, self._kind))
        if watch is not None or is_served or is_own:
            q, k, v, _ = as_autocast(query, key, value)
            call = self._call(module, q, k, v, attention_mask, given, watch is not None)
            if call is None and watch is not None and self._kind in ("flex", "flash"):
                watch._unseen.add(watch._modules.of(module))
            elif call is None and watch is not None and hasattr(module, "compressor"):
                watch._unseen.add_part(watch._modules.of(module), _BLOCKS_OF_A_CACHE)
        if call is None:
            if is_own:
                raise _refusal(module, attention_mask, given)
            return self._before(module, query, key, value, attention_mask, **given)
        # The last keys that no query can see are free places of a cache that was made in advance.
        unused = 0
        if call.options.causal and call.spans is None:
            unused = max(call.k.shape[2] - call.q.shape[2] - call.position, 0)
        if unused:
            call = without_last(call, unused)
        if watch is not None:
            out, call = watch._attend(watch._modules.of(module), call)
        else:
            out, _ = call.compute(None)
        weights = None
        if _wants_weights(given):
            asked = installed if is_served else None
            weights = call.weights() if asked is None else asked.weights_of(module, call)
            if weights is not None:
                weights = torch.nn.functional.pad(weights, (0, unused))
            else:
                weights = lasting.not_asked(call)
        return out.transpose(1, 2).contiguous(), weights

    def _call(
        self,
        module: nn.Module,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Any,
        given: dict[str, Any],
        is_seen: bool,
    ) -> Call | None:
        """The arguments as a call; None where the model alone knows what they mean. Masks are read
        for what they say of tokens, if it `is_seen`."""
        spans = None
        if (compressor := getattr(module, "compressor", None)) is not None:
            # There are keys behind the others that are no tokens.
            spans = (
                spans_of_keys(compressor, q, k) if self._kind in ("eager", lasting.NAME) else None
            )
            if spans is None:
                return None
        if not self._is_known(module, q, given):
            return None
        if isinstance(mask, Pattern):
            fits = mask.shape[2:] == (q.shape[2], k.shape[2]) and len(mask) in (1, len(q))
            mask = mask if fits and not mask.is_written else mask.whole
        options = self._options(module, q, k, mask, given)
        if options is None:
            return None
        is_eager, is_own = self._kind == "eager", self._kind == lasting.NAME
        if is_own or self._kind == "flash":
            options = with_sets(options, q, k, given)
        names = self._before.__code__.co_names
        sinks = None if self._kind == "sdpa" else given.get("s_aux")
        if is_eager:
            sinks = getattr(module, "sinks", None) if "sinks" in names else None
        options = replace(
            options,
            position=options.position if spans is None else 0,
            scale=given.get("scaling"),
            softcap=given.get("softcap") if is_own or "softcap" in _names(self._before) else None,
            sinks=None if sinks is None else sinks.to(q.dtype),
        )
        dropout = 0.0 if is_eager and not module.training else given.get("dropout", 0.0)
        start = mask.start if isinstance(mask, Pattern) else 0
        where: dict[str, Any] = {"is_cross_known": True, "start": start, "spans": spans}
        call = Call(q, k, v, options, dropout, as_pytorch=True, **where)
        if is_seen:
            call = read_masks(call)
        if isinstance(mask, Pattern) and call.queries is None:
            call = replace(call, queries=mask.queries)
        bias = given.get("position_bias")
        if bias is None:
            return call
        bias = bias[..., : k.shape[2]]
        if call.options.bias is not None:
            bias = bias + call.options.bias
        return replace(call, options=replace(call.options, bias=bias))

    def _is_known(self, module: nn.Module, q: Tensor, given: dict[str, Any]) -> bool:
        """Is what is computed softmax(scale · q kᵀ + mask) v, arguments and module being these?"""
        if self._kind == "sdpa":
            return given.get("softcap") is None and given.get("cache") is None
        if self._kind == "flex":
            on_cpu = q.device.type == "cpu" and given.get("s_aux") is not None
            return not given.get("dropout") and not on_cpu
        if self._kind in ("flash", lasting.NAME):
            known = {*_names(self._before), *_EAGER_ARGUMENTS, *_HARMLESS, *PACKED}
            known |= {"is_causal", "s_aux", "indices"}
            return all(x is None or x is False for name, x in given.items() if name not in known)
        return True

    def _options(
        self, module: nn.Module, q: Tensor, k: Tensor, mask: Any, given: dict[str, Any]
    ) -> Options | None:
        """What the mask says to this kind of attention. None: an error, or what only the model can
        make of it."""
        kind, shape = self._kind, (*q.shape[:3], k.shape[2])
        if isinstance(mask, Pattern):
            return mask.options
        if mask is None:
            # The module says what it is, as for PyTorch's SDPA, aligned to the first key. Eager
            # attention knows masks only, and so does flex_attention.
            causal, window = given.get("is_causal"), None
            if causal is None:
                causal = getattr(module, "is_causal", True)
            if kind in ("eager", "flex") or not causal:
                return Options(position=0)
            if q.shape[2] == 1:  # the last one, which may look at everything
                return Options(causal=True)
            if kind == "flash" and given.get("sliding_window") is not None:
                window = (given["sliding_window"] - 1, None)
            return Options(causal=True, window=window, position=0)
        if kind == "flex" and not isinstance(mask, Tensor):
            return Options(mask=_dense(mask, shape, q.device))
        if not isinstance(mask, Tensor) or mask.is_complex() or not broadcasts(mask.shape, shape):
            return None
        if kind == "eager":  # adds it, True and False as 1 and 0
            dtype = torch.promote_types(mask.dtype, q.dtype)
            comes_back = not {"to", "type"}.isdisjoint(self._before.__code__.co_names)
            return Options(bias=mask.to(dtype)) if dtype == q.dtype or comes_back else None
        if kind == "flex":  # adds that of the first head to all
            is_whole = mask.dim() == 4 and mask[:, 0].shape == (shape[0], *shape[2:])
            return Options(bias=mask[:, :1].to(q.dtype)) if is_whole else None
        is_cast = torch.is_autocast_enabled(q.device.type) and mask.is_floating_point()
        if not is_cast and mask.dtype not in (torch.bool, torch.float32, q.dtype):
            return None
        return Options(mask=mask) if mask.dtype == torch.bool else Options(bias=mask)


def _dense(mask: Any, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """A BlockMask of flex_attention as (B, H, Nq, Nk): what its function says, in its blocks."""
    from torch.nn.attention.flex_attention import create_mask

    blocks = mask.to_dense().bool()
    for axis, size in zip((2, 3), mask.BLOCK_SIZE, strict=True):
        blocks = blocks.repeat_interleave(size, axis)
    inside = create_mask(mask.mask_mod, *shape, device=str(device))
    return inside & blocks[..., : shape[2], : shape[3]]


def _wants_weights(others: dict[str, Any]) -> bool:
    collected = lasting.collector() or ()
    return bool(others.get("output_attentions")) or any("attentions" in name for name in collected)


def _refusal(module: nn.Module, mask: Any, given: dict[str, Any]) -> Exception:
    """What is raised where nobody else can compute what only the model knows to mean something."""
    known = {*_EAGER_ARGUMENTS, *_HARMLESS, "is_causal", "s_aux"}
    more = [name for name, x in given.items() if name not in known and x is not None]
    got = (
        f"got {', '.join(more)}" if more else f"got a mask of {getattr(mask, 'shape', type(mask))}"
    )
    return ValueError(
        f'attn_implementation="{lasting.NAME}": {type(module).__name__} must be softmax(scale · q '
        f"kᵀ + mask) v, by arguments that are known; {got}. "
        'model.set_attn_implementation("sdpa") or "eager" may know them.'
    )
