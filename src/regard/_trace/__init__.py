"""Trace: every step of one pass of attention, or of a whole model, and how each cell came about."""

from __future__ import annotations

from regard._trace.api import trace
from regard._trace.attention import Trace
from regard._trace.model import ModelStep, ModelTrace
from regard._trace.projections import Positions, Projections

__all__ = ["ModelStep", "ModelTrace", "Positions", "Projections", "Trace", "trace"]
