"""What `regard see` found, as a JSON document."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from regard import Run
    from regard.ask import Prediction, Why
    from regard.run import Effect

_FORMAT, _VERSION = "regard.see", 1
_CHANGES = ("relative", "cosine")


def document(
    run: Run,
    name: str,
    seconds: float,
    *,
    table: pa.Table | None = None,
    token: int | None = None,
    coming: list[Prediction] | None = None,
    lens: list[list[list[Prediction]]] | None = None,
    why: Why | None = None,
    effect: Effect | None = None,
    ablated: list[tuple[int, int]],
) -> str:
    """The run of a model: its tokens, heads and links, and what else was asked for.

    >>> from regard import Run
    >>> json.loads(document(Run(text="I love"), "minilm", 0.25, ablated=[]))["model"]
    'minilm'
    """
    from regard.run.info import effect_info, finite
    from regard.run.links import strongest_links

    found: dict[str, Any] = {
        "sql": None if table is None else _rows(table),
        "token": None if token is None else _looks(run, token),
        "next": None if coming is None else [each._asdict() for each in coming],
        "lens": None if lens is None else _layers(lens),
        "why": None if why is None else why.info(),
    }
    if effect is not None:
        blocks = effect_info(effect)
        found["effect"] = {
            "ablated": [{"layer": layer, "head": head} for layer, head in ablated],
            **{what: {name: each[what] for name, each in blocks.items()} for what in _CHANGES},
        }
    tokens = run.tokens[0] if run.tokens else []
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "model": name,
        "text": run.text,
        "seconds": seconds,
        "tokens": [asdict(token) for token in tokens],
        "layers": list(run.layers),
        "heads": run.heads(),
        "links": [asdict(link) for link in strongest_links(run)],
        "unseen": run.unseen,
        **{key: value for key, value in found.items() if value is not None},
    }
    return json.dumps(finite(content), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """Each row by the names of the columns; the second that is called `n` is `n_2`."""
    names: list[str] = []
    for name in table.column_names:
        again = (f"{name}_{number}" for number in itertools.count(2))
        names.append(next(each for each in itertools.chain([name], again) if each not in names))
    return table.rename_columns(names).to_pylist()


def _layers(lens: list[list[list[Prediction]]]) -> list[list[list[dict[str, Any]]]]:
    """Of each layer and position the likeliest tokens."""
    return [[[each._asdict() for each in one] for one in of] for of in lens]


def _looks(run: Run, token: int) -> dict[str, Any]:
    from regard.run.links import links_of_heads, mean_looks

    heads = [
        {"layer": link.layer, "head": link.head, "key": link.key, "weight": link.weight}
        for link in links_of_heads(run, query=token)
    ]
    return {"position": token, "heads": heads, "mean": mean_looks(run, token).tolist()}
