"""The torch backend's forward pass: chunks of queries on any device, in any floating type.

And pictures of a matrix, whose rows and columns fall into bins that are summed or compared.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard._attention.problem import Problem, Tile
from regard._attention.scores import Dropper, Scores, Weights, all_finite, grouped, score, soften
from regard.observation import Observation, See


def attend(
    problem: Problem, see: See | None = None, dropper: Dropper | None = None
) -> tuple[Tensor, Observation | None]:
    """The output (B, H, Nq, Dv), and what was asked for in `see`."""
    out = problem.new_output().zero_()
    recorder = None if see is None else _Recorder(problem, see)
    if problem.has_keys:
        problem = problem.promoted()
        v, kv_heads, spoilt = problem.v, problem.k.shape[1], None
        if not all_finite(v):
            # 0 · NaN would get to queries that may not attend to it: those that may are marked.
            finite = torch.isfinite(v)
            v, spoilt = v.masked_fill(~finite, 0.0), (~finite).to(v.dtype)
        for tile in problem.tiles():
            scores = score(problem, tile)
            strongest = None if recorder is None else recorder.strongest(scores)
            weights = soften(scores, problem.options.sinks)
            if recorder is not None:
                recorder.record(tile, weights, strongest)
            values = weights.values
            if dropper is not None:
                values.mul_(dropper(values, tile))
            mixed = grouped(values, kv_heads) @ v[:, :, tile.keys]
            if spoilt is not None:
                allowed = grouped(scores.forbid(torch.ones_like(values)), kv_heads)
                mixed.masked_fill_(allowed @ spoilt[:, :, tile.keys] > 0, torch.nan)
            rows = out[:, :, tile.rows]
            rows.copy_(mixed.view(rows.shape))
    return out, None if recorder is None else recorder.finish()


class _Recorder:
    """Fills in an Observation while the chunks of queries go by."""

    def __init__(self, problem: Problem, see: See) -> None:
        batch, heads, _, _ = problem.scores_shape
        self.problem, self.see = problem, see
        self.seen = seen = problem.new_observation(see)
        seen.lse.fill_(-torch.inf)
        for zeros in (seen.entropy, seen.top_weights, seen.distance):
            if zeros is not None:
                zeros.zero_()
        if seen.top_keys is not None:
            seen.top_keys.fill_(-1)
        if see.received:  # chunks may be many: their sums are added up as those of a map are
            self.received = new_picture(batch, heads, (1, problem.scores_shape[3]), seen.lse.device)
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
        seen, see, values, rows = self.seen, self.see, weights.values, tile.rows
        seen.lse[:, :, rows] = weights.lse
        if seen.entropy is not None:
            seen.entropy[:, :, rows] = torch.special.entr(values).sum(-1).abs_()
        if seen.distance is not None:
            problem, device = self.problem, values.device
            key = torch.arange(tile.key, tile.key_end, device=device, dtype=values.dtype)
            query = problem.options.places(rows, *problem.scores_shape[2:], device)
            away = (key - query.to(values.dtype)[..., None]).abs_()
            seen.distance[:, :, rows] = (values * away).sum(-1)
        if strongest is not None and seen.top_keys is not None and seen.top_weights is not None:
            # exp may turn round two scores that are as good as equal: sort by weights themselves.
            places, real = strongest
            top, order = values.gather(-1, places).sort(dim=-1, descending=True, stable=True)
            real = real.gather(-1, order)
            keys = (places.gather(-1, order) + tile.key).masked_fill_(~real, -1)
            seen.top_keys[:, :, rows, : keys.shape[-1]] = keys
            seen.top_weights[:, :, rows, : keys.shape[-1]] = top.masked_fill_(~real, 0.0)
        counts = weights.lse != -torch.inf
        if see.queries is not None and (see.map is not None or see.received):
            counted = see.queries[:, None, rows]  # for map and received
            values = values.masked_fill(~counted[..., None], 0.0)
            counts = counts & counted
        if seen.received is not None:
            self.received[:, :, 0, tile.keys] += values.sum(-2)
        if seen.map is not None:
            _, _, n_queries, n_keys = self.problem.scores_shape
            pour(self.sums, values, tile, (n_queries, n_keys))
            row = bin_of(tile.row, tile.row_end, n_queries, seen.map.shape[2], values.device)
            self.counts.scatter_add_(2, row.expand_as(counts), counts.to(self.counts.dtype))

    def finish(self) -> Observation:
        """What was seen."""
        if self.seen.received is not None:
            self.seen.received.copy_(self.received[:, :, 0])
        if self.seen.map is not None:
            self.seen.map.copy_(self.sums.div_(self.counts.clamp_(min=1.0)[..., None]))
        return self.seen


# ── pictures ──────────────────────────────────────────────────────────────────────────────────


def bin_of(start: int, stop: int, size: int, count: int, device: torch.device) -> Tensor:
    """⌊i · count / size⌋ for i from start to stop: in which of `count` bins each of them falls."""
    return torch.arange(start, stop, device=device) * count // max(size, 1)


def new_picture(batch: int, heads: int, shape: tuple[int, int], device: torch.device) -> Tensor:
    """An empty picture. Its sums are kept in float64, where the device has that."""
    dtype = torch.float32 if device.type == "mps" else torch.float64
    return torch.zeros((batch, heads, *shape), dtype=dtype, device=device)


def pour(
    picture: Tensor, values: Tensor, tile: Tile, size: tuple[int, int], maximum: bool = False
) -> None:
    """Add the values (B, H, n, m) of a tile to the pixels, or keep the larger ones.

    `size` is that of the whole matrix, from whose first row and column the tile is counted.
    """
    (n_rows, n_columns), (height, width) = size, picture.shape[2:]
    column = bin_of(tile.key, tile.key_end, n_columns, width, values.device)
    column = column.expand(*values.shape[:2], -1)

    def first_of(y: int) -> int:
        """The first row i with ⌊i · height / n_rows⌋ ≥ y."""
        return -(-y * n_rows // height)

    for y in range(tile.row * height // n_rows, (tile.row_end - 1) * height // n_rows + 1):
        first = max(first_of(y), tile.row) - tile.row
        last = min(first_of(y + 1), tile.row_end) - tile.row
        if first >= last:
            continue
        band, row = values[:, :, first:last], picture[:, :, y]
        if maximum:
            row.scatter_reduce_(2, column, band.amax(2).to(picture.dtype), "amax")
        else:
            row.scatter_add_(2, column, band.sum(2).to(picture.dtype))
