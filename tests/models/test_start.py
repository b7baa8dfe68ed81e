"""Importing `regard.models` is quick, and what is missing or slow is told in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.model_folders import save_bert

from regard.models import load
from regard.models.progress import working


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_imports_neither_torch_nor_transformers() -> None:
    heavy = "{'torch', 'transformers', 'safetensors', 'tokenizers', 'huggingface_hub', 'rich'}"
    assert run(f"import sys, regard.models; print({heavy} & set(sys.modules))") == "set()\n"


def test_a_wrong_folder_is_refused_without_importing_them(tmp_path: Path) -> None:
    code = (
        "import sys, regard.models\n"
        f"try: regard.models.load({str(tmp_path)!r})\n"
        "except regard.models.CheckpointError as error: print(error)\n"
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    assert run(code).endswith("set()\n")


def test_without_transformers_it_is_said_what_to_install(tmp_path: Path) -> None:
    save_bert(tmp_path)
    code = (
        "import sys; sys.modules['transformers'] = None; import regard.models\n"
        f"for name in (sys.argv[1:] or [{str(tmp_path)!r}, 'minilm', 'some/model']):\n"
        "    try: regard.models.load(name)\n"
        "    except ImportError as error: print(error)\n"
    )
    said = run(code).splitlines()
    assert len(said) == 3
    for line in said:
        assert line == (
            'load(): transformers must be installed; it is not. pip install "regard[models]".'
        )


def test_nothing_is_said_where_nobody_is_watching(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    save_bert(tmp_path)
    capfd.readouterr()
    load(tmp_path)
    load(tmp_path, progress=False)
    assert capfd.readouterr() == ("", "")
    load(tmp_path, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err == f"Loading {tmp_path} …\n"


def test_on_a_terminal_there_is_a_line_that_goes_away() -> None:
    import io
    import re

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", screen)
        patch.setenv("TERM", "xterm")
        patch.delenv("NO_COLOR", raising=False)
        with working("Fetching [bold]", None):
            pass
    said = screen.getvalue()
    assert "Fetching [bold]" in re.sub(r"\x1b\[[\d;?]*\w", "", said)
    assert "\x1b[2K" in said  # the line is cleared
