"""A training, or a model of `regard.nn`, is opened like any model: seen, asked, drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_run import TEXT, small, trained

import regard
from regard.cli import main
from regard.models import load, open_model
from regard.train import open_run
from regard.train.recipe import recipe_of

TASKS = ("copy", "language-model", "masked", "classify")
ASKED = {"copy": "abeca", "language-model": "the cat", "masked": "the dog", "classify": "cat 3"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small run of every kind of model."""
    place = tmp_path_factory.mktemp("runs")
    (place / "text.txt").write_text(TEXT)
    rows = (f"cat {n} sat,{'ab'[n % 2]}" for n in range(41))
    (place / "table.csv").write_text("text,label\n" + "\n".join(rows))
    text = {"text": str(place / "text.txt"), "length": 11}
    table = {"table": str(place / "table.csv"), "vocabulary": 300}
    data = {"language-model": text, "masked": text, "classify": table}
    found: dict[str, Path] = {}
    for task in TASKS:
        content: dict[str, Any] = {**small().content, "task": task}
        content["data"] = data.get(task, content["data"])
        content["model"] |= {"position": {"type": "Learned", "length": 23}}
        found[task] = place / task
        trained(found[task], recipe_of(content))
    return found


@pytest.mark.parametrize("task", TASKS)
def test_a_training_is_seen_as_its_best_model_computes_it(runs: dict[str, Path], task: str) -> None:
    loaded, opened = load(runs[task]), open_run(runs[task])
    run = loaded.see(ASKED[task], keep=("q", "k", "output"), logits=None)
    ids = torch.tensor([opened.tokenizer.encode(ASKED[task]).ids])
    inputs = [ids]
    if task == "copy":
        wrote = "".join(opened.stream(ASKED[task], max_new_tokens=2 * 5 + 20))
        start = opened.tokenizer.token_to_id("<start>")
        inputs.append(torch.tensor([[start, *opened.tokenizer.encode(wrote).ids]]))
        assert run.notes == [f"What it wrote: <start> {' '.join(wrote)}".rstrip()]
    with torch.no_grad(), regard.watch(opened.model, keep=("q", "k")) as own:
        output = opened.model(*inputs)
    assert run.output is not None
    assert torch.equal(run.output, output)
    assert run.model == type(opened.model).__name__
    assert [f"model.{name}" for name in own.layers] == list(run.layers)
    for mine, its in zip(run.layers.values(), own.layers.values(), strict=True):
        assert torch.equal(mine.weights(), its.weights())
        assert mine.cross == its.cross
    assert loaded.decoder == (task == "language-model")


def test_what_a_training_predicts_is_its_softmax(runs: dict[str, Path]) -> None:
    opened = open_run(runs["language-model"])
    ids = torch.tensor([opened.tokenizer.encode("the dog sat").ids])
    with torch.no_grad():
        shares = opened.model(ids)[0, -1].double().softmax(-1)
    found = load(runs["language-model"]).see("the dog sat").predictions(top=3, position=-1)[0]
    assert [each.id for each in found] == shares.topk(3).indices.tolist()
    assert [each.probability for each in found] == pytest.approx(shares.topk(3).values.tolist())
    with pytest.raises(ValueError, match=r"predicts tokens; it gives vectors, or classes"):
        load(runs["classify"]).see("cat 3").predictions()


@pytest.mark.parametrize("task", TASKS)
def test_a_training_opens_as_a_flow_of_its_own_numbers(runs: dict[str, Path], task: str) -> None:
    flow = load(runs[task]).see(ASKED[task]).flow()
    assert flow.note.endswith("what comes out at the end is what the model gives.")


def test_see_and_explain_open_a_training_by_its_folder(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = str(runs["language-model"])
    assert main(["see", "the dog sat", "--model", place, "--next", "--json", "-"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = load(place).see("the dog sat").predictions(position=-1)[0]
    assert [each["token"] for each in said["next"]] == [each.token for each in found]
    assert main(["explain", "the dog", "--model", place, "--layer", "0", "--head", "1"]) == 0
    assert "head 1" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert main(["see", "abeca", "--model", str(runs["copy"]), "--html", str(page)]) == 0
    assert page.stat().st_size > 10_000


def test_a_text_longer_than_the_positions_of_a_training_is_refused(runs: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="at most the 23 tokens"):
        open_model(runs["language-model"]).read("the cat " * 5)


def test_a_saved_model_with_a_tokenizer_is_opened_too(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    opened = open_run(runs["masked"])
    opened.model.save(tmp_path / "model")
    opened.tokenizer.save(str(tmp_path / "model" / "tokenizer.json"))
    run, same = (load(each).see("the dog") for each in (tmp_path / "model", runs["masked"]))
    for mine, its in zip(run.layers.values(), same.layers.values(), strict=True):
        assert torch.equal(mine.weights(), its.weights())


def test_a_training_without_a_whole_checkpoint_is_refused(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "recipe.toml").write_bytes((runs["copy"] / "recipe.toml").read_bytes())
    with pytest.raises(ValueError, match="must have a whole checkpoint"):
        load(tmp_path)
