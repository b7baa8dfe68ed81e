"""Links between tokens: those of all weights, found one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.run_by_hand import KINDS, Made, make_run

import regard
from regard.run import Run
from regard.run.links import (
    Link,
    links_of_heads,
    links_that_stand_out,
    mean_looks,
    strongest_links,
)
from regard.text import Token

EVERY_KEY = regard.See(top=11)
SPECIAL = (3, 10)  # tokens that no letter of the text stands for


def make(*kinds: str) -> tuple[Run, list[Made]]:
    run, made = make_run(*kinds, see=EVERY_KEY)
    assert run.tokens is not None
    for place in SPECIAL:
        run.tokens[0][place] = Token("[X]", 7, 7)
    return run, made


def best(made: Made, layer: int, head: int, *, everything: bool = True) -> Link:
    """The largest weight of a head in the first sequence, by looking at each."""
    weights = made.weights[0, head].copy()
    if not everything:
        n_queries, n_keys = weights.shape
        for query in range(n_queries):
            place = query + n_keys - n_queries
            weights[query, [0, place, *SPECIAL]] = -1
            if place in SPECIAL:
                weights[query] = -1
    query, key = (int(n) for n in np.unravel_index(weights.argmax(), weights.shape))
    weight = pytest.approx(weights[query, key], abs=1e-6)
    return Link(layer, head, query, key, weight)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", KINDS)
def test_the_strongest_link_of_every_head_is_its_largest_weight(kind: str) -> None:
    run, made = make("causal", kind)
    heads = made[1].weights.shape[1]
    expected = [best(made[0], 0, head) for head in range(3)]
    assert links_of_heads(run) == expected + [best(made[1], 1, head) for head in range(heads)]


@pytest.mark.parametrize("kind", ["plain", "causal", "window", "cached", "grouped", "mask"])
def test_no_trivial_link_is_the_first_token_itself_or_a_special_one(kind: str) -> None:
    run, (made,) = make(kind)
    expected = [best(made, 0, head, everything=False) for head in range(made.weights.shape[1])]
    assert links_of_heads(run, everything=False) == expected


def test_a_text_without_tokens_has_no_special_ones() -> None:
    run, (made,) = make("plain")
    run.tokens = None
    weights = made.weights[0].copy()
    weights[:, :, 0] = -1
    weights[:, range(11), range(11)] = -1
    found = links_of_heads(run, everything=False)
    assert [link.weight for link in found] == pytest.approx(weights.max((1, 2)), abs=1e-6)


def test_of_cross_attention_no_token_of_the_text_is_special() -> None:
    run, _ = make("cross")
    assert run.tokens is not None
    expected = links_of_heads(run, everything=False)
    run.tokens[0] = [Token("[X]", 7, 7)] * 11
    assert links_of_heads(run, everything=False) == expected != []


def test_links_of_a_layer_a_head_or_a_query_are_those_of_it_alone() -> None:
    run, made = make("causal", "plain")
    every = links_of_heads(run)
    assert links_of_heads(run, layer=1) == every[3:]
    assert links_of_heads(run, layer=0, head=2) == [every[2]]
    assert links_of_heads(run, head=1) == [every[1], every[4]]
    for query in (0, 6):
        found = links_of_heads(run, layer=1, query=query)
        row = made[1].weights[0, :, query]
        assert [link.query for link in found] == [query] * 3
        assert [link.key for link in found] == row.argmax(1).tolist()


def test_layers_whose_strongest_keys_nobody_asked_for_have_no_links() -> None:
    run, made = make("causal", "plain")
    bare = run.layers["block.0"]
    for missing in ("top_keys", "top_weights"):
        run.layers["block.0"] = replace(bare, seen=replace(bare.seen, **{missing: None}))
        assert links_of_heads(run) == [best(made[1], 1, head) for head in range(3)]


def test_a_head_that_looks_at_nothing_has_no_link() -> None:
    run, _ = make("plain")
    layer = run.layers["block.0"]
    assert layer.top_weights is not None
    layer.top_weights[0, 1] = 0.0
    assert [link.head for link in links_of_heads(run)] == [0, 2]


def test_pairs_stand_there_once_the_strongest_first_with_how_many_heads_have_them() -> None:
    run, _ = make("causal", "causal", "plain")
    run.layers["block.1"] = run.layers["block.0"]  # which has the same links, and is no stronger
    found = strongest_links(run)
    each = links_of_heads(run, everything=False)
    assert [link.weight for link in found] == sorted({link.weight for link in found}, reverse=True)
    assert sorted((link.query, link.key) for link in found) == sorted(
        {(link.query, link.key) for link in each}
    )
    for link in found:
        same = [one for one in each if (one.query, one.key) == (link.query, link.key)]
        strongest = max(same, key=lambda one: one.weight)
        assert link == replace(strongest, heads=len(same))
    assert max(link.heads for link in found) > 1
    assert strongest_links(run, everything=True)[0] == max(
        strongest_links(run, everything=True), key=lambda one: one.weight
    )


def test_links_stand_out_from_a_tenth_on() -> None:
    run, _ = make("plain")
    links, trivial = links_that_stand_out(run)
    assert (links, trivial) == (strongest_links(run), False)
    layer = run.layers["block.0"]
    assert layer.top_weights is not None
    weakest = links[-1]
    layer.top_weights.mul_(0.1 * (1 + 1e-3) / weakest.weight)
    assert links_that_stand_out(run) == (strongest_links(run), False)
    layer.top_weights.mul_(1 - 2e-3)
    assert links_that_stand_out(run) == (strongest_links(run)[:-1], False)
    layer.top_weights.fill_(0.1)  # as a float32, which is a little more
    assert links_that_stand_out(run) == (strongest_links(run), False)


def test_where_only_trivial_links_stand_out_they_are_shown_as_such() -> None:
    run, _ = make("plain")
    layer = run.layers["block.0"]
    assert layer.top_weights is not None
    layer.top_weights.fill_(0.01)
    assert links_that_stand_out(run) == (strongest_links(run, everything=True), True)
    assert links_that_stand_out(run)[0] != []
    assert links_that_stand_out(run, head=1)[0] == strongest_links(run, head=1, everything=True)


def test_the_mean_look_of_a_token_is_that_of_its_rows() -> None:
    run, made = make("causal", "plain")
    expected = np.stack([each.weights[0, :, 5].mean(0) for each in made])
    np.testing.assert_allclose(mean_looks(run, 5), expected, atol=1e-6)
    assert mean_looks(Run(), 0).shape == (0, 0)


def test_a_link_is_named_by_layer_and_head() -> None:
    assert Link(2, 5, 0, 1, 0.5).name == "2.5"
