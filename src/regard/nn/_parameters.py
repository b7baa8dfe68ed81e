"""Parameters of a module by name; one that is tied has several names."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn


def first_names(module: nn.Module) -> dict[str, str]:
    """Each parameter's name, and the first of the names that it has."""
    first: dict[int, str] = {}
    return {
        name: first.setdefault(id(part), name)
        for name, part in module.named_parameters(remove_duplicate=False)
    }


def fill(module: nn.Module, found: Mapping[str, nn.Parameter]) -> None:
    """Put parameters, by their first names, into a module; what is tied stays tied."""
    for name, first in first_names(module).items():
        owner, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(owner), leaf, found[first])
