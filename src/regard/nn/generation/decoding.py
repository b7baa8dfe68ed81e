"""Which token comes next: the most probable one, one that is drawn, or that of the best beam."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.nn.generation.feed import Feed
from regard.nn.generation.inputs import Options

_GLANCE = 1024  # tokens that are ranked first where top_p needs an order: they usually suffice


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


def one_by_one(feed: Feed, options: Options) -> Iterator[tuple[int, int, float]]:
    """Each new token as it is found: of which sequence, the token, and its log-probability.

    Each sequence draws from a generator of its own, so that it depends on nothing else in the
    batch. Without a seed PyTorch's own generator gives one.
    """
    generators: list[torch.Generator] = []
    if options.temperature:
        seed = int(torch.randint(2**62, ())) if options.seed is None else options.seed
        generators = [torch.Generator().manual_seed(seed + n) for n in range(feed.count)]
    sequences = list(range(feed.count))  # that of each row
    tokens: list[int] = []
    for n in range(options.max_new_tokens):
        with feed.quiet():
            logits, lse = feed.next(tokens) if n else feed.begin()
            if not generators:
                best, chosen = logits.max(-1)
                tokens, scores = chosen.tolist(), (best - lse).tolist()
            else:
                tokens = []
                for row, sequence in zip(logits, sequences, strict=True):
                    found = kept(row, options.temperature, options.top_k, options.top_p)
                    uniform = torch.rand((), dtype=torch.float64, generator=generators[sequence])
                    tokens.append(draw(*found, float(uniform)))
                chosen = torch.tensor(tokens, device=lse.device)[:, None]
                scores = (logits.gather(1, chosen)[:, 0] - lse).tolist()
        yield from zip(sequences, tokens, scores, strict=True)
        going = [row for row, token in enumerate(tokens) if token not in options.stop]
        if not going:
            return
        if len(going) < len(tokens):
            with feed.quiet():
                feed.select(going)
            sequences, tokens = [sequences[row] for row in going], [tokens[row] for row in going]


# ── drawing ───────────────────────────────────────────────────────────────────────────────────


def kept(
    logits: Tensor, temperature: float, top_k: int | None = None, top_p: float | None = None
) -> tuple[Tensor, Tensor]:
    """The tokens that may be drawn, of logits (vocabulary,), and their shares in float64.

    p = softmax(logits / temperature). `top_k` leaves the k most probable tokens, of equally
    probable ones those of the lowest ids. `top_p` then leaves the smallest number of the most
    probable tokens whose share of what is left is at least p, and never less than one token.
    A token's share is its probability divided by that of the most probable token.
    """
    shares = ((logits.double() - logits.max()) / temperature).exp()
    size = len(logits)
    count = size if top_k is None else min(top_k, size)
    is_cut = count < size
    tokens = _ranked(logits, count) if is_cut else torch.arange(size, device=logits.device)
    if top_p is not None and top_p < 1.0:
        wanted = top_p * shares[tokens].sum()
        if not is_cut:
            tokens = _ranked(logits, min(_GLANCE, size))
            if shares[tokens].cumsum(0)[-1] < wanted:
                tokens = _ranked(logits, size)
        least = int((shares[tokens].cumsum(0) < wanted).sum()) + 1
        tokens = tokens[:least]
    return tokens, shares[tokens]


def _ranked(logits: Tensor, count: int) -> Tensor:
    """The `count` tokens of the greatest logits, from the greatest; of equal ones by their id."""
    if count == len(logits):
        return logits.sort(descending=True, stable=True).indices
    least = logits.topk(count).values[-1]
    tokens = (logits >= least).nonzero()[:, 0]
    order = logits[tokens].sort(descending=True, stable=True).indices
    return tokens[order[:count]]


def draw(tokens: Tensor, shares: Tensor, uniform: float) -> int:
    """The first token up to which the shares sum to more than `uniform` of their sum, in [0, 1)."""
    upto = shares.cumsum(0)
    mark = uniform * float(upto[-1])  # below the sum, as uniform ≤ 1 − 2⁻⁵³
    return int(tokens[torch.searchsorted(upto, mark, right=True)])


# ── beam search ───────────────────────────────────────────────────────────────────────────────


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


def beam_search(feed: Feed, options: Options) -> Generated:
    """For each sequence the best one found, by total / length^length_penalty.

    Each has `beams` beams. In every step each beam that has not stopped is carried on by every
    token; of all these, and of the beams that have stopped, the best are kept. It ends when no
    beam is left to be carried on, or none can become better than the best that has stopped.
    """
    best = [[_Beam(row)] for row in range(feed.count)]  # of each sequence, the best first
    groups = [1] * feed.count
    logits, lse = feed.begin()
    for length in range(1, options.max_new_tokens + 1):
        top = logits.topk(min(options.beams, logits.shape[1]))
        tokens, scores = top.indices.tolist(), (top.values - lse[:, None]).tolist()
        best = [_carried_on(beams, tokens, scores, options) for beams in best]
        going = [[beam for beam in beams if not beam.stopped] for beams in best]
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
    ends = [beams[0] for beams in best]
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
