"""What wrong arguments raise: an error that callers of Python's and of PyTorch's both expect."""

from __future__ import annotations

__all__ = ["WrongType", "WrongValue"]


class WrongValue(ValueError, RuntimeError):
    """A ValueError, as Python's functions raise, and a RuntimeError, as PyTorch's do."""


class WrongType(TypeError, RuntimeError):
    """A TypeError, as Python's functions raise, and a RuntimeError, as PyTorch's do."""
