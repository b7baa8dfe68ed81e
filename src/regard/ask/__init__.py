"""What can be asked of a model: where its heads look, and how one of them gets its numbers.

- `see`: the run of a text through a model; `loaded.see(text)` is the same
- `predictions`: the likeliest tokens at each position; `run.predictions()` is the same
- `lens`: the same after each layer, as if the model ended there; `run.lens()`
- `why`: which heads and layers a token's logit comes from; `run.why(position, token)`
- `sources`: which documents an answer came from; `run.sources(answer)`; `answer_sources` asks
- `heads`: what each head does, needles in a long text among it, beside null distributions
- `trace_of`: one head of a run, step by step; `run.trace(layer, head)` is the same

Whatever a command or a page of the studio does with a model is done here.
"""

from __future__ import annotations

from regard.ask._blocked import Blocked
from regard.ask._heads import Heads, Recall, Scored, ScoredHead, heads
from regard.ask._lens import has_lens, lens, lens_info
from regard.ask._places import Source
from regard.ask._predictions import (
    Prediction,
    likeliest,
    predictions,
    predictions_info,
    predicts,
    texts_of,
)
from regard.ask._prompt import answer_sources
from regard.ask._see import see, target_tokens
from regard.ask._sources import Sentence, Sources, sources
from regard.ask._trace import trace_of
from regard.ask._why import Ablated, Part, Why, why

__all__ = [
    "Ablated",
    "Blocked",
    "Heads",
    "Part",
    "Prediction",
    "Recall",
    "Scored",
    "ScoredHead",
    "Sentence",
    "Source",
    "Sources",
    "Why",
    "answer_sources",
    "has_lens",
    "heads",
    "lens",
    "lens_info",
    "likeliest",
    "predictions",
    "predictions_info",
    "predicts",
    "see",
    "sources",
    "target_tokens",
    "texts_of",
    "trace_of",
    "why",
]
