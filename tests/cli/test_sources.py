"""`regard sources`: the terminal, JSON and page; what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from helpers.model_folders import save, save_bert, save_masked, small_llama
from rich.cells import cell_len
from transformers import LlamaForCausalLM

import regard
from regard.ask import answer_sources
from regard.cli import main

FIRST, SECOND = "i love apple . " * 3, "phones love i . " * 3


@pytest.fixture(autouse=True)
def usual_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "TERM", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sources")
    torch.manual_seed(3)
    model = LlamaForCausalLM(small_llama(initializer_range=0.4, max_position_embeddings=97))
    save(model, place / "llama")
    (place / "a.txt").write_text(FIRST)
    (place / "b.txt").write_text(SECOND)
    return place


def arguments(place: Path, *more: str) -> list[str]:
    files = ["--file", str(place / "a.txt"), "--file", str(place / "b.txt")]
    return ["sources", *files, "--model", str(place / "llama"), *more]


def test_the_terminal_the_page_and_json_say_what_python_does(
    capsys: pytest.CaptureFixture[str], place: Path, tmp_path: Path
) -> None:
    files = ["--json", str(tmp_path / "a.json"), "--html", str(tmp_path / "a.html")]
    asked = ["--question", "apple ?", "--answer", "love apple . i phones ."]
    code = main([*arguments(place, *asked), "--draws", "3", *files])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert max(map(cell_len, out.splitlines())) <= 80
    loaded = regard.models.load(str(place / "llama"))
    documents = {"a.txt": FIRST, "b.txt": SECOND}
    found = answer_sources(loaded, documents, asked[1], asked[3], draws=3)
    written = json.loads((tmp_path / "a.json").read_text())
    expected = json.loads(json.dumps(found.info()))
    assert {name: written[name] for name in expected if name != "model"} == {
        name: value for name, value in expected.items() if name != "model"
    }
    assert (written["format"], written["question"]) == ("regard.sources", "apple ?")
    said = " ".join(out.split())
    for sentence in found.sentences:
        assert f"“{sentence.text}”" in said
        name = found.sources[sentence.winner].name
        assert f"{name} {100 * sentence.shares[sentence.winner]:.0f} %" in said
        lost = sentence.blocked[0].lost
        told = "loses" if lost >= 0 else "gains"
        assert f"Without “{name}” it {told} {abs(lost):.2f} of its log-probability." in said
    assert '"kind":"sources"' in (tmp_path / "a.html").read_text()


def test_without_an_answer_the_model_writes_one(
    capsys: pytest.CaptureFixture[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(_: object, text: str, most: int) -> str:
        assert text.endswith("Question: apple ?\nAnswer:")
        return "love apple ." if most == 5 else ""

    monkeypatch.setattr("regard.ask._prompt.written_after", written)
    code = main(arguments(place, "--question", "apple ?", "--tokens", "5", "--check", "0"))
    out, err = capsys.readouterr()
    assert code == 0, err
    assert "Without" not in out
    assert "1   “love apple .”" in out


def test_what_cannot_be_asked_is_one_line_before_the_model_runs(
    capsys: pytest.CaptureFixture[str],
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the model must not run")

    save_bert(tmp_path / "vectors")
    save_masked(tmp_path / "masked")
    (tmp_path / "empty.txt").write_text(" ")
    (tmp_path / "long.txt").write_text("love " * 99)
    monkeypatch.setattr("regard.ask._pass.Again.rows", never)
    monkeypatch.setattr("transformers.LlamaForCausalLM.generate", never)
    asked = ("--question", "apple ?")
    capsys.readouterr()
    for given, said in (
        (["sources", *asked], "a document and a question are needed"),
        (arguments(place), "a document and a question are needed"),
        (arguments(place, "--question", " "), "--question is empty"),
        (arguments(place, *asked, "--answer", " "), "--answer is empty"),
        (arguments(place, *asked, "--by", "heads"), "--by must be weights or contribution"),
        (arguments(place, *asked, "--file", str(tmp_path / "empty.txt")), "empty.txt is empty"),
        (arguments(place, *asked, "--file", str(tmp_path / "none.txt")), "cannot read"),
        (arguments(place, *asked, "--file", str(tmp_path / "long.txt")), "must leave room"),
        (arguments(place, *asked, "--model", str(tmp_path / "vectors")), "gives vectors"),
        (arguments(place, *asked, "--model", str(tmp_path / "masked")), "see those behind them"),
    ):
        code = main(given)
        out, err = capsys.readouterr()
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert said in err
