"""`lens`: what a model would predict if it ended after each of its layers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard._arguments import whole
from regard._watch.modules import main_tensor
from regard.ask._anatomy import Tail, block_modules, tail_of
from regard.ask._pass import again_of
from regard.ask._predictions import PIECE, SAME, Prediction, likeliest, texts_of
from regard.run.choose import Which, index_of, layer_index

if TYPE_CHECKING:
    from regard.models import Loaded
    from regard.run import Run

LENS = 256  # tokens of a text of which a page shows it

OfLayer = list[list[Prediction]]  # of each position the likeliest tokens


def lens(
    run: Run,
    layer: Which | None = None,
    top: int = 5,
    position: int | None = None,
    *,
    model: Loaded | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Any]:
    """What `predictions` says, read off the hidden state after a layer: p = softmax(head(norm(x))).

    x (N, width) is what the layer gives, `norm` the last one of the model, with the scale of x
    itself, and `head` its matrix. After the last layer that is what the model predicts.

    Of one `layer` a list of the `top` likeliest tokens at each position, as of `predictions`;
    without, one such list for each layer. With a `position` there is that one alone. The model
    reads the text once more, and what is in memory at a time are some rows of logits, never those
    of all positions or layers.

    Raises ValueError for a model that does not predict by a norm and one matrix.

    >>> import torch, regard
    >>> lens(regard.Run(output=torch.zeros(1, 1, 3)))
    Traceback (most recent call last):
    ValueError: lens(): the run must know its model, and be of one text; got one from a disk, ...
    """
    call = "lens()"
    top = whole(call, "top", top, 1)
    again = again_of(call, run, model)
    n = len(again.reading.ids)
    if position is not None:
        position = index_of(call, "position", position, n, f"There are {n} tokens.")
    number = None if layer is None else layer_index(call, run.layers, layer)
    tail = tail_of(call, run, again.loaded)
    blocks = block_modules(call, run, again.loaded)
    text_of = texts_of(again.loaded.tokenizer)
    found: dict[str, OfLayer] = {}
    last: list[Tensor] = []  # the logits after the last block, of the position that the model tells
    at = n - 1 if position is None else position

    def read(name: str, is_last: bool, _: nn.Module, __: Any, output: Any) -> None:
        hidden = main_tensor(output)
        assert hidden is not None
        if is_last:
            last.append(tail.logits(hidden[0, at, None])[0])
        rows = hidden[0] if position is None else hidden[0, position, None]
        found[name] = _read(rows, tail, text_of, top)

    names = list(blocks)
    wanted = names if number is None else [names[number]]
    hooks = [_on_exit(blocks[name], partial(read, name, name == names[-1])) for name in wanted]
    logits = again.logits(at, hooks, progress=progress)
    if last and not torch.allclose(
        last[0], logits, rtol=0.0, atol=SAME * float(logits.abs().max())
    ):
        away = float((last[0] - logits).abs().max())
        raise ValueError(
            f"{call}: {again.loaded.name} must predict by a norm and one matrix; after the last "
            f"layer these give logits that differ by {away:.2g} from its own. "
            "run.predictions() says what it predicts."
        )
    return [found[name] for name in names] if number is None else found[names[number]]


def lens_info(
    run: Run, top: int = 5, progress: Callable[[int, int], None] | None = None
) -> list[list[list[list[Any]]]] | None:
    """Of each layer and position the likeliest tokens with their probabilities, as pages are told;
    None of a run that does not know its model, of a long text, or of a model that has no lens.
    """
    if not has_lens(run):
        return None
    found: list[OfLayer] = lens(run, top=top, progress=progress)
    return [
        [[[each.token, round(each.probability, 6)] for each in one] for one in of] for of in found
    ]


def has_lens(run: Run) -> bool:
    """Can a page be told what a model would predict after each of its layers?"""
    if run.again is None:
        return False
    try:
        again = again_of("lens()", run, None)
        tail_of("lens()", run, again.loaded)
        block_modules("lens()", run, again.loaded)
    except ValueError:
        return False
    return len(again.reading.ids) <= LENS


def _read(rows: Tensor, tail: Tail, text_of: Callable[[int], str], top: int) -> OfLayer:
    """The likeliest tokens after each of the hidden states (rows, width), some at a time."""
    vocabulary: int = tail.head.weight.shape[0]  # pyright: ignore
    found: OfLayer = []
    for some in rows.split(max(1, PIECE // vocabulary)):
        found += likeliest(tail.logits(some), text_of, top)
    return found


def _on_exit(module: nn.Module, hook: Callable[..., None]) -> AbstractContextManager[object]:
    return module.register_forward_hook(hook)
