"""What can be asked of a model: where its heads look, and how one of them gets its numbers.

- `see`: the run of a text through a model; `loaded.see(text)` is the same
- `predictions`: the likeliest tokens at each position; `run.predictions()` is the same
- `trace_of`: one head of a run, step by step; `run.trace(layer, head)` is the same

Whatever a command or a page of the studio does with a model is done here.
"""

from __future__ import annotations

from regard.ask._predictions import (
    Prediction,
    likeliest,
    predictions,
    predictions_info,
    predicts,
    texts_of,
)
from regard.ask._see import see, target_tokens
from regard.ask._trace import trace_of

__all__ = [
    "Prediction",
    "likeliest",
    "predictions",
    "predictions_info",
    "predicts",
    "see",
    "target_tokens",
    "texts_of",
    "trace_of",
]
