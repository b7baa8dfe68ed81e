"""`Pattern`: a mask of transformers that stays small until somebody computes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

__all__ = ["Pattern", "made_whole"]

# What is said of a mask without making it, and what leaves it as it is.
_ABOUT = frozenset(
    (
        *(
            getattr(Tensor, name).__get__
            for name in (
                "shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_nested",
                "is_cpu", "is_cuda", "is_meta",
            )
        ),
        Tensor.dim, Tensor.ndimension, Tensor.size, Tensor.numel, Tensor.nelement, Tensor.__len__,
        Tensor.is_floating_point, Tensor.is_inference, Tensor.get_device,
    )
)  # fmt: skip
_SAME = frozenset((Tensor.contiguous, Tensor.detach, Tensor.to))


class Pattern(Tensor):
    """Which keys a query may attend to, said by position and padding instead of N × N.

    It is a tensor of the shape and the type that the mask has, but without its numbers. A model
    that computes with its mask gets `whole` instead.
    """

    causal: bool
    window: tuple[int | None, int | None] | None
    position: int  # query i stands at i + position, as key j at j
    start: int  # the position of the first key in the text
    keys: Tensor | None  # (B, Nk), True where there is a real token
    queries: Tensor | None  # (B, Nq)
    mask: Tensor | None  # (B, 1, Nq, Nk), for a pattern that has no such name
    _make: Callable[[], Tensor]  # the mask that it stands for, as transformers makes it
    _whole: Tensor | None
    _version_made: int

    def __new__(
        cls,
        shape: tuple[int, int, int, int],
        dtype: torch.dtype,
        device: torch.device | str,
        make: Callable[[], Tensor],
        *,
        causal: bool,
        window: tuple[int | None, int | None] | None,
        position: int,
        start: int,
        keys: Tensor | None,
        queries: Tensor | None,
        mask: Tensor | None = None,
    ) -> Self:
        made: Any = Tensor._make_wrapper_subclass(
            cls, shape, dtype=dtype, device=torch.device(device)
        )
        made.causal, made.window, made.position, made.start = causal, window, position, start
        made.keys, made.queries, made.mask = keys, queries, mask
        made._make, made._whole, made._version_made = make, None, 0
        return made

    @property
    def whole(self) -> Tensor:
        """The mask that it stands for, (B, 1, Nq, Nk)."""
        if self._whole is None:
            self._whole = self._make()
            self._version_made = self._whole._version
        return self._whole

    @property
    def is_written(self) -> bool:
        """Has the model written into its mask, so that the pattern is not true any more?"""
        return self._whole is not None and self._whole._version != self._version_made

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _ABOUT:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if func in _SAME and _stays(func, args, kwargs):
            return args[0]
        return func(*made_whole(args), **made_whole(kwargs))

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # What comes round __torch_function__, as C++ may.
        return func(*made_whole(args), **made_whole(kwargs or {}))


def _stays(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Does the function give back the mask itself?"""
    if not isinstance(args[0], Pattern):
        return False
    if func is not Tensor.to:
        return True
    if kwargs.get("copy") or any(isinstance(x, Tensor) for x in (*args[1:], *kwargs.values())):
        return False
    own = args[0]
    asked = (*args[1:], *kwargs.values())
    return all(
        x == own.dtype if isinstance(x, torch.dtype) else torch.device(x) == own.device
        for x in asked
        if isinstance(x, torch.dtype | torch.device | str)
    )


def made_whole(x: Any) -> Any:
    """The same with masks in the place of patterns, however deep in lists they are."""
    return tree_map_only(Pattern, lambda pattern: pattern.whole, x)
