"""The README: its commands run, its Python gives what it says, its pictures are the program's."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

from regard.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"(?<![\w.])[01]\.\d\d(?!\d)")
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
    found = made.read_text(encoding="utf-8")
    expected = (ROOT / picture).read_text(encoding="utf-8")
    if "see" in command.split() or "--model" in command:
        # A model's numbers may differ in the last printed digit from processor to processor.
        assert NUMBER.sub("0.00", found) == NUMBER.sub("0.00", expected)
        for a, b in zip(NUMBER.findall(found), NUMBER.findall(expected), strict=True):
            assert abs(float(a) - float(b)) < 0.0105
    else:
        assert found == expected


def test_there_is_a_picture_after_each_command() -> None:
    assert len(PICTURED) == README.count("```sh\nregard")
    assert len(PICTURED) >= 4


def test_the_python_gives_what_its_comments_say() -> None:
    for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        names: dict[str, object] = {}
        lines = code.splitlines()
        for node in ast.parse(code).body:
            statement = ast.unparse(node)
            if not isinstance(node, ast.Expr):
                exec(statement, names)
                continue
            value = repr(eval(statement, names))
            last = lines[(node.end_lineno or node.lineno) - 1]
            expected = last.partition("  # ")[2].strip()
            if expected.startswith(("(", "[", "'")):
                assert expected.startswith(value), last
