"""A sequence that is shared among processes: who computes a call there, and records it whole."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from regard._watch.call import Call


class Sharing(Protocol):
    """What knows the whole of a sequence of which a model is reading a part here."""

    ids: Tensor  # (B, N), the tokens of the whole

    def over(self, call: Call, keep: frozenset[str], is_watched: bool) -> Call:
        """The call as one of the whole sequence, of which a part is computed here."""
        ...


class _Here(threading.local):
    """What this thread is reading a part of."""

    shared: Sharing | None = None


_here = _Here()


def now() -> Sharing | None:
    """What is being shared."""
    return _here.shared


@contextmanager
def sharing(shared: Sharing) -> Generator[None]:
    """Inside, models read parts of a sequence."""
    before, _here.shared = _here.shared, shared
    try:
        yield
    finally:
        _here.shared = before
