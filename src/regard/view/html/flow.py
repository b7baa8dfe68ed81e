"""A flow as one HTML file: every stage in blocks, and one band whole, with its matrices."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._flow.flow import Flow
from regard._flow.given import TraceFlow
from regard._flow.outline import made_from
from regard._flow.pictures import block_of, blocks
from regard._rules.attention import Joined, Scaled, Scored, Softmaxed, Turned
from regard._rules.general import Linear, Summed
from regard._rules.rule import Step
from regard.reference import Array
from regard.view.html.head_steps import heads_of_band
from regard.view.html.page import Part, beginning, frame, page, room_for_parts

LIMIT = 24_000_000  # bytes of a page, unless another is asked for
_NOTEBOOK = 6_000_000  # of one in a notebook, which keeps all that it shows
# What is left out, and how many blocks a picture has at most, until the page is small enough.
_CHOICES = (
    *(("", 64), ("", 32), ("matrices", 32), ("matrices", 16)),
    *(("band", 32), ("band", 16), ("band", 8)),
)
_HALF = 32767  # what the number of the largest size in a picture is kept as
_SMALL = 20_000  # numbers of a matrix that stays with the band, such as angles of positions
_MOST_CELLS = 2_000_000  # of a step that a page holds whole


def flow_page(flow: Flow, limit: int = LIMIT) -> str:
    """The page, of at most about `limit` bytes.

    >>> from regard.worked import example
    >>> "<title>I love apple phones</title>" in flow_page(example("apple").trace().flow())
    True
    """
    outline = flow.outline
    title = beginning(flow.title) or "A pass, from its input to its output"
    if isinstance(flow, TraceFlow) and not flow.model:
        content = {"outline": outline, "trace": json.loads(flow.trace.to_json())}
        return page("flow", title, flow.note, {"flow": content})
    content, parts = packed_flow(flow, room_for_parts(limit, outline))
    return page("flow", title, flow.note, {"flow": content}, parts)


def packed_flow(flow: Flow, room: int) -> tuple[dict[str, Any], dict[str, Part]]:
    """A pass of a model as a page holds it: what is said of it, and its parts, of at most about so
    many bytes.
    """
    packing = _Packing(flow, room)
    return packing.content(), packing.parts


def flow_frame(flow: Flow) -> str:
    """A flow in the cell of a notebook."""
    return frame(flow_page(flow, _NOTEBOOK), 720)


class _Packing:
    """What goes into the page of a model's pass, and what is said about it."""

    def __init__(self, flow: Flow, room: int) -> None:
        self.flow, self.room = flow, room
        self.parts: dict[str, Part] = {}

    def content(self) -> dict[str, Any]:
        flow, outline = self.flow, self.flow.outline
        chosen = next(each for each in outline["bands"] if each["id"] == outline["chosen"])
        steps, matrices = self._whole(chosen["stages"])
        has_all, side, pictures = self._chosen(steps, matrices)
        held = {name: dict(stage) for name, stage in outline["stages"].items()}
        for name, stage in held.items():
            stage["held"] = "whole" if name in steps else "pooled"
        title = chosen["title"][:1].lower() + chosen["title"][1:]
        every = (
            f"This page has every number of {title}. Of the rest" if steps else "Of all matrices"
        )
        lacks = (
            f"{every} it has pictures of at most {side} × {side} blocks each, with four digits a "
            "number. Changes need the studio."
        )
        if not has_all:
            lacks += " There was no room for the matrices, so products are not worked out."
        about = {**outline, "stages": held, "changes": [], "lacks": f"{flow.lacks} {lacks}".strip()}
        return {
            "outline": about,
            "pictures": pictures,
            "steps": steps,
            "matrices": matrices,
            "predictions": self._predictions(),
            "heads": heads_of_band(flow, chosen["stages"], steps, matrices),
        }

    def _chosen(
        self, steps: dict[str, Any], matrices: dict[str, Any]
    ) -> tuple[bool, int, dict[str, Any]]:
        """Leave out what there is no room for: finer pictures, large matrices, the band. Is all of
        the band there, the side of the pictures, and where they are?
        """
        large = [name for name, each in matrices.items() if np.prod(each["shape"]) > _SMALL]
        made: dict[int, tuple[dict[str, Any], dict[str, Part]]] = {}
        left_out, side = _CHOICES[0]
        known, parts = made[side] = self._pictures(side)
        for left_out, side in _CHOICES:
            if side not in made:
                made[side] = self._pictures(side)
            known, parts = made[side]
            if left_out == "matrices":
                self._leave(matrices, large)
            elif left_out == "band":
                self._leave(matrices, list(matrices))
                self._leave(steps, list(steps))
            if self._size() + sum(len(part.packed) for part in parts.values()) <= self.room:
                break
        self.parts |= parts
        return not left_out, side, known

    def _leave(self, kept: dict[str, Any], names: list[str]) -> None:
        for name in names:
            if (part := kept.pop(name, {}).get("part")) is not None:
                self.parts.pop(part, None)

    def _predictions(self) -> list[list[list[Any]]] | None:
        if not self.flow.predicts:
            return None
        sequences = self.flow.sequences
        count = len(sequences.get("target") or next(iter(sequences.values())))
        found = (self.flow.predictions(position) or [] for position in range(count))
        return [[[each.token, round(each.probability, 6)] for each in one] for one in found]

    # ── one band, whole ───────────────────────────────────────────────────────────────────────

    def _whole(self, stages: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The steps of the chosen band, and what they were made with, by name."""
        steps, wanted = dict[str, Any](), dict[str, None]()
        for name in stages:
            step = self.flow.steps[name]
            if step.array.size > _MOST_CELLS or step.array.strides == (0, 0):
                continue
            rule = step.rule.to_dict()
            kept: dict[str, Any] = {"rule": rule, "shape": list(step.array.shape)}
            if not self._follows(step):
                kept["part"] = self._put(f"step-{len(steps)}", step.array)
            steps[name] = kept
            for other in made_from(step.rule):
                if other not in self.flow.sketch:
                    wanted.setdefault(other)
            if isinstance(step.rule, Linear):
                sliced = self.flow.matrices[step.rule.weight].ndim == 3
                rule["sliced"] = sliced and not self.flow.sketch[step.rule.left].has_heads
        for name in stages:  # what is another step under a new name
            for other in made_from(self.flow.sketch[name].rule):
                self._same(other, steps)
        matrices: dict[str, Any] = {}
        for name in wanted:
            if (matrix := self._matrix(name)) is not None:
                part = self._put(f"matrix-{len(matrices)}", matrix)
                matrices[name] = {"part": part, "shape": list(matrix.shape)}
        return steps, matrices

    def _same(self, name: str, steps: dict[str, Any]) -> None:
        """Make known that a step which is no stage has the numbers of another, or its own."""
        if name in steps or name not in self.flow.sketch:
            return
        of = name
        while of in self.flow.sketch and of not in self.flow.outline["stages"]:
            of = made_from(self.flow.sketch[of].rule)[0]
        if of in steps:
            steps[name] = {**steps[of], "same": of}
            return
        step = self.flow.steps[name]
        if step.array.size <= _MOST_CELLS and step.array.strides != (0, 0):
            part = self._put(f"step-{len(steps)}", step.array)
            shape = list(step.array.shape)
            steps[name] = {"rule": step.rule.to_dict(), "shape": shape, "part": part, "same": ""}

    def _follows(self, step: Step) -> bool:
        """Does the page work it out by itself: what is turned, scored, weighed, joined, added?"""
        rule = step.rule
        if any(change.kind == "score" for change in self.flow.changes):
            return False
        if isinstance(rule, Scaled):
            masked = np.isneginf(step.array)
            rows, columns = masked.shape[-2:]
            later = np.triu(np.ones((rows, columns), dtype=bool), columns - rows + 1)
            return rule.bias is None and bool((masked == (later if rule.causal else False)).all())
        if isinstance(rule, Summed):
            return len(rule.of) == 2 and all(name in self.flow.sketch for name in rule.of)
        return isinstance(rule, Scored | Softmaxed | Turned | Joined)

    def _matrix(self, name: str) -> Array | None:
        """A parameter, or what a layer was called with; tables are not looked into."""
        try:
            matrix = self.flow.matrices[name]
        except KeyError:
            return None
        if matrix.size > _MOST_CELLS or name.endswith("tokens.weight"):
            return None
        return matrix.reshape(-1, matrix.shape[-1]) if matrix.ndim != 1 else matrix[None]

    def _put(self, name: str, array: Array) -> str:
        """A part of the page. Two bytes a number if no more are in use, as of bfloat16."""
        numbers = np.ascontiguousarray(array, dtype=np.float32)
        bits = numbers.view(np.uint32)
        if not (bits & 0xFFFF).any():
            self.parts[name] = Part.of((bits >> 16).astype(np.uint16))
        else:
            self.parts[name] = Part.of(numbers)
        return name

    def _size(self) -> int:
        return sum(len(part.packed) for part in self.parts.values())

    # ── pictures ──────────────────────────────────────────────────────────────────────────────

    def _pictures(self, side: int) -> tuple[dict[str, Any], dict[str, Part]]:
        """Every stage in blocks, a part for each band, and where each picture is in it."""
        known, parts = dict[str, Any](), dict[str, Part]()
        for n, band in enumerate(self.flow.outline["bands"]):
            codes: list[NDArray[np.uint16]] = []
            at = 0
            for name in band["stages"]:
                entry: dict[str, Any] = {"part": f"pictures-{n}", "at": at, "sizes": []}
                for head in range(self.flow.outline["stages"][name]["heads"]):
                    made, block = self._picture(name, head, side)
                    packed, size = _packed(made)
                    codes.append(packed.ravel())
                    entry |= {"rows": made.shape[0], "columns": made.shape[1], "block": block}
                    entry["sizes"].append(size)
                    at += packed.size
                known[name] = entry
            parts[f"pictures-{n}"] = Part.of(np.concatenate(codes))
        return known, parts

    def _picture(self, name: str, head: int, side: int) -> tuple[NDArray[Any], list[int]]:
        """A stage in at most so many blocks, from its picture of 64 × 64 of them."""
        values, block = self.flow.picture(name, head)
        further = block_of(values.shape, side)
        if further == (1, 1):
            return values, list(block)
        block = block[0] * further[0], block[1] * further[1]
        if self.flow.outline["stages"][name]["part"] != "weights":
            return blocks(values.astype(np.float64), further), list(block)
        # A row of blocks is the mean of so many rows; the last of them may have fewer.
        tall, rows = block[0] // further[0], self.flow.outline["stages"][name]["rows"]
        counts = np.minimum(tall, rows - np.arange(0, rows, tall))[:, None]
        down, across = (np.arange(0, n, by) for n, by in zip(values.shape, further, strict=True))
        sums = np.add.reduceat(np.add.reduceat(values * counts, down), across, axis=1)
        return sums / np.add.reduceat(counts, down), list(block)


def _packed(picture: NDArray[Any]) -> tuple[NDArray[np.uint16], float]:
    """Numbers as whole ones from 1 to 65,535 around 32,768, and 0 for −∞; and the largest size."""
    known = np.isfinite(picture)
    size = float(np.abs(np.where(known, picture, 0.0)).max(initial=0.0)) or 1.0
    codes = np.round(np.where(known, picture, 0.0) / size * _HALF) + _HALF + 1
    return np.where(known, codes, 0).astype(np.uint16), size
