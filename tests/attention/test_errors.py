"""Wrong input is refused before any work is done, in words that say what to do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.attention_problems import on_each_backend

import regard

NAN = float("nan")


def attend(**changed: Any) -> Any:
    """A call that is in order, with something changed."""
    given: dict[str, Any] = {
        "q": torch.randn(2, 3, 5, 11),
        "k": torch.randn(2, 3, 7, 11),
        "v": torch.randn(2, 3, 7, 13),
    }
    return regard.attention(**(given | changed))


def see(**look: Any) -> Any:
    return attend(see=regard.See(**look))


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


# What is changed, and what the message must say.
ATTENTION: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    # ranks and shapes
    "q of rank 3": ({"q": numbers(3, 5, 11)}, ("q", "(B, H, Nq, D)", "(3, 5, 11)")),
    "k of rank 2": ({"k": numbers(7, 11)}, ("k", "(B, Hkv, Nk, D)", "(7, 11)")),
    "v of rank 5": ({"v": numbers(1, 2, 3, 7, 13)}, ("v", "(B, Hkv, Nk, Dv)", "(1, 2, 3, 7, 13)")),
    "q of rank 0": ({"q": torch.tensor(1.0)}, ("q", "()")),
    "another width of k": ({"k": numbers(2, 3, 7, 16)}, ("k", "(2, 3, 7, 11)", "(2, 3, 7, 16)")),
    "another batch of k": ({"k": numbers(1, 3, 7, 11)}, ("k", "(1, 3, 7, 11)")),
    "another batch of v": ({"v": numbers(5, 3, 7, 13)}, ("v", "(5, 3, 7, 13)")),
    "another number of values": ({"v": numbers(2, 3, 8, 13)}, ("v", "(2, 3, 8, 13)")),
    "another number of value heads": ({"v": numbers(2, 1, 7, 13)}, ("v", "(2, 1, 7, 13)")),
    "heads that do not divide": (
        {"k": numbers(2, 2, 7, 11), "v": numbers(2, 2, 7, 13)},
        ("multiple", "3", "2"),
    ),
    "no key heads for some": (
        {"k": numbers(2, 0, 7, 11), "v": numbers(2, 0, 7, 13)},
        ("multiple", "3", "0"),
    ),
    # types and devices
    "k in float64": ({"k": numbers(2, 3, 7, 11, dtype=torch.float64)}, ("k", "float32", "float64")),
    "v in bfloat16": (
        {"v": numbers(2, 3, 7, 13, dtype=torch.bfloat16)},
        ("v", "float32", "bfloat16"),
    ),
    "q of integers": ({"q": numbers(2, 3, 5, 11, dtype=torch.int64)}, ("q", "int64")),
    "q of complex numbers": ({"q": numbers(2, 3, 5, 11, dtype=torch.complex64)}, ("q", "complex")),
    "q of booleans": ({"q": numbers(2, 3, 5, 11, dtype=torch.bool)}, ("q", "bool")),
    "k on another device": ({"k": torch.empty(2, 3, 7, 11, device="meta")}, ("k", "cpu", "meta")),
    "v on another device": ({"v": torch.empty(2, 3, 7, 13, device="meta")}, ("v", "cpu", "meta")),
    "q is a list": ({"q": [[[[1.0]]]]}, ("q", "Tensor", "list")),
    "k is an array": ({"k": numbers(2, 3, 7, 11).numpy()}, ("k", "Tensor", "ndarray")),
    "v is None": ({"v": None}, ("v", "Tensor", "None")),
    "q is sparse": ({"q": numbers(2, 3, 5, 11).to_sparse()}, ("q", "sparse")),
    # mask and bias
    "a mask of floats": ({"mask": numbers(5, 7)}, ("mask", "bool", "float32", "bias")),
    "a mask of integers": ({"mask": numbers(5, 7, dtype=torch.int64)}, ("mask", "bool", "int64")),
    "a mask that does not broadcast": (
        {"mask": numbers(7, 5, dtype=torch.bool)},
        ("mask", "(2, 3, 5, 7)", "(7, 5)"),
    ),
    "a mask with too many axes": (
        {"mask": numbers(1, 2, 3, 5, 7, dtype=torch.bool)},
        ("mask", "(1, 2, 3, 5, 7)"),
    ),
    "a mask of a larger batch": (
        {"mask": numbers(4, 1, 5, 7, dtype=torch.bool)},
        ("mask", "(4, 1, 5, 7)"),
    ),
    "a mask of padding without its axes": (
        {"mask": numbers(2, 7, dtype=torch.bool)},
        ("mask", "(2, 7)"),
    ),
    "a mask on another device": (
        {"mask": torch.empty(5, 7, dtype=torch.bool, device="meta")},
        ("mask", "cpu", "meta"),
    ),
    "a mask that is a list": ({"mask": [True] * 7}, ("mask", "Tensor", "list")),
    "a bias of booleans": ({"bias": numbers(5, 7, dtype=torch.bool)}, ("bias", "bool", "mask")),
    "a bias of integers": ({"bias": numbers(5, 7, dtype=torch.int32)}, ("bias", "int32")),
    "a bias that does not broadcast": (
        {"bias": numbers(5, 8)},
        ("bias", "(2, 3, 5, 7)", "(5, 8)"),
    ),
    "a bias on another device": ({"bias": torch.empty(7, device="meta")}, ("bias", "cpu", "meta")),
    "a bias that is a number": ({"bias": 1.0}, ("bias", "Tensor", "float")),
    # lengths, sinks
    "lengths for another batch": (
        {"lengths": torch.tensor([1, 2, 3])},
        ("lengths", "(2,)", "(3,)"),
    ),
    "lengths of rank 2": ({"lengths": torch.tensor([[1], [2]])}, ("lengths", "(2,)", "(2, 1)")),
    "lengths of floats": ({"lengths": torch.tensor([1.0, 2.0])}, ("lengths", "float32")),
    "lengths of booleans": ({"lengths": torch.tensor([True, True])}, ("lengths", "bool")),
    "sinks for other heads": ({"sinks": numbers(2)}, ("sinks", "(3,)", "(2,)")),
    "sinks of integers": ({"sinks": numbers(3, dtype=torch.int64)}, ("sinks", "int64")),
    # numbers
    "a negative window to the left": ({"window": (-1, 2)}, ("window", "-1")),
    "a negative window to the right": ({"window": (None, -3)}, ("window", "-3")),
    "a window that is a number": ({"window": 3}, ("window", "3")),
    "a window of three": ({"window": (1, 2, 3)}, ("window", "(1, 2, 3)")),
    "a window of floats": ({"window": (1.5, 0)}, ("window", "1.5")),
    "a softcap of 0": ({"softcap": 0.0}, ("softcap", "0")),
    "a negative softcap": ({"softcap": -2.0}, ("softcap", "-2")),
    "a softcap of NaN": ({"softcap": NAN}, ("softcap", "nan")),
    "an infinite softcap": ({"softcap": float("inf")}, ("softcap", "inf")),
    "a scale of NaN": ({"scale": NAN}, ("scale", "nan")),
    "an infinite scale": ({"scale": float("inf")}, ("scale", "inf")),
    "a scale that is a word": ({"scale": "1"}, ("scale", "'1'")),
    "a position that is a float": ({"position": 1.5}, ("position", "1.5")),
    "a negative dropout": ({"dropout": -0.1}, ("dropout", "-0.1")),
    "a dropout above 1": ({"dropout": 1.5}, ("dropout", "1.5")),
    "a dropout of NaN": ({"dropout": NAN}, ("dropout", "nan")),
    # sight
    "see that is not a See": ({"see": True}, ("see", "See", "True")),
    # backends
    "an unknown backend": ({"backend": "cuda"}, ("backend", "'cuda'", "native", "torch")),
    "native on another device": (
        {
            "q": torch.empty(2, 3, 5, 11, device="meta"),
            "k": torch.empty(2, 3, 7, 11, device="meta"),
            "v": torch.empty(2, 3, 7, 13, device="meta"),
            "backend": "native",
        },
        ("native", "meta"),
    ),
}

SEE: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a negative top": ({"top": -1}, ("top", "-1")),
    "a top that is a float": ({"top": 1.5}, ("top", "1.5")),
    "a map of one number": ({"map": 3}, ("map", "3")),
    "a map of three numbers": ({"map": (1, 2, 3)}, ("map", "(1, 2, 3)")),
    "a map with no rows": ({"map": (0, 5)}, ("map", "(0, 5)")),
    "a map with negative columns": ({"map": (5, -1)}, ("map", "(5, -1)")),
    "queries for another batch": (
        {"map": (2, 2), "queries": numbers(3, 5, dtype=torch.bool)},
        ("queries", "(2, 5)", "(3, 5)"),
    ),
    "queries of another number": (
        {"received": True, "queries": numbers(2, 7, dtype=torch.bool)},
        ("queries", "(2, 5)", "(2, 7)"),
    ),
    "queries of floats": (
        {"received": True, "queries": numbers(2, 5)},
        ("queries", "bool", "float32"),
    ),
    "queries that are a list": ({"received": True, "queries": [True]}, ("queries", "list")),
    "queries on another device": (
        {"received": True, "queries": torch.empty(2, 5, dtype=torch.bool, device="meta")},
        ("queries", "cpu", "meta"),
    ),
}


def tile(**changed: Any) -> Any:
    given: dict[str, Any] = {"q": torch.randn(2, 3, 5, 11), "k": torch.randn(2, 1, 7, 11)}
    return regard.weights(**(given | changed))


def picture(**changed: Any) -> Any:
    given: dict[str, Any] = {
        "q": torch.randn(2, 3, 5, 11),
        "k": torch.randn(2, 1, 7, 11),
        "shape": (2, 2),
    }
    return regard.pooled(**(given | changed))


TILES: dict[str, tuple[Callable[..., Any], dict[str, Any], tuple[str, ...]]] = {
    "k of another width": (tile, {"k": numbers(2, 1, 7, 9)}, ("k", "(2, 1, 7, 9)")),
    "lse of another shape": (tile, {"lse": numbers(2, 3, 7)}, ("lse", "(2, 3, 5)", "(2, 3, 7)")),
    "lse of integers": (tile, {"lse": numbers(2, 3, 5, dtype=torch.int64)}, ("lse", "int64")),
    "rows in steps": (tile, {"rows": slice(0, 5, 2)}, ("rows", "2")),
    "rows that are a list": (tile, {"rows": [1, 2]}, ("rows", "slice")),
    "keys that are a number": (tile, {"keys": "x"}, ("keys", "'x'")),
    "a mask of floats": (tile, {"mask": numbers(5, 7)}, ("mask", "bool", "float32")),
    "an unknown backend": (tile, {"backend": "cuda"}, ("backend", "'cuda'")),
    "a picture of another rank": (picture, {"shape": (3,)}, ("shape", "(3,)")),
    "a picture without rows": (picture, {"shape": (0, 4)}, ("shape", "(0, 4)")),
    "an unknown reduction": (picture, {"reduce": "sum"}, ("reduce", "'sum'", "mean", "max")),
    "a picture with lse of another shape": (
        picture,
        {"lse": numbers(2, 3, 7)},
        ("lse", "(2, 3, 5)", "(2, 3, 7)"),
    ),
    "a picture in steps of keys": (picture, {"keys": slice(0, 7, 3)}, ("keys", "3")),
}


def assert_refused(
    call: Callable[[], Any], words: tuple[str, ...], operation: str = r"\w+"
) -> None:
    """`operation(): what was expected; got what came. What to do.`"""
    with pytest.raises((ValueError, TypeError)) as refused:
        call()
    message = str(refused.value)
    assert re.match(rf"{operation}\(\): .+; got .+\. \S.*[.)]$", message, re.DOTALL), message
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"


@pytest.mark.parametrize("name", list(ATTENTION))
def test_attention_refuses(name: str) -> None:
    changed, words = ATTENTION[name]
    assert_refused(lambda: attend(**changed), words, "attention")


@pytest.mark.parametrize("name", list(SEE))
def test_sight_refuses(name: str) -> None:
    look, words = SEE[name]
    assert_refused(lambda: see(**look), words, "(attention|See)")


@pytest.mark.parametrize("name", list(TILES))
def test_tiles_and_pictures_refuse(name: str) -> None:
    operation, changed, words = TILES[name]
    expected = "weights" if operation is tile else "pooled"
    assert_refused(lambda: operation(**changed), words, expected)


def test_the_message_is_the_contracts() -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        regard.attention(numbers(2, 3, 5, 11), numbers(2, 3, 7, 16), numbers(2, 3, 7, 16))
    assert str(refused.value) == (
        "attention(): k must be (B, Hkv, Nk, D) = (2, 3, 7, 11); got (2, 3, 7, 16). "
        "The last axis must equal q's D."
    )


@on_each_backend
@pytest.mark.parametrize(
    "changed",
    [
        {"window": (-1, 0)},
        {"softcap": 0.0},
        {"dropout": 2.0},
        {"sinks": numbers(2)},
        {"lengths": torch.tensor([1, 2])},
        {"mask": numbers(5, 7)},
        {"bias": numbers(3)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_nothing_is_computed_before_it_is_refused(backend: str, changed: dict[str, Any]) -> None:
    # A million queries by a million keys would take hours.
    x = torch.ones(1, 1, 1, 8).expand(1, 1, 2**20, 8)
    start = time.process_time()
    with pytest.raises((ValueError, TypeError)):
        regard.attention(x, x, x, backend=backend, **changed)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_an_argument_that_is_missing_is_named(name: str) -> None:
    given: dict[str, Any] = dict.fromkeys("qkv", numbers(1, 1, 1, 1))
    del given[name]
    with pytest.raises(TypeError, match=name):
        regard.attention(**given)


def test_options_are_given_by_name() -> None:
    x = numbers(1, 1, 1, 1)
    with pytest.raises(TypeError):
        regard.attention(x, x, x, True)  # pyright: ignore[reportCallIssue]
