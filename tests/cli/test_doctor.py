"""`regard doctor`: what it says, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from torch import Tensor

import regard
from regard import _native
from regard.cli import main
from regard.cli.doctor import openmp


def test_all_is_well_here(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor"])
    output = capsys.readouterr().out
    assert code == 0, output
    assert output.rstrip().endswith("All works.")
    for expected in (regard.__version__, "native backend", "torch backend", "OpenMP"):
        assert expected in output
    builds = _native.kernels()
    assert builds[0] == _native.kernel()
    assert f"{', '.join(builds)} can run here: the first serves" in " ".join(output.split())
    assert output.count("self-check: largest error") == 2


def test_it_fits_into_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main(["doctor"])
    assert max(cell_len(line) for line in capsys.readouterr().out.splitlines()) <= 80


def test_a_backend_that_is_missing_or_wrong_ends_with_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = regard.Backend("native", available=False, used_for="", why_not="it was not built")
    found = [missing, *regard.backends()[1:]]
    attention = regard.attention

    def wrong(*tensors: Tensor, **options: Any) -> Any:
        output, seen = attention(*tensors, **options)
        return output + 1, seen

    monkeypatch.setattr(regard, "backends", lambda: found)
    monkeypatch.setattr(regard, "attention", wrong)
    assert main(["doctor"]) == 1
    output = capsys.readouterr().out
    assert "not available: it was not built" in output
    assert "largest error 1.0e+00" in output
    assert "2 things do not work." in output


def test_two_openmp_runtimes_are_found_out(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    line = "7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/{}\n"
    maps.write_text(line.format("libgomp.so.1") * 2 + line.format("libc.so.6"), encoding="utf-8")
    assert openmp(maps).verdict == "ok"
    maps.write_text(line.format("libgomp.so.1") + line.format("libgomp-a34b.so"), encoding="utf-8")
    assert openmp(maps).verdict == "wrong"


@pytest.mark.parametrize("arguments", [["--help"], ["explain"], ["doctor", "--help"]])
def test_other_commands_do_not_import_torch(arguments: list[str]) -> None:
    script = (
        "import sys; from regard.cli import main; main(sys.argv[1:]); "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", script, *arguments], check=True, stdout=subprocess.DEVNULL
    )
