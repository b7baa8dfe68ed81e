"""What was generated: tokens, how likely the model found them, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Generated"]


@dataclass(frozen=True)
class Generated:
    """The new tokens of each sequence, in the order of the prompts.

    - `tokens`: the new tokens alone, without prompt and padding. A stop token is the last of them.
    - `scores`: for each token log p(token | all before it), by the model itself: temperature,
      `top_k` and `top_p` change what is drawn, not these
    - `stopped`: did the sequence end with a stop token, rather than for want of room

    >>> Generated([[3, 5], [2]], [[-0.5, -0.25], [-1.0]], stopped=[False, True]).totals
    [-0.75, -1.0]
    """

    tokens: list[list[int]]
    scores: list[list[float]]
    stopped: list[bool]

    @property
    def totals(self) -> list[float]:
        """The log-probability of each sequence: the sum of its scores."""
        return [sum(scores) for scores in self.scores]
