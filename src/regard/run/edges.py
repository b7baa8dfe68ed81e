"""Who looked at whom: the strong weights of a run as one table."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard._arguments import number, whole
from regard.run.choose import heads_of, layer_indices
from regard.run.edge_filter import FilteredEdges, filter_edges
from regard.run.extras import need
from regard.run.layer import Layer
from regard.run.tokens import codes_of_keys, codes_of_queries, readable, vocabulary

if TYPE_CHECKING:
    import pyarrow as pa

    from regard.run.choose import Which
    from regard.run.run import Run

__all__ = ["check", "edges", "truncated_rows", "warn"]

TRUNCATED, MIN_WEIGHT, NOT_FINITE = b"regard.truncated", b"regard.min_weight", b"regard.not_finite"


def check(call: str, min_weight: object, top: object) -> tuple[float, int | None]:
    """Both as numbers; TypeError or ValueError in words if they are none.

    >>> check("edges()", 0.1, 3)
    (0.1, 3)
    """
    remedy = "It is the least weight that counts; 0 takes every key with any weight."
    weight = number(call, "min_weight", min_weight, 0, 1, remedy)
    remedy = "It is how many of the strongest keys of each row are taken; None takes all."
    return weight, None if top is None else whole(call, "top", top, 1, remedy=remedy)


def edges(
    run: Run,
    min_weight: float = 0.1,
    top: int | None = None,
    layers: Which | Sequence[Which] | None = None,
    heads: int | Sequence[int] | None = None,
    *,
    call: str = "edges()",
) -> pa.Table:
    """The table of `Run.edges`, without its warnings.

    >>> from regard.run import Run
    >>> edges(Run()).num_rows
    0
    """
    least, most = check(call, min_weight, top)
    indices = layer_indices(call, run.layers, layers)
    chosen = [(index, list(run.layers.values())[index]) for index in indices]
    wanted = heads_of(call, [layer for _, layer in chosen], heads)
    arrow = need(call, "pyarrow")
    words = vocabulary(run)
    texts = arrow.array([readable(word) for word in words], arrow.string())
    precise = any(layer.lse.dtype == torch.float64 for _, layer in chosen)
    schema = _schema(arrow, precise)
    parts: dict[int, list[Any]] = {}
    truncated: list[dict[str, int]] = []
    not_finite = 0
    for index, layer in chosen:
        found = filter_edges(layer, least, most, _present(layer, wanted))
        for head, rows in zip(*np.unique(found.truncated[:, 1], return_counts=True), strict=True):
            truncated.append({"layer": index, "head": int(head), "rows": int(rows)})
        not_finite += found.not_finite
        keys = codes_of_keys(run, layer, words)
        codes = codes_of_queries(layer, keys)[found.sequence, found.query]
        columns = (
            found.sequence,
            np.full(len(found.key), index),
            found.head,
            found.query,
            found.key,
            _tokens(arrow, codes, texts),
            _tokens(arrow, keys[found.sequence, found.key], texts),
            found.weight,
        )
        arrays = [_array(arrow, x, each) for x, each in zip(columns, schema.types, strict=True)]
        table = arrow.Table.from_arrays(arrays, schema=schema)
        for sequence, start, end in _sequences(found):
            parts.setdefault(sequence, []).append(table.slice(start, end - start))
    told = {MIN_WEIGHT: json.dumps(least)}
    if truncated:
        told[TRUNCATED] = json.dumps(truncated)
    if not_finite:
        told[NOT_FINITE] = json.dumps(not_finite)
    ordered = [table for sequence in sorted(parts) for table in parts[sequence]]
    whole = arrow.concat_tables([schema.empty_table(), *ordered])
    return whole.replace_schema_metadata(told)


def truncated_rows(run: Run, min_weight: float = 0.1, top: int | None = None) -> pa.Table:
    """The table of `Run.truncated_rows`.

    >>> from regard.run import Run
    >>> truncated_rows(Run()).column_names
    ['sequence', 'layer', 'head', 'query']
    """
    least, most = check("truncated_rows()", min_weight, top)
    arrow = need("truncated_rows()", "pyarrow")
    names, rows = ("sequence", "layer", "head", "query"), [np.empty((0, 4), dtype=np.int64)]
    for index, layer in enumerate(run.layers.values()):
        if layer.q is not None and layer.k is not None:
            continue  # every row of it can be computed
        truncated = filter_edges(layer, least, most, _present(layer, None)).truncated
        rows.append(np.insert(truncated, 1, index, axis=1))
    table = np.concatenate(rows).astype(np.int32)
    table = table[np.lexsort(table.T[::-1])]
    return arrow.table({name: np.ascontiguousarray(table[:, n]) for n, name in enumerate(names)})


def warn(table: pa.Table, stacklevel: int) -> None:
    """Say which rows of a table of edges are not whole, if there are any.

    >>> from regard.run import Run
    >>> warn(edges(Run()), stacklevel=2)
    """
    told = table.schema.metadata or {}
    if TRUNCATED in told:
        rows, least = (
            sum(x["rows"] for x in json.loads(told[TRUNCATED])),
            json.loads(told[MIN_WEIGHT]),
        )
        warnings.warn(
            f"edges(): {rows:,} rows are truncated: they may have more keys with a weight of "
            f"{least} or more than were listed, and q and k were not kept. "
            f"run.truncated_rows({least}) names them; "
            'regard.watch(…, keep=("q", "k")), a larger See(top=…) or a larger min_weight helps.',
            UserWarning,
            stacklevel=stacklevel + 1,
        )
    if NOT_FINITE in told:
        warnings.warn(
            f"edges(): {json.loads(told[NOT_FINITE]):,} rows have no edges, as their weights are "
            "not finite. A NaN or an infinity in q, k or the bias makes them so.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def _schema(arrow: Any, precise: bool) -> Any:
    token = arrow.dictionary(arrow.int32(), arrow.string())
    numbers = dict.fromkeys(("sequence", "layer", "head", "query", "key"), arrow.int32())
    weight = arrow.float64() if precise else arrow.float32()
    return arrow.schema({**numbers, "query_token": token, "key_token": token, "weight": weight})


def _present(layer: Layer, wanted: list[int] | None) -> list[int]:
    n_heads = layer.shape[1]
    return [h for h in (range(n_heads) if wanted is None else wanted) if h < n_heads]


def _tokens(arrow: Any, codes: Any, texts: Any) -> Any:
    return arrow.DictionaryArray.from_arrays(arrow.array(codes, mask=codes < 0), texts)


def _array(arrow: Any, column: Any, kind: Any) -> Any:
    if not isinstance(column, np.ndarray):
        return column
    return arrow.array(column.astype(kind.to_pandas_dtype(), copy=False), kind)


def _sequences(found: FilteredEdges) -> list[tuple[int, int, int]]:
    """Each sequence with the first and the last of its edges."""
    which, starts = np.unique(found.sequence, return_index=True)
    ends = np.append(starts[1:], len(found.sequence))[: len(starts)]
    return list(zip(which.tolist(), starts.tolist(), ends.tolist(), strict=True))
