"""Which layer, head, sequence and token of a run a figure is of, and how its tokens are called."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from regard._arguments import shown
from regard.reference import Array
from regard.run import Layer, Run
from regard.run.choose import Which, index_of, layer_index
from regard.run.tokens import codes_of_keys, vocabulary
from regard.text import Token
from regard.view.names import find_token, model_name

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
        return self._span(self.layer.queries, self.layer.shape[2])

    @property
    def keys(self) -> slice:
        return self._span(self.layer.keys, self.layer.shape[3])

    def _span(self, real: Tensor | None, size: int) -> slice:
        if real is None:
            return slice(0, size)
        places = real[self.sequence].nonzero()[:, 0].tolist()
        return slice(places[0], places[-1] + 1) if places else slice(0, 0)

    @property
    def offset(self) -> int:
        """Query i stands where this key and i more does."""
        return self.layer.offset if self.layer.shape[2] and not self.layer.cross else 0

    @property
    def described(self) -> str:
        """The layer's name, and the model's, if it has one."""
        return f"{self.layer.name}{f' of {name}' if (name := model_name(self.run)) else ''}"

    def need_keys(self) -> None:
        """Raise ValueError if it is not known at all which keys are strong."""
        layer = self.layer
        if not layer.has_weights and (layer.top_keys is None or layer.top_weights is None):
            raise ValueError(
                f"{CALL}: q and k of {layer.name}, or its strongest keys, must have been "
                'kept; neither were. regard.watch(…, keep=("q", "k")) or See(top=8) brings them.'
            )

    # ── tokens ────────────────────────────────────────────────────────────────────────────────

    @property
    def text(self) -> str | None:
        text = self.run.text
        return text[self.sequence] if isinstance(text, list) else text

    @property
    def tokens(self) -> list[Token] | None:
        """Those that were read, without padding."""
        sequences = self.run.tokens if self.layer.tokens is None else self.layer.tokens
        return None if sequences is None else sequences[self.sequence]

    @property
    def codes(self) -> np.ndarray:
        return codes_of_keys(self.run, self.layer, vocabulary(self.run))[self.sequence]

    def key_names(self) -> list[str] | None:
        """The token at each key; None if they are not known."""
        names = [""] * self.layer.shape[3]
        for place, token in zip(np.flatnonzero(self.codes >= 0), self.tokens or (), strict=False):
            names[place] = token.label if token.label.strip() else "␣" * len(token.label)
        return names if any(names) else None

    def query_names(self) -> list[str] | None:
        """The token at each query; None if they are not known."""
        keys, first = self.key_names(), self.layer.offset
        places = range(first, first + self.layer.shape[2])
        return keys and [keys[at] if 0 <= at < len(keys) else "" for at in places]


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


@dataclass(frozen=True, eq=False)
class Asked:
    """What `Run.figure` was asked for: a view of a run, and what of the run it shows."""

    run: Run
    view: str
    layer: Which | None
    head: int | None
    token: int | str | None
    sequence: int
    min_weight: float
    log: bool

    def places(self) -> list[Place]:
        """The layer that is asked for, or all of them."""
        if self.layer is not None:
            return [self.place()]
        layers = list(self.run.layers.values())
        b = self._sequence("run", min(layer.shape[0] for layer in layers))
        return [Place(self.run, index, layer, b) for index, layer in enumerate(layers)]

    def place(self) -> Place:
        """The layer that is asked for, which this view must be told."""
        layers = self.run.layers
        if self.layer is None:
            raise ValueError(
                f"{CALL}: view {self.view!r} must be told a layer; got None. "
                f"layer=… is its number, from 0 to {len(layers) - 1}, or its name."
            )
        index = layer_index(CALL, layers, self.layer)
        layer = list(layers.values())[index]
        return Place(self.run, index, layer, self._sequence("layer", layer.shape[0]))

    def _sequence(self, of: str, batch: int) -> int:
        return index_of(CALL, "sequence", self.sequence, batch, f"The {of} has {batch} sequences.")

    def head_of(self, place: Place) -> int | None:
        """The head that is asked for, or None for all."""
        heads = place.layer.shape[1]
        told = f"{place.layer.name} has {heads} heads."
        return None if self.head is None else index_of(CALL, "head", self.head, heads, told)

    def token_of(self, place: Place) -> int:
        """The position of the token among the keys, by its number from 0, or by its text."""
        token, n_keys = self.token, place.layer.shape[3]
        if token is None:
            raise ValueError(
                f"{CALL}: view {self.view!r} must be told a token; got None. "
                'token=… is its number from 0, or its text, as "it" or "it#2".'
            )
        if not isinstance(token, str):
            return index_of(CALL, "token", token, n_keys, f"The sequence has {n_keys} tokens.")
        codes = np.flatnonzero(place.codes >= 0)
        if not len(codes) or place.tokens is None:
            raise ValueError(
                f"{CALL}: token must be a number, as the tokens' names are not known; "
                f"got {shown(token)}. It is from 0 to {n_keys - 1}."
            )
        try:
            found = find_token(place.tokens, token, place.text)
        except KeyError as error:
            said = str(error.args[0]).removeprefix("find_token(): ")
            raise ValueError(f"{CALL}: {said}") from None
        return int(codes[min(found, len(codes) - 1)])
