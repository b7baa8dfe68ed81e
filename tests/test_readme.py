"""The README: its commands run, its Python gives what it says, its pictures are the program's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from regard.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURED = re.findall(r"```sh\n(regard [^\n]+)\n```\n\n!\[[^\]]*\]\(([^)]+)\)", README)


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    assert README.count("make demo") >= 1
    assert README.count("make test") >= 1


@pytest.mark.parametrize(
    ("command", "picture"), [("regard explain", "docs/pictures/explain.svg"), *PICTURED]
)
def test_a_picture_is_what_the_program_makes_of_the_command_above_it(
    command: str, picture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    made = tmp_path / "picture.svg"
    assert main([*shlex.split(command)[1:], "--svg", str(made)]) in (0, 1)
    assert made.read_text(encoding="utf-8") == (ROOT / picture).read_text(encoding="utf-8")


def test_there_is_a_picture_after_each_command() -> None:
    assert len(PICTURED) == README.count("```sh\nregard")
    assert len(PICTURED) >= 4


def test_the_python_gives_what_its_comments_say() -> None:
    for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        names: dict[str, object] = {}
        for line in code.splitlines():
            statement, _, comment = line.partition("  # ")
            if re.match(r"\s*(import|from|[\w, ]+ = )", statement) or not statement.strip():
                exec(statement, names)
                continue
            value = repr(eval(statement, names))
            expected = comment.strip()
            if expected.startswith(("(", "[", "'")):
                assert expected.startswith(value), line
