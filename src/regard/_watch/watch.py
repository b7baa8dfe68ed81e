"""`regard.watch`: inside the `with`, every attention that a model computes is seen."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from torch import nn

from regard._arguments import shown
from regard._attention.checks import check_see
from regard._watch.interventions import Interventions, LayerName, Link
from regard._watch.monitor import Monitor
from regard._watch.record import USUAL
from regard._watch.recording import Recording
from regard._watch.watching import Watching
from regard.observation import See
from regard.run import Run

_KEEP = ("q", "k", "v", "output", "hidden_states")


def watch(
    model: nn.Module,
    see: See | None = None,
    *,
    keep: Iterable[str] = (),
    layers: Sequence[LayerName] | LayerName | None = None,
    tokenizer: Any = None,
    text: str | list[str] | None = None,
    ablate: Mapping[LayerName, Iterable[int]] | None = None,
    block: Iterable[Link] | None = None,
    every: int | None = None,
    report: Callable[[dict[str, Any]], object] | str | Path | None = None,
    check: bool = False,
) -> AbstractContextManager[Run]:
    """Watch a PyTorch model: where every head of every layer looked, for `with … as run`.

    Inside the `with`, attention that the model computes goes through `regard.attention` and is
    recorded under its module's name; outside, nothing is left behind. `run` is complete when the
    `with` ends. What cannot be seen is in `run.unseen` and said in a warning.

    - `see`: what to look at in every layer. Unless given: entropy, the eight strongest keys, maps
      of 64 × 64, distance
    - `keep`: any of "q", "k", "v", "output" (of attention, for each head; and of the model, as
      `run.output`) and "hidden_states" (of each token after every block, for `run.effect`).
      With q and k every weight can be had later, exactly.
    - `layers`: only these, by name, pattern ("*.3.*"), or number in the order of computation. A
      module that runs several times in one pass has as many numbers.
    - `tokenizer`, `text`: name the tokens, with their spans
    - `ablate`: {layer: heads} whose outputs are zeroed, layers being named in the same ways
    - `block`: links (layer, head, query, key) that are masked; None is every head, or query
    - `every`: for training: look at every n-th call of the model only, and hand {step, layer,
      entropy, max_logit and sink of each head} to `report`, a function or a file of JSON lines,
      instead of keeping it. `regard.monitor` does so step by step
    - `check`: run every call unwatched, too, on copies of what it may change, and raise an error if
      the outputs differ by more than rounding; more than twice the time

    >>> import torch
    >>> layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    >>> with watch(layer) as run, torch.no_grad():
    ...     out = layer(torch.randn(2, 5, 16))
    >>> run.layers["self_attn"].entropy.shape
    torch.Size([2, 4, 5])
    """
    check_model("watch()", model)
    if see is not None:
        check_see("watch()", see)
        if see.queries is not None:
            raise ValueError(
                "watch(): see.queries must be None; got a tensor. "
                "Which tokens are padding is read from the model's own masks."
            )
        if see.norms is not None:
            raise ValueError(
                "watch(): see.norms must be None; got a tensor. "
                "Each layer has values of its own, whose norms are taken."
            )
    kept = frozenset((keep,) if isinstance(keep, str) else keep)
    if not kept <= set(_KEEP):
        wrong = ", ".join(sorted(map(str, kept - set(_KEEP))))
        raise ValueError(
            f"watch(): keep must be some of {', '.join(_KEEP)}; got {wrong}. "
            'keep=("q", "k") makes every weight available later.'
        )
    if layers is not None:
        layers = (layers,) if isinstance(layers, str | int) else layers
        if not isinstance(cast("object", layers), Sequence) or not all(
            isinstance(each, str) or (type(each) is int and each >= 0) for each in layers
        ):
            raise ValueError(
                "watch(): layers must be names, patterns, or numbers from 0 on; "
                f"got {shown(layers)}. Layers are numbered in the order of computation."
            )
        layers = tuple(layers)
    if cast("object", check) not in (True, False):
        raise TypeError(
            f"watch(): check must be True or False; got {shown(check)}. "
            "True runs every call unwatched, too, and compares."
        )
    if check and (ablate is not None or block is not None):
        raise ValueError(
            "watch(): check must be False with ablate or block; got True. "
            "These are to change what the model computes: check without them."
        )
    monitor = None
    if every is not None or report is not None:
        monitor = Monitor(every, report)
        see = replace(See() if see is None else see, entropy=True, max_logit=True)
    see = USUAL if see is None else see
    interventions = Interventions(model, ablate, block)
    recording = Recording(model, see, kept, layers, interventions, monitor, tokenizer)
    return WatchContext(Watching(model, recording, text, check))


def check_model(call: str, model: object) -> None:
    """Refuse what is no model, or one whose modules do not run by themselves."""
    if type(model).__module__.startswith("torch._dynamo"):  # importing it takes a second
        raise TypeError(
            f"{call}: model must be one that is not compiled; got the result of torch.compile. "
            "Watch the module that was compiled, model._orig_mod, and call that."
        )
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"{call}: model must be a torch.nn.Module; got {shown(model)}. "
            "regard.models.load(name) gives one."
        )


class WatchContext(AbstractContextManager[Run]):
    """The `with`. An interrupt that comes as it ends may keep `__exit__` from running at all: then
    everything is put back when this goes."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._at_last = weakref.finalize(self, watching.release)
        self._at_last.atexit = False

    def __enter__(self) -> Run:
        return self._watching.enter()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._watching.leave(error)
        finally:
            self._watching.release()
        self._at_last.detach()
