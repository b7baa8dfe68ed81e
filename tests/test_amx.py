"""A machine that announces AMX and ends what uses it is found, told, and gone round."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard import _amx
from regard.cli import main

ENDS = "import os; os.kill(os.getpid(), 4)"


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(_amx.SETTING, raising=False)
    file = tmp_path / "cpuinfo"
    file.write_text("flags : fpu amx_bf16 avx512_fp16 amx_tile amx_int8\n", encoding="utf-8")
    return file


@pytest.mark.parametrize(("product", "broken"), [(ENDS, True), ("1 + 1", False)])
def test_it_is_broken_if_a_product_ends_its_process(
    cpuinfo: Path, monkeypatch: pytest.MonkeyPatch, product: str, broken: bool
) -> None:
    monkeypatch.setattr(_amx, "_PRODUCT", product)
    assert _amx.is_broken(cpuinfo) is broken


def test_nothing_is_tried_without_amx_or_where_torch_was_told(
    cpuinfo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_amx, "_PRODUCT", ENDS)
    (tmp_path / "other").write_text("flags : fpu avx512_bf16\n", encoding="utf-8")
    assert not _amx.is_broken(tmp_path / "other")
    monkeypatch.setenv(_amx.SETTING, "AVX2")
    assert not _amx.is_broken(cpuinfo)


def test_what_is_started_does_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_amx.SETTING, "")
    monkeypatch.setattr(_amx, "is_broken", lambda: False)
    assert not _amx.avoid()
    assert os.environ[_amx.SETTING] == ""
    monkeypatch.setattr(_amx, "is_broken", lambda: True)
    assert _amx.avoid()
    assert os.environ[_amx.SETTING] == _amx.WITHOUT


def test_doctor_names_it_and_the_way_round(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_amx, "is_broken", lambda: True)
    assert main(["doctor"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert _amx.REMEDY in said
    assert "1 thing does not work." in said
