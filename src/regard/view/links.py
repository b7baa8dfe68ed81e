"""The tokens of a run by name, and which links between them stand out: data for its views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.reference import Array
from regard.view.labels import visible

if TYPE_CHECKING:
    from regard.run import Layer, Run

LEAST_WEIGHT = 0.1  # a link of less weight does not stand out
_MOST_SHOWN = 12  # tokens, where one is asked for that is not there
_MOST_DIGITS = 9  # of a number that is looked at


@dataclass(frozen=True)
class Link:
    """One weight: which head, from which token, to which; `heads` is how many have it strongest."""

    layer: int
    head: int
    query: int
    key: int
    weight: float
    heads: int = 1

    @property
    def name(self) -> str:
        return f"{self.layer}.{self.head}"


# ── tokens ────────────────────────────────────────────────────────────────────────────────────


def token_labels(run: Run) -> tuple[str, ...]:
    """The tokens of the first sequence, without blanks around them; numbers if they are not known.

    >>> from regard.run import Run
    >>> from regard.text import Token
    >>> token_labels(Run(tokens=[[Token("I", 0, 1), Token(" love", 1, 6), Token(" ", 6, 7)]]))
    ('I', 'love', ' ')
    """
    if run.tokens:
        return tuple(token.text.strip() or token.text for token in run.tokens[0])
    n_keys = max((layer.shape[3] for layer in run.layers.values()), default=0)
    return tuple(str(place + 1) for place in range(n_keys))


def label_at(labels: Sequence[str], place: int) -> str:
    """The label of the token at a place, or its number from 1.

    >>> label_at(["I", "love"], 1), label_at(["I", "love"], 2)
    ('love', '3')
    """
    return labels[place] if 0 <= place < len(labels) else str(place + 1)


def token_names(run: Run) -> list[str]:
    """The labels as `find_token` takes them: the second of several alike is `it#2`.

    >>> from regard.run import Run
    >>> from regard.text import Token
    >>> token_names(Run(tokens=[[Token("it", 0, 2), Token("is", 3, 5), Token("it", 6, 8)]]))
    ['it#1', 'is', 'it#2']
    """
    labels = token_labels(run)
    times = Counter(labels)
    alike: Counter[str] = Counter()
    names: list[str] = []
    for label in labels:
        alike[label] += 1
        names.append(label if times[label] == 1 else f"{label}#{alike[label]}")
    return names


def find_token(run: Run, name: str) -> int:
    """The place of a token, by its text, by `it#2`, or by its number from 1.

    A name stands for the tokens that are written so, or in any case where none is; `#2` takes the
    second of these. A token that is none of the text, as [UNK] is, has the name of its piece, too.
    KeyError says what there is instead.

    >>> from regard.run import Run
    >>> from regard.text import Token
    >>> run = Run(tokens=[[Token("it", 0, 2), Token("is", 3, 5), Token("it", 6, 8)]])
    >>> find_token(run, "it#2"), find_token(run, "is"), find_token(run, "1")
    (2, 1, 0)
    """
    asked = visible(name.strip() or name)
    labels = [visible(label) for label in token_labels(run)]
    kinds = (labels, [visible(piece) for piece in _pieces(run)])
    found = next(filter(None, (_alike(each, asked) for each in kinds)), [])
    if len(found) == 1:
        return found[0]
    if found:
        raise KeyError(f"find_token(): {_ways(asked, len(found))}")
    word, _, number = asked.rpartition("#")
    found = next(filter(None, (_alike(each, word) for each in kinds)), [])
    if found and number.isdecimal():
        if len(number) <= _MOST_DIGITS and 1 <= int(number) <= len(found):
            return found[int(number) - 1]
        raise KeyError(f"find_token(): {_ways(word, len(found))}")
    if asked.isdecimal() and len(asked) <= _MOST_DIGITS and 1 <= int(asked) <= len(labels):
        return int(asked) - 1
    shown = ", ".join(labels[:_MOST_SHOWN]) + (", …" if len(labels) > _MOST_SHOWN else "")
    raise KeyError(f"find_token(): there is no token {asked!r}. There are: {shown}.")


def _pieces(run: Run) -> list[str]:
    """What stands in the text where each token does."""
    if not run.tokens or not isinstance(run.text, str):
        return []
    return [run.text[token.start : token.end].strip() for token in run.tokens[0]]


def _alike(labels: Sequence[str], name: str) -> list[int]:
    """The places of a name, which is not empty: as it is written, or else in any case."""
    exact = [place for place, label in enumerate(labels) if label == name != ""]
    folded = name.casefold()
    return exact or [n for n, label in enumerate(labels) if label.casefold() == folded != ""]


def _ways(name: str, times: int) -> str:
    if times == 1:
        return f"{name!r} occurs once: say {name}."
    between = "or" if times == 2 else "to"
    return f"{name!r} occurs {times:,} times: say {name}#1 {between} {name}#{times}."


def _added(run: Run, n_keys: int) -> NDArray[np.bool_]:
    """(Nk,): which tokens the tokenizer has added."""
    tokens = run.tokens[0] if run.tokens else []
    added = [token.start == token.end for token in tokens[:n_keys]]
    return np.array(added + [False] * (n_keys - len(added)), dtype=np.bool_)


def query_positions(layer: Layer) -> NDArray[np.int64]:
    """(Nq,): where each query stands among the keys.

    >>> import torch, regard
    >>> from regard.run import Layer
    >>> q, k = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 5, 4)
    >>> _, seen = regard.attention(q, k, k, see=regard.See(top=1))
    >>> query_positions(Layer("a", seen))
    array([3, 4])
    """
    return np.arange(layer.shape[2]) + layer.offset


# ── links ─────────────────────────────────────────────────────────────────────────────────────


def strongest_links(
    run: Run,
    *,
    layer: int | None = None,
    head: int | None = None,
    query: int | None = None,
    everything: bool = False,
) -> list[Link]:
    """The strongest link of each head, the strongest first; a pair of tokens only once.

    Unless `everything`, links that are trivial are left out: those on the first token, on itself,
    and from or to special tokens. They are exact: the eight strongest keys of a query always have
    one that is not trivial, if there is one.

    >>> import torch, regard
    >>> from regard.run import Layer, Run
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q.roll(1, 2), q, scale=9.0, see=regard.See(top=3))
    >>> [(link.query, link.key) for link in strongest_links(Run({"a": Layer("a", seen)}))]
    [(0, 1)]
    """
    found: dict[tuple[int, int], Link] = {}
    each: list[Link] = []
    for index, one in enumerate(run.layers.values()):
        if layer in (None, index):
            each += _of_layer(run, index, one, head, query, everything)
    for link in sorted(each, key=lambda link: -link.weight):
        pair = (link.query, link.key)
        first = found.get(pair)
        found[pair] = link if first is None else replace(first, heads=first.heads + 1)
    return list(found.values())


def links_that_stand_out(
    run: Run, layer: int | None = None, head: int | None = None, query: int | None = None
) -> tuple[list[Link], bool]:
    """The links, and whether trivial ones are among them, as there are no better ones.

    >>> from regard.run import Run
    >>> links_that_stand_out(Run())
    ([], True)
    """
    links = strongest_links(run, layer=layer, head=head, query=query)
    links = [link for link in links if link.weight >= LEAST_WEIGHT]
    if links:
        return links, False
    return strongest_links(run, layer=layer, head=head, query=query, everything=True), True


def looks_of_token(run: Run, token: int) -> list[Link]:
    """The strongest key of the token in every head, in the order of the heads.

    >>> from regard.run import Run
    >>> looks_of_token(Run(), 0)
    []
    """
    return [
        link
        for index, layer in enumerate(run.layers.values())
        for link in _of_layer(run, index, layer, None, token, everything=True)
    ]


def _of_layer(
    run: Run, index: int, layer: Layer, head: int | None, query: int | None, everything: bool
) -> list[Link]:
    if layer.top_keys is None or layer.top_weights is None:
        return []
    keys = layer.top_keys[0].cpu().numpy()  # (H, Nq, top)
    weights = layer.top_weights[0].double().cpu().numpy()
    n_keys = layer.shape[3]
    known = keys >= 0
    if not everything:
        special = np.zeros(n_keys, bool) if layer.cross else _added(run, n_keys)
        places = query_positions(layer)
        known &= (keys != 0) & (keys != places[:, None]) & ~special[keys]
        known &= ~special[np.clip(places, 0, n_keys - 1)][:, None]
    if query is not None:
        known &= (np.arange(keys.shape[1]) == query)[:, None]
    strength = np.where(known, weights, -1.0).reshape(len(keys), -1)
    links: list[Link] = []
    for h, place in enumerate(strength.argmax(1).tolist() if strength.shape[1] else []):
        if strength[h, place] > 0 and head in (None, h):
            row, column = divmod(place, keys.shape[2])
            weight = float(strength[h, place])
            links.append(Link(index, h, row, int(keys[h, row, column]), weight))
    return links


def mean_looks(run: Run, token: int) -> Array:
    """(layers, N): the weights of the token in each layer, on average over its heads.

    Needs q and k.

    >>> import torch, regard
    >>> from regard.run import Layer, Options, Run
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=9.0, see=regard.See(top=3))
    >>> run = Run({"a": Layer("a", seen, Options(scale=9.0), q=q, k=q)})
    >>> mean_looks(run, 1).round(3)
    array([[0., 1., 0.]])
    """
    rows = [
        layer.weights(rows=slice(token, token + 1))[0, :, 0].double().mean(0).cpu().numpy()
        for layer in run.layers.values()
    ]
    return np.stack(rows) if rows else np.zeros((0, 0))
