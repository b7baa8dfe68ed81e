"""Mutants: small faults put into the code of a room, one at a time. The tests must notice each.

`python tests/mutants.py ROOM COUNT SEED` draws COUNT mutants of src/regard/ROOM, runs the tests of
that room on each in a copy of the project under build/mutants, and shows those that survived.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

import regard._native

ROOT = Path(__file__).parents[1]
PARTS = ("src", "tests", "bench", "docs", "examples", "pyproject.toml", "README.md")
TESTS = {
    "_attention": "tests/attention",
    "run": "tests/run",
    "worked": "tests/worked",
}


def copy_project(to: Path) -> None:
    """What the tests need, with the compiled module beside the Python ones."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, to / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, to / part)
    shutil.copy(regard._native.__file__, to / "src" / "regard")


def main(room: str, count: int, seed: int) -> int:
    folder = ROOT / "build" / "mutants" / room
    copy_project(folder)
    # The plugin takes the project that is installed out of reach, so that the copy is imported.
    tests = f"-x -q -p helpers.not_installed -p no:cacheprovider {TESTS[room]}"
    (folder / "mutants.toml").write_text(
        "[cosmic-ray]\n"
        f'module-path = "src/regard/{room}"\n'
        "timeout = 600.0\n"
        "excluded-modules = []\n"
        f'test-command = "env PYTHONPATH=tests:bench/record {sys.executable} -m pytest {tests}"\n'
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    tool = str(Path(sys.executable).with_name("cosmic-ray"))
    subprocess.run([tool, "init", "mutants.toml", "session.sqlite"], cwd=folder, check=True)
    session = str(folder / "session.sqlite")
    with use_db(session, WorkDB.Mode.open) as work:
        every = [item.job_id for item in work.work_items]
        kept = set(random.Random(seed).sample(every, min(count, len(every))))
        skipped = WorkResult(worker_outcome=WorkerOutcome.SKIPPED)
        work.set_multiple_results([job for job in every if job not in kept], skipped)
    print(f"{len(kept)} of {len(every)} mutants of {room}", flush=True)
    subprocess.run([tool, "exec", "mutants.toml", "session.sqlite"], cwd=folder, check=True)
    with use_db(session, WorkDB.Mode.open) as work:
        done = [(job, result) for job, result in work.results if job in kept]
    survived = [result for _, result in done if result.test_outcome == TestOutcome.SURVIVED]
    for result in survived:
        print(result.diff)
    print(f"{room}: {len(survived)} of {len(done)} mutants survived (seed {seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
