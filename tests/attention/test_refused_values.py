"""What cannot be converted, does not fit or is part of nothing is refused with a message, too."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import regard

X = torch.ones(2, 3, 5, 7)
PAIR = torch.tensor([1.0, 2.0])
META = torch.empty((), device="meta")
HUGE = 10**400
ENDLESS = 10**5000  # Python itself does not print it


def attend(**options: Any) -> Any:
    return regard.attention(X, X, X, **options)


def tile(**options: Any) -> Any:
    return regard.weights(X, X, **options)


def picture(**options: Any) -> Any:
    return regard.pooled(X, X, **options)


def sdpa(*tensors: Any, **options: Any) -> Any:
    given: list[Any] = list(tensors) or [X, X, X]
    return regard.scaled_dot_product_attention(*given, **options)


def merge(parts: Any, **options: Any) -> Any:
    return regard.merge(parts, **options)


def part(dtype: torch.dtype = torch.float32, batch: int = 2) -> tuple[Any, Any]:
    x = X[:batch].to(dtype)
    return regard.attention(x, x, x, see=regard.See(top=2, entropy=True))


def with_seen(**changed: Any) -> tuple[Any, Any]:
    out, seen = part()
    return out, dataclasses.replace(seen, **changed)


def nested() -> torch.Tensor:
    return torch.nested.nested_tensor([X[0], X[0]], layout=torch.jagged)


def sparse_queries() -> torch.Tensor:
    return torch.ones(2, 5, dtype=torch.bool).to_sparse()


# Who refuses, what, and which words the message has.
REFUSED: dict[str, tuple[str, Callable[[], Any], tuple[str, ...]]] = {
    # numbers
    "lengths beyond 64 bits": ("attention", lambda: attend(lengths=[2**70, 1]), ("lengths", "2**")),
    "lengths that Python does not print": ("attention", lambda: attend(lengths=[ENDLESS, 1]), ()),
    "sparse lengths": (
        "attention",
        lambda: attend(lengths=torch.tensor([1, 2]).to_sparse()),
        ("lengths", "sparse"),
    ),
    "lengths on the meta device": (
        "attention",
        lambda: attend(lengths=[torch.empty((), dtype=torch.int64, device="meta"), 1]),
        ("lengths", "meta"),
    ),
    "two scales": ("attention", lambda: attend(scale=PAIR), ("scale", "tensor([1., 2.])")),
    "an array of scales": ("attention", lambda: attend(scale=PAIR.numpy()), ("scale", "array")),
    "an array of one scale": ("attention", lambda: attend(scale=np.ones(1)), ("scale", "array")),
    "a huge scale": ("attention", lambda: attend(scale=HUGE), ("scale", "float", "1000")),
    "an endless scale": ("attention", lambda: attend(scale=ENDLESS), ("scale", "large")),
    "a scale on the meta device": ("attention", lambda: attend(scale=META), ("scale", "meta")),
    "a huge softcap": ("attention", lambda: attend(softcap=HUGE), ("softcap", "float")),
    "two softcaps": ("attention", lambda: attend(softcap=PAIR), ("softcap", "tensor")),
    "two dropouts": ("attention", lambda: attend(dropout=PAIR), ("dropout", "tensor")),
    "an array of dropouts": ("attention", lambda: attend(dropout=PAIR.numpy()), ("dropout",)),
    "a huge dropout": ("attention", lambda: attend(dropout=HUGE), ("dropout",)),
    "an endless window": ("attention", lambda: attend(window=(-ENDLESS, 0)), ("window",)),
    "an endless position": ("attention", lambda: attend(position=ENDLESS), ("position", "2**40")),
    # what to see
    "sparse queries": (
        "See",
        lambda: regard.See(map=(1, 1), queries=sparse_queries()),
        ("queries", "sparse"),
    ),
    **{
        f"top={top}": ("See", lambda top=top: regard.See(top=top), ("top", "2**20"))
        for top in (10**30, 2**62, 2**40, 2**20 + 1)
    },
    "an endless top": ("See", lambda: regard.See(top=ENDLESS), ("top", "2**20", "large")),
    **{
        f"map={shape}": ("See", lambda shape=shape: regard.See(map=shape), ("map", "2**31"))
        for shape in ((10**30, 1), (2**31, 2**31), (2**16, 2**15 + 1))
    },
    # tiles
    "rows in steps of 0": (
        "weights",
        lambda: tile(rows=slice(0, 5, 0)),
        ("rows", "slice(0, 5, 0)"),
    ),
    "rows from a fraction": ("weights", lambda: tile(rows=slice(0.5, 2)), ("rows", "0.5")),
    "keys in steps of 0": ("pooled", lambda: picture(keys=slice(0, 5, 0)), ("keys",)),
    "keys from the meta device": ("weights", lambda: tile(keys=(META, 3)), ("keys", "meta")),
    "a picture without end": ("pooled", lambda: picture(shape=(2**40, 2**40)), ("shape", "2**31")),
    "a picture of no shape": ("pooled", lambda: picture(shape=META), ("shape",)),
    # parts
    "no parts at all": ("merge", lambda: merge(None), ("parts", "NoneType")),
    "parts that are numbers": ("merge", lambda: merge([1]), ("parts", "int", "pair")),
    "parts that are outputs": ("merge", lambda: merge([X]), ("parts", "Tensor", "pair")),
    "a part that is not in a list": ("merge", lambda: merge(part()), ("parts", "merge([part])")),
    "an output for parts": ("merge", lambda: merge(X), ("parts", "Tensor")),
    "an output with a number": ("merge", lambda: merge([(X, 3)]), ("parts", "(Tensor, int)")),
    "no output": ("merge", lambda: merge([(None, part()[1])]), ("parts", "NoneType")),
    "an output of three axes": ("merge", lambda: merge([(X[0], part()[1])]), ("outputs", "3 axes")),
    "starts that are a number": ("merge", lambda: merge([part()], starts=5), ("starts", "5")),
    "starts that are fractions": (
        "merge",
        lambda: merge([part(), part()], starts=[0.5, 1]),
        ("starts", "0.5"),
    ),
    "starts beyond 64 bits": (
        "merge",
        lambda: merge([part()], starts=[2**70]),
        ("starts", "2**40"),
    ),
    "lse of another batch": (
        "merge",
        lambda: merge([with_seen(lse=torch.zeros(1, 3, 5))]),
        ("lse", "(2, 3, 5)", "(1, 3, 5)"),
    ),
    "no lse": ("merge", lambda: merge([with_seen(lse=None)]), ("lse", "NoneType")),
    "lse on another device": (
        "merge",
        lambda: merge([with_seen(lse=torch.zeros(2, 3, 5, device="meta"))]),
        ("lse", "cpu", "meta"),
    ),
    "top keys without weights": ("merge", lambda: merge([with_seen(top_weights=None)]), ("top",)),
    "sinks of other heads": ("merge", lambda: merge([with_seen(sinks=PAIR)]), ("sinks", "(3,)")),
    **{
        f"parts of mixed types over {over}": (
            "merge",
            lambda over=over: merge([part(), part(torch.float64)], over=over),
            ("output", "float32", "float64"),
        )
        for over in ("queries", "keys")
    },
    "parts on mixed devices": (
        "merge",
        lambda: merge([part(), regard.attention(*[X.to("meta")] * 3, see=regard.See())]),
        ("output", "cpu", "meta"),
    ),
    # PyTorch's signature
    "a sparse query": (
        "scaled_dot_product_attention",
        lambda: sdpa(X.to_sparse(), X, X),
        ("query",),
    ),
    "a sparse key": ("scaled_dot_product_attention", lambda: sdpa(X, X.to_sparse(), X), ("key",)),
    "a nested query": (
        "scaled_dot_product_attention",
        lambda: sdpa(nested(), nested(), nested()),
        ("query", "nested"),
    ),
    "a nested key": (
        "scaled_dot_product_attention",
        lambda: sdpa(X, nested(), X),
        ("key", "nested"),
    ),
    "two flags": ("scaled_dot_product_attention", lambda: sdpa(is_causal=PAIR), ("is_causal",)),
    "two more flags": (
        "scaled_dot_product_attention",
        lambda: sdpa(enable_gqa=PAIR),
        ("enable_gqa",),
    ),
    "two chances": ("scaled_dot_product_attention", lambda: sdpa(dropout_p=PAIR), ("dropout",)),
    "a sparse mask": (
        "scaled_dot_product_attention",
        lambda: sdpa(attn_mask=torch.ones(5, 5).to_sparse()),
        ("attn_mask", "sparse"),
    ),
    **{
        f"a mask of {mask} for {query}": (
            "scaled_dot_product_attention",
            lambda query=query, mask=mask: sdpa(
                *[torch.ones(query)] * 3, attn_mask=torch.ones(mask, dtype=torch.bool)
            ),
            ("attn_mask", str(mask)),
        )
        for query, mask in (
            ((5, 7), (1, 5, 5)),
            ((3, 5, 7), (1, 3, 5, 5)),
            ((2, 3, 5, 7), (1, 2, 3, 5, 5)),
            ((1, 1, 3, 5, 7), (1, 1, 1, 3, 5, 5)),
            ((2, 1, 3, 5, 7), (2, 3, 5, 5)),
            ((2, 1, 3, 5, 7), (3, 1, 3, 5, 5)),
        )
    },
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_refused_in_words(name: str) -> None:
    operation, call, words = REFUSED[name]
    with pytest.raises((ValueError, TypeError)) as refused:
        call()
    message = str(refused.value)
    assert re.match(rf"{operation}\(\): .+; got .+\. \S.*[.)]$", message), message
    assert len(message) < 400
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"


def test_numbers_of_other_kinds_are_numbers() -> None:
    expected = attend(scale=0.5)
    for scale in (torch.tensor(0.5), np.float32(0.5), np.array(0.5), torch.tensor([0.5])):
        assert torch.equal(attend(scale=scale), expected)
    assert torch.equal(attend(dropout=torch.tensor(0.0), scale=0.5), expected)
    assert torch.equal(attend(dropout=0, scale=0.5), expected)


def test_lengths_below_0_are_0_and_beyond_the_keys_all_of_them() -> None:
    for lengths in ([-3, 2**62], torch.tensor([-(2**40), 9])):
        assert torch.equal(attend(lengths=lengths), attend(lengths=[0, 5]))
