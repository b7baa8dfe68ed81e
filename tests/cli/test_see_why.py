"""`regard see --lens` and `--why`: the terminal, JSON and page; what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from helpers.model_folders import save, save_bert, save_masked, small_llama
from rich.cells import cell_len
from transformers import LlamaForCausalLM

import regard
from regard.cli import main

TEXT = "i love apple phones ."


@pytest.fixture(autouse=True)
def usual_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "TERM", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("llama")
    torch.manual_seed(3)
    save(LlamaForCausalLM(small_llama(initializer_range=0.4, num_hidden_layers=5)), place)
    return str(place)


def printed(capsys: pytest.CaptureFixture[str], folder: str, *more: str) -> str:
    code = main(["see", TEXT, "--model", folder, *more])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert max(map(cell_len, out.splitlines())) <= 80
    return out


def refused(capsys: pytest.CaptureFixture[str], folder: str, *more: str) -> str:
    code = main(["see", TEXT, "--model", folder, *more])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    return err


def test_why_tells_parts_sums_and_what_ablating_has_shown(
    capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    out = printed(capsys, folder, "--why", "love", "--against", "apple", "--token", "phones")
    run = regard.models.load(folder).see(TEXT)
    assert run.tokens is not None
    at = [token.label for token in run.tokens[0]].index("phones")
    why = run.why(at, "love", "apple")
    assert "Why “love” rather than “apple” after “phones”" in out
    assert f"a difference of {why.total:+.2f}".replace("-", "−") in " ".join(out.split())
    first = why.parts[0]
    line = next(
        line for line in out.splitlines() if f"{first.share:+.2f}".replace("-", "−") in line
    )
    assert first.name in line
    for each in why.ablated:
        assert f"{each.layer}.{each.head}" in out
    assert "Strongest links" not in out


def test_lens_is_a_grid_or_one_place_or_one_layer(
    capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    out = printed(capsys, folder, "--lens")
    found = regard.models.load(folder).see(TEXT).lens()
    rows = out.splitlines()
    row = next(n for n, line in enumerate(rows) if line.startswith("After each layer"))
    assert rows[row + 1].split()[-2:] == ["4", "from"]
    assert f"“{found[-1][0][0].token}”" in rows[row + 2]
    out = printed(capsys, folder, "--lens", "--token", "love")
    assert "From layer" in out
    for layer in range(5):
        assert f"{layer}  “{found[layer][2][0].token}”" in out
    out = printed(capsys, folder, "--lens", "--layer", "1")
    assert "After layer 1" in out


def test_json_and_the_page_have_the_same(
    capsys: pytest.CaptureFixture[str], folder: str, tmp_path: Path
) -> None:
    files = ["--json", str(tmp_path / "a.json"), "--html", str(tmp_path / "a.html")]
    printed(capsys, folder, "--lens", "--why", "love", *files)
    written = json.loads((tmp_path / "a.json").read_text())
    run = regard.models.load(folder).see(TEXT)
    assert written["why"] == json.loads(json.dumps(run.why(-1, "love").info()))
    assert written["lens"][3][2][0]["id"] == run.lens(3)[2][0].id
    page = (tmp_path / "a.html").read_text()
    assert '"why":{"position"' in page
    assert '"lens":[[[' in page


def test_what_is_no_token_or_no_such_model_is_one_line(
    capsys: pytest.CaptureFixture[str],
    folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save_bert(tmp_path / "vectors")
    save_masked(tmp_path / "masked")
    capsys.readouterr()

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the model must not run")

    monkeypatch.setattr("regard.cli.see.look", never)
    assert "--against needs --why" in refused(capsys, folder, "--against", "love")
    said = refused(capsys, folder, "--why", "love apple")
    assert "must be one token" in said
    assert "'love', 'apple'" in said
    for name, why in (("vectors", "gives vectors"), ("masked", "is not linear")):
        assert why in refused(capsys, str(tmp_path / name), "--why", "love")
        assert why in refused(capsys, str(tmp_path / name), "--lens")
