"""The flow of a run whose model has no counterpart here: its attentions, as they were watched."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from regard._flow.changes import Change
from regard._flow.flow import Flow
from regard._flow.lazily import Band, LazyFlow
from regard._flow.outline import outline_of
from regard._rules.attention import Mixed, Scaled, Scored, Softmaxed
from regard._rules.general import Given
from regard._rules.rule import Axis, Step
from regard._steps import STEPS, dimensions
from regard._trace.build import LATER, attended, division
from regard.reference import Array
from regard.run import Layer, Run
from regard.text import labels_of

KEPT = ("q", "k", "v", "output")
_NONE = np.zeros(0)
_LACKS = (
    "Only the attentions of this model are shown, with its own numbers: what it does between them, "
    "and the weights that it was made with, was not seen."
)


class WatchedFlow(LazyFlow):
    """Q, K, V, scores, weights and output of each layer that a run has kept them of."""

    lacks = _LACKS

    def __init__(self, run: Run, layer: int = 0, why: str = "") -> None:
        super().__init__()
        if any(getattr(each, part) is None for each in run.layers.values() for part in KEPT):
            if run.again is None:
                raise ValueError(
                    f"flow(): the run must have kept {', '.join(KEPT)} of every layer, or know its "
                    f"model; it does neither. See the text with keep={KEPT}."
                )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they were told of the run itself
                run = run.again(keep=KEPT)
        if not run.layers:
            raise ValueError("flow(): the run must have seen a layer; it has none. run.notes: why.")
        self._layers, self._chosen = run.layers, layer
        self.title = run.text if isinstance(run.text, str) else ""
        self.model = run.model
        self.note = f"{_LACKS} {why}".strip()
        self._sequences = {"input": labels_of(run.tokens[0]) if run.tokens else ()}
        self._sketch: dict[str, Step] = {}
        for name, each in run.layers.items():
            self._sketch |= self._steps_of(name, each, None)
        self._sequences = {name: x for name, x in self._sequences.items() if x}

    @property
    def sketch(self) -> Mapping[str, Step]:
        return self._sketch

    @property
    def sequences(self) -> Mapping[str, tuple[str, ...]]:
        return self._sequences

    @property
    def chosen(self) -> str:
        return list(self._layers)[self._chosen]

    def _band_of(self, name: str) -> str:
        return name.rpartition(".")[0]

    def _with(self, changes: list[Change]) -> Flow:
        return self  # as it can make none

    def _outlined(self) -> dict[str, Any]:
        found = super()._outlined()
        bands = outline_of(self.sketch, self.sequences)["bands"]
        stages = [name for band in bands for name in band["stages"]]
        found["bands"] = [
            {
                "id": name,
                "title": f"Layer {n}{' (cross)' if layer.cross else ''}",
                "layer": n,
                "stack": "",
                **({"cross": True} if layer.cross else {}),
                "stages": [stage for stage in stages if self._band_of(stage) == name],
            }
            for n, (name, layer) in enumerate(self._layers.items())
        ]
        return found

    def _traced(self, band: str) -> Band:
        layer = self._layers[band]
        parts = {part: getattr(layer, part)[0].detach().double().cpu().numpy() for part in KEPT}
        return Band(self._steps_of(band, layer, parts), {})

    def _steps_of(self, name: str, layer: Layer, parts: dict[str, Array] | None) -> dict[str, Step]:
        """The steps of a layer, with numbers if there are any."""
        _, heads, n_queries, n_keys = layer.shape
        options = layer.options
        plain = layer.scores is options.softcap is options.sinks is options.segments is None
        divisor, formula = division(options.scale, layer.q.shape[-1] if layer.q is not None else 1)
        arrays: dict[str, Array] = {}
        if parts is not None:
            q, k, v = (parts[part] for part in ("q", "k", "v"))
            arrays = {"query": q, "key": k, "value": v, "head_output": parts["output"]}
            if plain:
                import torch

                device = torch.device("cpu")
                allowed = options.allowed(n_queries, n_keys, device)[0].cpu().numpy()
                bias = None if options.bias is None else options.bias[0].double().cpu().numpy()
                allowed, made = np.broadcast_to(allowed, (heads, n_queries, n_keys)), None
                made = attended(q, k, v, divisor, bias, mask=allowed)
                arrays |= {"scores": made.scores, "scaled": made.scaled, "weights": made.weights}
            else:
                arrays["weights"] = layer.weights()[0].double().cpu().numpy()
        begin = f"{name}."
        rules = {
            **dict.fromkeys(("query", "key", "value"), Given("the model's own")),
            "scores": Scored(begin + "query", begin + "key"),
            "scaled": Scaled(begin + "scores", divisor, None, options.causal),
            "weights": Softmaxed(begin + "scaled"),
            "head_output": Mixed(begin + "weights", begin + "value"),
        }
        if not plain or options.bias is not None:
            rules["scaled"] = Given("the model adds to its scores, which is not shown")
        if not plain:
            rules["weights"] = Given("the weights that the model has computed")
            del rules["scores"], rules["scaled"]
        found: dict[str, Step] = {}
        for step, rule in rules.items():
            kind = STEPS[step]
            own = layer.kv_heads or heads
            count = own if step in ("key", "value") else heads
            rows = self._labels(layer, n_keys if kind.of_keys else n_queries, keys=kind.of_keys)
            width = {"query": layer.q, "key": layer.k, "value": layer.v, "head_output": layer.v}
            columns = Axis("key token", self._labels(layer, n_keys, keys=True))
            if step in width and (tensor := width[step]) is not None:
                columns = dimensions(kind.symbol, tensor.shape[-1])
            axes = (
                Axis("head", tuple(f"head {h + 1}" for h in range(count))),
                Axis("key token" if kind.of_keys else "token", rows),
                columns,
            )
            words = formula + (LATER if options.causal else "")
            kind = replace(kind, rule=rule, formula=words if step == "scaled" else kind.formula)
            if isinstance(rule, Given):
                kind = replace(kind, formula=f"{kind.symbol}, as the model has it")
            found[begin + step] = kind.step(begin + step, axes, arrays.get(step, _NONE))
        return found

    def _labels(self, layer: Layer, count: int, *, keys: bool) -> tuple[str, ...]:
        """The tokens of a layer's queries or keys; their numbers where they are not known."""
        own = self._sequences["input"]
        if layer.tokens is not None and not (layer.cross and keys):
            own = tuple(token.label for token in layer.tokens[0]) if layer.tokens else ()
        if len(own) == count:
            if own != self._sequences["input"]:
                own = self._sequences.setdefault("target", own)
            return own
        numbers = tuple(str(n + 1) for n in range(count))
        name = "input" if not self._sequences["input"] else f"{count} tokens"
        return self._sequences.setdefault(name, numbers) or numbers
