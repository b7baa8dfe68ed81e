"""Worked examples: five of them as data, and `check`, which tells whether one is right."""

from regard.worked.check import Report, check, check_text, fix_text
from regard.worked.example import EXAMPLES, Example, example
from regard.worked.source import Unreadable

__all__ = [
    "EXAMPLES",
    "Example",
    "Report",
    "Unreadable",
    "check",
    "check_text",
    "example",
    "fix_text",
]
