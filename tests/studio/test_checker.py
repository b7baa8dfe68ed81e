"""A text that takes long to check keeps nobody waiting, and is given up in words."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.slides import pdf, pptx
from helpers.studio_client import Client

from regard._wanted import asking
from regard.studio.checker import Checker, text_of

RIGHT = "Q = [[2, 3, 4, 1]]\nK = [[1, 0, 1, 0], [0, 1, 0, 1]]\nS = [[6, 4]]\n"


def test_a_text_of_blanks_freezes_nobody(client: Client) -> None:
    start = time.monotonic()
    asked = threading.Thread(
        target=client.post, args=("/api/check",), kwargs={"json": {"text": f"x ={' ' * 16_000}y"}}
    )
    asked.start()
    assert client.get("/api/examples").status_code == 200
    asked.join()
    assert time.monotonic() - start < 10


def test_slides_are_read_as_text(client: Client) -> None:
    for name, content in (("a.pdf", pdf("1 + 2 = 4")), ("A.PPTX", pptx("1 + 2 = 4"))):
        asked = {"name": name, "content": base64.b64encode(content).decode()}
        text = client.post("/api/slides", json=asked).json()["text"]
        found = client.post("/api/check", json={"text": text, "name": f"{name}.txt"}).json()
        assert [(f["printed"], f["right"]) for f in found["findings"]] == [("4", "3")]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.pdf", "JVBERg==", "a.pdf: no PDF that can be read"),
        ("a.pptx", "JVBERg==", "a.pptx: no PPTX that can be read"),
        ("a.pdf", "no base64!", "a.pdf: "),
        ("a.md", "JVBERg==", "a.md is neither PDF nor PPTX."),
        ("a.pdf", "", "Send a PDF or PPTX file"),
    ],
)
def test_what_are_no_slides_is_refused_in_words(
    client: Client, name: str, content: str, words: str
) -> None:
    answer = client.post("/api/slides", json={"name": name, "content": content})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(words)


def test_slides_without_their_extra_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    monkeypatch.setitem(sys.modules, "pptx", None)
    for name in ("a.pdf", "a.pptx"):
        assert text_of("JVBERg==", name)["error"].endswith('pip install "regard[slides]".')


def test_other_pages_are_served_while_a_long_text_is_checked(client: Client) -> None:
    text = "".join(f"# Example {n}\n\n{RIGHT}\n" for n in range(700))
    answers: list[int] = []
    asked = threading.Thread(
        target=lambda: answers.append(client.post("/api/check", json={"text": text}).status_code)
    )
    asked.start()
    assert client.get("/api/examples").status_code == 200
    assert answers == []
    asked.join()
    assert answers == [200]


def test_a_text_that_takes_too_long_is_given_up_and_the_next_one_is_checked() -> None:
    checker = Checker(seconds=0.3)
    try:
        with pytest.raises(ValueError, match=r"takes more than 0\.3 seconds.*one part of it"):
            checker.check("".join(f"# Example {n}\n\n{RIGHT}\n" for n in range(700)), "text")
        checker._seconds = 60.0
        assert checker.check(RIGHT, "text")["verdict"] == "right"
    finally:
        checker.close()


def test_a_reader_who_leaves_ends_the_work() -> None:
    class Left(Exception):
        pass

    def leave() -> None:
        raise Left

    checker = Checker()
    with pytest.raises(Left), asking(leave):
        checker.check(RIGHT, "text")
    try:
        assert checker.check(RIGHT, "text")["verdict"] == "right"
    finally:
        checker.close()


def test_half_of_a_surrogate_pair_is_refused_in_words(client: Client) -> None:
    found = client.post(
        "/api/check",
        content=b'{"text": "S = [[1]] \\ud800"}',
        headers={"content-type": "application/json"},
    )
    assert found.status_code == 400
    assert "half of a surrogate pair" in found.json()["error"]


def test_nothing_of_the_folder_it_was_started_in_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json.py", "signal.py", "numpy.py", "regard.py"):
        (tmp_path / name).write_text("raise SystemExit(77)")
    monkeypatch.chdir(tmp_path)
    checker = Checker()
    try:
        assert checker.check(RIGHT, "text")["verdict"] == "right"
    finally:
        checker.close()


def test_the_process_ends_with_the_studio() -> None:
    """Also when the studio is killed, and can say nothing."""
    program = (
        "import os\n"
        "from regard.studio.checker import Checker\n"
        "checker = Checker()\n"
        f"checker.check({RIGHT!r}, 'text')\n"
        "print(checker._ready._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )
    child = Path(f"/proc/{int(done.stdout)}/cmdline")  # empty when it has ended, if nobody waited
    deadline = time.monotonic() + 10
    while child.exists() and child.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not child.exists() or not child.read_bytes()


def test_a_matrix_is_what_the_reader_says_it_is(client: Client) -> None:
    text = RIGHT.replace("S =", "Something:").replace("[[6, 4]]", "[[6, 5]]")
    found = client.post("/api/check", json={"text": text}).json()
    assert found["findings"] == []
    assert [(each["line"], each["menu"]) for each in found["questions"]] == [(3, True)]
    assert "--as" not in found["questions"][0]["words"]
    found = client.post("/api/check", json={"text": text, "as": {"3": "scores"}}).json()
    (wrong,) = found["findings"]
    line = text.splitlines()[wrong["line"] - 1]
    assert (line[wrong["start"] : wrong["end"]], wrong["right"]) == ("5", "4")
    assert [(each["symbol"], each["lines"]) for each in found["matrices"]] == [
        ("Q", [1]),
        ("K", [2]),
        ("scores", [3]),
    ]


def test_rows_that_are_written_one_by_one_are_named_by_all_their_lines(client: Client) -> None:
    text = "q_a = [1, 2]\nq_b = [3, 4]\nK = \\begin{bmatrix}\n1 & 0 \\\\\n0 & 1\n\\end{bmatrix}\n"
    found = client.post("/api/check", json={"text": text}).json()
    assert [each["lines"] for each in found["matrices"]] == [[1, 2], [3]]


@pytest.mark.parametrize("taken_as", [[], "K", {"3": 4}, {"3": "K" * 201}, {"3": "nonsense"}])
def test_what_cannot_be_said_of_a_matrix_is_refused_in_words(
    client: Client, taken_as: object
) -> None:
    found = client.post("/api/check", json={"text": RIGHT, "as": taken_as})
    assert found.status_code == 400
    assert found.json()["error"]


def test_fix_answers_the_text_put_right_and_what_stays_wrong(client: Client) -> None:
    wrong = "\ufeff" + RIGHT.replace("4]]", "5]]")
    found = client.post("/api/check", json={"text": wrong, "fix": True}).json()
    assert found == {"fixed": "\ufeff" + RIGHT, "left": 0}
    given = "The attention weights are A = [[0.5, 0.1], [0.5, 0.5]]\nV = [[1, 2], [3, 4]]\n"
    found = client.post("/api/check", json={"text": given, "fix": True}).json()
    assert found["fixed"] == given
    assert found["left"] > 0


ROW = "W_Q = [[1, 0], [0, 1]]\nq = [1, 2]\n"
MISFIT = "Q = [[2, 3, 4]]\nK = [[1, 0], [0, 1]]\nS = [[6, 5]]\n"


@pytest.mark.parametrize(
    "asked",
    [
        {"text": RIGHT.replace("S =", "Something:")},
        {"text": RIGHT.replace("S =", "Something:"), "as": {"3": "scores"}},
        {"text": RIGHT, "as": {"3": "nonsense"}},
        {"text": RIGHT, "as": {"7": "K"}},
        {"text": ROW},
        {"text": MISFIT},
    ],
)
def test_no_flag_of_the_command_is_shown_in_the_page(client: Client, asked: dict[str, Any]) -> None:
    found = client.post("/api/check", json=asked).json()
    assert "--" not in json.dumps(found, ensure_ascii=False)
