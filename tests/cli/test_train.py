"""`regard train` and `regard generate`, as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers.small_run import TEXT, small

from regard.cli import main
from regard.models import load
from regard.train import open_run
from regard.train.tokens import ids_of


def recipe(tmp_path: Path) -> str:
    file = tmp_path / "small.toml"
    file.write_text(small().toml(), encoding="utf-8")
    return str(file)


def test_a_run_is_trained_shown_and_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    assert main(["train", recipe(tmp_path), "--out", out]) == 0
    told = capsys.readouterr()
    assert "Done after 13 steps." in told.out
    assert "kept aside: loss" in told.err
    assert main(["train", recipe(tmp_path), "--out", out]) == 2
    assert "--resume goes on with it" in capsys.readouterr().err
    assert main(["train", "--out", out, "--resume"]) == 0
    assert "Done after 13 steps." in capsys.readouterr().out
    changed = ["--set", "optimizer.clip=2.0"]
    assert main(["train", recipe(tmp_path), "--out", out, "--resume", *changed]) == 2
    assert "optimizer.clip must be 1.0, as in the run" in capsys.readouterr().err
    assert main(["generate", out, "abc", "--tokens", "5"]) == 0
    written = capsys.readouterr().out
    assert written.endswith("\n")
    assert set(written.strip()) <= set("abcde")
    assert main(["generate", out, "abc", "--tokens", "5"]) == 0
    assert capsys.readouterr().out == written
    for more in (["--beams", "3"], ["--temperature", "0.5", "--top-k", "3", "--seed", "7"]):
        assert main(["generate", out, "abc", *more]) == 0
        capsys.readouterr()


def test_letters_that_a_run_has_never_seen_are_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    assert main(["train", recipe(tmp_path), "--out", out, "--set", "training.steps=1"]) == 0
    capsys.readouterr()
    assert main(["generate", out, "abba"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["generate", out, "azz"]) == 0
    assert capsys.readouterr().err == (
        "regard: note: the run has never seen “z”, and reads <unknown> in its place.\n"
    )
    opened = open_run(out)
    assert opened.unknown("abcde") == ""
    assert opened.unknown("éa<pad>") == (
        "the run has never seen “é”, “<”, “p”, “>”, and reads <unknown> in their place."
    )
    assert "“0” and 1 more, and" in opened.unknown("zyxwvutsr0!")
    with pytest.warns(UserWarning, match=r"generate\(\): the run has never seen “z”"):
        next(opened.stream("z", max_new_tokens=1))


def test_recipes_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train"]) == 0
    assert "language-model" in capsys.readouterr().out
    assert main(["train", "copy", "--show", "--set", "seed=7"]) == 0
    assert "seed = 7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["copy"], "--out FOLDER is needed"),
        (["--out", "x"], "a recipe is needed"),
        (["nothing", "--out", "x"], "must be a file, or one of"),
        (["copy", "--out", "x", "--set", "training.stops=3"], "Did you mean steps?"),
        (["--out", "x", "--resume"], "x must hold a run to go on with; got none"),
    ],
)
def test_what_cannot_be_done_is_refused(
    given: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *given]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_no_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note.txt").write_text("mine")
    assert main(["generate", str(tmp_path), "abc"]) == 2
    assert "must be a run, which has recipe.toml; got note.txt" in capsys.readouterr().err
    assert main(["train", "copy", "--out", str(tmp_path), "--resume"]) == 2
    assert "must be a run" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_a_language_model_is_written_as_others_load_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    made = small(
        "language-model",
        data={"text": str(tmp_path / "text.txt")},
        model={"position": {"type": "Learned", "length": 11}, "bias": False},
        training={"steps": 3},
    )
    (tmp_path / "small.toml").write_text(made.toml())
    run, out = str(tmp_path / "run"), str(tmp_path / "out")
    assert main(["train", str(tmp_path / "small.toml"), "--out", run]) == 0
    assert main(["export", run, out]) == 0
    assert "GPT2LMHeadModel" in capsys.readouterr().err
    model, tokenizer = load(out)
    ids = tokenizer("the cat", return_tensors="pt").input_ids
    opened = open_run(run)
    assert ids[0].tolist() == ids_of(opened.tokenizer, "the cat")
    assert torch.allclose(model(input_ids=ids).logits, opened.model(ids), atol=2e-5)
    assert main(["see", "the cat sat", "--model", out]) == 0
    assert main(["generate", run, "the cat", "--tokens", "29"]) == 0
    assert main(["export", run, out]) == 2
    assert "must be a new folder" in capsys.readouterr().err


def test_a_run_of_another_shape_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", recipe(tmp_path), "--out", str(tmp_path / "run")]) == 0
    assert main(["export", str(tmp_path / "run"), str(tmp_path / "out")]) == 2
    assert "must hold a language model; got one that was trained to copy" in capsys.readouterr().err
