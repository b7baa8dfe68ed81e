"""Several processes train as one would; a run may go on with another number of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.small_run import left, small, trained

from regard.train.log import read_log
from regard.train.recipe import Recipe

KILLER = """
import os, signal, sys
sys.argv[0] = "regard"
from regard.train import loop
step = loop.Trainer._step
def struck(self, batch):
    mark = os.environ["MARK"]
    if self._ranks.rank == 1 and self.state.step == 7 and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, batch)
loop.Trainer._step = struck
from regard.cli import main
sys.exit(main())
"""


def several(
    tmp_path: Path, recipe: Recipe, *more: str, program: tuple[str, ...] = ("-m", "regard")
) -> str:
    """Train in two processes, in the folder `run`; what they said."""
    file = tmp_path / "small.toml"
    file.write_text(recipe.toml(), encoding="utf-8")
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*start, *more, *program, "train", str(file), "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [*command, "--resume"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "MARK": str(tmp_path / "mark")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def of(strategy: str, **changes: Any) -> Recipe:
    training = {"strategy": strategy, "accumulate": 3, "batch": 12, **changes}
    return small(model={"dropout": 0.0}, training=training)


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in read_log(folder / "log.jsonl") if "loss" in line]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_learn_what_one_does(tmp_path: Path, strategy: str) -> None:
    trained(tmp_path / "alone", of("none"))
    said = several(tmp_path, of(strategy))
    assert said.count("Done after 13 steps.") == 1
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "alone"), rel=1e-5)
    names = {path.name for path in (tmp_path / "run" / "pictures").iterdir()}
    assert names == {path.name for path in (tmp_path / "alone" / "pictures").iterdir()}


def test_a_run_moves_between_one_process_and_two(tmp_path: Path) -> None:
    trained(tmp_path / "alone", of("none"))

    def stop_at_five(progress: Any) -> None:
        if progress.step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "run", of("none"), tell=stop_at_five)
    several(tmp_path, of("fsdp"))
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "alone"), rel=1e-5)
    trained(tmp_path / "run", of("none"))  # which is done
    assert left(tmp_path / "run")["step"] == "step-000000013"


def test_a_worker_that_is_killed_is_started_again_and_nothing_is_lost(tmp_path: Path) -> None:
    trained(tmp_path / "alone", of("none"))
    program = tmp_path / "killer.py"
    program.write_text(KILLER)
    several(tmp_path, of("ddp"), "--max-restarts=2", program=(str(program),))
    assert (tmp_path / "mark").exists()
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "alone"), rel=1e-5)


def test_processes_without_a_way_to_share_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r'strategy must be "ddp" or "fsdp" where 2 processes'):
        trained(tmp_path / "run", small())
