"""Rollout: what explicit products of matrices give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.run_by_hand import Made, make_run

import regard
import regard.run.layer
from regard.run import Run
from regard.run.rollout import has_rollout


def by_matrices(made: list[Made], token: int, sequence: int, residual: float) -> Any:
    length = made[0].weights.shape[-1]
    product = np.eye(length)
    for each in made:
        step = residual * np.eye(length) + (1 - residual) * each.weights[sequence].mean(0)
        product = step @ product
    return product[token]


@pytest.mark.parametrize("residual", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize(
    "kinds",
    [("causal", "grouped", "window"), ("plain", "bias", "softcap"), ("sinks",)],
)
def test_rollout_is_the_product_of_the_layers(kinds: tuple[str, ...], residual: float) -> None:
    run, made = make_run(*kinds, dtype=torch.float64)
    for token, sequence in ((0, 0), (6, 1), (10, 0)):
        found = run.rollout(token, sequence, residual)
        assert found.dtype == torch.float64
        expected = by_matrices(made, token, sequence, residual)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
        if "sinks" not in kinds:
            assert found.sum().item() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["left padding", "right padding"])
def test_padding_gets_nothing(kind: str) -> None:
    run, made = make_run(kind, kind, dtype=torch.float64)
    keys = made[0].layer.keys
    assert keys is not None
    found = run.rollout(5, 1)
    assert found[~keys[1]].tolist() == [0.0] * 4
    np.testing.assert_allclose(found.numpy(), by_matrices(made, 5, 1, 0.5), atol=1e-12)
    padded = 1 if kind == "left padding" else 9
    with pytest.raises(ValueError, match=rf"rollout\(\): token must be a real one; got {padded}"):
        run.rollout(padded, 1)


def test_rows_without_a_share_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = make_run("causal", "causal")
    rows: list[int] = []
    true = regard.run.layer.weights

    def watched(*arguments: Any, **options: Any) -> torch.Tensor:
        tile = true(*arguments, **options)
        rows.append(tile.shape[2])
        return tile

    monkeypatch.setattr(regard.run.layer, "weights", watched)
    run.rollout(4)
    assert rows == [1] * 3 + [5] * 3


def test_many_tiles_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = make_run("causal", "window", "plain", dtype=torch.float64)
    expected = run.rollout(-1)
    monkeypatch.setattr(regard.run.layer, "_CELLS", 25)
    torch.testing.assert_close(run.rollout(10), expected)


def test_cross_attention_is_left_out() -> None:
    run, _ = make_run("causal", "cross", "causal")
    alone = Run({name: run.layers[name] for name in ("block.0", "block.2")})
    assert run.rollout(7).tolist() == alone.rollout(7).tolist()


def test_layers_can_be_chosen() -> None:
    run, made = make_run("causal", "cached", "plain", dtype=torch.float64)
    found = run.rollout(7, layers=["block.0", 2])
    np.testing.assert_allclose(
        found.numpy(), by_matrices([made[0], made[2]], 7, 0, 0.5), atol=1e-12
    )


def test_wrong_arguments_are_refused_in_words() -> None:
    run, _ = make_run("causal")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"token": 11}, r"rollout\(\): token must be from -11 to 10; got 11"),
        ({"token": "a0"}, "token must be a whole number"),
        ({"token": 0, "sequence": 2}, "sequence must be from -2 to 1; got 2"),
        ({"token": 0, "residual": 1.5}, "residual must be from 0 to 1; got 1.5"),
        ({"token": 0, "residual": "x"}, "residual must be a number"),
        ({"token": 0, "layers": "block"}, "layer must be the name"),
    ]
    for arguments, said in wrong:
        with pytest.raises((ValueError, TypeError), match=said):
            run.rollout(**arguments)


def test_what_is_missing_is_refused_in_words() -> None:
    bare, _ = make_run("causal", keep=())
    with pytest.raises(ValueError, match=r"q and k of all layers must have been kept; .*block.0"):
        bare.rollout(0)
    uneven, _ = make_run("causal", "cached")
    with pytest.raises(ValueError, match=r"same 2 × 11 queries and keys; got 2 × 7.*block.1"):
        uneven.rollout(0)
    cross, _ = make_run("cross")
    with pytest.raises(ValueError, match="must have self-attention layers"):
        cross.rollout(0)
    with pytest.raises(ValueError, match="must have self-attention layers"):
        Run().rollout(0)
    twice, _ = make_run("causal")
    twice.layers["block.0#2"] = replace(twice.layers["block.0"], name="block.0#2")
    with pytest.raises(ValueError, match=r"each module must be there once; got block.0"):
        twice.rollout(0)
    assert twice.rollout(0, layers=0).shape == (11,)


def test_whether_there_is_a_rollout_is_told_without_making_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, _ = make_run("causal", "causal")
    without, _ = make_run("causal", keep=())
    padded, _ = make_run("left padding")
    assert has_rollout(padded)
    monkeypatch.setattr(regard.run.layer, "weights", None)
    assert has_rollout(run)
    assert not has_rollout(without)
    assert not has_rollout(Run())
    run.layers["again#2"] = next(iter(run.layers.values()))
    run.layers["again"] = run.layers["again#2"]
    assert not has_rollout(run)  # one module that ran twice


def test_queries_that_stand_elsewhere_than_their_keys_are_refused() -> None:
    run, _ = make_run("plain", "plain")
    layer = run.layers["block.1"]
    run.layers["block.1"] = replace(layer, options=replace(layer.options, position=3))
    assert not has_rollout(run)
    with pytest.raises(ValueError, match=r"query i must stand where key i does; in block\.1 "):
        run.rollout(5)
    assert run.rollout(5, layers=[0]).shape == (11,)
