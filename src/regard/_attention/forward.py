"""The torch backend's forward pass: chunks of queries on any device, in any floating type.

And pictures of a matrix, whose rows and columns fall into bins that are summed or compared.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

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
            before = None if recorder is None else recorder.look(tile, scores)
            weights = soften(scores, problem.options.sinks)
            if recorder is not None and before is not None:
                recorder.record(tile, weights, *before)
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
        for lowest in (seen.lse, seen.max_logit):
            if lowest is not None:
                lowest.fill_(-torch.inf)
        for zeros in (seen.entropy, seen.top_weights, seen.distance, seen.spans, seen.contribution):
            if zeros is not None:
                zeros.zero_()
        for keys in (seen.top_keys, seen.contribution_keys):
            if keys is not None:
                keys.fill_(-1)
        if see.contribution:
            self.norms = problem.norms(see)
        if see.received:  # chunks may be many: their sums are added up as those of a map are
            self.received = new_picture(batch, heads, (1, problem.scores_shape[3]), seen.lse.device)
        if see.map is not None:  # the sums of its rows, and of how many queries each of them is
            self.sums = new_picture(batch, heads, see.map, seen.lse.device)
            self.counts = self.sums.new_zeros(batch, heads, see.map[0])

    def look(self, tile: Tile, scores: Scores) -> tuple[Strongest | None, Strongest | None]:
        """What is to be told of scores before they become weights: the strongest keys, and those
        that contribute most."""
        see, values = self.see, scores.values
        if self.seen.max_logit is not None:
            self.seen.max_logit[:, :, tile.rows] = values.amax(-1)
        moving = None
        if see.contribution:
            norms = self.norms[:, :, None, tile.keys]
            # A key whose value is not finite comes first, and so does one of a score that is none.
            moved = torch.where(norms.isfinite(), values + norms.log(), torch.inf)
            moved = moved.masked_fill_(values == -torch.inf, -torch.inf)
            moving = _strongest(moved, see.contribution)
        return _strongest(values, see.top) if see.top else None, moving

    def record(
        self, tile: Tile, weights: Weights, strongest: Strongest | None, moving: Strongest | None
    ) -> None:
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
            _write(tile, values, strongest, seen.top_keys, seen.top_weights)
        if moving is not None and seen.contribution_keys is not None:
            assert seen.contribution is not None
            norms = self.norms[:, :, None, tile.keys]
            sizes = values * norms.masked_fill(~norms.isfinite(), torch.nan)
            _write(tile, sizes, moving, seen.contribution_keys, seen.contribution)
        if seen.spans is not None and see.spans is not None:
            labels = see.spans if see.spans.dim() == 2 else see.spans[None]
            found = _by_label(values, labels[:, None, None, tile.keys], see.n_spans)
            seen.spans[:, :, rows] = found
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


# The places of keys in a tile, (B, H, n, count), and which of them are real.
Strongest = tuple[Tensor, Tensor]


def _strongest(values: Tensor, count: int) -> Strongest:
    """Where the largest values of each row are; what is −inf is no key."""
    found, places = values.topk(min(count, values.shape[-1]), dim=-1)
    return places, found != -torch.inf


def _by_label(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """The sums (…, count) of the values (…, m) of each label (…, m) from 0 on.

    In float64, where the device has that; blocks of keys each, and then these, as one long chain
    would round more.
    """
    values = values.to(_exact(values.device))
    length = max(256, count + 1)
    missing = -values.shape[-1] % length
    labels = pad(labels.to(torch.int64) % (count + 1), (0, missing), value=count)  # −1 is the last
    blocks = pad(values, (0, missing)).unflatten(-1, (-1, length))
    sums = blocks.new_zeros((*blocks.shape[:-1], count + 1))
    labels = labels.unflatten(-1, (-1, length)).expand(blocks.shape)
    return sums.scatter_add_(-1, labels, blocks).sum(-2)[..., :-1]


def _write(tile: Tile, sizes: Tensor, found: Strongest, to_keys: Tensor, to_sizes: Tensor) -> None:
    """The keys that were found in a tile, and their sizes, the largest first."""
    # exp may turn round two scores that are as good as equal: sort by the sizes themselves.
    places, real = found
    sizes = sizes.gather(-1, places).masked_fill_(~real, -torch.inf)
    largest, order = sizes.sort(dim=-1, descending=True, stable=True)
    real = real.gather(-1, order)
    keys = (places.gather(-1, order) + tile.key).masked_fill_(~real, -1)
    to_keys[:, :, tile.rows, : keys.shape[-1]] = keys
    to_sizes[:, :, tile.rows, : keys.shape[-1]] = largest.masked_fill_(~real, 0.0)


# ── pictures ──────────────────────────────────────────────────────────────────────────────────


def bin_of(start: int, stop: int, size: int, count: int, device: torch.device) -> Tensor:
    """⌊i · count / size⌋ for i from start to stop: in which of `count` bins each of them falls."""
    return torch.arange(start, stop, device=device) * count // max(size, 1)


def new_picture(batch: int, heads: int, shape: tuple[int, int], device: torch.device) -> Tensor:
    """An empty picture. Its sums are kept in float64, where the device has that."""
    return torch.zeros((batch, heads, *shape), dtype=_exact(device), device=device)


def _exact(device: torch.device) -> torch.dtype:
    """The type of long sums."""
    return torch.float32 if device.type == "mps" else torch.float64


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
