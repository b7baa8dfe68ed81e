"""What generation is asked for: prompts and options, checked and put in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Required, TypedDict

import torch
from torch import Tensor

from regard._arguments import number, whole

Tokens = Tensor | Sequence[int] | Sequence[Sequence[int]] | Sequence[Tensor]
Stop = int | Iterable[int] | Tensor | None


class StreamOptions(TypedDict, total=False):
    """The options of `regard.nn.stream`, which says what they mean."""

    max_new_tokens: Required[int]
    start: int | Tokens | None
    stop: Stop
    beams: int
    temperature: float
    top_k: int | None
    top_p: float | None
    seed: int | None
    window: int | None


class GenerateOptions(StreamOptions, total=False):
    """The options of `regard.nn.generate`, which says what they mean."""

    length_penalty: float


@dataclass(frozen=True)
class Options:
    """The options of both, and what they are unless given."""

    max_new_tokens: int
    stop: frozenset[int] = frozenset()
    beams: int = 1
    length_penalty: float = 1.0
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    window: int | None = None


def check_options(call: str, vocabulary: int, asked: Mapping[str, Any]) -> Options:
    """The options in order, for a model of this `vocabulary`.

    Raises TypeError or ValueError if one is not.
    """

    def maybe(name: str, least: int, most: int | None = None) -> int | None:
        value = asked.get(name)
        return None if value is None else whole(call, name, value, least, most)

    options = Options(**asked)
    heat = "0 takes the most probable token, 1 draws by the model's own probabilities."
    length = "1 compares by the mean log-probability of a token, 0 by the sum."
    top_p = options.top_p
    options = replace(
        options,
        max_new_tokens=whole(call, "max_new_tokens", options.max_new_tokens, 1),
        stop=_stop_tokens(call, asked.get("stop"), vocabulary),
        beams=whole(call, "beams", options.beams, 1),
        length_penalty=number(call, "length_penalty", options.length_penalty, -10, 10, length),
        temperature=number(call, "temperature", options.temperature, 0, remedy=heat),
        top_k=maybe("top_k", 1),
        top_p=None if top_p is None else number(call, "top_p", top_p),
        seed=maybe("seed", 0, 2**62),
        window=maybe("window", 1),
    )
    if options.top_p is not None and not 0.0 < options.top_p <= 1.0:
        raise ValueError(
            f"{call}: top_p must be more than 0 and at most 1; got {top_p}. 1 keeps all tokens."
        )
    chosen = {name: value for name in ("top_k", "top_p") if (value := asked.get(name)) is not None}
    if options.beams > 1 and (options.temperature or chosen):
        raise ValueError(
            f"{call}: beams must be 1 to draw tokens, with temperature, top_k or top_p; got "
            f"{options.beams}. Beam search looks for the most probable sequence and draws nothing: "
            "choose one of the two."
        )
    for name, value in chosen.items():
        if not options.temperature:
            raise ValueError(
                f"{call}: {name} must be left out while temperature is 0; got {value}. It chooses "
                "among tokens to draw from: give a temperature above 0."
            )
    return options


def _stop_tokens(call: str, stop: object, vocabulary: int) -> frozenset[int]:
    if stop is None:
        return frozenset()
    if isinstance(stop, Tensor):
        if stop.dim() > 1:
            raise ValueError(
                f"{call}: stop must be a token or a row of them, () or (N,); got "
                f"{tuple(stop.shape)}. All sequences have the same."
            )
        stop = stop.reshape(-1)
    elif isinstance(stop, str | bytes) or not isinstance(stop, Iterable):
        stop = (stop,)
    elif getattr(stop, "ndim", 1) == 0:  # an array of NumPy that has no axes
        stop = (stop,)
    return frozenset(_token_ids(call, "stop", stop, vocabulary, "The model can never say others."))


def token_rows(
    call: str, name: str, tokens: object, vocabulary: int
) -> tuple[list[list[int]], bool]:
    """The ids of each sequence, and whether `tokens` was one sequence rather than several.

    Raises TypeError or ValueError unless each has tokens, and all of them are of the vocabulary.
    """
    if isinstance(tokens, Tensor):
        if tokens.dim() not in (1, 2):
            raise ValueError(
                f"{call}: {name} must be (N,) or (B, N); got {tuple(tokens.shape)}. "
                "Give one row of token ids for each sequence."
            )
        is_one = tokens.dim() == 1
    elif isinstance(tokens, Sequence) and not isinstance(tokens, str | bytes):
        is_one = len(tokens) > 0 and not isinstance(tokens[0], Tensor | Sequence)
    else:
        raise TypeError(
            f"{call}: {name} must be a tensor, a list of token ids, or a list of such lists; got "
            f"{type(tokens).__name__}. A tokenizer makes ids of text."
        )
    items: list[object] = [tokens] if is_one else list(tokens)
    if not items:
        raise ValueError(
            f"{call}: {name} must hold at least one sequence; got none. Give a start token."
        )
    rows: list[list[int]] = []
    for n, item in enumerate(items):
        where = name if is_one else f"{name}[{n}]"
        if not isinstance(item, Tensor | Sequence) or isinstance(item, str | bytes):
            raise TypeError(
                f"{call}: {name} must be lists of token ids, all of them or none; got "
                f"{type(item).__name__} among them."
            )
        if not len(item):
            raise ValueError(
                f"{call}: {where} must have at least one token; got none. Give it a start token."
            )
        remedy = "Do tokenizer and model belong together?"
        rows.append(_token_ids(call, where, item, vocabulary, remedy))
    return rows, is_one


def _token_ids(
    call: str, name: str, tokens: Tensor | Iterable[object], vocabulary: int, remedy: str
) -> list[int]:
    """The ids of a row of tokens, each of which the vocabulary has."""
    if isinstance(tokens, Tensor):
        is_whole = not (tokens.is_floating_point() or tokens.is_complex())
        if tokens.dim() != 1 or not is_whole or tokens.dtype == torch.bool:
            raise TypeError(
                f"{call}: {name} must be of whole numbers, (N,); got {tuple(tokens.shape)} of "
                f"{tokens.dtype}. Token ids are int64."
            )
        ids = tokens.tolist()
    else:
        text = "A tokenizer makes ids of text."
        ids = [whole(call, f"a token of {name}", token, remedy=text) for token in tokens]
    for token in (min(ids), max(ids)) if ids else ():
        whole(call, f"a token of {name}", token, 0, vocabulary - 1, remedy)
    return ids
