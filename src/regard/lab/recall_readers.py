"""An LSTM, a GRU and one layer of attention of about as many parameters, that read a sequence and
answer at its end; and what is measured of them."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.lab.recall_tasks import SIZES, draw, only_distracting
from regard.nn import MultiHeadAttention
from regard.reference import sinusoidal

KINDS = ("lstm", "gru", "attention")
WIDTH, HEADS = 64, 4
_LONGEST = 4 * 512 + 1  # tokens that may be read
_PLACES = 16  # where what is recalled may stand, so that to remember the first token is not enough
_APART = 0.05  # parameter counts may differ by this share
BATCH = 32
_RATE, _CLIP = 3e-3, 1.0
_LEAST = 1e-300  # stands for a gradient of 0, which has no logarithm


class Reader(nn.Module):
    """tokens (B, N, 2) → the logits of an answer (B, answers), from what is made of the last."""

    def __init__(self, kind: str, task: str, window: int = 0) -> None:
        super().__init__()
        sizes = SIZES[task]
        self.first = nn.Embedding(sizes.first, WIDTH)
        self.second = nn.Embedding(sizes.second, WIDTH)
        self.window = window
        if kind == "attention":
            self.layer: nn.Module = MultiHeadAttention(WIDTH, HEADS)
            width = WIDTH
            waves = torch.from_numpy(sinusoidal(_LONGEST, WIDTH)).float()
            self.register_buffer("waves", waves)  # attention has no order of its own
        else:
            width = _hidden(kind)
            made = nn.LSTM if kind == "lstm" else nn.GRU
            self.layer = made(WIDTH, width, batch_first=True)
        self.head = nn.Linear(width, sizes.answers)

    def embedded(self, tokens: Tensor) -> Tensor:
        return self.first(tokens[..., 0]) + self.second(tokens[..., 1])

    def states(self, x: Tensor) -> Tensor:
        """What the layer makes of every token, (B, N, its width)."""
        if not isinstance(self.layer, MultiHeadAttention):
            return self.layer(x)[0]
        window = (self.window - 1, 0) if self.window else None
        found = self.layer(x + self.get_buffer("waves")[: x.shape[1]], causal=True, window=window)
        assert isinstance(found, Tensor)
        return found

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.states(self.embedded(tokens))[:, -1])


def _hidden(kind: str) -> int:
    """The width of the state at which a recurrent layer has about attention's parameters."""
    gates = 4 if kind == "lstm" else 3
    wanted = 4 * (WIDTH + 1) * WIDTH
    return min(range(1, WIDTH + 1), key=lambda n: abs(gates * n * (WIDTH + n + 2) - wanted))


def readers(task: str, seed: int, window: int = 0) -> dict[str, Reader]:
    """One reader of each kind, beginning with the random numbers of this seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        found = {kind: Reader(kind, task, window) for kind in KINDS}
    counts = [sum(p.numel() for p in reader.parameters()) for reader in found.values()]
    assert max(counts) <= (1 + _APART) * min(counts), counts
    return found


def train(
    reader: Reader,
    task: str,
    distances: Sequence[int],
    steps: int,
    seed: int,
    tell: Callable[[int], None],
) -> list[float]:
    """The loss of each step. Every step reads sequences of one distance, drawn of all of them."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(reader.parameters(), lr=_RATE)
    losses: list[float] = []
    for step in range(steps):
        distance = distances[int(torch.randint(len(distances), (), generator=generator))]
        tokens, answers = draw(task, BATCH, distance, generator, _place(task, generator))
        loss = cross_entropy(reader(tokens), answers)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), _CLIP)
        optimizer.step()
        losses.append(float(loss.detach()))
        tell(step)
    return losses


def _place(task: str, generator: torch.Generator) -> int:
    """Where the token stands that the answer depends on; in a sentence it is the first."""
    return int(torch.randint(_PLACES, (), generator=generator)) if task == "recall" else 0


@torch.no_grad()
def right(
    reader: Reader,
    task: str,
    distance: int,
    count: int,
    seed: int,
    tell: Callable[[], None] = lambda: None,
) -> int:
    """How many of `count` sequences are answered rightly."""
    generator = torch.Generator().manual_seed(seed)
    found = 0
    for first in range(0, count, BATCH):
        size = min(BATCH, count - first)
        tokens, answers = draw(task, size, distance, generator, _place(task, generator))
        if task == "agreement":
            tokens, answers = only_distracting(tokens, answers)
        found += int((reader(tokens).argmax(-1) == answers).sum())
        tell()
    return found


def reach(reader: Reader, task: str, distance: int, count: int, seed: int) -> Tensor:
    """For each of `count` sequences, how long the gradient of the loss by the first token's vector
    is, relative to that by the last one's, as a power of ten. In float64: it may be very small."""
    tokens, answers = draw(task, count, distance, torch.Generator().manual_seed(seed))
    exact = copy.deepcopy(reader).double()
    x = exact.embedded(tokens).detach().requires_grad_()
    cross_entropy(exact.head(exact.states(x)[:, -1]), answers, reduction="sum").backward()
    assert x.grad is not None
    lengths = x.grad.norm(dim=-1)
    return (lengths[:, 0] / lengths[:, -1].clamp(min=_LEAST)).clamp(min=_LEAST).log10()


def seconds(
    found: dict[str, Reader], length: int, batch: int, repeats: int, tell: Callable[[], None]
) -> dict[str, list[float]]:
    """Of each reader, how long steps of training take that make something of every token of
    `batch` sequences: forward and back. They take turns, so that what else runs troubles all."""
    generator = torch.Generator().manual_seed(length)
    x = torch.randn(batch, length, WIDTH, generator=generator)
    times: dict[str, list[float]] = {kind: [] for kind in found}
    for nth in range(repeats + 1):
        for kind, reader in found.items():
            start = time.perf_counter()
            reader.head(reader.states(x)).sum().backward()
            if nth:  # the first one warms up
                times[kind].append(time.perf_counter() - start)
            tell()
    return times
