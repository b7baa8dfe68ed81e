"""What the torch backend sees of the weights, chunk by chunk."""

from __future__ import annotations

import torch
from torch import Tensor

from regard._attention.bins import bin_of, new_picture, pour
from regard._attention.problem import Problem, Tile
from regard._attention.results import new_observation
from regard._attention.scores import Scores, Weights
from regard.observation import Observation, See

__all__ = ["Recorder"]


class Recorder:
    """Fills in an Observation while the chunks of queries go by."""

    def __init__(self, problem: Problem, see: See) -> None:
        batch, heads, _, _ = problem.scores_shape
        self.problem, self.see = problem, see
        self.seen = seen = new_observation(problem, see)
        seen.lse.fill_(-torch.inf)
        for zeros in (seen.entropy, seen.top_weights, seen.received, seen.distance):
            if zeros is not None:
                zeros.zero_()
        if seen.top_keys is not None:
            seen.top_keys.fill_(-1)
        if see.map is not None:  # the sums of its rows, and of how many queries each of them is
            self.sums = new_picture(batch, heads, see.map, seen.lse.device)
            self.counts = self.sums.new_zeros(batch, heads, see.map[0])

    def strongest(self, scores: Scores) -> tuple[Tensor, Tensor] | None:
        """The places of the strongest keys by score, (B, H, n, top), and which of them are real."""
        if not self.see.top:
            return None
        count = min(self.see.top, scores.values.shape[-1])
        values, places = scores.values.topk(count, dim=-1)
        return places, values != -torch.inf

    def record(self, tile: Tile, weights: Weights, strongest: tuple[Tensor, Tensor] | None) -> None:
        """Take in the weights of a tile."""
        seen, see, values = self.seen, self.see, weights.values
        rows = slice(tile.row, tile.row_end)
        seen.lse[:, :, rows] = weights.lse
        if seen.entropy is not None:
            seen.entropy[:, :, rows] = torch.special.entr(values).sum(-1).abs_()
        if seen.distance is not None:
            device, offset = values.device, self.problem.offset
            key = torch.arange(tile.key, tile.key_end, device=device, dtype=values.dtype)
            query = torch.arange(tile.row + offset, tile.row_end + offset, device=device)
            away = (key - query.to(values.dtype)[:, None]).abs_()
            seen.distance[:, :, rows] = (values * away).sum(-1)
        if strongest is not None:
            self._record_top(rows, tile.key, values, *strongest)
        if see.map is not None or see.received:
            self._record_sums(tile, weights)

    def _record_top(
        self, rows: slice, first: int, values: Tensor, places: Tensor, real: Tensor
    ) -> None:
        assert self.seen.top_keys is not None
        assert self.seen.top_weights is not None
        # exp may turn round two scores that are as good as equal: sort by the weights themselves.
        top, order = values.gather(-1, places).sort(dim=-1, descending=True, stable=True)
        real = real.gather(-1, order)
        keys = (places.gather(-1, order) + first).masked_fill_(~real, -1)
        count = places.shape[-1]
        self.seen.top_keys[:, :, rows, :count] = keys
        self.seen.top_weights[:, :, rows, :count] = top.masked_fill_(~real, 0.0)

    def _record_sums(self, tile: Tile, weights: Weights) -> None:
        """Map and received, which are over the queries that count."""
        seen, values, counts = self.seen, weights.values, weights.has_key
        if self.see.queries is not None:
            counted = self.see.queries[:, None, tile.row : tile.row_end]
            values = values.masked_fill(~counted[..., None], 0.0)
            counts = counts & counted
        if seen.received is not None:
            seen.received[:, :, tile.key : tile.key_end] += values.sum(-2)
        if seen.map is not None:
            _, _, n_queries, n_keys = self.problem.scores_shape
            pour(self.sums, values, tile, (n_queries, n_keys))
            row = bin_of(tile.row, tile.row_end, n_queries, seen.map.shape[2], values.device)
            self.counts.scatter_add_(2, row.expand_as(counts), counts.to(self.counts.dtype))

    def finish(self) -> Observation:
        """What was seen."""
        if self.seen.map is not None:
            self.seen.map.copy_(self.sums.div_(self.counts.clamp_(min=1.0)[..., None]))
        return self.seen
