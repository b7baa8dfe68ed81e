"""Which token stands at each position of a layer, where that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.run.layer import Layer

if TYPE_CHECKING:
    from regard.run.run import Run

Codes = NDArray[np.int32]


def vocabulary(run: Run) -> dict[str, int]:
    """Each different text of a token, numbered in the order in which they come."""
    words: dict[str, int] = {}
    for sequences in (run.tokens, *(layer.tokens for layer in run.layers.values())):
        for tokens in sequences or []:
            for token in tokens:
                words.setdefault(token.text, len(words))
    for layer in run.layers.values():
        sequences = run.tokens if layer.tokens is None else layer.tokens
        for tokens in (sequences or []) if layer.spans is not None else []:
            for text in _texts(layer, [token.text for token in tokens]):
                words.setdefault(text, len(words))
    return words


def _texts(layer: Layer, tokens: list[str]) -> list[str]:
    """What the keys of a layer stand for, some of them for blocks of tokens: "The…mat"; nothing, if
    the tokens are others."""
    if layer.spans is None or int(layer.spans.max()) > len(tokens):
        return []
    return [
        tokens[first] if end - first == 1 else f"{tokens[first]}…{tokens[end - 1]}"
        for first, end in layer.spans.tolist()
    ]


def codes_of_keys(run: Run, layer: Layer, words: dict[str, int]) -> Codes:
    """(B, Nk): the number of the token of each key, −1 where it is not known.

    A layer has tokens of its own, or those of the run, which are of the sequence that it read last.
    They are its keys' if these are of the same sequence as its queries, and as many as the tokens;
    or if there are as many real keys, so that padding has none; or one less, as the last token of a
    generation is never read.
    """
    batch, _, _, n_keys = layer.shape
    codes = np.full((batch, n_keys), -1, dtype=np.int32)
    sequences = run.tokens if layer.tokens is None else layer.tokens
    if layer.cross or sequences is None:
        return codes
    real = np.ones((batch, n_keys), bool) if layer.keys is None else layer.keys.cpu().numpy()
    for row, tokens in enumerate(sequences[:batch]):
        if texts := _texts(layer, [token.text for token in tokens]):
            codes[row] = [words[text] for text in texts]
            continue
        for places in (np.arange(n_keys), np.flatnonzero(real[row])):
            if len(tokens) in (len(places), len(places) + 1):
                codes[row, places] = [words[token.text] for token in tokens[: len(places)]]
                break
    return codes


def codes_of_queries(layer: Layer, keys: Codes) -> Codes:
    """(B, Nq): those of the keys that stand where the queries do."""
    _, _, n_queries, n_keys = layer.shape
    places = np.arange(n_queries) + layer.offset
    known = (places >= 0) & (places < n_keys)
    codes = np.full((len(keys), n_queries), -1, dtype=np.int32)
    codes[:, known] = keys[:, places[known]]
    return codes
