"""Heads: their means are those of the full weights, and name them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.run_by_hand import KINDS, Made, make, make_run, real

import regard
from regard import Observation
from regard.run import Layer, Options
from regard.run.heads import describe


def expected_means(made: Made) -> dict[str, list[float]]:
    """By definition, row by row, from the weights in float64."""
    layer, weights = made.layer, made.weights
    batch, heads, n_queries, n_keys = weights.shape
    queries, allowed = real(layer.queries, batch, n_queries), made.allowed
    columns: dict[str, list[float]] = {name: [] for name in ("entropy", "spread", "distance")}
    for name in layer.shares:
        columns[name] = []
    for h in range(heads):
        rows: dict[str, list[float]] = {name: [] for name in columns}
        for b in range(batch):
            for i in np.flatnonzero(queries[b]):
                row = weights[b, h, i]
                some = row[row > 0]
                if not len(some):
                    continue
                entropy = float(-(some * np.log(some)).sum())
                rows["entropy"].append(entropy)
                rows["distance"].append(
                    float((row * abs(i + n_keys - n_queries - np.arange(n_keys))).sum())
                )
                if (count := allowed[b, h, i].sum()) > 1:
                    rows["spread"].append(entropy / np.log(count))
                for name, share in layer.shares.items():
                    if not np.isnan(value := share[b, h, i].item()):
                        rows[name].append(value)
        for name, values in rows.items():
            columns[name].append(float(np.mean(values)))
    return columns


@pytest.mark.parametrize("kind", KINDS)
def test_means_of_a_head_are_those_of_the_full_weights(kind: str) -> None:
    made = make(kind, dtype=torch.float64)
    expected = expected_means(made)
    for head in made.layer.heads:
        for name, values in expected.items():
            found = getattr(head, "self_" if name == "self" else name)
            if name == "distance" and made.layer.cross:
                assert found is None
            else:
                assert found == pytest.approx(values[head.head], rel=1e-9), name


@pytest.mark.parametrize("kind", KINDS)
def test_allowed_counts_the_real_keys(kind: str) -> None:
    made = make(kind)
    assert made.layer.allowed.tolist() == made.allowed.sum(-1).tolist()


def test_allowed_counts_a_mask_by_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard._attention.options._CELLS", 2 * 11 * 3)
    for kind in ("mask", "bias"):
        made = make(kind)
        assert made.layer.allowed.tolist() == made.allowed.sum(-1).tolist()


@pytest.mark.parametrize("shut", [-math.inf, torch.finfo(torch.float32).min, -1e9])
def test_a_causal_mask_counts_as_the_causal_flag_does(shut: float) -> None:
    flag = make("causal").layer
    open_ = torch.ones(11, 11).tril().bool()
    for options in (
        Options(mask=open_),
        Options(bias=torch.zeros(11, 11).masked_fill(~open_, shut)),
        Options(bias=torch.zeros(1, 3, 11, 11).masked_fill(~open_, shut)),
    ):
        other = replace(flag, options=options)
        assert torch.equal(other.allowed, flag.allowed)
        assert other.heads == flag.heads


def test_a_row_that_finite_numbers_forbid_is_as_allowed_as_before() -> None:
    bias = torch.zeros(1, 1, 11, 11)
    bias[:, :, 3] = torch.finfo(torch.float32).min
    bias[:, :, 5] = -math.inf
    layer = replace(make("plain").layer, options=Options(bias=bias))
    assert layer.allowed[0, 0].tolist() == [11, 11, 11, 11, 11, 0, 11, 11, 11, 11, 11]


def test_a_layer_says_what_it_is() -> None:
    layer = make("causal", keep=("q", "k")).layer
    assert repr(layer) == (
        "Layer('layer': 3 heads, 2 × 11 × 11: lse, entropy, distance, top 3, map 3 × 5, received, "
        "q, k)"
    )
    assert len(repr(make("cross", see=regard.See()).layer)) < 90


def one_hot(offset: int, n: int = 13) -> Layer:
    """A causal head that looks `offset` back, with nearly all of its weight."""
    k = torch.eye(n)[None, None]
    q = 40 * k.roll(-offset, dims=-1) if offset else 40 * k
    q = q[..., :n].clone()
    _, seen = regard.attention(q, k, k, causal=True, scale=1.0, see=regard.See(entropy=True))
    weights = regard.weights(q, k, causal=True, scale=1.0)[0, 0]
    shares = {
        "first": weights[:, 0],
        "self": weights.diagonal(),
        "previous": torch.cat([torch.tensor([torch.nan]), weights.diagonal(-1)]),
    }
    shares = {name: x[None, None] for name, x in shares.items()}
    return Layer("one", seen, Options(causal=True, scale=1.0), shares=shares)


def test_a_head_that_looks_at_itself_or_one_back_is_called_so() -> None:
    assert one_hot(0).heads[0].kind == "itself"
    head = one_hot(1)
    assert head.shares["previous"].isnan().sum() == 1
    k = torch.eye(13)[None, None]
    q = 40 * torch.cat([k[:, :, :1], k[:, :, :-1]], dim=2)
    weights = regard.weights(q, k, causal=True, scale=1.0)[0, 0]
    shares = {
        "self": weights.diagonal()[None, None],
        "previous": torch.cat([torch.tensor([torch.nan]), weights.diagonal(-1)])[None, None],
    }
    _, seen = regard.attention(q, k, k, causal=True, scale=1.0, see=regard.See(entropy=True))
    head = Layer("previous", seen, Options(causal=True, scale=1.0), shares=shares).heads[0]
    assert head.kind == "previous token"
    assert head.score == pytest.approx(1.0, abs=1e-4)


def test_equal_weights_are_called_broad() -> None:
    q = torch.zeros(1, 1, 7, 3)
    _, seen = regard.attention(q, q, q, causal=True, see=regard.See(entropy=True))
    head = Layer("equal", seen, Options(causal=True)).heads[0]
    assert (head.kind, head.spread) == ("broad", pytest.approx(1.0))


def test_a_head_of_half_the_entropy_is_mixed() -> None:
    half = torch.cat([torch.zeros(1, 1, 16, 12), torch.full((1, 1, 16, 4), 10.0)], -1)
    q = torch.zeros(1, 1, 16, 1)
    _, seen = regard.attention(q, q, q, bias=half, see=regard.See(entropy=True))
    (head,) = regard.Layer("a", seen).heads
    assert head.spread == pytest.approx(0.5, abs=0.01)
    assert head.kind == "mixed"


def test_lengths_leave_fewer_keys_to_attend_to() -> None:
    q, lengths = torch.randn(2, 3, 7, 5), torch.tensor([7, 4])
    _, seen = regard.attention(q, q, q, lengths=lengths, see=regard.See(entropy=True))
    allowed = regard.Layer("a", seen, Options(lengths=lengths)).allowed
    assert torch.equal(allowed, lengths[:, None, None].expand(2, 3, 7))


def test_what_was_not_measured_is_none() -> None:
    head = make("plain", see=regard.See()).layer.heads[0]
    assert (head.entropy, head.spread, head.distance) == (None, None, None)


def test_rows_of_heads_have_the_numbers_of_each_head() -> None:
    run, made = make_run("causal", "grouped")
    rows = run.heads()
    assert [(row["layer"], row["name"], row["head"]) for row in rows] == [
        (n, f"block.{n}", h) for n, each in enumerate(made) for h in range(each.layer.shape[1])
    ]
    assert rows[4]["self"] == made[1].layer.heads[1].self_
    assert set(rows[0]) == {
        *("layer", "name", "head", "entropy", "spread", "distance", "first", "self"),
        *("previous", "induction", "kind", "score"),
    }


@pytest.mark.parametrize(("repeated", "kind"), [(3, "mixed"), (4, "induction")])
def test_a_few_repeated_tokens_make_no_induction_head(repeated: int, kind: str) -> None:
    lse = torch.zeros(1, 1, 7)
    share = torch.full((1, 1, 7), torch.nan)
    share[..., :repeated] = 0.9
    (head,) = describe(Observation(lse=lse, n_keys=7), {"induction": share})
    assert head.induction == pytest.approx(0.9)
    assert head.kind == kind
