"""Arguments: what a whole number, a number or a flag is, and how a wrong one is refused.

A message names the whole call, what is expected, what was found, and the remedy.
"""

from __future__ import annotations

import math
import operator
from typing import SupportsFloat

import numpy as np

# What int(…), float(…) and their like raise for what they cannot convert.
NOT_A_NUMBER = (TypeError, ValueError, RuntimeError, OverflowError)


class WrongValue(ValueError, RuntimeError):
    """A ValueError, as Python's functions raise, and a RuntimeError, as PyTorch's do."""


class WrongType(TypeError, ValueError, RuntimeError):
    """A TypeError, as Python's functions raise, and a RuntimeError, as PyTorch's do.

    It is a ValueError as well, for callers to whom a word is just not one of the numbers allowed.
    """


def shown(value: object) -> str:
    """A value as messages show it: on one line, and not too long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # a number with thousands of digits
        text = f"a very large {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:60]} … {text[-20:]}"


def whole(
    call: str,
    name: str,
    value: object,
    least: int | None = None,
    most: int | None = None,
    remedy: str = "int(…) makes it one.",
) -> int:
    """The value as a whole number from `least` to `most`.

    >>> whole("bake()", "loaves", 3, least=1)
    3
    >>> whole("bake()", "loaves", 0, 1, 12, "12 fit into the oven.")
    Traceback (most recent call last):
    regard._arguments.WrongValue: bake(): loaves must be from 1 to 12; got 0. 12 fit into the oven.
    """
    if type(value) is int:
        found = value  # as it is: to torch.compile it may be the size of something
    else:
        try:
            if isinstance(value, bool):
                raise TypeError
            found = operator.index(value)  # pyright: ignore[reportArgumentType]
        except NOT_A_NUMBER:
            message = f"{call}: {name} must be a whole number; got {shown(value)}. {remedy}"
            raise WrongType(message) from None
    _check_bounds(call, name, value, found, least, most, remedy)
    return found


def number(
    call: str,
    name: str,
    value: object,
    least: float | None = None,
    most: float | None = None,
    remedy: str = "float(…) makes it one.",
) -> float:
    """The value as a finite number from `least` to `most`.

    >>> number("bake()", "hours", 1, 0, 2)
    1.0
    >>> number("bake()", "hours", "two", 0, 2)
    Traceback (most recent call last):
    regard._arguments.WrongType: bake(): hours must be a number; got 'two'. float(…) makes it one.
    """
    expected, error = "a number", WrongType
    if type(value) is float:  # by far the most common, and SupportsFloat takes its time
        found = value
    else:
        found = None
        # float() takes an array of one number, and regrets it.
        is_none = isinstance(value, bool | str) or (isinstance(value, np.ndarray) and value.ndim)
        try:
            if isinstance(value, SupportsFloat) and not is_none:
                found = float(value)
        except OverflowError:
            expected, error = "a number that a float can hold", WrongValue
        except NOT_A_NUMBER:
            pass
    if found is None:
        raise error(f"{call}: {name} must be {expected}; got {shown(value)}. {remedy}")
    # Not math.isfinite, which torch.compile cannot ask of a number that may change.
    if (least is None or most is None) and not -math.inf < found < math.inf:
        raise WrongValue(f"{call}: {name} must be a finite number; got {shown(value)}. {remedy}")
    _check_bounds(call, name, value, found, least, most, remedy)
    return found


def flag(call: str, name: str, value: object) -> bool:
    """True or False, and nothing that is merely true or false.

    >>> flag("bake()", "sour", True)
    True
    """
    if isinstance(value, bool):
        return value
    raise WrongType(
        f"{call}: {name} must be True or False; got {shown(value)}. bool(…) makes it one of them."
    )


def _check_bounds(
    call: str,
    name: str,
    value: object,
    found: float,
    least: float | None,
    most: float | None,
    remedy: str,
) -> None:
    if (least is None or found >= least) and (most is None or found <= most):
        return
    low, high = _bound(least), _bound(most)
    expected = f"from {low} to {high}" if least is not None else f"at most {high}"
    if most is None:
        expected = f"at least {low}"
    raise WrongValue(f"{call}: {name} must be {expected}; got {shown(value)}. {remedy}")


def _bound(value: float | None) -> str:
    """A bound as people write it: a large power of two as such."""
    if isinstance(value, int) and abs(value) >= 2**20 and abs(value).bit_count() == 1:
        return f"{'−' if value < 0 else ''}2**{abs(value).bit_length() - 1}"
    return f"{value:g}" if isinstance(value, float) else str(value)
