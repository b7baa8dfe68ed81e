"""Who looked at whom: the strong weights of a run as one table."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard._arguments import number, whole
from regard._extras import need
from regard.run.choose import heads_of, layer_indices
from regard.run.edge_filter import filter_edges
from regard.run.table import Table
from regard.run.tokens import codes_of_keys, codes_of_queries, vocabulary
from regard.text import readable

if TYPE_CHECKING:
    import pyarrow as pa

    from regard.run.choose import Some
    from regard.run.run import Run

TRUNCATED, MIN_WEIGHT, NOT_FINITE = b"regard.truncated", b"regard.min_weight", b"regard.not_finite"


def edges(
    run: Run,
    min_weight: float = 0.1,
    top: int | None = None,
    layers: Some = None,
    heads: int | Sequence[int] | None = None,
) -> pa.Table:
    """Every weight of at least `min_weight` between a real query and a real key, as a table:
    sequence, layer, head, query, key, query_token, key_token, weight.

    Rows are in the order of sequence, layer, head, query and falling weight. `layer` counts
    from 0; tokens are null where they are not known. `top` takes that many of each query only.

    The table is exact. It comes from the strongest keys of each query where these are all that
    there is, and from q and k elsewhere. Where q and k were not kept, a query may have more
    edges than the table has: a warning says how many are truncated so; `regard.truncated` in
    the schema's metadata has their number by layer and head, `run.truncated_rows` names them.

    >>> import torch, regard
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=2.0, see=regard.See(top=3))
    >>> regard.Run({"a": regard.Layer("a", seen)}).edges(0.2)
    sequence  layer  head  query  key  query_token  key_token  weight
           0      0     0      0    0  –            –           0.787
           0      0     0      1    1  –            –           0.787
           0      0     0      2    2  –            –           0.787
    3 rows
    """
    table = edge_table(run, min_weight, top, layers, heads)
    warn(table, stacklevel=2)
    return Table(table)


def truncated_rows(run: Run, min_weight: float = 0.1, top: int | None = None) -> pa.Table:
    """The rows of which `edges(min_weight, top)` may lack some: sequence, layer, head, query.

    >>> import torch, regard
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, causal=True, see=regard.See(top=1))
    >>> run = regard.Run({"a": regard.Layer("a", seen, regard.run.Options(causal=True))})
    >>> run.truncated_rows(0.2)["query"].to_pylist()
    [1, 2]
    """
    least, most = check("truncated_rows()", min_weight, top)
    arrow = need("truncated_rows()", "pyarrow", "runs")
    rows = [np.empty((0, 4), dtype=np.int64)]
    for index, layer in enumerate(run.layers.values()):
        if not layer.has_weights:  # else every row of it can be computed
            found = filter_edges(layer, least, most, list(range(layer.shape[1])))
            rows.append(np.insert(found.truncated, 1, index, axis=1))
    columns = np.concatenate(rows).astype(np.int32).T
    columns = columns[:, np.lexsort(columns[::-1])]
    return Table(arrow.table(list(columns), ["sequence", "layer", "head", "query"]))


def check(call: str, min_weight: object, top: object) -> tuple[float, int | None]:
    """Both as numbers, refused with a message if they are none."""
    remedy = "It is the least weight that counts; 0 takes every key with any weight."
    weight = number(call, "min_weight", min_weight, 0, 1, remedy)
    remedy = "It is how many of the strongest keys of each row are taken; None takes all."
    return weight, None if top is None else whole(call, "top", top, 1, remedy=remedy)


def edge_table(
    run: Run,
    min_weight: float = 0.1,
    top: int | None = None,
    layers: Some = None,
    heads: int | Sequence[int] | None = None,
    *,
    call: str = "edges()",
) -> pa.Table:
    """The table of `edges`, as pyarrow has it, without warnings."""
    least, most = check(call, min_weight, top)
    indices = layer_indices(call, run.layers, layers)
    chosen = [(index, list(run.layers.values())[index]) for index in indices]
    wanted = heads_of(call, [layer for _, layer in chosen], heads)
    arrow = need(call, "pyarrow", "runs")
    words = vocabulary(run)
    texts = arrow.array([readable(word) for word in words], arrow.string())
    precise = any(layer.lse.dtype == torch.float64 for _, layer in chosen)
    columns = schema(arrow, precise)
    parts: dict[int, list[Any]] = {}  # by sequence
    truncated: list[dict[str, int]] = []
    not_finite = 0
    for index, layer in chosen:
        there = range(layer.shape[1])
        present = list(there) if wanted is None else [head for head in wanted if head in there]
        found = filter_edges(layer, least, most, present)
        for head, rows in zip(*np.unique(found.truncated[:, 1], return_counts=True), strict=True):
            truncated.append({"layer": index, "head": int(head), "rows": int(rows)})
        not_finite += found.not_finite
        keys = codes_of_keys(run, layer, words)
        queries = codes_of_queries(layer, keys)
        layer_ = np.full(len(found.key), index)
        numbers = (found.sequence, layer_, found.head, found.query, found.key)
        codes = (queries[found.sequence, found.query], keys[found.sequence, found.key])
        arrays = [
            *(arrow.array(x.astype(np.int32, copy=False)) for x in numbers),
            *(arrow.DictionaryArray.from_arrays(arrow.array(x, mask=x < 0), texts) for x in codes),
            arrow.array(found.weight.astype(np.float64 if precise else np.float32, copy=False)),
        ]
        table = arrow.Table.from_arrays(arrays, schema=columns)
        starts = np.unique(found.sequence, return_index=True, return_counts=True)
        for sequence, start, count in zip(*(x.tolist() for x in starts), strict=True):
            parts.setdefault(sequence, []).append(table.slice(start, count))
    told = {MIN_WEIGHT: json.dumps(least)}
    if truncated:
        told[TRUNCATED] = json.dumps(truncated)
    if not_finite:
        told[NOT_FINITE] = json.dumps(not_finite)
    ordered = [table for sequence in sorted(parts) for table in parts[sequence]]
    return arrow.concat_tables([columns.empty_table(), *ordered]).replace_schema_metadata(told)


def schema(arrow: Any, precise: bool) -> Any:
    """The columns of a table of edges; `precise` has weights in float64."""
    token = arrow.dictionary(arrow.int32(), arrow.string())
    numbers = dict.fromkeys(("sequence", "layer", "head", "query", "key"), arrow.int32())
    weight = arrow.float64() if precise else arrow.float32()
    return arrow.schema({**numbers, "query_token": token, "key_token": token, "weight": weight})


def warn(table: pa.Table, stacklevel: int) -> None:
    """Say which rows of a table of edges are not whole, if there are any."""
    told, said = table.schema.metadata or {}, list[str]()
    if TRUNCATED in told:
        rows = sum(each["rows"] for each in json.loads(told[TRUNCATED]))
        least = json.loads(told[MIN_WEIGHT])
        said.append(
            f"edges(): {rows:,} rows are truncated: they may have more keys with a weight of "
            f"{least} or more than were listed, and q and k were not kept. "
            f"run.truncated_rows({least}) names them; "
            'regard.watch(…, keep=("q", "k")), a larger See(top=…) or a larger min_weight helps.'
        )
    if NOT_FINITE in told:
        said.append(
            f"edges(): {json.loads(told[NOT_FINITE]):,} rows have no edges, as their weights are "
            "not finite. A NaN or an infinity in q, k or the bias makes them so."
        )
    for words in said:
        warnings.warn(words, UserWarning, stacklevel=stacklevel + 1)
