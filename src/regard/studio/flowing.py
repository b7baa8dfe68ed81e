"""Flows in the process that reads texts: opened, kept for a while, and asked."""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from regard._flow import Flow
    from regard.models import Loaded
    from regard.run import Run

_MOST_OPEN = 4  # flows in memory: the pass itself, and some that were changed
_MOST_KEPT = 1_000  # tokens of a run that is kept for a flow of it


class OpenFlows:
    """The flows of the model that is loaded, each by what it was made from."""

    def __init__(self) -> None:
        self._flows: OrderedDict[str, Flow] = OrderedDict()
        self._run: tuple[str, Run] | None = None  # the last that was read

    def forget(self) -> None:
        """All of it, as another model is loaded."""
        self._flows.clear()
        self._run = None

    def keep(self, origin: dict[str, Any], run: Run) -> None:
        """The run that was just read, which a flow is likely to be asked of."""
        few = max((x.shape[3] for x in run.layers.values()), default=0) <= _MOST_KEPT
        self._run = (_key(origin), run) if few else None
        if few:
            from regard._flow.counterpart import prepare

            prepare(run)

    def answer(
        self, asked: dict[str, Any], loaded: Loaded, progress: Callable[[int, int], None]
    ) -> Any:
        """What a flow is asked: `origin` says which, and it is opened if it is not open. Of a run
        itself, what it predicts, after each layer too, and why.
        """
        if asked["question"] == "of the run":
            run = self._read(asked["origin"], loaded, progress)
            return answer_of_run(run, asked["given"], progress)
        flow = self._find(asked["origin"], loaded, progress)
        return answer(flow, asked["question"], asked["given"])

    def _find(
        self, origin: dict[str, Any], loaded: Loaded, progress: Callable[[int, int], None]
    ) -> Flow:
        key = json.dumps([_key(origin), origin["layer"], origin["changes"]])
        if key in self._flows:
            self._flows.move_to_end(key)
            return self._flows[key]
        if origin["changes"]:
            first = self._find({**origin, "changes": []}, loaded, progress)
            flow = first.changed(origin["changes"])
        else:
            flow = self._read(origin, loaded, progress).flow(origin["layer"])
        self._flows[key] = flow
        while len(self._flows) > _MOST_OPEN:
            self._flows.popitem(last=False)
        return flow

    def _read(
        self, origin: dict[str, Any], loaded: Loaded, progress: Callable[[int, int], None]
    ) -> Run:
        if self._run is None or self._run[0] != _key(origin):
            ablate = {int(layer): heads for layer, heads in origin["ablate"].items()}
            keep = ("q", "k", "hidden_states")
            run = loaded.see(origin["text"], keep=keep, ablate=ablate or None, progress=progress)
            self.keep(origin, run)
            return run
        return self._run[1]


def _key(origin: dict[str, Any]) -> str:
    """What a run was made from."""
    return json.dumps([origin["model"], origin["text"], sorted(origin["ablate"].items())])


def answer_of_run(run: Run, given: dict[str, Any], progress: Callable[[int, int], None]) -> Any:
    """What the model of a run is asked besides: `what`, and what belongs to it."""
    from regard.ask import lens_info, predictions_info, why

    if given["what"] == "predictions":
        return predictions_info(run)
    if given["what"] == "lens":
        return lens_info(run, progress=progress)
    asked = given["position"], given["token"], given["against"]
    try:
        return why(run, *asked, progress=progress).info()
    except ArithmeticError as error:  # its parts do not add up, which is said in words
        raise ValueError(str(error)) from error


def answer(flow: Flow, question: str, given: dict[str, Any]) -> Any:
    """The answer to one question, as plain data; arrays are packed."""
    if question == "outline":
        return flow.outline
    if question == "picture":
        values, block = flow.picture(given["stage"], given["head"])
        return {"array": packed(values.astype("<f4")), "about": {"block": list(block)}}
    if question == "cells":
        spans = (given["first_row"], given["end_row"]), (given["first_column"], given["end_column"])
        cells = flow.cells(given["stage"], given["head"], *spans)
        return {"array": packed(cells.astype("<f8")), "about": {}}
    if question == "explain":
        line = flow.explain(given["stage"], given["head"], given["row"], given["column"])
        return {"line": str(line), "value": line.value}
    if question == "steps":
        return flow.steps_of(given["stage"], given["head"]).to_json()
    found = flow.predictions(given["position"])
    return found and [{"token": each.token, "probability": each.probability} for each in found]


def packed(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """An array as JSON has room for: its type, its shape, its bytes in base 64."""
    content = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"type": array.dtype.str, "shape": list(array.shape), "bytes": content}
