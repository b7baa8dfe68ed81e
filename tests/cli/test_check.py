"""`regard check` as a command: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from regard.cli import main

PRINTED = Path(__file__).parents[2] / "examples" / "worked"
RIGHT = "Q = [[1, 2]]\nK = [[3, 4]]\nscores = [[11]]\n"
WRONG = RIGHT.replace("11", "12")


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.md"
    path.write_text(WRONG, encoding="utf-8")
    return path


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from regard.cli import main; sys.exit(main())"]
    return subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_a_right_example_ends_with_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "right.md"
    path.write_text(RIGHT, encoding="utf-8")
    assert main(["check", str(path)]) == 0
    assert "right.md: all 1 checked number is right" in capsys.readouterr().out


def test_a_wrong_example_ends_with_one_and_names_the_cell(
    wrong: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(wrong)]) == 1
    output = capsys.readouterr().out
    assert "scores[1, 1]       12     11" in output


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing.md"],
        ["FILE", "FILE", "--fix", "x.md"],
        ["FILE", "--as", "K"],
        ["FILE", "--as", "=K"],
        ["FILE", "--as", "K=what"],
        ["FILE", "--as", "nothing=K"],
        ["FILE", "--fix", "FILE"],
        ["FILE", "--fix", "no/such/folder/x.md"],
        ["FILE", "--json", "-", "--fix", "-"],
        [],
    ],
)
def test_bad_input_gets_one_line_and_ends_with_two(wrong: Path, arguments: list[str]) -> None:
    done = run("check", *[str(wrong) if a == "FILE" else a for a in arguments])
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert wrong.read_text(encoding="utf-8") == WRONG


def test_fix_writes_the_text_with_its_numbers_put_right(wrong: Path, tmp_path: Path) -> None:
    target = tmp_path / "right.md"
    assert main(["check", str(wrong), "--fix", str(target)]) == 1
    assert target.read_text(encoding="utf-8") == RIGHT
    assert main(["check", str(target)]) == 0


def test_fix_keeps_line_ends_and_the_byte_order_mark(tmp_path: Path) -> None:
    source, target = tmp_path / "windows.md", tmp_path / "fixed.md"
    content = b"\xef\xbb\xbf" + WRONG.replace("\n", "\r\n").encode()
    source.write_bytes(content)
    assert main(["check", str(source), "--fix", str(target)]) == 1
    assert target.read_bytes() == content.replace(b"12", b"11")


def test_fix_to_standard_output_prints_the_text_alone(wrong: Path) -> None:
    assert run("check", str(wrong), "--fix", "-").stdout == RIGHT


def test_json_holds_every_wrong_cell_with_its_origin() -> None:
    done = run("check", str(PRINTED / "apple-as-printed.txt"), "--json", "-")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    cells = report["exercises"][0]["cells"]
    assert report["verdict"] == "wrong"
    assert sum(cell["origin"] == "first" for cell in cells) == 15
    (cell,) = [c for c in cells if (c["kind"], c["row"], c["column"]) == ("key", "love", "2")]
    assert (cell["printed"], cell["right"], cell["line"]) == ("1.1", "1.2", 48)


def test_the_output_fits_eighty_columns_and_has_no_codes_in_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "wide.md"
    labels = "나는", "전화기를정말로사랑합니다", "ভালোবাসি", "\x1b[31mred"
    rows = "\n".join(f"| {label} | 1.25 | 2.25 | 3.25 | 4.25 |" for label in labels)
    path.write_text(
        f"V = [[0, 0, 0, 0], [1, 1, 1, 1]]\n\nOutput\n\n| | a | b | c | d |\n|-|-|-|-|-|\n{rows}\n",
        encoding="utf-8",
    )
    for file in (path, *sorted(PRINTED.iterdir())):
        done = run("check", str(file), "--all")
        assert done.returncode in (0, 1), done.stderr
        assert max(map(cell_len, done.stdout.splitlines())) <= 80
        assert "\x1b" not in done.stdout


def test_several_documents_get_a_line_each_and_the_worst_decides(
    wrong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "right.txt").write_text(RIGHT, encoding="utf-8")
    (tmp_path / "words.md").write_text("Nothing here.", encoding="utf-8")
    (tmp_path / "data.csv").write_text("1,2", encoding="utf-8")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "wrong.md").write_text(WRONG, encoding="utf-8")
    assert main(["check", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[1].strip() for line in map(_squeezed, lines)] == [
        "right",
        "nothing to check",
        "1 wrong",
    ]
    assert main(["check", str(tmp_path / "right.txt"), str(tmp_path / "words.md")]) == 0
    assert main(["check", str(tmp_path / "words.md"), str(tmp_path / "words.md")]) == 2


def _squeezed(line: str) -> str:
    return re.sub(r" {2,}", "  ", line)


def test_the_report_says_what_was_covered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.md"
    path.write_text(f"{RIGHT}\n1 + 1 = 2\n\nM = [[1, a], [2, b]]\n", encoding="utf-8")
    assert main(["check", str(path)]) == 0
    said = capsys.readouterr().out
    assert "2 numbers in 2 statements checked; 1 statement not understood (line 7)" in said


def test_long_reports_are_cut_and_say_so(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    zeros = [[0.0] * 7 for _ in range(11)]
    content = {"V": [[1.0] * 7] * 11, "A": [[1.0, *[0.0] * 10]] * 11, "head_output": zeros}
    path.write_text(json.dumps(content), encoding="utf-8")
    short, long = run("check", str(path)).stdout, run("check", str(path), "--all").stdout
    assert "… and 37 more; --all shows every one" in short
    assert long.count("head output[") == 77


def test_a_text_that_takes_too_long_is_given_up_in_words(
    wrong: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong.write_text(WRONG * 1000, encoding="utf-8")
    assert main(["check", str(wrong), "--seconds", "0.001"]) == 2
    said = capsys.readouterr().err
    assert f"{wrong} takes more than 0.001 s to read. --seconds N gives it more." in said
    wrong.write_text(WRONG, encoding="utf-8")
    assert main(["check", str(wrong), "--seconds", "60"]) == 1
