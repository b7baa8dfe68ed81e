"""The flow: a whole pass in one picture, as bands of stages, each of them a step of a trace.

`flow` makes one of a text, numbers or a model; `trace.flow()` and `run.flow()` of what is there.
"""

from __future__ import annotations

from regard._flow.api import flow
from regard._flow.flow import Flow

__all__ = ["Flow", "flow"]
