"""One head of attention that learns to turn a row of digits round, looked at on its way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.lab.experiment import Asked
from regard.nn import SelfAttention
from regard.observation import See
from regard.reference import sinusoidal

TOKENS = 11
_DIGITS, _WIDTH = 10, 32
_BATCH, _RATE = 64, 3e-3
_PROBES = 64  # rows of digits that the maps are looked at with


class Reverser(nn.Module):
    """Digits (B, 11) → logits (B, 11, 10). What a digit is, and where it stands, is given by fixed
    random vectors and waves: W_Q, W_K, W_V and the head are all that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("digits", torch.randn(_DIGITS, _WIDTH))
        self.register_buffer("places", torch.from_numpy(sinusoidal(TOKENS, _WIDTH, 100.0)).float())
        self.attention = SelfAttention(_WIDTH)
        self.head = nn.Linear(_WIDTH, _DIGITS)

    def embedded(self, tokens: Tensor) -> Tensor:
        return self.get_buffer("digits")[tokens] + self.get_buffer("places")

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.attention(self.embedded(tokens)))

    @torch.no_grad()
    def weights(self, tokens: Tensor) -> Tensor:
        """(B, 11, 11), from the sums of every single pair."""
        seen: Any = self.attention(self.embedded(tokens), see=See(map=(TOKENS, TOKENS)))[1]
        return seen.map[:, 0]


def train(asked: Asked, at: list[int]) -> dict[str, Any]:
    """Of each model, at each of the steps `at`: the loss and the share of the weight on the right
    token; of the first one the maps of one row of digits; and how far each matrix moved."""
    models, steps = asked["models"], asked["steps"]
    found: dict[str, Any] = {"loss": [], "share": [], "maps": []}
    found["moved"] = {"w_q": [], "w_k": [], "w_v": []}
    for nth in range(models):
        seed = asked.seed * 1000 + nth
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = Reverser()
        if asked["frozen"]:
            model.attention.w_q.requires_grad_(False)
            model.attention.w_k.requires_grad_(False)
        begin = {name: matrix.clone() for name, matrix in _matrices(model).items()}
        probes = torch.randint(
            _DIGITS, (_PROBES, TOKENS), generator=torch.Generator().manual_seed(seed + 1)
        )
        generator = torch.Generator().manual_seed(seed + 2)
        learned = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.Adam(learned, lr=_RATE)
        losses, shares = [], []
        for step in range(steps + 1):
            tokens = torch.randint(_DIGITS, (_BATCH, TOKENS), generator=generator)
            targets = tokens.flip(1)
            if asked["targets"] == "random":
                targets = torch.randint(_DIGITS, (_BATCH, TOKENS), generator=generator)
            loss = cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
            if step in at:
                maps = model.weights(probes)
                losses.append(float(loss.detach()))
                # The right token of a place is the one that stands as far from the other end.
                shares.append(float(maps.flip(2).diagonal(dim1=1, dim2=2).double().mean()))
                if nth == 0:
                    found["maps"].append(maps[0].double().tolist())
            if step < steps:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if step % 20 == 0:
                asked.progress(nth * steps + step, models * steps)
        if nth == 0:
            found["names"] = [str(digit) for digit in probes[0].tolist()]
        found["loss"].append(losses)
        found["share"].append(shares)
        for name, matrix in _matrices(model).items():
            moved = (matrix - begin[name]).norm() / begin[name].norm()
            found["moved"][name].append(float(moved))
    asked.progress(1, 1)
    return found


def _matrices(model: Reverser) -> dict[str, Tensor]:
    return {name: getattr(model.attention, name).weight.detach() for name in ("w_q", "w_k", "w_v")}
