"""`training.compile`: killed and gone on with in another process, it ends with the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.small_run import TEXT, left, small
from helpers.soak import times

SCRIPT = """
import os, pathlib, signal, sys
sys.path.insert(0, {tests!r})
from helpers.small_run import trained
from regard.train import read_recipe
def tell(progress):
    if progress.step == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
trained(pathlib.Path(sys.argv[1]), read_recipe({recipe!r}), tell=tell)
"""


@pytest.mark.skipif(times(1) == 1, reason="torch.compile takes minutes: a part of `make soak`")
def test_a_compiled_model_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    recipe = small(
        "language-model",
        data={"text": str(tmp_path / "text.txt")},
        training={"compile": True, "steps": 6, "save": 2, "evaluate": 6},
        watch={"every": 0},
    )
    (tmp_path / "small.toml").write_text(recipe.toml())
    script = SCRIPT.format(
        tests=str(Path(__file__).parents[1]), recipe=str(tmp_path / "small.toml")
    )
    # Compiled here, not found where another test has left it; but twice the same for both runs.
    surroundings = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")}

    def run(name: str, kill_at: int) -> int:
        command = [sys.executable, "-c", script, str(tmp_path / name), str(kill_at)]
        return subprocess.run(command, env=surroundings, check=False, timeout=1200).returncode

    assert run("undisturbed", -1) == 0
    assert run("killed", 3) == -signal.SIGKILL
    assert run("killed", -1) == 0
    assert left(tmp_path / "killed") == left(tmp_path / "undisturbed")
