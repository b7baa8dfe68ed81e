"""Commands that are given what few give them: standard input, a closed one, a port in use."""

from __future__ import annotations

import io
import socket
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.cli import main
from regard.cli.common import notes

RIGHT = "Q = [[1, 2]]\nK = [[3, 4]]\nscores = [[11]]\n"


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))


@pytest.mark.parametrize(("number", "code"), [("11", 0), ("12", 1)])
def test_check_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: str, code: int
) -> None:
    type_in(monkeypatch, RIGHT.replace("11", number))
    assert main(["check", "-"]) == code
    assert "standard input" in capsys.readouterr().out


def test_standard_input_that_is_closed_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["check", "-"]) == 2
    assert capsys.readouterr().err == "regard: standard input is closed: nothing to read.\n"


def test_explain_writes_a_page(tmp_path: Path) -> None:
    assert main(["explain", "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "apple" in page


def test_what_regard_warns_of_is_one_line_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    with notes():
        warnings.warn("edges(): rows were\n  truncated." + " Ask for more." * 90, stacklevel=1)
        warnings.warn("watch(): a layer is not seen.", stacklevel=1)
        warnings.warn("of somebody else: edges(): no", stacklevel=1)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("regard: note: rows were truncated. Ask for more. ")
    assert len(first) == 500
    assert second == "regard: note: a layer is not seen."


@pytest.mark.parametrize("before", [[], ["--model"]])
def test_a_folder_that_is_not_there_opens_no_studio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: list[str]
) -> None:
    missing = str(tmp_path / "nothing")
    assert main(["studio", *before, missing]) == 2
    assert capsys.readouterr().err == f"regard: {missing} must be a folder; there is none.\n"


def test_a_port_in_use_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_RUNS", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["studio", "--port", str(port), "--no-browser"]) == 2
    assert str(port) in capsys.readouterr().err
