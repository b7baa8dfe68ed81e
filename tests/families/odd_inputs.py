"""Inputs of families whose `forward` takes what no name tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

ODD: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {}
