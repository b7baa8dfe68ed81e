"""Mutants: small faults put into the code, one at a time. The tests must notice each.

`python tests/mutants.py ROOM COUNT SEED [FILE …]` draws COUNT mutants of src/regard/ROOM, or of
these files of it, runs the tests of that room on each in a copy of the project under build/mutants,
and shows those that survived. What changes nothing but an annotation is no mutant. With
REGARD_QUICK=1 the tests are those of `make quick`.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).parents[1]
PARTS = ("src", "tests", "bench", "docs", "examples", "pyproject.toml", "README.md")
TESTS = {
    "_attention": "tests/attention",
    "run": "tests/run",
    "worked": "tests/worked",
}
SECONDS = 600.0
# Each mutant has a process of its own, in which what takes long to import is there already.
LIBRARIES = ["duckdb", "numpy", "pyarrow.parquet", "pytest", "torch", "torch.nn"]


def copy_project(to: Path) -> None:
    """What the tests need, with the compiled module beside the Python ones."""
    import regard._native

    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, to / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, to / part)
    shutil.copy(regard._native.__file__, to / "src" / "regard")


def every_mutant(folder: Path, room: str) -> list[MutationSpec]:
    """Those that the library knows of."""
    (folder / "mutants.toml").write_text(
        f'[cosmic-ray]\nmodule-path = "src/regard/{room}"\ntimeout = {SECONDS}\n'
        'excluded-modules = []\ntest-command = ""\n[cosmic-ray.distributor]\nname = "local"\n'
    )
    tool = str(Path(sys.executable).with_name("cosmic-ray"))
    subprocess.run([tool, "init", "mutants.toml", "session.sqlite"], cwd=folder, check=True)
    with use_db(str(folder / "session.sqlite"), WorkDB.Mode.open) as work:
        return [mutation for item in work.work_items for mutation in item.mutations]


def meaning(code: str) -> str:
    """Code without its annotations, which nothing reads when it runs."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(tree)


def mutants(found: list[MutationSpec], folder: Path) -> Iterator[tuple[Path, str, str]]:
    """The file, its code, and what becomes of it."""
    for each in found:
        path = folder / each.module_path
        code = path.read_text()
        operator = get_operator(each.operator_name)(**each.operator_args)
        changed = mutate_code(code, operator, each.occurrence)
        with contextlib.suppress(SyntaxError):  # which any test would notice
            if changed is not None and meaning(changed) != meaning(code):
                yield path, code, changed


def notice(folder: Path, tests: str) -> None:
    """Run the tests of a copy of the project, and end with their exit code."""
    import pytest

    os.chdir(folder)
    sys.path[:0] = ["tests", "bench/record"]
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    # The plugin takes the project that is installed out of reach, so that the copy is imported.
    options = ["-x", "-q", "-p", "helpers.not_installed", "-p", "no:cacheprovider"]
    os._exit(int(pytest.main([*options, tests])))


def survives(folder: Path, tests: str) -> bool:
    process = multiprocessing.get_context("forkserver").Process(target=notice, args=(folder, tests))
    process.start()
    process.join(SECONDS)
    process.kill()
    process.join()
    return process.exitcode == 0


def main(room: str, count: int, seed: int, *files: str) -> int:
    folder = ROOT / "build" / "mutants" / room
    copy_project(folder)
    found = [x for x in every_mutant(folder, room) if not files or x.module_path.name in files]
    random.Random(seed).shuffle(found)
    multiprocessing.get_context("forkserver").set_forkserver_preload(LIBRARIES)
    if not survives(folder, TESTS[room]):
        print(f"{TESTS[room]} must pass without a mutant; it does not.")
        return 1
    tried = survived = 0
    for path, code, changed in mutants(found, folder):
        if tried == count:
            break
        tried += 1
        path.write_text(changed)
        if not survives(folder, TESTS[room]):
            print(f"{tried} noticed", flush=True)
        else:
            survived += 1
            lines = difflib.unified_diff(code.splitlines(), changed.splitlines(), lineterm="", n=2)
            print(path.relative_to(folder), *list(lines)[2:], sep="\n", flush=True)
        path.write_text(code)
    print(f"{room}: {survived} of {tried} mutants survived (seed {seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
