"""Trace: every step of one pass of attention, or of a whole model, and how each cell came about."""

from __future__ import annotations

from regard._trace.api import trace
from regard._trace.inputs import Positions, Projections
from regard._trace.trace import Trace

ModelTrace = Trace  # another name of it

__all__ = ["ModelTrace", "Positions", "Projections", "Trace", "trace"]
