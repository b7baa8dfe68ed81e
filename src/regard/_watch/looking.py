"""How one step of a training is looked at: modules of `regard.nn` are asked, others are watched."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor, nn

from regard._attention import Options
from regard._attention.options import Window
from regard._watch.call import Call
from regard._watch.interventions import Interventions
from regard._watch.recording import Recording
from regard._watch.shares import dots_of, shares_of
from regard._watch.signs import Signs, largest, signs_of, table_of
from regard._watch.watching import Watching
from regard.nn import MultiHeadAttention
from regard.observation import Observation, See

SEE = See(entropy=True, max_logit=True)


class Looking(Protocol):
    """Looks at what a model computes between `begin` and `end`, or `stop`, which tells nothing."""

    unseen: list[str]  # what could not be seen

    def begin(self) -> None: ...

    def end(self) -> dict[str, Signs]: ...

    def stop(self, error: BaseException | None = None) -> None: ...


def looking_at(model: nn.Module) -> Looking:
    """Our own models are asked; whatever a class of somebody else's computes has to be watched."""
    return Asked(model) if type(model).__module__.startswith("regard.nn.") else Watched(model)


# ── any model ─────────────────────────────────────────────────────────────────────────────────


class Watched:
    """As `regard.watch` sees it; between the steps nothing is installed."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._watching: Watching | None = None
        self._recording: Recording | None = None
        self.unseen: list[str] = []

    def begin(self) -> None:
        none = Interventions(self._model, None, None)
        recording = Recording(self._model, SEE, frozenset(), None, none, None, None)
        recording.shares = ("first",)
        watching = Watching(self._model, recording, None)
        watching.enter()
        self._watching = watching

    def end(self) -> dict[str, Signs]:
        watching, self._watching = self._watching, None
        assert watching is not None
        run = watching.leave(None, quiet=True)
        self.unseen = run.unseen
        tables: dict[str, list[Tensor]] = {}
        for name, layer in run.layers.items():  # a module that was called twice is name, name#2
            tables.setdefault(name.partition("#")[0], []).append(table_of(layer))
        return {name: signs_of(each) for name, each in tables.items()}

    def stop(self, error: BaseException | None = None) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.leave(error, quiet=True)


# ── modules of regard.nn ──────────────────────────────────────────────────────────────────────

# What attentions without masks saw, each (B, H, Nq): of one form, they are summed up together.
_Form = tuple[bool, Window | None, tuple[int, ...], int, bool]
_Seen = tuple[str, Tensor, Tensor, Tensor | None]  # a name, entropy, largest logit, weight on first


class Asked:
    """They say themselves what they saw: to watch a model costs more than a small step may."""

    see = SEE

    def __init__(self, model: nn.Module) -> None:
        self._layers = {
            module: name
            for name, module in model.named_modules()
            if isinstance(module, MultiHeadAttention)
        }
        self._plain: dict[_Form, list[_Seen]] = {}
        self._tables: dict[str, list[Tensor]] = {}
        self.unseen: list[str] = []

    def begin(self) -> None:
        if any(module.watcher is not None for module in self._layers):
            raise RuntimeError(
                "monitor(): a module can be watched by one at a time; it is being watched already. "
                "End the other's step first."
            )
        self._plain, self._tables = {}, {name: [] for name in self._layers.values()}
        for module in self._layers:
            module.watcher = self

    def stop(self, error: BaseException | None = None) -> None:
        for module in self._layers:
            if module.watcher is self:
                del module.watcher

    def end(self) -> dict[str, Signs]:
        self.stop()
        for form, seen in self._plain.items():
            for (name, *_), table in zip(seen, _tables(form, seen), strict=True):
                self._tables[name].append(table)
        return {name: signs_of(tables) for name, tables in self._tables.items() if tables}

    @torch.no_grad()
    def take(
        self,
        module: nn.Module,
        seen: Observation,
        options: Options,
        q: Tensor,
        k: Tensor,
        *,
        is_cross: bool,
    ) -> None:
        """One call. Padding counts in no mean."""
        assert isinstance(module, MultiHeadAttention)
        assert seen.entropy is not None
        assert seen.max_logit is not None
        name, entropy, n_keys = self._layers[module], seen.entropy, k.shape[2]
        window, lengths = options.window, options.lengths
        if options.mask is options.bias is lengths is None and entropy.numel() and n_keys:
            sink = None
            if not is_cross:
                sink = _on_first(q, k, seen.lse, options)
            form = options.causal, window, tuple(entropy.shape), n_keys, is_cross
            self._plain.setdefault(form, []).append((name, entropy, seen.max_logit, sink))
            return
        batch, heads, n_queries = entropy.shape
        use = seen.lse > -math.inf
        if lengths is not None and not is_cross:
            real = torch.arange(n_queries, device=use.device) < lengths[:, None]
            use = use & real[:, None]
        most = options.count((batch, heads, n_queries, n_keys), entropy.device)
        most = most.clamp(min=1).double().log()
        shares = {"entropy": entropy.double(), "spread": entropy.double() / most}
        if not is_cross and n_keys:
            shares["sink"] = _on_first(q, k, seen.lse, options).double()
        rows: list[Tensor] = []
        for sign in ("entropy", "spread", "sink"):
            x = shares.get(sign, use.new_zeros((), dtype=torch.float64))
            counted = use & (most > 0) if sign == "spread" else use & (sign in shares)
            rows += [torch.where(counted, x, 0.0).sum((0, 2)), counted.sum((0, 2)).double()]
        logits = torch.where(use, seen.max_logit.double(), -math.inf)
        self._tables[name].append(torch.stack([*rows, largest(logits, (0, 2))]))


def _on_first(q: Tensor, k: Tensor, lse: Tensor, options: Options) -> Tensor:
    """(B, H, Nq) The weight on the first key, 0 where a query may not attend to it."""
    if options.window is options.mask is options.bias is options.lengths is None:
        dots = dots_of(q.to(lse.dtype), k[:, :, :1].to(lse.dtype))
        return (options.scores(dots, q.shape[3], None) - lse).exp_()
    call, start = Call(q, k, k, options), torch.zeros(1, 1, dtype=torch.int64, device=q.device)
    return shares_of(call, lse, start, None, False, ("first",))["first"]


def _tables(form: _Form, seen: Iterable[_Seen]) -> Tensor:
    """(L, 7, H) of several calls without masks, as `table_of` has them."""
    causal, window, (batch, _, n_queries), n_keys, is_cross = form
    _, entropies, logits, sinks = zip(*seen, strict=True)
    inverse, count = _of_equal(causal, window, n_queries, n_keys)
    entropy = torch.stack(entropies)
    total = entropy.sum((1, 3), dtype=torch.float64)
    spread = (entropy * inverse.to(entropy.device)).sum((1, 3))
    sink = torch.zeros_like(total) if is_cross else torch.stack(sinks).sum((1, 3)).double()
    one = torch.ones_like(total)
    counts = (one * (batch * n) for n in (n_queries, count, 0 if is_cross else n_queries))
    pairs = zip((total, spread, sink), counts, strict=True)
    most = torch.stack(logits).amax((1, 3)).double()
    return torch.stack([*(each for pair in pairs for each in pair), most], 1)


@lru_cache(64)
def _of_equal(
    causal: bool, window: Window | None, n_queries: int, n_keys: int
) -> tuple[Tensor, int]:
    """One over the entropy of equal weights, of each query, 0 where that is 0; and how many are
    not.
    """
    shape = (1, 1, n_queries, n_keys)
    counts = Options(causal, window).count(shape, torch.device("cpu"))[0, 0]
    most = counts.clamp(min=1).double().log()
    return torch.where(most > 0, 1 / most, 0.0), int((most > 0).sum())
