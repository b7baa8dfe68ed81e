"""`regard evict`: a table, a document, a figure; and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from helpers.model_folders import save, save_tokenizer, small_llama
from transformers import LlamaForCausalLM

from regard.cli import main

TEXT = "i love apple phones . apple phones love i . " * 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(5)
    made = tmp_path_factory.mktemp("evict") / "small"
    sizes = {"num_hidden_layers": 2, "initializer_range": 0.4, "max_position_embeddings": 199}
    save(LlamaForCausalLM(small_llama(**sizes)), made)
    save_tokenizer(made)
    return made


def test_the_table_the_document_and_the_figure_have_the_same_policies(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--json", str(tmp_path / "a.json"), "--figure", str(tmp_path / "a.svg")]
    given = ["--model", str(folder), "--keep", "0.25", "--keep", "0.5", "--needles", "1"]
    assert main(["evict", TEXT, *given, *files]) == 0
    printed = capsys.readouterr().out
    document = json.loads((tmp_path / "a.json").read_text())
    assert len(document["scores"]) == 11
    drawn = (tmp_path / "a.svg").read_text()
    for score in document["scores"]:
        assert score["policy"] in printed
        assert score["policy"] in drawn
        assert f"{round(score['loss'], 3):.4g}" in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "a text or --file is needed"),
        ([TEXT, "--file", "a.txt"], "exclude each other"),
        ([TEXT, "--keep", "0"], "--keep must be more than 0 and at most 1; got 0."),
        ([TEXT, "--keep", "1.5"], "--keep must be more than 0 and at most 1; got 1.5."),
        ([TEXT, "--figure", "a.txt"], "--figure must end in .svg, .pdf or .png"),
        (["i love"], "text must have at least 16 tokens; got"),
        ([TEXT, "--continuation", "500"], "--continuation must be"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    folder: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evict", *arguments, "--model", str(folder)]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert not printed.out
