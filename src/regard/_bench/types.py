"""What is raced besides float32 on square problems: other types, decoding, training, packing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import regard
from regard import reference
from regard._bench.check import WrongAnswer
from regard._bench.problems import SEE, Call
from regard._bench.results import Cell

SECTIONS = ("types", "decode", "training", "packed")
_SEQUENCES = 32  # that are packed
_LAYERS = 8  # that decode one after the other
# How far from the float64 reference, or from PyTorch's gradients, an answer may be.
_ALLOWED = {"float32": 5e-5, "float64": 1e-12, "bfloat16": 3e-2, "float16": 4e-3}


def contestants(cell: Cell) -> dict[str, Call]:
    """What is raced by name, each with its answer checked; `… again` is the same call."""
    raced = {
        "types": _of_types,
        "decode": _of_decoding,
        "training": _of_training,
        "packed": _of_packing,
    }[cell.section](cell)
    name = next(iter(raced))
    return raced | {f"{name} again": raced[name]}


def _normal(cell: Cell, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Normal numbers of variance 1 in the cell's type, always the same."""
    generator = torch.Generator().manual_seed(cell.n * 1000 + cell.d)
    dtype = getattr(torch, cell.dtype)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def _of_types(cell: Cell) -> dict[str, Call]:
    """SDPA and ours in this type, ours with an observation, and ours in float32."""
    shape = (1, cell.heads, cell.n, cell.d)
    q, k, v = _normal(cell, shape, shape, shape)
    ours = partial(regard.attention, q, k, v, causal=cell.causal)
    single = partial(regard.attention, q.float(), k.float(), v.float(), causal=cell.causal)
    theirs = partial(scaled_dot_product_attention, q, k, v, is_causal=cell.causal)
    # A few rows are enough: they are spread over all tiles.
    rows = torch.arange(0, cell.n, max(cell.n // 64, 1))
    true = reference.attention(
        q[:, :, rows].double(),
        k.double(),
        v.double(),
        mask=reference.allowed_keys(cell.n, cell.n, causal=cell.causal)[rows],
    )

    def check(name: str, answer: Any) -> None:
        _compare(cell, name, (answer[0] if isinstance(answer, tuple) else answer)[:, :, rows], true)

    raced = {"sdpa": theirs, "regard": ours, "observed": partial(ours, see=SEE), "float32": single}
    return _checked(raced, check)


def _of_decoding(cell: Cell) -> dict[str, Call]:
    """One query on n keys: ours in float32, and in this type beside PyTorch's.

    Layers take turns, as they do in a model: no cache still holds the keys of the token before.
    """
    kv_heads = cell.kv_heads or cell.heads
    of_keys = (1, kv_heads, cell.n, cell.d)
    q, *keys = _normal(cell, (1, cell.heads, 1, cell.d), *(of_keys,) * (2 * _LAYERS))
    layers = [(q, k, v) for k, v in zip(keys[::2], keys[1::2], strict=True)]
    single = [[x.float() for x in layer] for layer in layers]
    grouped = {"enable_gqa": True} if kv_heads < cell.heads else {}
    true = reference.attention(*(x.double() for x in layers[-1]))

    def each(attend: Any, layers: Sequence[Sequence[Tensor]], **options: Any) -> Tensor:
        return [attend(*layer, **options) for layer in layers][-1]

    raced = {
        "float32": partial(each, regard.attention, single),
        "regard": partial(each, regard.attention, layers),
        "sdpa": partial(each, scaled_dot_product_attention, layers, **grouped),
    }
    return _checked(raced, lambda name, answer: _compare(cell, name, answer, true))


def _of_training(cell: Cell) -> dict[str, Call]:
    """Forward and backward, by either."""
    shape = (1, cell.heads, cell.n, cell.d)
    q, k, v, flowing = _normal(cell, shape, shape, shape, shape)
    leaves = [x.requires_grad_() for x in (q, k, v)]

    def step(attend: Any) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            return torch.autograd.grad(attend(q, k, v), leaves, flowing)

    expected = step(scaled_dot_product_attention)

    def check(name: str, answer: tuple[Tensor, ...]) -> None:
        for found, theirs in zip(answer, expected, strict=True):
            _compare_tensors(cell, f"a gradient of {name}", found, theirs)

    raced = {
        "sdpa": partial(step, scaled_dot_product_attention),
        "regard": partial(step, regard.attention),
    }
    return _checked(raced, check)


def _of_packing(cell: Cell) -> dict[str, Call]:
    """Sequences of many lengths, causal: padded to the longest, and packed one behind the other."""
    lengths = packed_lengths(cell.n)
    longest = max(lengths)
    shape = (_SEQUENCES, cell.heads, longest, cell.d)
    padded = _normal(cell, shape, shape, shape)
    parts = [[x[b, :, :length] for b, length in enumerate(lengths)] for x in padded]
    q, k, v = (torch.cat(part, 1)[None] for part in parts)
    ends = torch.tensor([0, *lengths]).cumsum(0)

    def check(name: str, answer: Tensor) -> None:
        for b, (start, length) in enumerate(zip(ends.tolist(), lengths, strict=False)):
            if b % 8:
                continue
            of_one = [x[b : b + 1, :, :length] for x in padded]
            true = reference.attention(*(x.double() for x in of_one), causal=True)
            if name.startswith("packed"):
                found = answer[:, :, start : start + length]
            else:
                found = answer[b : b + 1, :, :length]
            _compare(cell, name, found, true)

    # The last real query stands beside the last real key: positions are counted from the left.
    of_lengths = {"lengths": torch.tensor(lengths), "causal": True}
    raced = {
        "padded": partial(regard.attention, *padded, **of_lengths),
        "packed": partial(regard.attention, q, k, v, causal=True, segments=ends),
    }
    return _checked(raced, check)


def packed_lengths(total: int) -> list[int]:
    """Lengths of 32 sequences, from a fifth to five times one another, with this sum.

    >>> lengths = packed_lengths(4096)
    >>> len(lengths), sum(lengths), min(lengths), max(lengths)
    (32, 4096, 43, 213)
    """
    weights = [1 + 4 * (n * 7 % _SEQUENCES) / (_SEQUENCES - 1) for n in range(_SEQUENCES)]
    lengths = [round(total * weight / sum(weights)) for weight in weights]
    lengths[0] += total - sum(lengths)
    return lengths


def padding_saved(total: int) -> float:
    """How many times as many tokens there are if all are padded to the longest."""
    lengths = packed_lengths(total)
    return len(lengths) * max(lengths) / total


def _checked(raced: Mapping[str, Any], check: Callable[[str, Any], None]) -> dict[str, Call]:
    """The same calls, each of whose answers is right."""
    for name, call in raced.items():
        check(name, call())
    return dict(raced)


def _compare(cell: Cell, name: str, found: Tensor, true: reference.Attention) -> None:
    _compare_tensors(cell, f"the output of {name}", found, torch.from_numpy(true.output))


def _compare_tensors(cell: Cell, what: str, found: Tensor, true: Tensor) -> None:
    error = float((found.double() - true.double()).abs().max())
    allowed = _ALLOWED[str(found.dtype).removeprefix("torch.")]
    if not error <= allowed:  # a NaN is never within
        raise WrongAnswer(
            f"{what} is wrong for {cell.title()}, {cell.dtype}: off by {error:.2g}, where "
            f"{allowed:g} is allowed. It was not timed.",
            error,
        )
