"""Is a module as its class made it? It is compared with a twin that has just been made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import MethodType
from typing import Any

from torch import Tensor, device, nn

from regard._arguments import WrongType
from regard.nn._parameters import first_names

# What of a module changes nothing that it computes: how it was compiled, whether it saves memory in
# training, what it is called, which row is padding, how PyTorch's encoder packs it, and sizes that
# its weights have by themselves.
_BESIDE = """
    _attn_implementation _compiled_call_impl _gradient_checkpointing_func _is_hf_initialized
    enable_nested_tensor generation_config gradient_checkpointing in_features loss_type mask_check
    name_or_path num_embeddings num_layers out_features padding_idx use_nested_tensor vocab_size
"""
_HOOKS = frozenset(name for name in vars(nn.Module()) if "_hooks" in name)
# What is looked at by itself, or not at all.
_APART = _HOOKS | {"_buffers", "_modules", "_parameters", "training", *_BESIDE.split()}
# Whose hooks change nothing: transformers leaves some where outputs were once asked for, and where
# inputs must carry gradients.
_TRUSTED = ("transformers.utils.output_capturing", "transformers.modeling_utils")
_MOST = 5  # faults that are said


def check_unchanged(call: str, module: nn.Module, twin: nn.Module, path: str = "") -> None:
    """Raise ValueError that names what was changed on `module` since its class made it.

    `twin` is another one made with the same options; it needs no numbers. Numbers of parameters and
    buffers are not compared. `path` is where the module is, for the error.
    """
    faults = [*_walk(path, module, twin, (module, twin)), *_ties(module, twin)]
    parts = list(module.named_modules(prefix=path))
    drops = any(
        value
        for _, part in parts
        for name, value in vars(part).items()
        if type(value) is float and ("drop" in name or isinstance(part, nn.Dropout))
    )
    if drops:
        mode = "training" if module.training else "evaluation"
        faults += [
            f"{_named(place)} must be in {mode}, as the whole, and is not"
            for place, part in parts
            if part.training != module.training
        ]
    if faults:
        more = f"; and {len(faults) - _MOST} more" if len(faults) > _MOST else ""
        raise WrongType(
            f"{call}: every part must be as its class makes it: {'; '.join(faults[:_MOST])}{more}"
            ". What was changed there has no counterpart: undo it, or convert the parts."
        )


def _named(path: str) -> str:
    return path or "the module itself"


def _walk(
    path: str, part: nn.Module | None, made: nn.Module | None, wholes: tuple[Any, Any]
) -> Iterable[str]:
    """What a part and those in it have that the twin's have not, or have otherwise."""
    if part is None or made is None:
        if part is not None:
            yield f"{_named(path)}, a {type(part).__name__}, must not be there"
        elif made is not None:
            yield f"{_named(path)} must be there, is not"
        return
    if type(part) is not type(made):
        yield f"{_named(path)} must be a {type(made).__name__}, is a {type(part).__name__}"
        return
    yield from _own(_named(path), part, made, wholes)
    inside = f"{path}." if path else ""
    for name in dict.fromkeys((*made._modules, *part._modules)):
        yield from _walk(inside + name, part._modules.get(name), made._modules.get(name), wholes)


def _own(path: str, part: nn.Module, made: nn.Module, wholes: tuple[Any, Any]) -> Iterable[str]:
    """The same of one part alone."""
    own, others = vars(part), vars(made)
    for name in sorted(_HOOKS):
        if name.endswith("_hooks") and _count(own[name]) != _count(others[name]):
            yield f"{path} must have no {name.strip('_').replace('_', ' ')}, has some"
    for name in sorted((own.keys() | others.keys()) - _APART):
        if name not in own:
            yield f"{path}.{name} must be there, is not"
        elif name not in others:
            if hasattr(type(part), name):
                yield f"{path}.{name} must be that of its class, was replaced"
        elif not _alike(own[name], others[name], wholes):
            yield f"{path}.{name} must be {others[name]!r}, is {own[name]!r}"
    if part._buffers.keys() != made._buffers.keys():
        yield f"{path} must have the buffers {list(made._buffers)}"
    for name, parameter in part._parameters.items():
        if parameter is None:
            continue
        if type(parameter) is not nn.Parameter:
            kind = type(parameter).__name__
            yield f"{path}.{name} must be an ordinary Parameter, is a {kind}"
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            yield f"{path}.{name} must have no hooks, has some"


def _count(hooks: Mapping[int, Any]) -> int:
    return sum(getattr(hook, "__module__", "") not in _TRUSTED for hook in hooks.values())


def _alike(one: Any, other: Any, wholes: tuple[Any, Any]) -> bool:
    """Do two attributes mean the same? `wholes` are the module and the twin that they are in."""
    if one is other or isinstance(one, device):
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_alike(one[k], other[k], wholes) for k in one)
    if isinstance(one, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_alike(a, b, wholes) for a, b in pairs)
    if isinstance(one, MethodType):
        return one.__func__ is other.__func__
    if isinstance(one, partial):
        a, b = ((each.func, each.args, each.keywords) for each in (one, other))
        return _alike(a, b, wholes)
    if isinstance(one, Tensor):
        return False  # which is no buffer, and so of nobody's making
    if hasattr(one, "to_dict"):  # a configuration: usually that of the whole
        of_wholes = tuple(getattr(whole, "config", None) for whole in wholes)
        return (one is of_wholes[0] and other is of_wholes[1]) or one.to_dict() == other.to_dict()
    return bool(one == other)


def _ties(module: nn.Module, twin: nn.Module) -> Iterable[str]:
    """Parameters that are one in one of the two, and several in the other."""
    own, made = first_names(module), first_names(twin)
    for name, first in own.items():
        wanted = made.get(name, first)
        if first != wanted and first == name:
            yield f"{name} must be {wanted}, the same parameter, is another"
        elif first != wanted:
            yield f"{name} must be a parameter of its own, is {first}"
