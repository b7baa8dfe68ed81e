"""The flow of a model of `regard.nn`: one pass, whose layers are traced when they are looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard._flow.changes import Change, within
from regard._flow.lazily import Band, LazyFlow
from regard._flow.outline import sizes
from regard._flow.pictures import Picture, block_of, blocks
from regard._flow.sketch import Sketch, sketched
from regard._rules.general import Copied
from regard._rules.rule import Step
from regard._trace.model import Prepared, take_all
from regard._trace.recording import Recording, numbers, own_numbers
from regard.nn import DecoderLayer, EncoderLayer, MultiHeadAttention
from regard.nn._changes import AttentionChange, changing
from regard.nn._evaluation import evaluating
from regard.nn._hooks import Recorded, recording
from regard.reference import Array

if TYPE_CHECKING:
    from regard.ask import Prediction

MOST_WEIGHTS = 8_000_000  # of the heads of one layer together
_MOST_LOGITS = 2_000_000  # that are kept; of more, rows are computed when they are asked for
_PIECE = 64  # rows of logits at a time
_POSSIBLE = ("score", "cut", "head", "scale", "causal")

_LAYER = re.compile(r"(.*?\blayers\.\d+)\.")


@dataclass(frozen=True, eq=False)
class Subject:
    """What a flow is of: a pass, what is said of it, and what else is known of its tokens."""

    asked: Prepared
    name: str = ""
    note: str = ""
    layer: int = 0  # the attention whose band is chosen
    words: Sequence[int | None] = ()  # of each token that was read, where its word begins
    text_of: Callable[[int], str] | None = None  # what a token id stands for
    with_words: Callable[[Mapping[int, str]], Subject] | None = None  # others, by where they begin
    left_out: Mapping[int, frozenset[int]] | None = None  # heads that were cut before, by attention


class ModelFlow(LazyFlow):
    """One pass of a model. What came into each layer is kept; the steps of a layer are had from
    that when they are asked for, and those of few layers are in memory.

    Raises ValueError if a layer alone has more weights than can be held.
    """

    def __init__(
        self,
        subject: Subject,
        changes: Sequence[Change] = (),
        *,
        sketch: Sketch | None = None,
        origin: ModelFlow | None = None,
    ) -> None:
        super().__init__()
        self.subject, self.changes, self._origin = subject, tuple(changes), origin
        asked = self.asked = subject.asked
        self._model: Any = asked.model
        self.note = subject.note
        self.title, self.model = asked.title, subject.name or type(asked.model).__name__
        self._refuse_long()
        self.possible = _POSSIBLE if subject.with_words is None else (*_POSSIBLE, "word")
        self._layers = {
            path: module
            for path, module in self._model.named_modules()
            if path and isinstance(module, EncoderLayer | DecoderLayer)
        }
        self._attentions = {
            path: module
            for path, module in self._model.named_modules()
            if isinstance(module, MultiHeadAttention)
        }
        self._calls: dict[str, tuple[Any, Any]] = {}  # what each layer was called with
        self._last: Tensor | None = None  # what came into the head, (N, width)
        self.final: Tensor | None = None  # what the last layer gave, (N, width)
        self._parameters = {
            name: own_numbers(parameter) for name, parameter in self._model.named_parameters()
        }
        with changing(self._changes_of("scale", "causal")):
            self.skeleton = sketched(asked) if sketch is None else sketch
        self._sketch = self.skeleton.of(asked.sequences)
        self.predicts = "logits" in self._sketch and self._sketch["logits"].axes[-2].labels in set(
            asked.sequences.values()
        )
        self._run()

    def _refuse_long(self) -> None:
        longest = max(map(len, self.asked.sequences.values()))
        heads = max(
            (part.heads for part in self._model.modules() if isinstance(part, MultiHeadAttention)),
            default=1,
        )
        if heads * longest**2 > MOST_WEIGHTS:
            most = int((MOST_WEIGHTS / heads) ** 0.5)
            raise ValueError(
                f"flow(): with {heads} heads in a layer there must be at most {most:,} tokens, as "
                f"each step of a layer is held; got {longest:,}. regard.watch sees longer texts."
            )

    # ── the pass ──────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _prepared(self) -> Generator[None]:
        """The model in evaluation and with the changes, without gradients."""
        with evaluating(self._model), torch.no_grad(), changing(self._attention_changes):
            yield

    @cached_property
    def _attention_changes(self) -> dict[MultiHeadAttention, AttentionChange]:
        return self._changes_of(*_POSSIBLE)

    def _changes_of(self, *kinds: str) -> dict[MultiHeadAttention, AttentionChange]:
        """The attentions that changes of these kinds concern, and what becomes of each."""
        found = {module: AttentionChange() for module in self._attentions.values()}
        for change in (each for each in self.changes if each.kind in kinds):
            if change.kind in ("scale", "causal"):
                for module, other in found.items():
                    found[module] = replace(other, **{change.kind: change.on})
                continue
            path = self._attention_of(change)
            module = self._attentions[path]
            found[module] = self._made(change, found[module], path)
        for n, heads in (self.subject.left_out or {}).items():
            module = list(self._attentions.values())[n]
            found[module] = replace(found[module], left_out=found[module].left_out | heads)
        return {module: each for module, each in found.items() if each != AttentionChange()}

    def _attention_of(self, change: Change) -> str:
        path = change.attention
        if change.kind == "score":
            path, _, part = str(change.stage).rpartition(".")
            path = path if part in ("scores", "scaled") else None
        path = "" if path == "attention" and "attention" not in self._attentions else path
        if path is None or path not in self._attentions:
            what = "stage" if change.kind == "score" else "attention"
            said = str(getattr(change, what))[:80]
            raise ValueError(
                f"changed(): the {what} of a change of kind {change.kind!r} must be one of this "
                f"model's; got {said!r}."
            )
        return path

    def _made(self, change: Change, before: AttentionChange, path: str) -> AttentionChange:
        shape = sizes(self._sketch[f"{path}.weights".removeprefix(".")])
        head = change.head
        if head is not None or change.kind != "cut":
            head = within(change, "head", head, shape[0])
        if change.kind == "head":
            assert head is not None
            return replace(before, left_out=before.left_out | {head})
        row = within(change, "row", change.row, shape[1])
        column = within(change, "column", change.column, shape[2])
        if change.kind == "cut":
            # Of a cut and a score that is set, the later one counts.
            kept = tuple(
                each
                for each in before.scores
                if each[1:3] != (row, column) or head not in (None, each[0])
            )
            return replace(before, cut=(*before.cut, (head, row, column)), scores=kept)
        assert head is not None
        assert change.value is not None
        which = "scores" if str(change.stage).endswith("scaled") else "products"
        more = (*getattr(before, which), (head, row, column, change.value))
        return replace(before, **{which: more})

    def _run(self) -> None:
        """The pass: what comes into each layer is kept, and all steps outside of them."""
        rows, columns = sizes(self._sketch["logits"])[1:] if "logits" in self._sketch else (0, 0)
        self._is_long = self.predicts and rows * columns > _MOST_LOGITS

        def keep(path: str) -> Callable[..., None]:
            def hook(_: nn.Module, given: Any, named: Any) -> None:
                self._calls[path] = given, named

            return hook

        def keep_last(_: nn.Module, given: Any) -> Any:
            self._last = given[0][0]
            return (given[0][:, -1:],) if self._is_long else None

        def keep_final(_: nn.Module, __: Any, given: Tensor) -> None:
            self.final = given[0]

        with ExitStack() as hooks, self._prepared():
            for path, module in self._layers.items():
                hook = module.register_forward_pre_hook(keep(path), with_kwargs=True)
                hooks.enter_context(hook)
            if self._layers:
                last = list(self._layers.values())[-1]
                hooks.enter_context(last.register_forward_hook(keep_final))
            if self.predicts:
                hooks.enter_context(self._model.head.register_forward_pre_hook(keep_last))
            outside = recording(self._model, lambda path, _: not self._band_of(path))
            recorded = hooks.enter_context(outside)
            self._model(*self.asked.arguments, **self.asked.options)
        if self._layers:
            self._outside = self._labelled(recorded)
        else:  # it is itself a layer, or a part of one
            found = self._recording()
            with self._prepared():
                take_all(found, recorded)
            self._outside = Band(found.steps, found.matrices)

    def _labelled(self, recorded: list[Recorded]) -> Band:
        """What was recorded outside of layers, as the steps that the sketch says it is."""
        steps, matrices = dict[str, Step](), dict[str, Array]()
        if self._is_long:  # its rows are computed when they are asked for
            nothing = np.broadcast_to(np.nan, sizes(self._sketch["logits"])[1:])
            steps["logits"] = replace(self._sketch["logits"], array=nothing)
        for each in recorded:
            name = f"{each.path}.{each.name}".removeprefix(".")
            tensor = each.tensor
            if name in steps:
                continue
            if name not in self._sketch:
                matrices[name] = numbers(tensor.reshape(-1, tensor.shape[-1]))
                continue
            # Of a whole sequence (1, width), or of each token (1, N, width), or ids (1, N).
            is_one = tensor.ndim == 2 and tensor.is_floating_point()
            array = numbers(tensor if is_one else tensor[0])
            array = array[:, None] if array.ndim == 1 else array
            steps[name] = replace(self._sketch[name], array=array)
        return Band(steps, matrices)

    def _band_of(self, name: str) -> str:
        """The layer that a module or a step belongs to; none if that is empty."""
        found = _LAYER.match(f"{name}.")
        return found[1] if found is not None and found[1] in self._layers else ""

    def _recording(self) -> Recording:
        return Recording(self._model, self.asked.sequences, self.asked.outcomes, copies=False)

    def _traced(self, band: str) -> Band:
        """The steps of a layer, from what came into it; those outside of layers are there."""
        if band not in self._layers:
            return self._outside
        given, named = self._calls[band]
        found = self._recording()
        wanted = recording(self._model, lambda path, _: self._band_of(path) == band)
        with self._prepared(), wanted as recorded:
            self._layers[band](*given, **named)
        for each in recorded:
            rule = getattr(self._sketch.get(f"{each.path}.{each.name}"), "rule", None)
            if isinstance(rule, Copied) and self._band_of(rule.of) != band:
                # It comes from outside: there it is under the name that it has there.
                outer = replace(self._sketch[rule.of], array=numbers(each.tensor[0]))
                found.steps[rule.of] = outer
        with self._prepared():
            take_all(found, recorded)
        steps = {name: step for name, step in found.steps.items() if self._band_of(name) == band}
        return Band(steps, found.matrices)

    # ── what is asked ─────────────────────────────────────────────────────────────────────────

    @property
    def sketch(self) -> Mapping[str, Step]:
        return self._sketch

    @property
    def sequences(self) -> Mapping[str, tuple[str, ...]]:
        return self.asked.sequences

    @property
    def chosen(self) -> str:
        """The band of the attention that was asked for."""
        path = list(self._attentions)[self.subject.layer] if self._attentions else ""
        return self._band_of(path)

    def _outlined(self) -> dict[str, Any]:
        found = super()._outlined()
        if self.subject.with_words is not None:
            found["words"] = {"input": list(self.subject.words)}
        return found

    def picture(self, stage: str, head: int = 0) -> Picture:
        if stage == "logits" and self._is_long and (stage, head) not in self._pictures:
            self._pictures[stage, head] = self._logits_picture()
        return super().picture(stage, head)

    def _rows(self, first: int, end: int) -> NDArray[np.float64]:
        """Some rows of the logits."""
        assert self._last is not None
        with self._prepared():
            return numbers(self._model.head(self._last[None, first:end])[0])

    def _logits_picture(self) -> Picture:
        _, rows, columns = sizes(self._sketch["logits"])
        block = block_of((rows, columns))
        piece = max(1, _PIECE // block[0]) * block[0]
        parts = [
            blocks(self._rows(first, min(first + piece, rows)), block)
            for first in range(0, rows, piece)
        ]
        return Picture(np.concatenate(parts), block)

    def _span(self, stage: str, head: int, first: int, end: int) -> Array:
        if stage == "logits" and self._is_long:
            return self._rows(first, end)
        return super()._span(stage, head, first, end)

    def predictions(self, position: int, top: int = 5) -> list[Prediction] | None:
        from regard.ask import likeliest

        if not self.predicts or self._last is None:
            return None
        if not 0 <= position < len(self._last):
            last = len(self._last) - 1
            raise ValueError(f"predictions(): positions are from 0 to {last}; got {position}.")
        text_of = self.subject.text_of or (lambda n: self.asked.outcomes[n])
        with self._prepared():
            logits = self._model.head(self._last[None, position : position + 1])[0]
        return likeliest(logits, text_of, top)[0]

    # ── changes ───────────────────────────────────────────────────────────────────────────────

    def _with(self, changes: list[Change]) -> ModelFlow:
        origin = self if self._origin is None else self._origin
        if not changes:
            return origin
        subject, rest = origin.subject, [each for each in changes if each.kind != "word"]
        words = {
            within(each, "position", each.position, len(subject.words)): str(each.text)
            for each in changes
            if each.kind == "word"
        }
        if words:
            assert subject.with_words is not None
            subject = subject.with_words(words)
        same = all(change.kind not in ("scale", "causal") for change in rest)
        same = same and (origin.skeleton.is_usual or subject is origin.subject)
        sketch = origin.skeleton if same else None
        return ModelFlow(subject, rest, sketch=sketch, origin=origin)
