"""`regard.install`: our attention as one that transformers knows, and behind PyTorch's SDPA."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.jit._builtins import _register_builtin
from torch.overrides import handle_torch_function

from regard._arguments import WrongType, WrongValue, flag, shown
from regard._attention import scaled_dot_product_attention
from regard._attention.eager import (
    PLAIN,
    has_function_mode,
    is_causal_bias,
    is_eager,
    with_function_of_their_own,
)
from regard._extras import need
from regard._watch import lasting
from regard._watch.hugging_face import AttentionFunction, HuggingFace
from regard._watch.hugging_face_masks import MaskFunction
from regard._watch.lasting import NAME, Installed
from regard._watch.watching import Watching

# PyTorch's own, whatever is installed in its place.
_sdpa: Any = torch._C._nn.scaled_dot_product_attention  # pyright: ignore[reportAttributeAccessIssue]
_lock = threading.RLock()


def install(
    weights: Mapping[int, Iterable[int] | None] | None = None, *, sdpa: bool = False
) -> None:
    """Give transformers an attention that is ours, until `uninstall`.

    `from_pretrained(…, attn_implementation="regard")` and `model.set_attn_implementation("regard")`
    choose it. With `output_attentions=True` it gives the weights of all layers and heads, or, with
    `weights`, of those that are asked for: {layer: heads}, a layer by its number, heads None being
    all. Other layers give None, and other heads NaN.

    With `sdpa`, `torch.nn.functional.scaled_dot_product_attention` is computed by our kernel, too,
    wherever it is called by that name with tensors on the CPU that it serves.

    Installed twice, it is as installed last.

    >>> install(weights={0: [1]})
    >>> from transformers import BertConfig, BertModel
    >>> sizes = {"hidden_size": 6, "num_attention_heads": 2, "num_hidden_layers": 2}
    >>> config = BertConfig(vocab_size=7, intermediate_size=5, **sizes)
    >>> model = BertModel._from_config(config, attn_implementation="regard").eval()
    >>> first, second = model(torch.arange(3)[None], output_attentions=True).attentions
    >>> first.isnan()[0, :, 0, 0].tolist(), second
    ([True, False], None)
    >>> uninstall()
    """
    asked = _asked(weights)
    flag("install()", "sdpa", sdpa)
    has_transformers = importlib.util.find_spec("transformers") is not None
    if has_transformers or not sdpa:
        need("install()", "transformers", "models")
    with _lock, Watching.lock():
        before = lasting.now()
        lasting.set_installed(Installed(asked) if before is None else before.with_weights(asked))
        if has_transformers:
            _register()
        _put_behind_sdpa(sdpa)


def uninstall() -> None:
    """Leave nothing behind of what `install` has put in place.

    A model that has our attention needs another: `model.set_attn_implementation("sdpa")`.

    >>> uninstall()  # nothing is installed
    """
    with _lock, Watching.lock():
        lasting.set_installed(None)
        _put_behind_sdpa(False)
        if "transformers.modeling_utils" in sys.modules:
            _unregister()


def _asked(weights: object) -> dict[int, tuple[int, ...] | None] | None:
    """Which layers and heads are asked for, checked."""
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise TypeError(
            f"install(): weights must be {{layer: heads}}; got {shown(weights)}. "
            "{3: [5]} asks for head 5 of layer 3, {3: None} for all of its heads."
        )
    asked: dict[int, tuple[int, ...] | None] = {}
    for layer, heads in cast("Mapping[object, object]", weights).items():
        some = heads if isinstance(heads, Iterable) and not isinstance(heads, str) else ()
        numbers: list[Any] = [layer, *some]
        is_told = heads is None or some is heads
        if not is_told or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(
                "install(): weights must be {layer: heads}, all of them whole numbers from 0 on; "
                f"got {shown(layer)}: {shown(heads)}. None is every head."
            )
        asked[numbers[0]] = None if heads is None else tuple(numbers[1:])
    return asked


# ── transformers ──────────────────────────────────────────────────────────────────────────────


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    HuggingFace.install_again()
    AttentionInterface.register(NAME, AttentionFunction(sdpa_attention_forward, NAME))
    AttentionMaskInterface.register(NAME, _LastingMask(sdpa_mask, lambda _: True))
    find: Any = PreTrainedModel.get_correct_attn_implementation
    if not hasattr(find, "before"):
        PreTrainedModel.get_correct_attn_implementation = _refusing(find)


def _unregister() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

    HuggingFace.install_again()
    for registry in (AttentionInterface, AttentionMaskInterface):
        registry._global_mapping.pop(NAME, None)
    find: Any = PreTrainedModel.get_correct_attn_implementation
    PreTrainedModel.get_correct_attn_implementation = getattr(find, "before", find)


class _LastingMask(MaskFunction):
    """Masks for our attention: patterns, but for a compiler."""

    def __call__(self, *args: Any, **given: Any) -> Any:
        if torch.compiler.is_compiling():
            return self.before(*args, **given)
        return super().__call__(*args, **given)


def _refusing(before: Callable[..., str]) -> Any:
    """The method by which a model checks an implementation, which refuses ours for models that do
    not ask transformers for their attention: their masks would not be what they expect."""

    @wraps(before)
    def checked(self: Any, requested_attention: str | None, *args: Any, **kwargs: Any) -> str:
        installed = lasting.now()
        if requested_attention == NAME:
            ways = ("_supports_sdpa", "_supports_flash_attn", "_supports_flex_attn")
            is_able = any(getattr(self, way, False) for way in ways)
            if not is_able or not self._can_set_attn_implementation():
                raise ValueError(
                    f'attn_implementation="{NAME}": the model must ask transformers for its '
                    f"attention; {type(self).__name__} computes it in its own way. "
                    "regard.watch sees what can be seen of it."
                )
        found = before(self, requested_attention, *args, **kwargs)
        if installed is not None:
            installed.remember(self.config, found == NAME)
        return found

    checked.before = before  # pyright: ignore[reportAttributeAccessIssue]
    return checked


# ── SDPA ──────────────────────────────────────────────────────────────────────────────────────


def _put_behind_sdpa(is_wanted: bool) -> None:
    if is_wanted:
        F.scaled_dot_product_attention = _ours
    elif F.scaled_dot_product_attention is _ours:
        F.scaled_dot_product_attention = _sdpa


@wraps(_sdpa)
def _ours(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """By our kernel, if it serves these tensors, and by PyTorch otherwise."""
    given = (query, key, value, *args, *kwargs.values())
    # Modes, and types with a function of their own, compare what they are handed with the name's.
    if has_function_mode():
        others = with_function_of_their_own(*given)
        return handle_torch_function(_ours, others, query, key, value, *args, **kwargs)
    tensors = [x for x in given if isinstance(x, Tensor)]
    mask: Any = next((x for x in tensors if is_causal_bias(x)), None)
    is_served = (
        lasting.now() is not None
        and is_eager()  # who looks at operators is to find PyTorch's
        and all(
            x is mask or (type(x) in PLAIN and x.device.type == "cpu" and not x.is_nested)
            for x in tensors
        )
    )
    if is_served:
        try:
            return scaled_dot_product_attention(query, key, value, *args, **kwargs)
        except (WrongType, WrongValue):
            pass  # PyTorch may take it, or say what is wrong with it
    if mask is not None:
        return type(mask)._dispatch(query, key, value, *args, **kwargs)
    if others := with_function_of_their_own(*given):
        return handle_torch_function(_ours, others, query, key, value, *args, **kwargs)
    return _sdpa(query, key, value, *args, **kwargs)


# Scripted code gets PyTorch's, as compiled code does.
_register_builtin(_ours, "aten::scaled_dot_product_attention")
