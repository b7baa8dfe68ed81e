"""Small language models that read random tokens and then the same tokens again, in pieces."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import regard
from regard.nn import LanguageModel, LanguageModelConfig, Rotary

_TOKENS, _PIECES, _PIECE = 16, 4, 3
_HALF = _PIECES * _PIECE
_WIDTH, _HEADS, _HIDDEN = 64, 8, 64
_BATCH, _RATE, _CLIP, _WARM = 64, 5e-3, 1.0, 30
_BASE = 100.0  # of the rotary angles: sequences are short


def model_of(layers: int, seed: int) -> LanguageModel:
    """A decoder of this many layers, beginning with the random numbers of this seed."""
    config = LanguageModelConfig(
        vocabulary=_TOKENS,
        width=_WIDTH,
        heads=_HEADS,
        layers=layers,
        hidden=_HIDDEN,
        position=Rotary(base=_BASE),
        tied=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LanguageModel(config)


def draw(count: int, fixed: bool, generator: torch.Generator) -> Tensor:
    """Sequences (count, 24): 12 different random tokens, then these again in 4 pieces of 3.

    `fixed`: the pieces are in the order that they were in, so that each token comes again at the
    same distance. Otherwise they are shuffled, and distances tell nothing.
    """
    half = torch.rand(count, _TOKENS, generator=generator).argsort(1)[:, :_HALF]
    pieces = half.view(count, _PIECES, _PIECE)
    if not fixed:
        order = torch.rand(count, _PIECES, generator=generator).argsort(1)
        pieces = pieces.gather(1, order[..., None].expand_as(pieces))
    return torch.cat([half, pieces.flatten(1)], 1)


def asked_for() -> Tensor:
    """The places in the second half whose next token can be known: all but the ends of pieces."""
    places = torch.arange(_HALF)
    return _HALF + places[places % _PIECE != _PIECE - 1]


def train(
    model: LanguageModel, steps: int, fixed: bool, seed: int, tell: Callable[[int], None]
) -> list[float]:
    """The loss of each step, where the next token can be known."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, total_iters=_WARM)
    places = asked_for()
    losses: list[float] = []
    model.train()
    for step in range(steps):
        tokens = draw(_BATCH, fixed, generator)
        logits = model(tokens)[:, places]
        loss = cross_entropy(logits.flatten(0, 1), tokens[:, places + 1].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        if step % 5 == 0:
            tell(step)
    model.eval()
    return losses


@torch.no_grad()
def watched(model: LanguageModel, fixed: bool, count: int, seed: int) -> dict[str, float]:
    """The share of right tokens where they can be known; and of all heads the largest share of
    weight on the token behind the last time (induction), and on the token before (previous)."""
    tokens = draw(count, fixed, torch.Generator().manual_seed(seed + 10_000))
    with regard.watch(model.eval(), regard.See()) as run:
        logits = model(tokens)
    places = asked_for()
    right = logits[:, places].argmax(-1) == tokens[:, places + 1]
    heads = run.heads()
    shares = {name: max(head[name] or 0.0 for head in heads) for name in ("induction", "previous")}
    return {"right": float(right.double().mean()), **shares}


@torch.no_grad()
def sees_before(model: LanguageModel, seed: int) -> float:
    """How much the last layer's score of a token depends on the token before it: the change of the
    score as that is replaced, as a share of how widely scores spread."""
    generator = torch.Generator().manual_seed(seed)
    tokens = draw(64, False, generator)
    model = model.eval().double()
    key, query = _HALF // 2, 2 * _HALF - 1
    changed = tokens.clone()
    changed[:, key - 1] = (changed[:, key - 1] + 1) % _TOKENS
    scores = []
    for each in (tokens, changed):
        with regard.watch(model, regard.See(), keep=("q", "k")) as run:
            model(each)
        layer = run.layer(-1)
        assert layer.q is not None
        assert layer.k is not None
        # The query must not have seen the change itself, so it is that of the first sequences.
        q = scores[0][0] if scores else layer.q[:, :, query]
        scores.append((q, (q * layer.k[:, :, key]).sum(-1)))
    before, after = scores[0][1], scores[1][1]
    return float((after - before).square().mean().sqrt() / before.std())
