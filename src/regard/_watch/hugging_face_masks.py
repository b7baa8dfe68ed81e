"""The masks of transformers: small patterns, until somebody computes with them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from regard._attention.segments import spans_of
from regard._watch import sharing
from regard.run import Options
from regard.run.on_disk import TOLD

# ── a mask ────────────────────────────────────────────────────────────────────────────────────

# What leaves a mask as it is.
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
        if func in TOLD:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if func in _SAME and isinstance(args[0], Pattern) and args[0]._is_as(args[1:], kwargs):
            return args[0]
        return func(*made_whole(args), **made_whole(kwargs))

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # What comes round __torch_function__, as C++ may.
        return func(*made_whole(args), **made_whole(kwargs or {}))

    def _is_as(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Would `to` with these arguments give back the mask itself?"""
        asked = (*args, *kwargs.values())
        if kwargs.get("copy") or any(isinstance(x, Tensor) for x in asked):
            return False
        return all(
            x == self.dtype if isinstance(x, torch.dtype) else torch.device(x) == self.device
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
        self._kind = before.__name__.removesuffix("_mask")

    def __call__(self, *args: Any, **given: Any) -> Any:
        padding = given.get("attention_mask")
        has_axes = padding is None or (isinstance(padding, Tensor) and padding.dim() == 2)
        if args or not has_axes or not self._is_watched(given.get("config")):
            return self.before(*args, **given)
        from transformers import masking_utils

        function = given.get("mask_function") or masking_utils.causal_mask_function
        n_queries, n_keys = given["q_length"], given["kv_length"]
        first, start = int(given.get("q_offset", 0)), int(given.get("kv_offset", 0))
        given |= {"mask_function": function, "q_offset": first, "kv_offset": start}
        device = given.get("device", "cpu")
        keys = queries = None
        if padding is not None:
            real = padding.to(device=device, dtype=torch.bool)
            real = torch.nn.functional.pad(real, (0, max(start + n_keys - real.shape[-1], 0)))
            keys = real[:, start : start + n_keys]
            queries = real[:, first : first + n_queries]
            if bool(keys.all()):
                keys = queries = None
            elif queries.shape[1] != n_queries:
                queries = None
        dtype = given.get("dtype", torch.float32) if self._kind == "eager" else torch.bool
        shape = (given["batch_size"], 1, n_queries, n_keys)
        pattern = partial(Pattern, shape, dtype, device, partial(self._whole, given))
        said = None if given.get("use_vmap") else _said_by(function)
        found = None if said is None else said.as_options_say_it()
        if found is None:
            mask = MaskFunction(masking_utils.sdpa_mask, self._is_watched)._whole(given)
            return pattern(Options(mask=mask, position=first - start), start, queries)
        # A part of a text may be shorter than a window, and the text not.
        if not start and sharing.now() is None and self._gives_none(given):
            return None  # a model may go another way without one: the same that it goes unwatched
        ids = found.ids
        mask = None if keys is None else keys[:, None, None, :]
        options = Options(
            causal=found.causal, window=found.window, mask=mask, position=first - start
        )
        if ids is not None:
            if first or start or ids.shape[-1] != n_queries or n_queries != n_keys:
                mask = MaskFunction(masking_utils.sdpa_mask, self._is_watched)._whole(given)
                return pattern(Options(mask=mask, position=first - start), start, queries)
            options = replace(options, segments=spans_of(ids.to(device), ids.to(device), 0))
        return pattern(options, start)

    def _whole(self, given: dict[str, Any]) -> Tensor:
        """The mask that transformers makes for its sdpa, or for its eager attention."""
        if self._kind not in ("sdpa", "eager"):
            raise TypeError(
                f"watch(): a model that computes with its mask must have one of numbers; got that "
                f'of {self._kind}. model.set_attn_implementation("sdpa") or "eager" gives it one.'
            )
        skips = dict.fromkeys(("allow_is_causal_skip", "allow_is_bidirectional_skip"), False)
        whole = self.before(**given | skips)
        assert whole is not None
        return whole

    def _gives_none(self, given: dict[str, Any]) -> bool:
        """Does transformers make no mask? It decides so before it asks what is in the mask."""
        if self._kind not in ("sdpa", "eager"):
            return False
        try:
            return self.before(**given | {"mask_function": _raise}) is None
        except _Made:
            return False


class _Made(Exception):
    """A mask is being made."""


def _raise(*_: Any) -> Any:
    raise _Made


class _Said(NamedTuple):
    """What a mask function says of a query and a key."""

    causal: bool = False
    window: tuple[int | None, int | None] | None = None
    ids: Tensor | None = None  # (B, N), of the sequences of a pack
    counted: Tensor | None = None  # (B, N), the positions that causal and window are about

    def joined(self, other: _Said) -> _Said | None:
        """What both say together; None for two packs."""
        for pack in ((self.ids, other.ids), (self.counted, other.counted)):
            if all(x is not None for x in pack):
                return None
        windows = [said.window for said in (self, other) if said.window is not None]
        sides = ([x for window in windows if (x := window[side]) is not None] for side in (0, 1))
        left, right = (min(side, default=None) for side in sides)
        return _Said(
            self.causal or other.causal,
            (left, right) if windows else None,
            other.ids if self.ids is None else self.ids,
            other.counted if self.counted is None else self.counted,
        )

    def as_options_say_it(self) -> _Said | None:
        """The same, if its positions go up by one within each sequence of the pack."""
        if self.counted is None:
            return self
        if self.ids is None or self.ids.shape != self.counted.shape:
            return None
        is_next = self.counted.diff(dim=-1) == 1
        is_other = self.ids.diff(dim=-1) != 0
        is_plain = bool((is_next | is_other).all()) and bool((self.counted >= 0).all())
        return self._replace(counted=None) if is_plain else None


def _said_by(function: Callable[..., Any]) -> _Said | None:
    """What a mask function of transformers says; None for any other."""
    from transformers import masking_utils

    if function is masking_utils.causal_mask_function:
        return _Said(causal=True)
    if function is masking_utils.bidirectional_mask_function:
        return _Said()
    if getattr(function, "__module__", "") != masking_utils.__name__:
        return None
    kind, _, _ = getattr(function, "__qualname__", "").partition(".")
    given = inspect.getclosurevars(function).nonlocals
    if kind == "sliding_window_overlay":
        return _Said(window=(int(given["sliding_window"]) - 1, None))
    if kind == "sliding_window_bidirectional_overlay":
        return _Said(window=(int(given["sliding_window"]), int(given["sliding_window"])))
    if kind == "packed_sequence_mask_function":
        return _Said(ids=given["packed_sequence_mask"])
    if kind == "remap_positions_for_packed_sequence":
        within = _said_by(given["mask_function"])
        is_plain = within is not None and within.ids is None and within.counted is None
        return within._replace(counted=given["position_ids"]) if within and is_plain else None
    if kind != "and_masks":
        return None
    said: _Said | None = _Said()
    for part in map(_said_by, given["mask_functions"]):
        said = None if said is None or part is None else said.joined(part)
    return said
