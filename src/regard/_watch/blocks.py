"""Being told of every block of a model that is done, while it runs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from torch import nn

__all__ = ["each_block"]


@contextmanager
def each_block(model: nn.Module, tell: Callable[[int, int], None]) -> Generator[None]:
    """While it is entered, `tell` gets the number of each block that is done, and of how many.

    Blocks are what stands in the longest list of the model. `tell` may raise, which stops it.

    >>> import torch
    >>> told = []
    >>> model = nn.Module()
    >>> model.blocks = nn.ModuleList([nn.Identity(), nn.Identity()])
    >>> with each_block(model, lambda done, total: told.append((done, total))):
    ...     _ = model.blocks[1](model.blocks[0](torch.zeros(1)))
    >>> told
    [(1, 2), (2, 2)]
    """
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    blocks = list(max(stacks, key=len, default=[]))
    hooks = [
        block.register_forward_hook(lambda *_, number=number: tell(number, len(blocks)))
        for number, block in enumerate(blocks, 1)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
