"""Edges: all strong weights and no others, and the rows of which that cannot be said."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from helpers.run_by_hand import KINDS, Made, make, make_run, real
from hypothesis import given
from hypothesis import strategies as st

import regard
import regard.run.layer
from regard.run import Run

Edge = tuple[int, int, int, int, int]


def expected_edges(
    made: list[Made], min_weight: float, top: int | None = None
) -> dict[Edge, float]:
    """By definition, from the full weights: (sequence, layer, head, query, key) to weight."""
    found: dict[Edge, float] = {}
    for n, each in enumerate(made):
        batch, heads, n_queries, n_keys = each.weights.shape
        queries = real(each.layer.queries, batch, n_queries)
        keys = real(each.layer.keys, batch, n_keys)
        for b, h, i in np.ndindex(batch, heads, n_queries):
            row = np.where(keys[b] & queries[b, i], each.weights[b, h, i], 0.0)
            for j in np.argsort(-row)[:top]:
                if row[j] >= min_weight and row[j] > 0:
                    found[b, n, h, i, int(j)] = float(row[j])
    return found


def quiet(run: Run, *arguments: Any, **options: Any) -> pa.Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return run.edges(*arguments, **options)


def as_edges(table: pa.Table) -> dict[Edge, float]:
    names = ("sequence", "layer", "head", "query", "key")
    rows = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    assert len(set(rows)) == len(rows), "an edge is there twice"
    return dict(zip(rows, table["weight"].to_pylist(), strict=True))


def assert_same(found: dict[Edge, float], expected: dict[Edge, float], least: float) -> None:
    """The same edges, but for those that rounding may put on either side of `least`."""
    for edge in found.keys() ^ expected.keys():
        assert abs({**found, **expected}[edge] - least) < 1e-5, edge
    for edge in found.keys() & expected.keys():
        assert found[edge] == pytest.approx(expected[edge], abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("listed", [0, 1, 3, 20])
def test_edges_are_all_strong_weights_and_no_others(kind: str, listed: int) -> None:
    run, made = make_run(kind, see=regard.See(top=listed))
    for least in (0.01, 0.1, 0.6):
        table = run.edges(least)
        assert b"regard.truncated" not in table.schema.metadata
        assert_same(as_edges(table), expected_edges(made, least), least)


@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    least=st.floats(0.0, 1.0),
    top=st.none() | st.integers(1, 12),
    listed=st.integers(0, 12),
    kept=st.booleans(),
)
def test_rows_that_are_not_named_as_cut_are_whole(
    kinds: list[str], least: float, top: int | None, listed: int, kept: bool
) -> None:
    keep = ("q", "k") if kept else ()
    run, made = make_run(*kinds, see=regard.See(top=listed), keep=keep)
    table = quiet(run, least, top)
    rows = run.truncated_rows(least, top).to_pylist()
    truncated = {(row["sequence"], row["layer"], row["head"], row["query"]) for row in rows}
    assert not (kept and truncated)
    expected = expected_edges(made, least, top)
    found = as_edges(table)
    whole = {edge: w for edge, w in found.items() if edge[:4] not in truncated}
    assert_same(
        whole, {edge: w for edge, w in expected.items() if edge[:4] not in truncated}, least
    )
    for edge in found.keys() - whole.keys():  # what is there of a truncated row is right
        assert edge in expected or abs(found[edge] - least) < 1e-5


def test_exactly_the_rows_whose_list_may_be_too_short_are_cut() -> None:
    run, made = make_run("causal", "right padding", see=regard.See(top=2), keep=())
    least = 0.15
    expected: list[dict[str, int]] = []
    for n, each in enumerate(made):
        batch, heads, n_queries, _ = each.weights.shape
        queries = real(each.layer.queries, batch, n_queries)
        for b, h, i in np.ndindex(batch, heads, n_queries):
            if not queries[b, i] or each.allowed[b, h, i].sum() <= 2:
                continue
            strongest = np.sort(each.weights[b, h, i])[::-1][:2]
            if strongest[-1] >= least and 1 - strongest.sum() >= least - 1e-3:
                expected.append({"sequence": b, "layer": n, "head": h, "query": i})
    expected.sort(key=lambda row: tuple(row.values()))
    assert 0 < len(expected) < 60
    assert run.truncated_rows(least).to_pylist() == expected
    with pytest.warns(UserWarning, match=f"{len(expected)} rows are truncated.*keep=.*See"):
        table = run.edges(least)
    counts = json.loads(table.schema.metadata[b"regard.truncated"])
    for each in counts:
        here = [r for r in expected if (r["layer"], r["head"]) == (each["layer"], each["head"])]
        assert len(here) == each["rows"]
    assert sum(each["rows"] for each in counts) == len(expected)


def test_rows_are_in_order() -> None:
    run, _ = make_run("causal", "left padding", "grouped", see=regard.See(top=2))
    table = run.edges(0.02)
    columns = ("sequence", "layer", "head", "query")
    rows = [
        (*key, -weight)
        for *key, weight in zip(
            *(table[name].to_pylist() for name in columns), table["weight"].to_pylist(), strict=True
        )
    ]
    assert rows == sorted(rows)
    assert len(rows) > 300


def test_top_takes_the_strongest_of_each_row() -> None:
    run, made = make_run("causal", see=regard.See(top=1))
    assert_same(as_edges(run.edges(0.0, top=4)), expected_edges(made, 0.0, 4), 0.0)
    alone, _ = make_run("causal", see=regard.See(top=4), keep=())
    assert as_edges(alone.edges(0.0, top=4)).keys() == as_edges(run.edges(0.0, top=4)).keys()


def test_layers_and_heads_are_chosen_by_number_or_name() -> None:
    run, made = make_run("causal", "grouped", "plain")
    every = expected_edges(made, 0.1)
    for layers in ([2, "block.1"], [1, -1], ["block.1", "block.2"]):
        found = as_edges(run.edges(0.1, layers=layers, heads=[0, 5]))
        wanted = {e: w for e, w in every.items() if e[1] in (1, 2) and e[2] in (0, 5)}
        assert_same(found, wanted, 0.1)
    assert {edge[1:3] for edge in as_edges(run.edges(0.1, layers=1, heads=4))} == {(1, 4)}


def test_tokens_are_those_of_query_and_key() -> None:
    run, _ = make_run("causal", "cross", "cached")
    assert run.tokens is not None
    rows = run.edges(0.1).to_pylist()
    assert {row["layer"] for row in rows} == {0, 1, 2}
    for row in rows:
        tokens = [token.text for token in run.tokens[row["sequence"]]]
        if row["layer"] == 1:  # keys of another sequence
            assert (row["query_token"], row["key_token"]) == (None, None)
        else:
            ahead = 4 if row["layer"] == 2 else 0
            assert row["query_token"] == tokens[row["query"] + ahead]
            assert row["key_token"] == tokens[row["key"]]


def test_tokens_of_real_keys_alone_stand_where_these_do() -> None:
    run, made = make_run("left padding")
    assert run.tokens is not None
    run.tokens[1] = run.tokens[1][4:]
    rows = [row for row in run.edges(0.1).to_pylist() if row["sequence"] == 1]
    assert {row["key_token"] for row in rows} <= {token.text for token in run.tokens[1]}
    assert all(row["key_token"] == run.tokens[1][row["key"] - 4].text for row in rows)
    run.tokens[1] = run.tokens[1][:3]  # of whom nobody knows where they stand
    rows = [row for row in run.edges(0.1).to_pylist() if row["sequence"] == 1]
    assert {row["key_token"] for row in rows} == {None}
    assert made[0].layer.keys is not None


def test_columns_have_their_types() -> None:
    token = pa.dictionary(pa.int32(), pa.string())
    expected = [*[pa.int32()] * 5, token, token]
    run, _ = make_run("causal")
    assert run.edges().schema.types == [*expected, pa.float32()]
    assert Run().edges().schema.types == [*expected, pa.float32()]
    precise, _ = make_run("causal", "plain", dtype=torch.float64)
    precise.layers["block.1"] = make("plain").layer
    assert precise.edges().schema.types == [*expected, pa.float64()]


def test_weights_are_made_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regard.run.layer, "_CELLS", 25)
    cells: list[int] = []
    true = regard.run.layer.weights

    def watched(*arguments: Any, **options: Any) -> torch.Tensor:
        tile = true(*arguments, **options)
        cells.append(tile.numel())
        return tile

    monkeypatch.setattr(regard.run.layer, "weights", watched)
    for listed in (0, 2):  # all rows, and some with gaps between them
        run, made = make_run(*KINDS, see=regard.See(top=listed))
        assert_same(as_edges(run.edges(0.1)), expected_edges(made, 0.1), 0.1)
    assert len(cells) > 100
    assert max(cells) <= 25


def test_rows_that_are_not_finite_are_said_to_be_so() -> None:
    made = make("causal")
    assert made.layer.q is not None
    q = made.layer.q.clone()
    q[0, 1, 4] = torch.nan
    assert made.layer.k is not None
    _, seen = regard.attention(q, made.layer.k, made.layer.k, causal=True, see=regard.See(top=2))
    run = Run(
        {"a": regard.run.Layer("a", seen, regard.run.Options(causal=True), q=q, k=made.layer.k)}
    )
    with pytest.warns(UserWarning, match="1 rows have no edges.*not finite"):
        table = run.edges(0.1)
    assert run.truncated_rows(0.1).num_rows == 0
    bare = Run({"a": replace(run.layers["a"], q=None, k=None)})
    truncated = bare.truncated_rows(0.1).to_pylist()
    assert truncated
    assert {"sequence": 0, "layer": 0, "head": 1, "query": 4} not in truncated
    made.weights[0, 1, 4] = 0
    assert_same(as_edges(table), expected_edges([made], 0.1), 0.1)


@pytest.mark.parametrize("listed", [0, 2, 11])
def test_padding_is_left_out_even_where_it_got_weight(listed: int) -> None:
    made = make("plain", see=regard.See(top=listed))
    keys = torch.arange(11) < torch.tensor([[11], [6]])
    made.layer = replace(made.layer, keys=keys, queries=keys)
    run = Run({"a": made.layer})
    assert_same(as_edges(run.edges(0.1)), expected_edges([made], 0.1), 0.1)
    assert_same(as_edges(run.edges(0.1, top=2)), expected_edges([made], 0.1, 2), 0.1)


def test_text_that_utf_8_cannot_hold_is_shown_all_the_same() -> None:
    run, _ = make_run("causal")
    assert run.tokens is not None
    run.tokens[0][0] = regard.text.Token("\ud83d", 0, 1)
    assert "�" in run.edges(0.1)["key_token"].to_pylist()


def test_batches_and_lengths_of_nothing_give_empty_tables() -> None:
    for shape in ((0, 3, 5, 2), (2, 0, 5, 2), (2, 3, 0, 2)):
        q = torch.zeros(shape)
        for see in (regard.See(), regard.See(top=2)):
            _, seen = regard.attention(q, q, q, causal=True, see=see)
            run = Run({"a": regard.run.Layer("a", seen, regard.run.Options(causal=True), q=q, k=q)})
            assert run.edges(0.1).num_rows == 0
            assert run.truncated_rows().num_rows == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"min_weight": -0.1}, r"edges\(\): min_weight must be from 0 to 1; got -0.1"),
        ({"min_weight": "much"}, "min_weight must be a number"),
        ({"min_weight": float("nan")}, "min_weight must be from 0 to 1"),
        ({"min_weight": True}, "min_weight must be a number"),
        ({"top": 0}, r"edges\(\): top must be at least 1"),
        ({"top": 2.5}, "top must be a whole number"),
        ({"layers": ["block.7"]}, r"edges\(\): layer must be the name.*'block.0'"),
        ({"layers": 4}, "layer must be from -1 to 0; got 4"),
        ({"heads": [3]}, "head must be from -3 to 2; got 3"),
        ({"heads": "first"}, "head must be a whole number"),
    ],
)
def test_wrong_arguments_are_refused_in_words(arguments: dict[str, Any], said: str) -> None:
    run, _ = make_run("causal")
    with pytest.raises((ValueError, TypeError), match=said):
        run.edges(**arguments)
