"""`OwnCall`: attention that a module computes by itself, seen from its own scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard._watch.call import Blocked, Call
from regard.observation import Observation, See
from regard.run.layer import from_scores


@dataclass(frozen=True, eq=False)
class Own:
    """What a module computes with its scores and values, all of them (B, H, Nq, …) here."""

    scores: Tensor  # (B, H, Nq, Nk), as they go into the softmax
    weigh: Callable[[Tensor], Tensor]  # scores to what is multiplied with v
    given: Callable[[], Tensor]  # what is multiplied with v
    product: Callable[[Tensor | None], Tensor]  # its output, also with others in their place
    by_head: Callable[[Tensor], Tensor]  # the output as (B, H, Nq, Dv)
    has_q_and_k: bool  # they are known


@dataclass(frozen=True, eq=False)
class OwnCall(Call):
    """A call whose scores are the module's own, with all that it has added to them.

    The weights are the softmax of these. Without `own.has_q_and_k`, q and k stand in for what was
    multiplied: q by its shape alone, and k, which tells one text from another, as v.
    """

    own: Own | None = None
    is_changed: bool = False  # links are blocked

    @property
    def parts(self) -> Own:
        assert self.own is not None
        return self.own

    @property
    def vectors(self) -> dict[str, Tensor]:
        known = super().vectors
        return known if self.parts.has_q_and_k else {"v": self.v}

    @property
    def scores(self) -> Tensor | None:
        return self.parts.scores

    @property
    def plain(self) -> Call:
        """A call with the same weights."""
        scores = self.parts.scores.detach()
        q, k, options = from_scores(scores, self.options.position)
        return Call(
            q,
            k,
            k[..., :0],
            options,
            cross=self.cross,
            queries=self.queries,
            keys=self.keys,
            start=self.start,
        )

    def compute(self, see: See | None) -> tuple[Tensor, Observation | None]:
        seen = None
        if see is not None:
            with torch.no_grad():
                seen = self.plain.compute(see)[1]
        return self.parts.product(self.changed()), seen

    def changed(self) -> Tensor | None:
        """What is multiplied with v, if it is not what the module has computed."""
        changed = self.parts.weigh(self.parts.scores) if self.is_changed else None
        if self.ablated:
            changed = self.parts.given() if changed is None else changed
            changed = torch.where(self.alive[:, None, None], changed, 0.0)
        return changed

    def by_head(self, output: Tensor) -> Tensor:
        return self.parts.by_head(output)

    def without(self, links: Iterable[Blocked], rows: int = 1) -> OwnCall:
        scores = self.parts.scores
        mask = torch.ones(scores.shape[1:], dtype=torch.bool, device=scores.device)
        for head, query, key in links:
            mask[head, query, key] = False
        own = replace(self.parts, scores=scores.masked_fill(~mask, -math.inf))
        return replace(self, own=own, is_changed=True)

    def remembered(self, **changes: Any) -> OwnCall:
        return replace(self, own=None, **changes)

    def with_links(self, links: dict[int, list[Blocked]]) -> OwnCall:
        return self.without(link for some in links.values() for link in some)
