"""What a cache may forget: keys and values of a prefix that a model goes on without.

- `SlidingWindow`, `SinkAndWindow`, `HeavyHitters`, `WindowVote`: which keys stay; `Full` and
  `Random` are the bounds that others are measured by
- `forget`: a cache of `regard.nn` or of transformers with what a policy leaves of it
- `compare`: policies at the same memory, by the loss of what follows and by needles found
"""

from __future__ import annotations

from regard.evict.caches import forget
from regard.evict.comparing import Comparison, Score, compare
from regard.evict.policies import (
    POLICIES,
    Full,
    HeavyHitters,
    Policy,
    Random,
    SinkAndWindow,
    SlidingWindow,
    WindowVote,
)

__all__ = [
    "POLICIES",
    "Comparison",
    "Full",
    "HeavyHitters",
    "Policy",
    "Random",
    "Score",
    "SinkAndWindow",
    "SlidingWindow",
    "WindowVote",
    "compare",
    "forget",
]
