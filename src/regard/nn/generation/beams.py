"""Beam search: the best few sequences are carried on together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.nn.generation.feed import Feed
from regard.nn.generation.options import Options
from regard.nn.generation.result import Generated

__all__ = ["search"]


@dataclass(eq=False)
class _Beam:
    """A sequence so far: its last token, and what came before that."""

    row: int  # where the model has its tokens but the last
    before: _Beam | None = None
    token: int = -1
    score: float = 0.0
    total: float = 0.0  # the sum of all its scores
    length: int = 0
    stopped: bool = False

    def worth(self, penalty: float) -> float:
        return self.total / self.length**penalty

    def path(self) -> list[_Beam]:
        """What led to it and itself, in the order of the tokens."""
        found: list[_Beam] = []
        beam: _Beam | None = self
        while beam is not None and beam.length:
            found.append(beam)
            beam = beam.before
        return found[::-1]


def search(feed: Feed, count: int, options: Options) -> Generated:
    """For each of `count` sequences the best one found, by total / length^length_penalty.

    Each has `beams` beams. In every step each beam that has not stopped is carried on by every
    token; of all these, and of the beams that have stopped, the best are kept. It ends when no
    beam is left to be carried on, or none can become better than the best that has stopped.
    """
    kept = [[_Beam(row)] for row in range(count)]
    groups = [1] * count
    logits, lse = feed.begin()
    for length in range(1, options.max_new_tokens + 1):
        best = logits.topk(min(options.beams, logits.shape[1]))
        tokens, scores = best.indices.tolist(), (best.values - lse[:, None]).tolist()
        kept = [_carried_on(beams, tokens, scores, options) for beams in kept]
        going = [[beam for beam in beams if not beam.stopped] for beams in kept]
        rows = [beam.row for beams in going for beam in beams]
        if not rows or length == options.max_new_tokens:
            break
        # The beams of one sequence look at one source: it is moved only if their numbers change.
        before, groups = groups, [len(beams) for beams in going]
        if groups != before or rows != list(range(len(rows))):
            feed.select(rows, memory=groups != before)
        for row, beam in enumerate(beam for beams in going for beam in beams):
            beam.row = row
        logits, lse = feed.next([beam.token for beams in going for beam in beams])
    ends = [beams[0] for beams in kept]
    return Generated(
        tokens=[[beam.token for beam in end.path()] for end in ends],
        scores=[[beam.score for beam in end.path()] for end in ends],
        stopped=[end.stopped for end in ends],
    )


def _carried_on(
    beams: list[_Beam], tokens: list[list[int]], scores: list[list[float]], options: Options
) -> list[_Beam]:
    """The best beams of one sequence after one more token, the best first.

    `tokens` and `scores` are the best continuations of each row, as many as there are beams.
    """
    found = [beam for beam in beams if beam.stopped]
    for beam in beams:
        if not beam.stopped:
            found += [
                _Beam(
                    row=beam.row,
                    before=beam,
                    token=token,
                    score=score,
                    total=beam.total + score,
                    length=beam.length + 1,
                    stopped=token in options.stop,
                )
                for token, score in zip(tokens[beam.row], scores[beam.row], strict=True)
            ]
    penalty = options.length_penalty
    found = sorted(found, key=lambda beam: beam.worth(penalty), reverse=True)[: options.beams]
    ended = [beam for beam in found if beam.stopped]
    if ended and all(_limit(beam, options) <= ended[0].worth(penalty) for beam in found):
        return ended
    return found


def _limit(beam: _Beam, options: Options) -> float:
    """What a beam's worth can become at most: its total never grows, its length does."""
    if beam.stopped:
        return -math.inf
    lengths = (beam.length + 1, options.max_new_tokens)
    return max(beam.total / length**options.length_penalty for length in lengths)
