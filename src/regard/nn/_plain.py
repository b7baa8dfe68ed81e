"""Is calling a module the same as computing its formula, nobody having put anything around it?"""

from __future__ import annotations

from torch import nn
from torch.nn.modules import module as calls


def calls_are_plain() -> bool:
    """Is there no hook for all modules, and is their call PyTorch's own?"""
    return nn.Module.__call__ is nn.Module._wrapped_call_impl and not calls._has_any_global_hook()


def is_plain(module: nn.Module | None, kind: type[nn.Module]) -> bool:
    """Is it of just this kind, without hooks, not compiled, and with the forward of its kind?"""
    if type(module) is not kind:
        return False
    own = module.__dict__
    return not (
        own["_forward_pre_hooks"]
        or own["_forward_hooks"]
        or own["_backward_pre_hooks"]
        or own["_backward_hooks"]
        or own.get("_compiled_call_impl") is not None
        or "forward" in own
    )
