"""`compare`: policies at the same memory, by the loss of what follows and by needles found."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard._arguments import shown, whole
from regard._watch import watch
from regard.evict.caches import check_kinds, check_share, forget
from regard.evict.needles import ROOM, Needle, needles_in
from regard.evict.policies import POLICIES, Full, Policy
from regard.observation import See

if TYPE_CHECKING:
    from regard.models import Loaded
    from regard.run import Run

_CALL = "compare()"
_LEAST = 16  # tokens of a text
_PIECE = 256  # tokens whose logits are in memory at a time

# What is done, how much of it, and of how much.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Score:
    """What a policy came to: `kept` keys a head of the prefix, `bytes` of keys and values.

    `loss` is the mean −ln of the probability of each token that follows, and `found` how many of
    the needles the model could say.
    """

    policy: str
    keep: float
    kept: int
    bytes: int
    loss: float
    found: int


@dataclass(frozen=True)
class Comparison:
    """The scores of policies on one text; the first is that of the full cache.

    >>> score = Score("Full", 1.0, kept=48, bytes=1024, loss=2.5, found=5)
    >>> Comparison("smollm2", 48, 16, 5, [score]).document()["scores"][0]["loss"]
    2.5
    """

    model: str
    prefix: int  # tokens in the cache
    continuation: int  # tokens whose loss is measured
    needles: int
    scores: list[Score]

    def document(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return asdict(self)

    def figure(
        self, path: str | Path, *, width: float = 7.0, dpi: float = 300, dark: bool = False
    ) -> None:
        """Write both charts as SVG, PDF or PNG, for print: loss and needles over what is kept."""
        from regard.view.figure import evict_figure

        evict_figure(self.document(), path, width, dpi, dark)


def compare(
    loaded: Loaded,
    text: str,
    keep: float | Sequence[float] = 0.25,
    *,
    policies: Sequence[Policy] = POLICIES,
    continuation: int | None = None,
    needles: int = 5,
    first: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """What each policy costs a model that has read a text, if it keeps so much of its cache.

    The last `continuation` tokens of the text, a quarter unless given, follow the rest, of which
    the cache keeps a part: their mean loss, each token being told. The first of them is predicted
    before anything is forgotten, and does not count. Then, `needles` times, a number is hidden in
    the rest, at another depth each time; the question comes at the end, the cache forgets, and the
    number is found if each of its tokens is the likeliest.

    The full cache, the first of the scores, is measured in any case. A policy that draws is
    measured once, with its own seed. Only the `first` tokens of the text are read, if given.

    >>> compare("a text", "b")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    TypeError: compare(): loaded must be a model that was loaded; got 'a text'. ...
    """
    shares, ids, count = _checked(loaded, text, keep, policies, continuation, needles, first)
    model: Any = loaded.model
    others = [each for each in policies if not isinstance(each, Full)]
    asked = [(cast("Policy", Full()), 1.0), *((each, share) for share in shares for each in others)]
    steps = (1 + needles) * (1 + len(asked))
    done = 0

    def tell(what: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(what, done, steps)

    losses, sizes, found = dict[int, float](), dict[int, tuple[int, int]](), [0] * len(asked)
    prefix = len(ids) - count
    tell("reading the text")
    full, run = _prefill(model, ids[:prefix])
    for n, (policy, share) in enumerate(asked):
        tell(f"{policy.name}, {share:g}: loss")
        cache = _left(full, policy, share, run)
        sizes[n] = cache.layers[0].keys.shape[2], _bytes(cache)
        losses[n] = _loss(model, cache, ids[prefix:])
    positions = getattr(model.config, "max_position_embeddings", None) or prefix + ROOM
    hay = ids[: min(prefix, positions - ROOM)].tolist()
    for number, needle in enumerate(needles_in(hay, loaded.tokenizer, needles)):
        tell(f"reading needle {number + 1}")
        full, run = _prefill(model, torch.tensor(needle.prompt[:-1]))
        for n, (policy, share) in enumerate(asked):
            tell(f"{policy.name}, {share:g}: needle {number + 1}")
            found[n] += _is_found(model, _left(full, policy, share, run), needle)
    scores = [
        Score(policy.name, share, *sizes[n], losses[n], found[n])
        for n, (policy, share) in enumerate(asked)
    ]
    return Comparison(loaded.name, prefix, count - 1, needles, scores)


def _checked(
    loaded: Loaded,
    text: str,
    keep: float | Sequence[float],
    policies: Sequence[Policy],
    continuation: int | None,
    needles: int,
    first: int | None,
) -> tuple[list[float], Tensor, int]:
    """The shares, the tokens, and how many of them are the continuation; before the model runs."""
    model: Any = getattr(loaded, "model", None)
    if not hasattr(model, "get_output_embeddings"):
        raise TypeError(
            f"{_CALL}: loaded must be a model that was loaded; got {shown(loaded)}. "
            'regard.models.load("smollm2") loads one.'
        )
    if model.get_output_embeddings() is None or not loaded.decoder:
        raise ValueError(
            f"{_CALL}: the model must predict the next token, from those before it; {loaded.name} "
            "does not. smollm2 does."
        )
    if "past_key_values" not in inspect.signature(model.forward).parameters:
        raise ValueError(
            f"{_CALL}: the model must take a cache of transformers (past_key_values); "
            f"{loaded.name} does not. regard.evict.forget() serves models of regard.nn."
        )
    given = keep if isinstance(keep, Sequence) else [keep]
    shares = sorted({check_share(_CALL, each) for each in given})
    if not shares:
        raise ValueError(f"{_CALL}: keep must be a share or several; got none. 0.25 is one.")
    if wrong := next((p for p in policies if not isinstance(cast("object", p), Policy)), None):
        raise TypeError(
            f"{_CALL}: policies must be of regard.evict; got {shown(wrong)}. "
            "regard.evict.SlidingWindow() is one."
        )
    whole(_CALL, "needles", needles, 0)
    ids = loaded.reader().read(text, "compare", first).ids
    if len(ids) < _LEAST:
        raise ValueError(
            f"{_CALL}: text must have at least {_LEAST} tokens; got {len(ids)}. "
            "A part of them is in the cache, the others follow."
        )
    count = len(ids) // 4 if continuation is None else continuation
    most = len(ids) - _LEAST // 2
    remedy = f"The text has {len(ids)} tokens, and {_LEAST // 2} at least are in the cache."
    whole(_CALL, "continuation", count, 2, most, remedy)
    check_kinds(_CALL, _new_cache(model))
    return shares, torch.tensor(ids), count


# ── one model ─────────────────────────────────────────────────────────────────────────────────


def _new_cache(model: Any) -> Any:
    from transformers import DynamicCache

    return DynamicCache(config=model.config)


def _prefill(model: Any, ids: Tensor) -> tuple[Any, Run]:
    """The cache of tokens (N,), and what was seen of them."""
    cache = _new_cache(model)
    taken = inspect.signature(model.forward).parameters
    less = {"logits_to_keep": 1} if "logits_to_keep" in taken else {}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with watch(model, See(received=True), keep=("q", "k")) as run:
            model(input_ids=ids[None], past_key_values=cache, use_cache=True, **less)
    return cache, run


def _left(cache: Any, policy: Policy, share: float, run: Run) -> Any:
    """A copy of the cache with what a policy leaves. Its layers grow by new tensors, so that the
    old ones are shared."""
    left = copy.copy(cache)
    left.layers = [copy.copy(layer) for layer in cache.layers]
    forget(left, policy, share, run)
    return left


def _bytes(cache: Any) -> int:
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)


@torch.no_grad()
def _logits(model: Any, cache: Any, ids: Tensor) -> Tensor:
    """(N, vocabulary) after each of the tokens (N,), which the cache takes in."""
    return model(input_ids=ids[None], past_key_values=cache, use_cache=True).logits[0].float()


def _loss(model: Any, cache: Any, ids: Tensor) -> float:
    """The mean loss of all tokens but the first."""
    total = 0.0
    for start in range(0, len(ids) - 1, _PIECE):
        some = ids[start : min(start + _PIECE, len(ids) - 1)]
        right = ids[start + 1 : start + 1 + len(some)]
        total += float(cross_entropy(_logits(model, cache, some), right, reduction="sum"))
    return total / (len(ids) - 1)


def _is_found(model: Any, cache: Any, needle: Needle) -> bool:
    told = torch.tensor([needle.prompt[-1], *needle.answer[:-1]])
    return _logits(model, cache, told).argmax(-1).tolist() == needle.answer
