"""`Run`: what it holds, how it is shown, and which layer is meant."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from helpers.run_by_hand import KINDS, make, make_run

import regard
from regard._extras import need
from regard.run import Layer, Options, Run


def test_a_run_is_told_in_one_line() -> None:
    run, _ = make_run("causal", "grouped")
    assert (
        repr(run) == "Run('made up': 2 layers, 9 heads, 2 × 11 tokens, 1 kind of module not seen)"
    )
    assert repr(Run()) == "Run('': 0 layers, 0 heads, 0 tokens)"
    bare = Run({"a": make("cached").layer}, model="x")
    assert repr(bare) == "Run('x': 1 layer, 3 heads, 2 × 11 tokens)"
    numbered = Run(token_ids=torch.zeros(3, 7, dtype=torch.int64))
    assert repr(numbered) == "Run('': 0 layers, 0 heads, 3 × 7 tokens)"


def test_layers_are_found_by_number_and_by_name() -> None:
    run, made = make_run("causal", "plain", "window")
    assert run.layer(1) is made[1].layer
    assert run.layer(-1) is made[2].layer
    assert run.layer("block.2") is made[2].layer
    assert list(run.layers) == ["block.0", "block.1", "block.2"]


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("blok.1", r"layer\(\): layer must be the name of a layer; got 'blok.1'.*'block.1'"),
        (3, r"layer\(\): layer must be from -3 to 2; got 3. The run has 3 layers."),
        (1.5, "layer must be a whole number"),
        (True, "layer must be a whole number"),
        (None, "layer must be a whole number"),
    ],
)
def test_a_layer_that_is_not_there_is_refused_in_words(which: object, said: str) -> None:
    run, _ = make_run("causal", "plain", "window")
    with pytest.raises((ValueError, TypeError), match=said):
        run.layer(which)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", KINDS)
def test_tiles_are_exact(kind: str) -> None:
    run, [made] = make_run(kind)
    tile = run.weights("block.0", rows=(2, 7), keys=slice(1, 9))
    np.testing.assert_allclose(tile.numpy(), made.weights[:, :, 2:7, 1:9], atol=1e-5)
    for head in range(made.layer.shape[1]):
        one = run.weights(0, head, rows=range(3, 6))
        np.testing.assert_allclose(one.numpy(), made.weights[:, head, 3:6], atol=1e-5)
        picture = run.pooled(0, head, shape=(1, 1), reduce="max")
        np.testing.assert_allclose(
            picture[:, 0, 0].numpy(), made.weights[:, head].max((1, 2)), atol=1e-5
        )


def test_tiles_need_q_and_k() -> None:
    run, _ = make_run("causal", keep=())
    with pytest.raises(ValueError, match=r"weights\(\): q and k of block.0 must have been kept"):
        run.weights(0, 0)
    with pytest.raises(ValueError, match=r"pooled\(\): q and k"):
        run.pooled(0, 0)


@pytest.mark.parametrize("head", [3, -1, 1.5, "a", True])
def test_a_head_that_is_not_there_is_refused_in_words(head: object) -> None:
    run, _ = make_run("causal")
    with pytest.raises((ValueError, TypeError), match=r"weights\(\): head must be .*3 heads"):
        run.weights(0, head)  # pyright: ignore[reportArgumentType]


def test_a_library_that_is_missing_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ImportError, match=r'edges\(\): pyarrow must be .*pip install "regard\[runs\]"'
    ):
        Run().edges()
    assert need("save()", "math", "runs").pi > 3


def test_options_are_the_arguments_of_attention() -> None:
    mask = torch.ones(1, 1, 1, 3, dtype=torch.bool)
    arguments = Options(causal=True, mask=mask, scale=2.0).arguments()
    q = torch.randn(1, 1, 3, 2)
    _, seen = regard.attention(q, q, q, see=regard.See(), **arguments)
    layer = Layer("a", seen, Options(**arguments), q=q, k=q)
    expected = regard.weights(q, q, causal=True, mask=mask, scale=2.0)
    torch.testing.assert_close(layer.weights(), expected)


def test_none_stands_for_no_layers_notes_or_hidden_states() -> None:
    containers = ("layers", "notes", "unseen", "hidden_states", "between")
    nothing: dict[str, Any] = dict.fromkeys(containers)
    run = Run(**nothing)
    assert [getattr(run, name) for name in containers] == [{}, [], [], {}, {}]
    assert repr(run) == repr(Run())
