"""Batches by length: texts of about one length together, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_PADDING = 8  # one token in so many of a batch may be padding, at most


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Which texts go together, the longest first: what a batch has follows from the lengths alone.

    A batch has at most so many `tokens`, its padding among them, unless one text has more.

    >>> list(batches([3, 90, 4, 3, 88], 180))
    [[1, 4], [2, 0, 3]]
    >>> list(batches([7, 5], 4))
    [[0], [1]]
    """
    batch: list[int] = []
    padding = 0
    for place in sorted(range(len(lengths)), key=lambda each: (-lengths[each], each)):
        longest = lengths[batch[0]] if batch else lengths[place]
        more = padding + longest - lengths[place]
        area = (len(batch) + 1) * longest
        if batch and (area > tokens or more * _PADDING > max(area, 64)):
            yield batch
            batch, more = [], 0
        batch.append(place)
        padding = more
    if batch:
        yield batch
