"""What the loop does at each step, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_run import TEXT, left, small, trained

import regard.nn
from regard.train import Diverged, checkpoint, open_run
from regard.train.log import read_log
from regard.train.loop import Trainer
from regard.train.optimizer import make_optimizer
from regard.train.prepare import prepare
from regard.train.recipe import Recipe, recipe_of


def weights(folder: Path) -> bytes:
    return left(folder)["model.safetensors"]


def of_task(tmp_path: Path, task: str) -> Recipe:
    content = dict(small().content)
    if task in ("language-model", "masked"):
        (tmp_path / "text.txt").write_text(TEXT)
        content["data"] = {"text": str(tmp_path / "text.txt"), "length": 11}
    elif task == "translate":
        rows = [f"one {n}\tuno {n}\n" for n in range(53)]
        (tmp_path / "a.tsv").write_text("".join(rows))
        content["data"] = {"pairs": str(tmp_path / "a.tsv"), "vocabulary": 270, "validation": 5}
    elif task == "classify":
        rows = [f"text {n},{n % 3}\n" for n in range(61)]
        (tmp_path / "a.csv").write_text("text,label\n" + "".join(rows))
        content["data"] = {"table": str(tmp_path / "a.csv"), "vocabulary": 270}
    return recipe_of({**content, "task": task})


@pytest.mark.parametrize("task", ["addition", "language-model", "translate", "classify", "masked"])
def test_every_task_learns(tmp_path: Path, task: str) -> None:
    found = trained(tmp_path / "run", of_task(tmp_path, task))
    assert found.step == 13
    assert found.best is not None
    lines = read_log(tmp_path / "run" / "log.jsonl")
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == 13
    assert sum(losses[-3:]) < sum(losses[:3])
    scores = {"classify": {"loss", "right"}, "language-model": {"loss"}, "masked": {"loss"}}
    assert set(found.scores) == scores.get(task, {"loss", "exact"})
    assert open_run(tmp_path / "run").step == found.best["step"]


def test_the_loss_of_the_log_is_that_of_plain_pytorch(tmp_path: Path) -> None:
    """One step, done once more by hand, with nothing but PyTorch."""
    recipe = small(model={"dropout": 0.0}, training={"steps": 2, "label_smoothing": 0.1})
    trainer = Trainer(prepare(recipe, tmp_path), tmp_path, lambda text: None)
    model = trainer.model
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    batch = trainer.task.batch(0)
    logits = model(**batch.inputs)
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.targets.flatten(), ignore_index=-100, label_smoothing=0.1
    )
    loss.backward()
    gradients = {name: each.grad for name, each in model.named_parameters()}
    norm = torch.stack([each.norm() for each in gradients.values() if each is not None]).norm()
    expected = {}
    for name, weight in before.items():
        gradient = gradients[name]
        assert gradient is not None
        gradient = gradient * min(1.0, 1.0 / float(norm))
        rate = 1e-2 / 3  # the first of three steps of warm-up
        decayed = weight * (1 - rate * 0.1) if weight.dim() > 1 else weight
        expected[name] = decayed - rate * gradient / (gradient.abs() + 1e-8)
    model.zero_grad()
    trainer.run(lambda progress: None, lambda: "enough")
    line = next(each for each in read_log(tmp_path / "log.jsonl") if "loss" in each)
    assert line["loss"] == pytest.approx(float(loss.detach()), rel=1e-5)
    assert line["gradient"] == pytest.approx(float(norm), rel=1e-4)
    for name, weight in model.named_parameters():
        assert torch.allclose(weight, expected[name], atol=2e-5), name


def test_a_batch_in_parts_is_the_same_batch(tmp_path: Path) -> None:
    for parts in (1, 3):
        recipe = small(model={"dropout": 0.0}, training={"accumulate": parts, "steps": 3})
        trained(tmp_path / str(parts), recipe)
    one, three = (read_log(tmp_path / name / "log.jsonl") for name in ("1", "3"))
    for line, other in zip(one, three, strict=True):
        for name in {"loss", "gradient"} & line.keys():
            assert line[name] == pytest.approx(other[name], rel=1e-4)


def test_watching_changes_not_a_bit(tmp_path: Path) -> None:
    trained(tmp_path / "seen", small(watch={"every": 1, "pictures": 5}))
    trained(tmp_path / "blind", small(watch={"every": 0, "pictures": 0}))
    assert weights(tmp_path / "seen") == weights(tmp_path / "blind")
    lines = read_log(tmp_path / "seen" / "log.jsonl")
    entropies = [line["entropy"] for line in lines if "entropy" in line]
    assert len(entropies) == 13
    assert len(entropies[0]) == 3
    assert all(len(heads) == 2 for heads in entropies[0].values())
    names = {path.name for path in (tmp_path / "seen" / "pictures").iterdir()}
    assert names == {f"step-{step:09}.safetensors" for step in (0, 2, 5, 13)}


def test_only_matrices_decay() -> None:
    config = regard.nn.LanguageModelConfig(vocabulary=11, width=6, heads=3)
    model = regard.nn.LanguageModel(config)
    groups = make_optimizer(model, small().optimizer).param_groups
    assert {each.dim() for each in groups[0]["params"]} == {2}
    assert groups[0]["weight_decay"] == 0.1
    assert {each.dim() for each in groups[1]["params"]} == {1}
    assert groups[1]["weight_decay"] == 0.0
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


def test_it_stops_where_it_gets_no_better(tmp_path: Path) -> None:
    recipe = small(
        optimizer={"learning_rate": 1e-12},
        training={"steps": 50, "evaluate": 1, "patience": 3},
        model={"dropout": 0.0},
    )
    found = trained(tmp_path / "run", recipe)
    assert found.ended == "patience"
    assert found.step < 50
    assert found.best is not None
    assert found.step - found.best["step"] == 3
    names = [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()]
    assert f"step-{int(found.best['step']):09}" in names


def test_a_loss_that_is_no_number_ends_it_and_names_the_layer(tmp_path: Path) -> None:
    recipe = small(training={"steps": 9, "save": 2})
    trainer = Trainer(prepare(recipe, tmp_path), tmp_path, lambda text: None)
    layer = trainer.model.get_submodule("encoder.layers.0")

    def tell(progress: Any) -> None:
        if progress.step == 5:
            layer.register_forward_hook(lambda *of: of[2] * float("nan"))

    with pytest.raises(Diverged, match=r"step 6: encoder\.layers\.0 is the first layer whose out"):
        trainer.run(tell, lambda: None)
    saved = checkpoint.newest(tmp_path / "checkpoints")
    assert saved is not None
    assert saved.step == 5
    assert all(bool(each.isfinite().all()) for each in saved.model().parameters())


def test_autocast_learns_too(tmp_path: Path) -> None:
    found = trained(tmp_path / "run", small(training={"autocast": "bfloat16"}))
    assert found.step == 13
    model = open_run(tmp_path / "run").model
    assert {each.dtype for each in model.parameters()} == {torch.float32}


def test_the_caller_s_random_numbers_are_not_touched(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    trained(tmp_path / "run", small(training={"steps": 2}))
    assert torch.equal(torch.rand(3), expected)
