"""`CorpusError`: what is said when the folder of a corpus cannot be used."""

from __future__ import annotations


class CorpusError(ValueError):
    """A corpus that is not whole, or not what it was: where, and what to do."""
