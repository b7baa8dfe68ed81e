"""A recipe is checked key by key, and an error names the key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from regard.train import read_recipe, shipped
from regard.train.recipe import TASKS, recipe_of
from regard.train.settings import Wrong


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_recipe_is_the_same_after_it_was_written(name: str) -> None:
    recipe = read_recipe(name)
    again = recipe_of(tomllib.loads(recipe.toml()))
    assert again.content == recipe.content
    assert again.hash == recipe.hash


def test_there_is_a_recipe_for_each_task() -> None:
    assert sorted(read_recipe(name).task for name in shipped()) == sorted(TASKS)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("training.stops=7", r"recipe \[training\]: stops must be one of its keys.*mean steps\?"),
        ("training.steps=0", r"recipe \[training\]: steps must be at least 1; got 0"),
        ("training.steps=many", r"recipe \[training\]: steps must be a whole number; got 'many'"),
        ("training.batch=2.5", r"recipe \[training\]: batch must be a whole number; got 2\.5"),
        ("training.compile=1", r"recipe \[training\]: compile must be True or False; got 1"),
        ("training.accumulate=7", r"batch must be a multiple of accumulate, 7; got 64"),
        ("optimizer.beta1=1.0", r"recipe \[optimizer\]: beta1 must be a number of at least 0 and"),
        ("schedule.kind=linear", r"kind must be one of cosine, inverse-sqrt, constant; got"),
        ("model.width=7", r"recipe \[model\]: width must be a multiple of the 4 heads; got 7"),
        ("model.vocabulary=9", r"recipe \[model\]: vocabulary must be one of its keys"),
        ("model.position=Round", r"recipe \[model\]: position: type must be one of"),
        ("data.shortest=11", r"recipe \[data\]: shortest must be at most longest, 10; got 11"),
        ("data.longest=-1", r"recipe \[data\]: longest must be at least 1; got -1"),
        ("task=guess", r"recipe: task must be one of copy, .*; got 'guess'"),
        ("seed=-1", r"recipe: seed must be a whole number from 0 to 2147483647; got -1"),
        ("modell.width=8", r"recipe: modell must be one of its keys; .* Did you mean model\?"),
        ("training=3", r"recipe: training must be a table, \[training\]; got 3"),
        ("width", r"recipe: a change must be written as training\.steps=100; got 'width'"),
        ("seed.x=1", r"recipe: seed\.x must be a key of a table; got"),
    ],
)
def test_what_is_wrong_is_named(change: str, said: str) -> None:
    changes = ["seed=3", change] if change.startswith("seed.") else [change]
    with pytest.raises(Wrong, match=said):
        read_recipe("copy", changes)


def test_a_text_may_be_one_or_several(tmp_path: Path) -> None:
    one = read_recipe("language-model", ["data.text=mine.txt"])
    two = read_recipe("language-model", ['data.text=["a.txt", "b.txt"]'])
    assert (one.content["data"]["text"], two.content["data"]["text"]) == (
        ["mine.txt"],
        ["a.txt", "b.txt"],
    )
    with pytest.raises(Wrong, match=r"recipe \[data\]: text must be a text, or a list of texts"):
        read_recipe("language-model", ["data.text=[1]"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff", "must be TOML in UTF-8"),
        (b"task = ", "must be TOML in UTF-8"),
        (b'task = "copy"\n[training]\nsteps = 3', r"\[training\]: batch must be given"),
        (b'task = "copy"\n[training]\nsteps = 3\nbatch = 3', r"\[model\]: width must be given"),
        (b'task = "translate"', r"must be given"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "recipe.toml"
    file.write_bytes(content)
    with pytest.raises(Wrong, match=said):
        read_recipe(str(file))


def test_a_name_that_is_neither_file_nor_recipe_is_refused() -> None:
    with pytest.raises(Wrong, match=r"'nothing' must be a file, or one of addition, .*; got neith"):
        read_recipe("nothing")


def test_only_what_decides_the_result_is_in_the_hash() -> None:
    def of(*changes: Any) -> str:
        return read_recipe("copy", changes).hash

    assert of() == of("training.strategy=ddp") == of("training.keep=9") == of("watch.every=1")
    assert of() != of("seed=1")
    assert of() != of("model.dropout=0.1")
