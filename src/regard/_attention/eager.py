"""What surrounds a call: may tensors be taken as memory, going round the operator?

Only if nobody is watching them: no compiler, tracer, mode or transform. And torch.autocast, which
is kept out of our own arithmetic.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import has_torch_function

# The types whose values are at their address, and nothing else is.
PLAIN = frozenset((Tensor, torch.nn.Parameter))

_NO_DISPATCH = getattr(Tensor, "__torch_dispatch__", None)
_AS_IT_IS = nullcontext()

# Looked up once: the smallest call is measured in microseconds.
_is_compiling = torch.compiler.is_compiling
_is_tracing = torch._C._is_tracing
_function_modes = torch._C._len_torch_function_stack
_is_function_mode_enabled = torch._C._is_torch_function_mode_enabled
_dispatch_modes = torch._C._len_torch_dispatch_stack
_transform_level = torch._C._functorch.maybe_current_level  # pyright: ignore[reportAttributeAccessIssue]
is_batched = torch._C._functorch.is_legacy_batchedtensor  # pyright: ignore[reportAttributeAccessIssue]
is_any_autocast_enabled = torch._C._is_any_autocast_enabled  # on any device; quick


def is_eager() -> bool:
    """Is there no compiler, tracer, mode or transform, which would miss what is done to memory?"""
    return not (
        _is_compiling()
        or _is_tracing()
        or _function_modes()
        or _dispatch_modes()
        or _transform_level() is not None
        or forward_ad._current_level >= 0
    )


def is_transformed() -> bool:
    """Is this inside torch.func.grad or a relative of it?"""
    return _transform_level() is not None


def is_plain(tensors: Sequence[Tensor]) -> bool:
    """Are these real tensors, and is nobody watching?"""
    return is_eager() and all(type(x) in PLAIN and not x.is_meta for x in tensors)


def may_go_direct(tensors: Sequence[Tensor]) -> bool:
    """Are these real tensors that want no gradient, and is nobody watching?"""
    return is_plain(tensors) and not (
        torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    )


def is_surely(condition: bool | torch.SymBool) -> bool:
    """Is it so, of sizes? To a compiler it is not, if only the numbers will tell it such a size."""
    if isinstance(condition, bool) and not _is_compiling():
        return condition
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return guard_or_false(condition)


def may_have_tangents() -> bool:
    """Can a tensor be part of a forward-mode derivative here?

    Inside torch.compile and transforms, levels are entered that are not counted in Python.
    """
    return forward_ad._current_level >= 0 or is_transformed() or _is_compiling()


# ── tensors of their own kind ─────────────────────────────────────────────────────────────────


def has_function_mode() -> bool:
    """Is there a `TorchFunctionMode`, which is to be handed calls of attention, like PyTorch's?"""
    return not _is_compiling() and _is_function_mode_enabled()


def with_function_of_their_own(*arguments: object) -> tuple[Tensor, ...]:
    """The tensors whose type is to be handed calls of attention, like PyTorch's.

    A CausalBias knows of PyTorch's alone; what it means is read off it.
    """
    for x in arguments:
        if x is not None and type(x) not in PLAIN:
            break
    else:
        return ()
    tensors = tuple(x for x in arguments if isinstance(x, Tensor) and not is_causal_bias(x))
    return tensors if has_torch_function(tensors) else ()


def is_causal_bias(given: object) -> bool:
    """Is it `torch.nn.attention.bias.causal_upper_left(…)`, or `causal_lower_right(…)`?

    That is a tensor without numbers, which stands for a causal mask.
    """
    if given is None or type(given) is Tensor:
        return False
    module = sys.modules.get("torch.nn.attention.bias")  # who has one has imported it
    return module is not None and isinstance(given, module.CausalBias)


def lost_its_memory(x: Tensor) -> bool:
    """Was its storage resized to 0, though it has numbers to show?"""
    kind = type(x)
    if kind not in PLAIN and getattr(kind, "__torch_dispatch__", None) is not _NO_DISPATCH:
        return False  # its numbers are elsewhere
    if _is_compiling():
        return False
    try:
        if x.data_ptr() >> 32:  # lower lies nothing: it is an offset from no memory
            return False
    except RuntimeError:
        return False  # part of a transform, which has its own
    return x.numel() > 0 and x.untyped_storage().nbytes() == 0 and not x._is_zerotensor()


# ── autocast ──────────────────────────────────────────────────────────────────────────────────


def is_autocast_enabled(device: torch.device) -> bool:
    return (
        is_any_autocast_enabled()
        and torch.amp.is_autocast_available(device.type)
        and torch.is_autocast_enabled(device.type)
    )


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Products of float32 are float32 within, whatever is at work around."""
    enabled = is_autocast_enabled(device)
    return torch.autocast(device.type, enabled=False) if enabled else _AS_IT_IS
