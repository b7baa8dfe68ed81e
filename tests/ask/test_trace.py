"""`trace_of`: one head of a run, from the model's own numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.model_folders import save_bert, save_llama

import regard
from regard.ask import trace_of
from regard.models import Loaded, load

TEXT = "i love apple phones"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("decoder")
    save_llama(folder)
    return load(folder)


def weights_of(trace: regard.Trace) -> torch.Tensor:
    return torch.from_numpy(trace.steps["weights"].array[0])


def test_a_live_run_knows_its_model(loaded: Loaded) -> None:
    run = loaded.see(TEXT)
    trace = run.trace(1, 2)
    assert trace.title == TEXT
    assert trace.note.startswith(f"Head 2 of layer 1 of {loaded.name} (model.layers.1.self_attn)")
    torch.testing.assert_close(weights_of(trace), run.weights(1, 2)[0].double(), atol=1e-6, rtol=0)


def test_what_was_kept_is_not_computed_once_more(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = loaded.see(TEXT, keep=("q", "k", "v", "output"))
    monkeypatch.setattr(type(loaded.model), "forward", None)
    assert run.trace(0, 1).tokens == ("[CLS]", "i", "love", "apple", "phones", "[SEP]")


def test_ablated_heads_stay_so(loaded: Loaded) -> None:
    whole, without = (loaded.see(TEXT, ablate=heads) for heads in (None, {0: [0, 1, 2]}))
    ours, others = weights_of(without.trace(1, 0)), weights_of(whole.trace(1, 0))
    torch.testing.assert_close(ours, without.weights(1, 0)[0].double(), atol=1e-6, rtol=0)
    assert not torch.allclose(ours, others, atol=1e-4)


def test_a_run_from_a_disk_needs_its_model(loaded: Loaded, tmp_path: Path) -> None:
    loaded.see(TEXT).save(tmp_path / "run")
    run = regard.load(tmp_path / "run")
    with pytest.raises(ValueError, match=r"trace\(\): the run must have kept .* without v, output"):
        run.trace(1, 2)
    torch.testing.assert_close(
        weights_of(run.trace(1, 2, model=loaded)), weights_of(loaded.see(TEXT).trace(1, 2))
    )


def test_another_model_is_refused(loaded: Loaded, tmp_path: Path) -> None:
    torch.manual_seed(7)
    save_bert(tmp_path)
    run = loaded.see(TEXT)
    with pytest.raises(ValueError, match=r"trace\(\): model must be the one of the run"):
        run.trace(0, 0, model=load(tmp_path))


def test_a_run_without_the_ablation_that_it_had_is_refused(loaded: Loaded, tmp_path: Path) -> None:
    loaded.see(TEXT, ablate={0: [0, 1, 2]}).save(tmp_path / "run")
    with pytest.raises(ValueError, match="all of its heads at work"):
        regard.load(tmp_path / "run").trace(1, 0, model=loaded)


def test_what_the_model_did_not_compute_is_an_arithmetic_error(loaded: Loaded) -> None:
    run = loaded.see(TEXT, keep=("q", "k", "v", "output"))
    for name, layer in run.layers.items():
        assert layer.output is not None
        run.layers[name] = replace(layer, output=layer.output + 1e-3)
    with pytest.raises(ArithmeticError, match=r"differs from what .* computed by 1.0e−03"):
        trace_of(run, 0, 0)


@pytest.mark.parametrize(
    ("layer", "head", "why"), [(2, 0, "layer"), (0, 3, "head"), ("x", 0, "layer")]
)
def test_a_layer_or_head_that_is_not_there_is_refused(
    loaded: Loaded, layer: int | str, head: int, why: str
) -> None:
    with pytest.raises(ValueError, match=rf"trace\(\): {why} must"):
        loaded.see(TEXT).trace(layer, head)
