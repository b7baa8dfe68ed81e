"""Numbers as a column shows them: one common number of decimals for a whole matrix."""

from __future__ import annotations

import numpy as np

from regard._arithmetic import figure
from regard.reference import Array


def figures(array: Array, digits: int = 4) -> list[list[str]]:
    """The cells of a matrix as text, with as many decimals as all of them need: 1 to `digits`.

    Zeros at the end go only where they say nothing: `1.0000` beside `0.0000` means rounded.
    Very large numbers, and matrices of only very small ones, are written with an exponent.

    >>> figures(np.array([[1.5, -0.25], [2.0, -np.inf]]))
    [['1.50', '−0.25'], ['2.00', '−∞']]
    >>> figures(np.array([[1.0, 1e-9]])), figures(np.array([[2e7, 1.0]]))
    ([['1.0000', '0.0000']], [['2.00e+07', '1.00e+00']])
    """
    sizes, most = np.abs(array[np.isfinite(array)]), largest(array)
    if most >= 1e6 or 0.0 < most < 10.0**-digits:
        pattern = ".2e"
    else:
        # Not exact equality: 1.0·1.2 + 0.9·0.6 is a few last bits away from 1.74.
        enough = (
            decimals
            for decimals in range(1, digits)
            if np.allclose(sizes, sizes.round(decimals), rtol=1e-12, atol=1e-12)
        )
        pattern = f".{next(enough, digits)}f"
    return [[_figure(float(value), pattern) for value in row] for row in array]


def _figure(value: float, pattern: str) -> str:
    if not np.isfinite(value):
        return figure(value)
    text = format(value, pattern)
    return text.replace("-", "−") if float(text) else text.removeprefix("-")


def largest(array: Array) -> float:
    """The largest size of a finite number: the end of the scale of shades.

    >>> largest(np.array([1.5, -2.0, -np.inf]))
    2.0
    """
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
