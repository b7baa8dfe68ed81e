"""Which layer, head, sequence and token of a run a figure is of, and how its tokens are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from regard._arguments import shown
from regard.reference import Array
from regard.run.choose import index_of, layer_index
from regard.run.tokens import codes_of_keys, codes_of_queries, vocabulary
from regard.view.names import find_token

if TYPE_CHECKING:
    from regard.run import Layer, Run
    from regard.run.choose import Which

CALL = "figure()"


@dataclass(frozen=True, eq=False)
class Place:
    """One layer and one sequence of a run.

    `queries` and `keys` say from where to where there are real tokens; padding stands outside.
    """

    run: Run
    index: int
    layer: Layer
    sequence: int

    @property
    def queries(self) -> slice:
        return _span(self.layer.queries, self.sequence, self.layer.shape[2])

    @property
    def keys(self) -> slice:
        return _span(self.layer.keys, self.sequence, self.layer.shape[3])

    def key_names(self) -> list[str] | None:
        """The token at each key; None if they are not known."""
        return self._names(self.codes)

    def query_names(self) -> list[str] | None:
        """The token at each query; None if they are not known."""
        codes = codes_of_queries(self.layer, self.codes[None])[0]
        return self._names(codes)

    @property
    def offset(self) -> int:
        """Query i stands where this key and i more does."""
        return self.layer.offset if self.layer.shape[2] and not self.layer.cross else 0

    @property
    def codes(self) -> np.ndarray:
        return codes_of_keys(self.run, self.layer, vocabulary(self.run))[self.sequence]

    def _names(self, codes: np.ndarray) -> list[str] | None:
        if not (codes >= 0).any():
            return None
        words = list(vocabulary(self.run))
        texts = (words[code] if code >= 0 else "" for code in codes.tolist())
        return [text.strip() or text for text in texts]


def _span(real: Tensor | None, sequence: int, size: int) -> slice:
    if real is None:
        return slice(0, size)
    places = real[sequence].nonzero()[:, 0].tolist()
    return slice(places[0], places[-1] + 1) if places else slice(0, 0)


def compact(picture: Array, n_queries: int, n_keys: int) -> Array:
    """A map (…, R, C) without the rows and columns in which no token stands.

    >>> compact(np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.0]]), 2, 2).tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    for axis, length in ((-2, n_queries), (-1, n_keys)):
        size = picture.shape[axis]
        if size > length:
            picture = picture.take(np.arange(length) * size // length, axis=axis)
    return picture


def find_layer(run: Run, layer: Which | None, sequence: int, view: str) -> Place:
    """The layer that is asked for, which this view must be told."""
    if layer is None:
        raise ValueError(
            f"{CALL}: view {view!r} must be told a layer; got None. "
            f"layer=… is its number, from 0 to {len(run.layers) - 1}, or its name."
        )
    index = layer_index(CALL, run.layers, layer)
    found = list(run.layers.values())[index]
    batch = found.shape[0]
    b = index_of(CALL, "sequence", sequence, batch, f"The layer has {batch} sequences.")
    return Place(run, index, found, b)


def find_head(place: Place, head: int | None, view: str) -> int:
    """The head that is asked for, which this view must be told."""
    heads = place.layer.shape[1]
    if head is None:
        raise ValueError(
            f"{CALL}: view {view!r} must be told a head; got None. "
            f"head=… is its number, from 0 to {heads - 1}."
        )
    return index_of(CALL, "head", head, heads, f"{place.layer.name} has {heads} heads.")


def find_sequence(run: Run, sequence: int) -> int:
    """Which sequence of all layers is meant."""
    batch = min((layer.shape[0] for layer in run.layers.values()), default=0)
    return index_of(CALL, "sequence", sequence, batch, f"The run has {batch} sequences.")


def find_token_place(place: Place, token: int | str | None) -> int:
    """The position of a token among the keys, by its number from 0, or by its text."""
    from regard.run import Run

    n_keys = place.layer.shape[3]
    if token is None:
        raise ValueError(
            f"{CALL}: view 'text' must be told a token; got None. "
            'token=… is its number from 0, or its text, as "it" or "it#2".'
        )
    if not isinstance(token, str):
        return index_of(CALL, "token", token, n_keys, f"The sequence has {n_keys} tokens.")
    codes = np.flatnonzero(place.codes >= 0)
    sequences = place.layer.tokens if place.layer.tokens is not None else place.run.tokens
    if not len(codes) or sequences is None:
        raise ValueError(
            f"{CALL}: token must be a number, as the tokens' names are not known; "
            f"got {shown(token)}. It is from 0 to {n_keys - 1}."
        )
    text = place.run.text
    text = text[place.sequence] if isinstance(text, list) else text
    try:
        found = find_token(Run(text=text, tokens=[sequences[place.sequence]]), token)
    except KeyError as error:
        raise ValueError(f"{CALL}: {str(error.args[0]).removeprefix('find_token(): ')}") from None
    return int(codes[min(found, len(codes) - 1)])
