"""A run as a JSON document and named tensors, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor

from regard.observation import Observation, See
from regard.run.errors import RunError
from regard.run.layer import Layer, Options
from regard.text import Token

if TYPE_CHECKING:
    from regard.run.run import Run

__all__ = ["FORMAT", "pack", "unpack"]

FORMAT = 1

_SEEN = ("lse", "entropy", "top_keys", "top_weights", "map", "received", "distance", "sinks")
_OPTIONS = ("mask", "bias", "lengths", "sinks")
_LAYER = ("queries", "keys", "q", "k", "v", "output")
_FLAGS = ("entropy", "top", "map", "received", "distance")

T = TypeVar("T")


# ── to a document ─────────────────────────────────────────────────────────────────────────────


def pack(run: Run) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The document, and its tensors, on the CPU and contiguous.

    >>> import torch
    >>> from regard.run import Run
    >>> document, tensors = pack(Run(model="tiny", token_ids=torch.tensor([[1, 2]])))
    >>> document["model"], document["tensors"]
    ('tiny', {'token_ids': {'dtype': 'int64', 'shape': [1, 2]}})
    """
    given: dict[str, Tensor | None] = {"token_ids": run.token_ids, "output": run.output}
    given |= {f"vectors.{n}": x for n, x in enumerate(run.vectors.values())}
    layers: list[dict[str, Any]] = []
    for n, (key, layer) in enumerate(run.layers.items()):
        given |= {f"layers.{n}.seen.{name}": getattr(layer.seen, name) for name in _SEEN}
        given |= {f"layers.{n}.options.{name}": getattr(layer.options, name) for name in _OPTIONS}
        given |= {f"layers.{n}.{name}": getattr(layer, name) for name in _LAYER}
        given |= {f"layers.{n}.shares.{name}": x for name, x in layer.shares.items()}
        rest = {each.name for each in fields(Options)} - set(_OPTIONS)
        layers.append(
            {
                "key": key,
                "name": layer.name,
                "cross": layer.cross,
                "kv_heads": layer.kv_heads,
                "n_keys": layer.seen.n_keys,
                "position": layer.seen.position,
                "options": {name: getattr(layer.options, name) for name in sorted(rest)},
                "shares": list(layer.shares),
                "notes": list(layer.notes),
            }
        )
    if run.see is not None:
        given["see.queries"] = run.see.queries
    tensors: dict[str, Tensor] = {}
    entries: dict[str, dict[str, Any]] = {}
    memory: set[int] = set()
    for name, x in given.items():
        if x is not None:
            tensors[name], entries[name] = _entry(x, memory)
    document = {
        "format": FORMAT,
        "model": run.model,
        "text": run.text,
        "tokens": run.tokens and [[[t.text, t.start, t.end] for t in one] for one in run.tokens],
        "see": run.see and {name: getattr(run.see, name) for name in _FLAGS},
        "notes": run.notes,
        "unseen": run.unseen,
        "vectors": list(run.vectors),
        "layers": layers,
        "tensors": entries,
    }
    return document, tensors


def _entry(x: Tensor, memory: set[int]) -> tuple[Tensor, dict[str, Any]]:
    """The tensor as it is written, in memory of its own, and what the document says of it."""
    entry: dict[str, Any] = {"dtype": str(x.dtype).removeprefix("torch."), "shape": [*x.shape]}
    # What was only expanded, as a mask over heads may be, is written once.
    once = tuple(slice(0, 1) if not step else slice(None) for step in x.stride())
    narrow = x.detach()[once].cpu().contiguous() if x.numel() else x.detach().cpu().contiguous()
    if narrow.shape != x.shape:
        entry["stored"] = [*narrow.shape]
    address = narrow.untyped_storage().data_ptr()
    if address in memory:
        narrow = narrow.clone()
    memory.add(narrow.untyped_storage().data_ptr())
    return narrow, entry


# ── and back ──────────────────────────────────────────────────────────────────────────────────


def unpack(document: Any, names: set[str], read: Callable[[str], Tensor], file: str) -> Run:
    """The run that a document describes, its tensors being those of `names`.

    Everything is checked against the document; RunError says what is wrong in `file`.

    >>> from regard.run import Run
    >>> document, tensors = pack(Run(model="tiny"))
    >>> unpack(document, set(tensors), tensors.__getitem__, "run.json")
    Run('tiny': 0 layers, 0 heads, 0 tokens)
    """
    from regard.run.run import Run

    tensors = _tensors(document, names, read, file)
    try:
        see = document["see"]
        if see is not None:
            flags = {name: see[name] for name in _FLAGS}
            flags["map"] = flags["map"] and tuple(flags["map"])
            see = See(**flags, queries=tensors.pop("see.queries", None))
        tokens = document["tokens"]
        run = Run(
            {},
            model=_is(document["model"], str),
            text=_text(document["text"]),
            tokens=tokens and [[_token(each) for each in one] for one in tokens],
            token_ids=tensors.pop("token_ids", None),
            see=see,
            notes=[_is(note, str) for note in document["notes"]],
            unseen=[_is(name, str) for name in document["unseen"]],
            vectors={
                _is(name, str): tensors.pop(f"vectors.{n}")
                for n, name in enumerate(document["vectors"])
            },
            output=tensors.pop("output", None),
        )
        for n, entry in enumerate(document["layers"]):
            layer = _layer(entry, f"layers.{n}", tensors)
            _check_layer(layer, file)
            run.layers[_is(entry["key"], str)] = layer
    except RunError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise _damaged(file, f"does not describe a run ({what})") from None
    if tensors:
        raise _damaged(file, f"does not say what {', '.join(sorted(tensors)[:5])} is")
    return run


def _tensors(
    document: Any, names: set[str], read: Callable[[str], Tensor], file: str
) -> dict[str, Tensor]:
    """All tensors, of the types and shapes that the document says."""
    entries = document.get("tensors") if isinstance(document, dict) else None
    if not isinstance(entries, dict):
        raise _damaged(file, "does not list its tensors")
    wrong = [f"{name} is missing" for name in sorted(entries.keys() - names)]
    wrong += [f"{name} is not expected" for name in sorted(names - entries.keys())]
    tensors: dict[str, Tensor] = {}
    for name in entries.keys() & names:
        x, entry = read(name), entries[name]
        try:
            shape, kind = [int(n) for n in entry["shape"]], entry["dtype"]
            stored = entry.get("stored", shape)
            if [*x.shape] != stored or str(x.dtype) != f"torch.{kind}":
                found = f"{str(x.dtype).removeprefix('torch.')} {[*x.shape]}"
                wrong.append(f"{name} must be {kind} {stored}; got {found}")
            else:
                tensors[name] = x if stored == shape else x.expand(shape)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError):
            wrong.append(f"{name} is described as {entry}")
    if wrong:
        raise _damaged(file, "does not fit its tensors: " + "; ".join(wrong))
    # In the order of the document, in which shares come as they were.
    return {name: tensors[name] for name in entries}


def _layer(entry: Any, place: str, tensors: dict[str, Tensor]) -> Layer:
    def take(names: tuple[str, ...], under: str) -> dict[str, Any]:
        return {name: tensors.pop(f"{under}.{name}", None) for name in names}

    seen = take(_SEEN, f"{place}.seen")
    options: dict[str, Any] = dict(entry["options"])
    window = options.get("window")
    options["window"] = None if window is None else (window[0], window[1])
    return Layer(
        name=_is(entry["name"], str),
        seen=Observation(**seen, n_keys=_is(entry["n_keys"], int), position=entry["position"]),
        options=Options(**options, **take(_OPTIONS, f"{place}.options")),
        cross=_is(entry["cross"], bool),
        kv_heads=_is(entry["kv_heads"], int),
        shares={name: tensors.pop(f"{place}.shares.{name}") for name in entry["shares"]},
        notes=tuple(_is(note, str) for note in entry["notes"]),
        **take(_LAYER, place),
    )


def _check_layer(layer: Layer, file: str) -> None:
    """Do the tensors of a layer fit each other?"""
    seen = layer.seen
    if not isinstance(seen.lse, Tensor) or seen.lse.dim() != 3:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _damaged(file, f"has no log-sum-exp (B, H, Nq) of {layer.name}")
    batch, heads, n_queries, n_keys = layer.shape
    row = (batch, heads, n_queries)
    top = () if seen.top_keys is None else tuple(seen.top_keys.shape[3:4])
    either = layer.k if layer.q is None else layer.q
    width = () if either is None else tuple(either.shape[3:4])
    shared = 0 if layer.k is None or layer.k.dim() < 2 else layer.k.shape[1]
    expected: Mapping[str, tuple[Tensor | None, tuple[int, ...]]] = {
        "entropy": (seen.entropy, row),
        "distance": (seen.distance, row),
        "q": (layer.q, (*row, *width)),
        "k": (layer.k, (batch, shared, n_keys, *width)),
        "top_keys": (seen.top_keys, (*row, *top)),
        "top_weights": (seen.top_weights, (*row, *top)),
        "received": (seen.received, (batch, heads, n_keys)),
        "queries": (layer.queries, (batch, n_queries)),
        "keys": (layer.keys, (batch, n_keys)),
        **{name: (x, row) for name, x in layer.shares.items()},
    }
    for name, (x, shape) in expected.items():
        if x is not None and tuple(x.shape) != shape:
            raise _damaged(
                file,
                f"says that {name} of {layer.name} is {tuple(x.shape)}, where its log-sum-exp "
                f"makes it {shape}",
            )
    if layer.k is not None and (heads % shared if shared else heads):
        raise _damaged(file, f"says that {heads} heads of {layer.name} share {shared} of its keys")
    kinds = {"top_keys": seen.top_keys, "queries": layer.queries, "keys": layer.keys}
    for name, x in kinds.items():
        kind = "int64" if name == "top_keys" else "bool"
        if x is not None and str(x.dtype) != f"torch.{kind}":
            raise _damaged(file, f"says that {name} of {layer.name} is {x.dtype}, and not {kind}")


def _text(value: Any) -> str | list[str] | None:
    if value is None or isinstance(value, str):
        return value
    return [_is(text, str) for text in _is(value, list)]


def _token(entry: Any) -> Token:
    text, start, end = entry
    return Token(_is(text, str), _is(start, int), _is(end, int))


def _is(value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _damaged(file: str, what: str) -> RunError:
    return RunError(f"load(): {file} {what}. Save the run again, or restore the folder.")
