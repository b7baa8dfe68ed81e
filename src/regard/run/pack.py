"""A run as a JSON document and named tensors, and back."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from torch import Tensor

from regard._arguments import shown
from regard.observation import Observation, See
from regard.run.atlas import Levels
from regard.run.errors import AGAIN, RunError
from regard.run.layer import Layer, Options
from regard.run.on_disk import once
from regard.run.run import Run
from regard.run.validation import TENSORS, WHOLE, is_whole, misfit
from regard.text import Token

FORMAT = 1

_FLAGS = ("entropy", "top", "map", "received", "distance")
_OPTIONS = {each.name for each in fields(Options)} - {
    path.removeprefix("options.") for path in TENSORS
}
# How large a tensor may be of which only a part is in the file, or nothing: numbers in all, numbers
# for each that is in the file, and the axes multiplied if one is 0. Masks and biases may be larger,
# as their shapes have to be those of the weights.
_EXPANDED, _TIMES, _EMPTY = 2**24, 2**10, 2**20
_LAST = 2**62  # place in a text
_MOST_FAULTS = 20  # that are listed

T = TypeVar("T")


# ── to a document ─────────────────────────────────────────────────────────────────────────────


def pack(run: Run) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The document, and its tensors, on the CPU and contiguous."""
    given: dict[str, Tensor | None] = {"token_ids": run.token_ids, "output": run.output}
    given |= {f"hidden_states.{n}": x for n, x in enumerate(run.hidden_states.values())}
    given |= {f"between.{n}": x for n, x in enumerate(run.between.values())}
    given["see.queries"] = run.see and run.see.queries
    layers: list[dict[str, Any]] = []
    for n, (key, layer) in enumerate(run.layers.items()):
        if wrong := misfit(layer):
            raise RunError(
                f"save(): layers[{shown(key)}] must be one that can be read again; it {wrong}. "
                "Make it anew, or delete it from run.layers."
            )
        if layer.is_written_over:
            raise RunError(
                f"save(): q and k of {shown(key)} must be as they were seen; they have been "
                "written over since. Save the run before the model goes on."
            )
        pictures = {} if layer.levels is None else layer.levels.pictures
        given |= {f"layers.{n}.{path}": attrgetter(path)(layer) for path in TENSORS}
        given |= {f"layers.{n}.shares.{name}": x for name, x in layer.shares.items()}
        given |= {f"layers.{n}.levels.{name}": x for name, x in pictures.items()}
        layers.append(
            {
                "key": key,
                "name": layer.name,
                "cross": layer.cross,
                "kv_heads": layer.kv_heads,
                "n_keys": layer.seen.n_keys,
                "position": layer.seen.position,
                "options": {name: getattr(layer.options, name) for name in sorted(_OPTIONS)},
                "shares": list(layer.shares),
                "notes": list(layer.notes),
                **({} if layer.tokens is None else {"tokens": _listed(layer.tokens)}),
                **({} if layer.levels is None else {"level": layer.levels.level}),
            }
        )
    tensors: dict[str, Tensor] = {}
    entries: dict[str, dict[str, Any]] = {}
    memory: set[int] = set()
    for name, x in given.items():
        if x is not None:
            tensors[name], entries[name] = _entry(name, x, memory)
    document = {
        "format": FORMAT,
        "model": run.model,
        "text": run.text,
        "tokens": run.tokens and _listed(run.tokens),
        "see": run.see and {name: getattr(run.see, name) for name in _FLAGS},
        "notes": run.notes,
        "unseen": run.unseen,
        "hidden_states": list(run.hidden_states),
        "between": list(run.between),
        **({"ablated": run.ablated} if run.ablated else {}),
        "layers": layers,
        "tensors": entries,
    }
    return document, tensors


def _listed(tokens: list[list[Token]]) -> list[list[list[str | int]]]:
    return [[[token.text, token.start, token.end] for token in one] for one in tokens]


def _entry(name: str, x: Tensor, memory: set[int]) -> tuple[Tensor, dict[str, Any]]:
    """The tensor as it is written, in memory of its own, and what the document says of it."""
    entry: dict[str, Any] = {"dtype": str(x.dtype).removeprefix("torch."), "shape": [*x.shape]}
    narrow = once(x.detach())
    if not _may_be(name, [*x.shape], narrow.numel()):
        narrow = x.detach()
    narrow = narrow.cpu().contiguous()
    if narrow.shape != x.shape:
        entry["stored"] = [*narrow.shape]
    if narrow.untyped_storage().data_ptr() in memory:
        narrow = narrow.clone()
    memory.add(narrow.untyped_storage().data_ptr())
    return narrow, entry


def _may_be(name: str, shape: list[int], held: int) -> bool:
    """Whether a tensor of this shape may be read from so many numbers."""
    if name.endswith((".options.mask", ".options.bias")):
        return True
    size = math.prod(shape)
    if size == held:
        return size > 0 or math.prod(max(n, 1) for n in shape) <= _EMPTY
    return not name.endswith(".seen.lse") and size <= max(_EXPANDED, held * _TIMES)


# ── and back ──────────────────────────────────────────────────────────────────────────────────


class _Wrong(Exception):
    """What is wrong with a document, as a message goes on after its name."""


def unpack(document: dict[str, Any], tensors: Mapping[str, Tensor], file: str) -> Run:
    """The run that a document describes, with its tensors.

    Everything is checked against the document; RunError says what is wrong in `file`.

    >>> unpack(*pack(Run(model="tiny")), "run.json")
    Run('tiny': 0 layers, 0 heads, 0 tokens)
    """
    try:
        return _run(document, _fitting(document.get("tensors"), tensors))
    except _Wrong as error:
        wrong = str(error)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        wrong = f"does not describe a run ({type(error).__name__}: {str(error)[:200]})"
    raise RunError(f"load(): {file} {wrong}. {AGAIN}")


def _fitting(entries: Any, found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All tensors, of the types and shapes that the document says."""
    if not isinstance(entries, dict):
        raise _Wrong("does not list its tensors")
    wrong = [f"{name} is missing" for name in sorted(entries.keys() - found.keys())]
    wrong += [f"{name} is not expected" for name in sorted(found.keys() - entries.keys())]
    tensors: dict[str, Tensor] = {}
    # In the order of the document, in which shares come as they were.
    for name in [name for name in entries if name in found]:
        x, entry = found[name], entries[name]
        try:
            shape, kind = [_whole(n, 0, "size") for n in _is(entry["shape"], list)], entry["dtype"]
            stored = entry.get("stored", shape)
            if [*x.shape] != stored or str(x.dtype) != f"torch.{kind}":
                held = f"{str(x.dtype).removeprefix('torch.')} {[*x.shape]}"
                wrong.append(f"{name} must be {str(kind)[:40]} {shown(stored)}; got {held}")
            elif not _may_be(name, shape, x.numel()):
                wrong.append(f"{name} is {shape}, of which there are {x.numel():,} numbers")
            else:
                tensors[name] = x if stored == shape else x.expand(shape)
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError):
            wrong.append(f"{name} is described as {shown(entry)}")
    if wrong:
        raise _Wrong("does not fit its tensors: " + "; ".join(wrong[:_MOST_FAULTS]))
    return tensors


def _run(document: dict[str, Any], tensors: dict[str, Tensor]) -> Run:
    def named(what: str, names: Any) -> dict[str, Tensor]:
        listed = enumerate(_different(_texts(names)))
        return {name: tensors.pop(f"{what}.{n}") for n, name in listed}

    see = document["see"]
    if see is not None:
        flags = {name: see[name] for name in _FLAGS}
        flags["map"] = flags["map"] and tuple(flags["map"])
        see = See(**flags, queries=tensors.pop("see.queries", None))
    text, tokens, ids = document["text"], document["tokens"], tensors.pop("token_ids", None)
    if ids is not None and ids.dtype not in WHOLE:
        raise _Wrong(f"says that token_ids are {ids.dtype}, and not whole numbers")
    run = Run(
        model=_is(document["model"], str),
        text=text if text is None or isinstance(text, str) else _texts(text),
        tokens=None if tokens is None else _tokens(tokens),
        token_ids=ids,
        see=see,
        notes=_texts(document["notes"]),
        unseen=_texts(document["unseen"]),
        hidden_states=named("hidden_states", document["hidden_states"]),
        between=named("between", document.get("between", [])),
        output=tensors.pop("output", None),
        ablated={
            name: [_whole(head, 0, "head") for head in _is(heads, list)]
            for name, heads in _is(document.get("ablated", {}), dict).items()
        },
    )
    entries = _is(document["layers"], list)
    keys = _different(_texts([entry["key"] for entry in entries]))
    for n, (key, entry) in enumerate(zip(keys, entries, strict=True)):
        run.layers[key] = _layer(entry, f"layers.{n}", tensors)
        if wrong := misfit(run.layers[key]):
            raise _Wrong(wrong)
    if tensors:
        raise _Wrong(f"does not say what {', '.join(sorted(tensors)[:5])} is")
    return run


def _layer(entry: Any, place: str, tensors: dict[str, Tensor]) -> Layer:
    """The layer of an entry. Whether its numbers are any, `misfit` finds out."""
    parts: dict[str, dict[str, Any]] = {"seen": {}, "options": {}, "": {}}
    for path in TENSORS:
        part, _, name = path.rpartition(".")
        parts[part][name] = tensors.pop(f"{place}.{path}", None)
    options = dict(entry["options"])
    options["window"] = None if options.get("window") is None else tuple(options["window"])
    levels = None
    if entry.get("level") is not None:
        names = [name for name in ("mean", "max") if f"{place}.levels.{name}" in tensors]
        pictures = {name: tensors.pop(f"{place}.levels.{name}") for name in names}
        levels = Levels(entry["level"], pictures)
    return Layer(
        name=_is(entry["name"], str),
        seen=Observation(**parts["seen"], n_keys=entry["n_keys"], position=entry["position"]),
        options=Options(**options, **parts["options"]),
        cross=entry["cross"],
        kv_heads=entry["kv_heads"],
        shares={name: tensors.pop(f"{place}.shares.{name}") for name in _texts(entry["shares"])},
        notes=tuple(_texts(entry["notes"])),
        tokens=None if entry.get("tokens") is None else _tokens(entry["tokens"]),
        levels=levels,
        **parts[""],
    )


def _different(names: list[str]) -> list[str]:
    name, times = max(Counter(names).items(), key=itemgetter(1), default=("", 0))
    if times > 1:
        raise ValueError(f"{shown(name)} stands there {times} times")
    return names


def _texts(value: Any) -> list[str]:
    return [_is(text, str) for text in _is(value, list)]


def _tokens(entries: Any) -> list[list[Token]]:
    def token(text: Any, start: Any, end: Any) -> Token:
        place = "place in a text"
        return Token(_is(text, str), _whole(start, -_LAST, place), _whole(end, -_LAST, place))

    return [[token(*each) for each in _is(one, list)] for one in _is(entries, list)]


def _whole(value: Any, least: int, what: str) -> int:
    if not is_whole(value, least, _LAST):
        raise ValueError(f"{shown(value)} is no {what}")
    return value


def _is(value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{shown(value)} is no {kind.__name__}")
    return value
