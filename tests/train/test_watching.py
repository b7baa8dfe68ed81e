"""What a training is told of its heads is what `regard.watch` sees of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_run import TEXT, small

import regard
from regard.train.loop import build
from regard.train.prepare import prepare
from regard.train.watching import Watching

MODELS = {
    "copy": {"dropout": 0.0},
    "language-model": {"dropout": 0.0, "window": 5, "position": {"type": "ALiBi"}},
    "masked": {"dropout": 0.0, "position": {"type": "Sinusoidal"}},
}


def made(
    folder: Path, task: str, note: Callable[[str], None] = lambda text: None
) -> tuple[Any, Any, Watching, list[dict[str, Any]]]:
    """A task, its model, who watches it, and what is written of it."""
    (folder / "text.txt").write_text(TEXT)
    data = {"text": str(folder / "text.txt"), "length": 11}
    changes = {} if task == "copy" else {"data": data}
    recipe = small(
        "language-model" if task == "masked" else task,
        model=MODELS[task],
        watch={"every": 1, "pictures": 0},
        **changes,
    )
    if task == "masked":
        content = {**recipe.content, "task": "masked"}
        recipe = regard.train.recipe.recipe_of(content)
    ready = prepare(recipe, folder / "run")
    model = build(ready).train()
    written: list[dict[str, Any]] = []
    return ready, model, Watching(ready, model, folder, written.append, note), written


@pytest.mark.parametrize("task", MODELS)
def test_the_entropies_in_the_log_are_those_that_watch_reports(tmp_path: Path, task: str) -> None:
    ready, model, watching, written = made(tmp_path, task)
    batch = ready.batch(0)
    with watching.step(0):
        blind = model(**batch.inputs)
    reported: dict[str, Any] = {}

    def report(line: dict[str, Any]) -> None:
        reported[line["layer"]] = line["entropy"]

    with regard.watch(model, regard.See(entropy=True), every=1, report=report):
        seen = model(**batch.inputs)
    assert torch.equal(blind, seen)
    (line,) = written
    assert line["step"] == 1
    assert line["entropy"].keys() == reported.keys()
    for name, values in reported.items():
        assert line["entropy"][name] == pytest.approx(values, rel=1e-9)


def test_parts_of_a_batch_count_together(tmp_path: Path) -> None:
    ready, model, watching, written = made(tmp_path, "copy")
    batch = ready.batch(0)
    with watching.step(0):
        model(**batch.inputs)
    with watching.step(1):
        for number in range(3):
            model(**batch.part(number, 3).inputs)
    whole, parts = (line["entropy"] for line in written)
    for name, values in whole.items():
        assert parts[name] == pytest.approx(values, rel=1e-6)


def test_nothing_stays_on_a_model_that_was_watched(tmp_path: Path) -> None:
    ready, model, watching, written = made(tmp_path, "copy")
    with pytest.raises(KeyboardInterrupt), watching.step(0):
        raise KeyboardInterrupt
    assert all(
        not hasattr(module, "watcher") or module.watcher is None for module in model.modules()
    )
    model(**ready.batch(0).inputs)
    assert written == []


def test_a_head_that_looks_at_one_key_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    ready, model, watching, _ = made(tmp_path, "language-model", told.append)
    with torch.no_grad():
        attention = model.decoder.layers[0].attention
        attention.w_q.weight *= 1e4
        attention.w_k.weight *= 1e4
    for step in range(2):
        with watching.step(step):
            model(**ready.batch(step).inputs)
    assert [each.split(":")[0] for each in told] == [
        f"head {head} of decoder.layers.0.attention has collapsed at step 0" for head in (0, 1)
    ]
