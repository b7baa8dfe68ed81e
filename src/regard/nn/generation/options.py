"""How tokens are chosen and when that ends: the options of generation, checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Required, TypedDict

import torch
from torch import Tensor

from regard._arguments import number, whole
from regard.nn.generation.prompts import Tokens

__all__ = ["GenerateOptions", "Options", "StreamOptions", "check_options"]


class StreamOptions(TypedDict, total=False):
    """The options of `regard.nn.stream`, which says what they mean."""

    max_new_tokens: Required[int]
    start: int | Tokens | None
    stop: int | Iterable[int] | Tensor | None
    temperature: float
    top_k: int | None
    top_p: float | None
    seed: int | None
    window: int | None


class GenerateOptions(StreamOptions, total=False):
    """The options of `regard.nn.generate`, which says what they mean."""

    beams: int
    length_penalty: float


@dataclass(frozen=True)
class Options:
    """Numbers that are in order."""

    max_new_tokens: int
    stop: frozenset[int] = frozenset()
    beams: int = 1
    length_penalty: float = 1.0
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    window: int | None = None


def check_options(
    call: str,
    vocabulary: int,
    *,
    max_new_tokens: int,
    stop: int | Iterable[int] | Tensor | None,
    beams: int,
    length_penalty: float,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int | None,
    window: int | None,
) -> Options:
    """The options, for a model of this `vocabulary`. Raises TypeError or ValueError if one is not
    in order.

    >>> check_options("generate()", 11, max_new_tokens=0, stop=None, beams=1, length_penalty=1.0,
    ...     temperature=0.0, top_k=None, top_p=None, seed=None, window=None)
    Traceback (most recent call last):
    regard._arguments.WrongValue: generate(): max_new_tokens must be at least 1; got 0. ...
    """
    options = Options(
        max_new_tokens=whole(call, "max_new_tokens", max_new_tokens, 1),
        stop=_stop(call, stop, vocabulary),
        beams=whole(call, "beams", beams, 1),
        length_penalty=number(call, "length_penalty", length_penalty),
        temperature=number(call, "temperature", temperature),
        top_k=None if top_k is None else whole(call, "top_k", top_k, 1),
        top_p=None if top_p is None else number(call, "top_p", top_p),
        seed=None if seed is None else whole(call, "seed", seed),
        window=None if window is None else whole(call, "window", window, 1),
    )
    if options.temperature < 0.0:
        raise ValueError(
            f"{call}: temperature must be at least 0; got {temperature}. 0 takes the most probable "
            "token, 1 draws by the model's own probabilities."
        )
    if not -10.0 <= options.length_penalty <= 10.0:
        raise ValueError(
            f"{call}: length_penalty must be from −10 to 10; got {length_penalty}. 1 compares by "
            "the mean log-probability of a token, 0 by the sum."
        )
    if options.top_p is not None and not 0.0 < options.top_p <= 1.0:
        raise ValueError(
            f"{call}: top_p must be more than 0 and at most 1; got {top_p}. 1 keeps all tokens."
        )
    if options.seed is not None and not 0 <= options.seed < 2**62:
        raise ValueError(f"{call}: seed must be from 0 to 2**62 − 1; got {seed}.")
    if options.beams > 1 and (options.temperature or top_k is not None or top_p is not None):
        raise ValueError(
            f"{call}: beams must be 1 to draw tokens, with temperature, top_k or top_p; got "
            f"{beams}. Beam search looks for the most probable sequence and draws nothing: choose "
            "one of the two."
        )
    for name, value in (("top_k", top_k), ("top_p", top_p)):
        if value is not None and not options.temperature:
            raise ValueError(
                f"{call}: {name} must be left out while temperature is 0; got {value}. It chooses "
                "among tokens to draw from: give a temperature above 0."
            )
    return options


def _stop(call: str, stop: object, vocabulary: int) -> frozenset[int]:
    if stop is None:
        return frozenset()
    if isinstance(stop, Tensor):
        if stop.is_floating_point() or stop.is_complex() or stop.dtype == torch.bool:
            raise TypeError(
                f"{call}: stop must be of whole numbers; got a tensor of {stop.dtype}. Token ids "
                "are int64."
            )
        if stop.dim() > 1:
            raise ValueError(
                f"{call}: stop must be a token or a row of them, () or (N,); got "
                f"{tuple(stop.shape)}. All sequences have the same."
            )
        stop = stop.reshape(-1).tolist()
    is_one = isinstance(stop, str | bytes) or getattr(stop, "ndim", 1) == 0  # NumPy's has none
    found = stop if isinstance(stop, Iterable) and not is_one else (stop,)
    tokens = frozenset(whole(call, "stop", token) for token in found)
    for token in sorted(tokens):
        if not 0 <= token < vocabulary:
            raise ValueError(
                f"{call}: stop must be of token ids from 0 to {vocabulary - 1}; got {token}. "
                "The model can never say it."
            )
    return tokens
