"""The curves of a training for print: its loss and its scores over the steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.view.figure.lab import draw_lines
from regard.view.figure.sheet import Paper, Sheet


def draw(paper: Paper, document: Mapping[str, Any]) -> Sheet:
    """The loss in training and on what was kept aside, then each score by itself."""
    losses, validation = document["losses"], document["validation"]
    remark = f"Task: {document['task']}. {document['step']:,} of {document['steps']:,} steps."
    if losses["each"] > 1:
        remark += f" A point of the training loss is the mean of {losses['each']} steps."
    sheet = Sheet(paper, f"Training of {document['name']}", remark)
    curves = {"in training": losses, "kept aside": validation.get("loss")}
    _draw(sheet, "loss: mean −ln of the probability of what is right", curves)
    for name, curve in validation.items():
        if name != "loss":
            _draw(sheet, f"{name}: a share of what was kept aside", {name: curve})
    sheet.told = remark
    return sheet


def _draw(sheet: Sheet, y: str, curves: Mapping[str, Mapping[str, Any] | None]) -> None:
    series: list[dict[str, Any]] = []
    for name, curve in curves.items():
        if curve is not None:
            pairs = zip(curve["steps"], curve["values"], strict=True)
            known = [(step, value) for step, value in pairs if value is not None]
            if known:
                steps, values = zip(*known, strict=True)
                series.append({"name": name, "x": steps, "y": values})
    if series:
        draw_lines(sheet, {"x": "step", "y": y, "series": series, "log": ""})
