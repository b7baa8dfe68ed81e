"""How long the fuzzers of `tests/fuzz` go on: a slice in `make test`, far more in `make soak`.

`REGARD_SOAK=50` makes 50 times as many attacks, `REGARD_SEED=7` other ones.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

__all__ = ["attacks", "times"]

_TIMES = int(os.environ.get("REGARD_SOAK", "1"))
_SEED = int(os.environ.get("REGARD_SEED", "0"))


def times(few: int) -> int:
    """How many attacks to make where the slice makes `few`."""
    return few * _TIMES


def attacks(few: int) -> Iterator[random.Random]:
    """A source of random choices for each attack. One that failed is found again by its seed."""
    for number in range(times(few)):
        yield random.Random(f"{_SEED}.{number}")
