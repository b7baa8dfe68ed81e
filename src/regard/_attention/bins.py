"""Pictures of a matrix: its rows and columns fall into bins, whose cells are summed or compared."""

from __future__ import annotations

import torch
from torch import Tensor

from regard._attention.problem import Tile

__all__ = ["bin_of", "new_picture", "pour"]


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
    for y in range(tile.row * height // n_rows, (tile.row_end - 1) * height // n_rows + 1):
        first = max(_first(y, n_rows, height), tile.row) - tile.row
        last = min(_first(y + 1, n_rows, height), tile.row_end) - tile.row
        if first >= last:
            continue
        band, row = values[:, :, first:last], picture[:, :, y]
        if maximum:
            row.scatter_reduce_(2, column, band.amax(2).to(picture.dtype), "amax")
        else:
            row.scatter_add_(2, column, band.sum(2).to(picture.dtype))


def _first(n: int, size: int, count: int) -> int:
    """The first i with ⌊i · count / size⌋ ≥ n."""
    return -(-n * size // count)
