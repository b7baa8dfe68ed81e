"""The outline of a flow: which stages there are, in which bands, and what each was made from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from regard._rules.attention import Scaled
from regard._rules.general import Copied
from regard._rules.rule import Axis, Rule, Step
from regard._steps import STEPS, dimensions

ALONE = "attention"  # the id of an attention that is the whole model, and of its band
_LAYER = re.compile(r"(?:.*\.)?layers\.(\d+)\.")
# The steps of an attention, by the last part of their names.
_OF_ATTENTION = {*STEPS, "context", "down", "bias", "turned_query", "turned_key"}
_OF_KEYS = {"key", "value", "turned_key", "down"}
_MOST_LABELS = 100  # of columns that no sequence names


def outline_of(
    steps: Mapping[str, Step], sequences: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    """`bands`, `stages` and `sequences`, as docs/flow.md has them; numbers are not looked at.

    A step that is nothing but another one under a new name is left out where that other stands,
    unless a band begins with it.

    >>> from regard import trace
    >>> made = trace("I love apple phones")
    >>> made = outline_of(made.steps, made.sequences)
    >>> [band["title"] for band in made["bands"]], made["stages"]["scores"]["from"]
    (['Attention'], ['query', 'key'])
    """
    names = {id(labels): _sequence(name) for name, labels in sequences.items()}
    by_value = {labels: _sequence(name) for name, labels in reversed([*sequences.items()])}
    attentions = {name.rpartition(".")[0] for name in steps if _part(name) == "weights"}
    bands = _bands(steps)
    firsts = {band["stages"][0] for band in bands}
    same = {
        name: step.rule.of
        for name, step in steps.items()
        if isinstance(step.rule, Copied)
        and step.rule.row < 0
        and not step.rule.words
        and name not in firsts
        and _part(name) != "context"
    }

    def root(name: str) -> str:
        while name in same:
            name = same[name]
        return name

    def labels_of(axis: Axis) -> str | list[str] | None:
        found = names.get(id(axis.labels)) or by_value.get(axis.labels)
        if axis.name != "dimension" and found is not None:
            return found
        plain = (
            axis.name == "dimension"
            and axis.labels == dimensions(axis.labels[0], len(axis.labels)).labels
        )
        return None if plain or len(axis.labels) > _MOST_LABELS else list(axis.labels)

    stages: dict[str, Any] = {}
    for name, step in steps.items():
        if name in same:
            continue
        path, part = name.rpartition(".")[0], _part(name)
        own = part in _OF_ATTENTION and path in attentions
        heads, rows, columns = sizes(step)
        if own and part in _OF_KEYS:  # which may serve several heads, and stand there for each
            heads = sizes(steps[f"{path}.weights".removeprefix(".")])[0]
        stages[name] = {
            **{word: getattr(step, word) for word in ("title", "symbol", "formula", "meaning")},
            "part": part,
            "attention": (path or ALONE) if own else "",
            "heads": heads,
            "rows": rows,
            "columns": columns,
            "row_labels": labels_of(step.axes[-2]) or list(step.axes[-2].labels),
            "column_labels": labels_of(step.axes[-1]),
            "from": list(
                dict.fromkeys(root(other) for other in made_from(step.rule) if other in steps)
            ),
        }
        if step.kind:
            stages[name]["kind"] = step.kind
        if isinstance(step.rule, Scaled):
            stages[name] |= {"plain": step.rule.plain, "causal": step.rule.causal}
    for band in bands:
        band["stages"] = [name for name in band["stages"] if name in stages]
    return {
        "sequences": {_sequence(name): list(labels) for name, labels in sequences.items()},
        "bands": bands,
        "stages": stages,
    }


def sizes(step: Step) -> tuple[int, int, int]:
    """Heads, rows and columns of a step, by its labels."""
    rows, columns = (len(axis.labels) for axis in step.axes[-2:])
    return len(step.axes[0].labels) if step.has_heads else 1, rows, columns


def made_from(rule: Rule) -> list[str]:
    """The names of the steps and matrices that a rule names, in its order."""
    found: list[str] = []
    for field in fields(rule):
        if "Name" in str(field.type) and (value := getattr(rule, field.name)):
            found += [value] if isinstance(value, str) else value
    return found


def _part(name: str) -> str:
    return name.rpartition(".")[2]


def _sequence(name: str) -> str:
    """What is read is the input, whatever is written besides."""
    return "input" if name == "source" else name


def _bands(steps: Mapping[str, Step]) -> list[dict[str, Any]]:
    """Each layer is a band, and so is what stands before, between and behind them."""
    both = any(name.startswith("encoder.layers.") for name in steps) and any(
        name.startswith("decoder.layers.") for name in steps
    )
    found: dict[str, dict[str, Any]] = {}
    current = ""
    for name in steps:
        layer = _LAYER.match(name)
        if layer is not None:
            current = layer[0].rstrip(".")
        elif not current or _LAYER.match(f"{current}."):
            current = "output" if found else "input"
            if current == "output" and name.startswith("encoder."):
                current = "encoder.output"
        if name.startswith("target_embedding."):
            current = "target"
        band = found.setdefault(current, {"id": current, "stages": []})
        band["stages"].append(name)
    if list(found) == ["input"]:
        only = found["input"]
        only["id"] = ALONE if "weights" in steps else "pass"
    titles = {"input": "Input", "target": "Target", "encoder.output": "Encoded", "output": "Output"}
    titles |= {ALONE: "Attention", "pass": "The pass"}
    bands: list[dict[str, Any]] = []
    for band in found.values():
        layer = _LAYER.match(f"{band['id']}.")
        number = None if layer is None else int(layer[1])
        stack = ""
        if both:
            decodes = band["id"].startswith(("decoder", "target", "output"))
            stack = "decoder" if decodes else "encoder"
        title = titles.get(band["id"], f"{stack} layer {number}".strip().capitalize())
        stages = band["stages"]
        bands.append(
            {"id": band["id"], "title": title, "layer": number, "stack": stack, "stages": stages}
        )
    return bands
