"""`why`: which heads and layers a token's logit comes from, and what changes without a head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from regard._arguments import shown, whole
from regard.ask._anatomy import (
    Tail,
    blocks_of,
    check_head,
    residual_scale,
    tail_of,
    tokens_times,
    tolerance_of,
)
from regard.ask._pass import Again, again_of, row
from regard.ask._predictions import texts_of
from regard.ask._taken import Taken, head_shares
from regard.run.choose import index_of

if TYPE_CHECKING:
    from regard.models import Loaded
    from regard.run import Run

_CALL = "why()"
_ENOUGH = 0.25  # of its share: how far the true change may be from it, and still be called the same
_LEAST = 0.02  # of a logit: what is less than that is called nothing

Kind = Literal["head", "feed_forward", "embedding", "bias"]
Verdict = Literal["holds", "less", "more", "opposite"]


@dataclass(frozen=True)
class Part:
    """A part of a logit: what it comes from, by its kind and its name, and its share.

    A head is called 3.5, head 5 of layer 3; `layer` and `head` are None where there are none.
    """

    kind: Kind
    name: str
    share: float
    layer: int | None = None
    head: int | None = None


@dataclass(frozen=True)
class Ablated:
    """A head that was ablated: its `share`, and what was really `lost` without it.

    `lost` is what is explained, less what it is in a pass in which the head gives 0 at every
    position. `verdict`: the loss `holds` the share, within a quarter of it; or it is `less`, as
    others make up for it, or `more`, as others build on it; or it is the `opposite`.
    """

    layer: int
    head: int
    share: float
    lost: float

    @property
    def verdict(self) -> Verdict:
        if abs(self.lost - self.share) <= max(_ENOUGH * abs(self.share), _LEAST):
            return "holds"
        if self.lost * self.share < 0 and abs(self.lost) > _LEAST:
            return "opposite"
        return "less" if abs(self.lost) < abs(self.share) else "more"


@dataclass(frozen=True)
class Token:
    """A token by its text and id: its logit, before a cap, and its probability."""

    text: str
    id: int
    logit: float
    probability: float


@dataclass(frozen=True, eq=False)
class Why:
    """Where a logit comes from, or the difference of two: `total` = Σ `parts` + `rounding`.

    - `position`: after which token; `token`, and `against` which other one, or None
    - `heads`: of each layer the share of each head; `feed_forward`: of each layer
    - `embeddings`, `biases`: by name
    - `ablated`: the strongest heads, and what changes without each
    - `softcap` c, where the model's logits are c·tanh(logit / c): what is explained is before that
    """

    model: str
    position: int
    token: Token
    against: Token | None
    total: float
    heads: list[list[float]]
    feed_forward: list[float]
    embeddings: dict[str, float]
    biases: dict[str, float]
    softcap: float | None = None
    ablated: tuple[Ablated, ...] = ()

    @property
    def parts(self) -> list[Part]:
        """All parts, the largest first, by their size whatever their sign."""
        found = [Part("embedding", name, share) for name, share in self.embeddings.items()]
        found += [Part("bias", name, share) for name, share in self.biases.items()]
        for layer, share in enumerate(self.feed_forward):
            found.append(Part("feed_forward", f"feed-forward {layer}", share, layer))
        for layer, shares in enumerate(self.heads):
            for head, share in enumerate(shares):
                found.append(Part("head", f"{layer}.{head}", share, layer, head))
        return sorted(found, key=lambda part: -abs(part.share))

    @property
    def rounding(self) -> float:
        """What the parts lack of the total: rounding, and nothing else."""
        return self.total - sum(part.share for part in self.parts)

    def info(self) -> dict[str, Any]:
        """As JSON and pages have it."""
        return {
            "position": self.position,
            "token": vars(self.token),
            "against": None if self.against is None else vars(self.against),
            "total": self.total,
            "rounding": self.rounding,
            "softcap": self.softcap,
            "heads": self.heads,
            "feed_forward": self.feed_forward,
            "embeddings": self.embeddings,
            "biases": self.biases,
            "ablated": [{**vars(each), "verdict": each.verdict} for each in self.ablated],
        }


def why(
    run: Run,
    position: int,
    token: str | int,
    against: str | int | None = None,
    *,
    ablate: int = 5,
    model: Loaded | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Why:
    """How much of a token's logit after a position comes from each head, each feed-forward layer,
    the embeddings and the biases; with `against`, of the difference of the two tokens' logits.

    The last hidden state x is the sum of what the parts have added to it, and with the scale of the
    last norm held as it was, logit = w · norm(x) + b is linear in x: so it is the sum of a share
    for each part. That is direct attribution: what a part does by way of later parts is in theirs.

    - `token`, `against`: a text that is one token, a blank before it included, or an id
    - `ablate`: how many of the strongest heads are ablated, one by one, each in a pass of its own,
      for what is really lost without them

    The model reads the text once more. Raises ValueError, before it does, for a model whose logits
    are no such sum, and for what is no token; and ArithmeticError if the parts do not add up.

    >>> import regard
    >>> why(regard.Run(), 0, " Mary")
    Traceback (most recent call last):
    ValueError: why(): the run must know its model, and be of one text; got one from a disk, or ...
    """
    ablate = whole(_CALL, "ablate", ablate, 0, remedy="0 ablates none.")
    again = again_of(_CALL, run, model)
    loaded, n = again.loaded, len(again.reading.ids)
    position = index_of(_CALL, "position", position, n, f"There are {n} tokens.")
    tail = tail_of(_CALL, run, loaded)
    blocks = blocks_of(_CALL, run, loaded)
    ids = ids_of(loaded, token, against)
    taken = Taken(loaded.model, blocks, tail, position, n)
    logits = again.logits(position, taken.hooks, progress=progress)
    found = _attributed(loaded, tail, taken, logits.double(), position, ids)
    return replace(found, ablated=_ablated(found, again, run, ids, ablate, tail))


def _attributed(
    loaded: Loaded, tail: Tail, taken: Taken, logits: Tensor, position: int, ids: list[int]
) -> Why:
    """The shares, from what a pass has given to a position; `logits` (vocabulary,) are the model's
    there. Raises ArithmeticError if the parts do not add up.
    """
    # How far parts may be from the logit, of the largest one of the position; and vectors that
    # ought to be the same from each other, of their length.
    tolerance = tolerance_of(loaded)
    try:
        norm, raw = taken.last(tolerance)
        scale = residual_scale(loaded)
        updates = taken.updates(scale, tolerance)
        embeddings = taken.embeddings(tokens_times(loaded), tolerance)
    except ArithmeticError as error:
        raise ArithmeticError(
            f"{_CALL}: the parts of {loaded.name} must add up to its logits; got {error}. Nothing "
            "can be said of its heads' shares; run.lens() and ablate=… do without."
        ) from error
    raw = raw.double() * tail.scale
    _check_capped(tail.capped(raw), logits, tolerance, loaded)
    head: Any = tail.head
    weight, bias = head.weight.detach()[ids].double(), getattr(head, "bias", None)
    signs = _signs(ids)
    u, shifted = norm.back((signs @ weight) * tail.scale)
    biases = {"last norm": shifted}
    if bias is not None:
        biases["head"] = float(signs @ bias.detach()[ids].double()) * tail.scale
    shares: list[list[float]] = []
    for number, update in enumerate(updates):
        each, rest = head_shares(update, u * scale)
        shares.append(each)
        biases[f"attention {number}"] = rest
    likely, text_of = logits.softmax(-1), texts_of(loaded.tokenizer)
    tokens = [Token(text_of(id), id, float(raw[id]), float(likely[id])) for id in ids]
    found = Why(
        loaded.name,
        position,
        tokens[0],
        tokens[1] if len(tokens) > 1 else None,
        float(signs @ raw[ids]),
        shares,
        [float(u @ update.feed_forward) * scale for update in updates],
        {name: float(u @ x) for name, x in embeddings.items()},
        {name: share for name, share in biases.items() if share != 0.0},
        tail.softcap,
    )
    largest = float(raw.abs().max())
    if not abs(found.rounding) <= tolerance * largest:
        raise ArithmeticError(
            f"{_CALL}: the parts of {loaded.name} must add up to the logit, {found.total:.6g}; got "
            f"{found.total - found.rounding:.6g}. Nothing can be said of its heads' shares."
        )
    return found


def _signs(ids: list[int]) -> Tensor:
    """What the logits of one token, or of two, are multiplied with: 1, and −1 for the other."""
    return torch.tensor([1.0, -1.0][: len(ids)], dtype=torch.float64)


def ids_of(loaded: Loaded, token: str | int, against: str | int | None) -> list[int]:
    """The ids of one token, or of two. Raises ValueError and TypeError, before any pass, for what
    is not one token, and for a model that predicts none.
    """
    check_head(_CALL, loaded)
    head: Any = loaded.model.get_output_embeddings()
    given = {"token": token} if against is None else {"token": token, "against": against}
    ids = [_id(loaded, name, each, head.weight.shape[0]) for name, each in given.items()]
    if len(set(ids)) < len(ids):
        raise ValueError(
            f"{_CALL}: against must be another token than token; got {shown(against)} for both. "
            "Leave it out for the logit alone."
        )
    return ids


def _ablated(
    found: Why,
    again: Again,
    run: Run,
    ids: list[int],
    count: int,
    tail: Tail,
) -> tuple[Ablated, ...]:
    """The heads with the largest shares, and what is lost without each."""
    names = list(run.layers)
    heads = [
        part
        for part in found.parts
        if part.kind == "head" and part.head not in again.ablated.get(names[part.layer or 0], ())
    ]
    rows: list[Ablated] = []
    for part in heads[:count]:
        assert part.layer is not None
        assert part.head is not None
        raw: list[Tensor] = []  # before a cap
        hook = tail.head.register_forward_hook(lambda _, __, output, raw=raw: raw.append(output))
        again.logits(found.position, [hook], without=(names[part.layer], part.head))
        logits = raw[0][0, row(raw[0], found.position), ids].double() * tail.scale
        lost = found.total - float(_signs(ids) @ logits)
        rows.append(Ablated(part.layer, part.head, part.share, lost))
    return tuple(rows)


def _check_capped(made: Tensor, given: Tensor, tolerance: float, loaded: Loaded) -> None:
    """Raise ArithmeticError if the model does more with its head's logits than is known."""
    away = float((made - given).abs().max())
    if not away <= tolerance * float(given.abs().max()):
        raise ArithmeticError(
            f"{_CALL}: the logits of {loaded.name} must be what its head gives, scaled or capped "
            f"as its config says; got logits that differ by {away:.2g}. Shares cannot be told."
        )


def _id(loaded: Loaded, name: str, token: object, vocabulary: int) -> int:
    """The id of what must be one token. Raises ValueError and TypeError, with its pieces if it is
    several.
    """
    if not isinstance(token, str):
        remedy = f"There are {vocabulary:,} tokens; a text that is one, such as ' Mary', will do."
        return whole(_CALL, name, token, 0, vocabulary - 1, remedy)
    tokenizer: Any = loaded.tokenizer
    if tokenizer is None:
        raise ValueError(
            f"{_CALL}: {name} must be an id where there is no tokenizer; got {shown(token)}. "
            f"{loaded.name} has none."
        )
    encoding = tokenizer.backend_tokenizer.encode(token, add_special_tokens=False)
    ids: list[int] = encoding.ids
    unknown = getattr(tokenizer, "unk_token_id", None)
    if len(ids) != 1 or (ids[0] == unknown and token != tokenizer.unk_token):
        text_of = texts_of(tokenizer)
        pieces = ", ".join(repr(text_of(id)) for id in ids) or "none"
        blank, more = f" {token}", ""
        if (
            len(tokenizer.backend_tokenizer.encode(blank, add_special_tokens=False).ids)
            == 1
            < len(ids)
        ):
            more = f" With a blank, {blank!r}, it is one."
        raise ValueError(
            f"{_CALL}: {name} must be one token of {loaded.name}; got {shown(token)}, which is "
            f"{len(ids)}: {pieces}. Give one of them.{more}"
        )
    return whole(_CALL, name, ids[0], 0, vocabulary - 1, "The head has no row for it.")
