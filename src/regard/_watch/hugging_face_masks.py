"""The masks of transformers: small patterns, until somebody computes with them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from regard.run import Options

Window = tuple[int | None, int | None] | None

# ── a mask ────────────────────────────────────────────────────────────────────────────────────

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

    options: Options  # that mean the same; with a mask (B, 1, Nq, Nk), if nothing smaller does
    start: int  # the position of the first key in the text
    queries: Tensor | None  # (B, Nq), which are real, if the options do not tell; None: all
    _make: Callable[[], Tensor]  # the mask that it stands for, as transformers makes it
    _whole: Tensor | None
    _version_made: int

    def __new__(
        cls,
        shape: tuple[int, int, int, int],
        dtype: torch.dtype,
        device: torch.device | str,
        make: Callable[[], Tensor],
        options: Options,
        start: int,
        queries: Tensor | None = None,
    ) -> Self:
        made: Any = Tensor._make_wrapper_subclass(
            cls, shape, dtype=dtype, device=torch.device(device)
        )
        made.options, made.start, made.queries = options, start, queries
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


# ── the functions that make them ──────────────────────────────────────────────────────────────


class MaskFunction:
    """A function that transformers makes masks with, which gives patterns to watched models."""

    def __init__(self, before: Callable[..., Any], is_watched: Callable[[Any], bool]) -> None:
        self.before = before
        self._is_watched = is_watched  # a model of this config

    def __call__(self, *args: Any, **given: Any) -> Any:
        padding = given.get("attention_mask")
        has_axes = padding is None or (isinstance(padding, Tensor) and padding.dim() == 2)
        if args or not has_axes or not self._is_watched(given.get("config")):
            return self.before(*args, **given)
        return _pattern(self.before, given)


def _pattern(before: Callable[..., Any], given: dict[str, Any]) -> Tensor | None:
    """What a model gets that asks for a mask with these arguments."""
    from transformers import masking_utils

    function = given.get("mask_function") or masking_utils.causal_mask_function
    n_queries, n_keys = given["q_length"], given["kv_length"]
    first, start = int(given.get("q_offset", 0)), int(given.get("kv_offset", 0))
    given |= {"mask_function": function, "q_offset": first, "kv_offset": start}
    device = given.get("device", "cpu")
    keys = queries = None
    if given.get("attention_mask") is not None:
        padding = given["attention_mask"].to(device=device, dtype=torch.bool)
        missing = start + n_keys - padding.shape[-1]
        if missing > 0:
            padding = torch.nn.functional.pad(padding, (0, missing))
        keys = padding[:, start : start + n_keys]
        queries = padding[:, first : first + n_queries]
        if bool(keys.all()):
            keys = queries = None
        elif queries.shape[1] != n_queries:
            queries = None
    is_eager = before.__name__ == "eager_mask"
    dtype = given.get("dtype", torch.float32) if is_eager else torch.bool
    shape = (given["batch_size"], 1, n_queries, n_keys)
    pattern = partial(Pattern, shape, dtype, device, partial(_whole_mask, before, given))
    found = None if given.get("use_vmap") else _causal_and_window(function)
    if found is None:
        mask = _whole_mask(masking_utils.sdpa_mask, given)
        return pattern(Options(mask=mask, position=first - start), start, queries)
    if not start and _is_left_out(before, *found, given, keys):
        return None
    causal, window = found
    mask = None if keys is None else keys[:, None, None, :]
    options = Options(causal=causal, window=window, mask=mask, position=first - start)
    return pattern(options, start)


def _whole_mask(before: Callable[..., Any], given: dict[str, Any]) -> Tensor:
    """The mask that transformers makes for its sdpa, or for its eager attention."""
    if before.__name__ not in ("sdpa_mask", "eager_mask"):
        raise TypeError(
            f"watch(): a model that computes with its mask must have one of numbers; got that of "
            f"{before.__name__.removesuffix('_mask')}. "
            'model.set_attn_implementation("sdpa") or "eager" gives it one.'
        )
    whole = before(**given | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False})
    assert whole is not None
    return whole


def _is_left_out(
    before: Callable[..., Any],
    causal: bool,
    window: Window,
    given: dict[str, Any],
    keys: Tensor | None,
) -> bool:
    """Would transformers have made no mask, all tokens being real?

    A model may go another way without one: the same that it goes unwatched.
    """
    n_queries, n_keys, first = given["q_length"], given["kv_length"], given["q_offset"]
    if keys is not None:
        # All may be real so far, and those behind them free places of a cache.
        so_far, behind = keys[:, :n_queries], keys[:, n_queries:]
        if first or not bool(so_far.all()) or bool(behind.any()):
            return False
    if window is not None and n_keys >= (given.get("local_size") or 0):
        return False
    if not causal:
        skips = before.__name__ in ("sdpa_mask", "eager_mask") and keys is None
        return skips and bool(given.get("allow_is_bidirectional_skip"))
    if before.__name__ != "sdpa_mask" or not given.get("allow_is_causal_skip", True):
        return False
    # A cache that was made in advance, and is empty so far, has free places behind the queries.
    return first == 0 or (keys is None and n_queries in (1, n_keys))


def _causal_and_window(function: Callable[..., Any]) -> tuple[bool, Window] | None:
    """What a mask function of transformers says; None for any other."""
    from transformers import masking_utils

    if function is masking_utils.causal_mask_function:
        return True, None
    if function is masking_utils.bidirectional_mask_function:
        return False, None
    if getattr(function, "__module__", "") != masking_utils.__name__:
        return None
    kind = getattr(function, "__qualname__", "")
    given = inspect.getclosurevars(function).nonlocals
    if kind.startswith("sliding_window_overlay."):
        return False, (int(given["sliding_window"]) - 1, None)
    if kind.startswith("sliding_window_bidirectional_overlay."):
        width = int(given["sliding_window"])
        return False, (width, width)
    if not kind.startswith("and_masks."):
        return None
    causal, windows = False, list[tuple[int | None, int | None]]()
    for part in given["mask_functions"]:
        found = _causal_and_window(part)
        if found is None:
            return None
        causal = causal or found[0]
        windows += [] if found[1] is None else [found[1]]
    left, right = (
        min((x for x in side if x is not None), default=None)
        for side in ([window[0] for window in windows], [window[1] for window in windows])
    )
    return causal, (left, right) if windows else None
