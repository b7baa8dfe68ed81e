"""One sequence over many ranks: attention, and models, of which each holds a part of the tokens.

What each file does is in docs/map.md; docs/scale.md tells how to start it.
"""

from __future__ import annotations

from regard.parallel._attention import attention
from regard.parallel.exchange import Event, trace
from regard.parallel.faults import RankError
from regard.parallel.layout import Layout
from regard.parallel.plan import Plan, plan
from regard.parallel.sequence import Part, sequence
from regard.parallel.shards import gather, shard

__all__ = [
    "Event",
    "Layout",
    "Part",
    "Plan",
    "RankError",
    "attention",
    "gather",
    "plan",
    "sequence",
    "shard",
    "trace",
]
