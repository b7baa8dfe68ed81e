"""What strangers bring to `regard train`, `generate` and `export`: one line says what is wrong with
which key, file or line; nothing of theirs is lost, and what was begun can go on.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.small_run import TEXT, left, small, trained

from regard.cli import main
from regard.train import loop, prepare, reading
from regard.train.prepare import prepare as prepared
from regard.train.recipe import recipe_of
from regard.train.tokens import make_tokenizer
from regard.train.toml import write_toml

KINDS = {"text": "language-model", "pairs": "translate", "table": "classify"}
ROWS = "".join(f"text {n},{n % 3}\n" for n in range(61))
PAIRS = "".join(f"one {n}\tuno {n}\n" for n in range(50))


def recipe_file(place: Path, key: str = "", name: str = "", **changes: Any) -> str:
    """A recipe that learns from a file; `changes` of any section are put in unchecked."""
    content = dict(small().content)
    content["training"] = {**content["training"], "steps": 2}
    if key:
        sizes = {"length": 11} if key == "text" else {"vocabulary": 280}
        content |= {"task": KINDS[key], "data": {key: name, **sizes}}
    for section, values in changes.items():
        content[section] = {**content[section], **values} if isinstance(values, dict) else values
    (place / "recipe.toml").write_text(write_toml(content), encoding="utf-8")
    return str(place / "recipe.toml")


def refused(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """What the one line says with which a command ends."""
    assert main(list(command)) == 2
    err = capsys.readouterr().err
    *before, said = err.splitlines()
    assert said.startswith("regard: ")
    assert all(line.startswith("regard: Reading") for line in before), err
    return said


# ── files ─────────────────────────────────────────────────────────────────────────────────────

FILES: dict[str, tuple[str, bytes, str]] = {
    "empty": ("a.txt", b"", r"a\.txt must have a word in it; got an empty corpus"),
    "UTF-16": ("a.txt", TEXT.encode("utf-16"), r"a\.txt must be text in UTF-8; got UTF-16: save"),
    "UTF-32": ("a.txt", TEXT.encode("utf-32"), "got UTF-32: save it as UTF-8"),
    "no mark": ("a.txt", TEXT.encode("utf-16-le"), "got a zero byte in line 1. UTF-16 has such"),
    "Latin-1": ("a.txt", b"so\nfar\ncaf\xe9", r"UTF-8; got the byte 0xe9 in line 3"),
    "far away": ("a.txt", b"line\n" * 300_000 + b"\xff", "got the byte 0xff in line 300001"),
    "zeros": ("a.txt", b"one\ntwo\n\0", "got a zero byte in line 3"),
    "cut": ("a.txt", TEXT.encode() + "é".encode()[:1], "got the byte 0xc3 in line 1"),
    "a line too long": ("a.tsv", b"a" * 1_000_001, r"line 1 of .* fewer than 1,000,000 characters"),
    "one column": (
        "a.tsv",
        b"a\tb\r\nc\r\n",
        "line 2 of .* at least 2 columns.* got one column: c",
    ),
    "a byte in pairs": ("a.tsv", b"a\tb\n\xe9\tc\n", "got the byte 0xe9 in line 2"),
    "a key less": (
        "a.jsonl",
        b'{"1": "a", "2": "b"}\n{"1": "a"}\n',
        r"line 2 of .* '1' and '2', o",
    ),
    "a number": ("a.jsonl", b'{"1": "a", "2": 5}\n', 'line 1 of .* two texts; got .*"2": 5'),
    "an array": ("a.json", b'[\n{"1": "a"}\n]', r"one on each line; got \[\."),
    "few fields": (
        "a.csv",
        f"text,label\n{ROWS}one\n".encode(),
        "line 63 of .* a text and a label",
    ),
    "many fields": (
        "a.csv",
        f"text,label\n{ROWS}a, b,c\n".encode(),
        "line 63 of .* must have 2 col",
    ),
    "a quote": ("a.csv", f'text,label\n{ROWS}"a"b,c\n'.encode(), "line 63 of .* table in CSV; got"),
    "no end": ("a.csv", f'text,label\n{ROWS}"a,b\n'.encode(), "line 63 of .* table in CSV; got"),
    "twice": ("a.csv", f"text,text,label\n{ROWS}".encode(), "must have a column 'text' once; got"),
    "no header": ("a.csv", b"", "must have a column 'text'; got no header"),
    "semicolons": ("a.csv", b"text;label\na;b\n", "must have a column 'text'; got text;label"),
    "the same": (
        "a.csv",
        b"text,label\n" + b"a,b\nb,c\n" * 30,
        "20 different texts .* got 2 with 2",
    ),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    name, content, said = FILES[what]
    (tmp_path / name).write_bytes(content)
    key = {".txt": "text", ".csv": "table"}.get(Path(name).suffix, "pairs")
    file = recipe_file(tmp_path, key, str(tmp_path / name))
    found = refused(capsys, "train", file, "--out", str(tmp_path / "run"))
    assert re.search(said, found), found
    assert str(tmp_path / name) in found
    assert not list((tmp_path / "run").iterdir())
    assert (tmp_path / name).read_bytes() == content


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_marks_and_line_ends_of_other_systems_are_no_part_of_the_data(
    tmp_path: Path, mark: bytes, end: str
) -> None:
    found: list[Any] = []
    for key, name, content in (
        ("pairs", "a.tsv", PAIRS),
        ("table", "a.csv", "text,label\n" + ROWS),
    ):
        for sent in (content.encode(), mark + content.replace("\n", end).encode()):
            (tmp_path / name).write_bytes(sent)
            recipe = recipe_of(
                {**small().content, "task": KINDS[key], "data": {key: str(tmp_path / name)}}
            )
            place = tmp_path / str(len(found))
            found.append(
                [each.tolist() for each in prepared(recipe, place).batch(0).inputs.values()]
            )
        assert found[-1] == found[-2]


@pytest.mark.parametrize(
    ("key", "name", "said"),
    [
        ("text", "", "recipe [data]: text must name a file; got ''."),
        ("text", [], "recipe [data]: text must name a text; got none."),
        ("text", "x" * 300, "must be a file; got File name too long."),
        ("text", "missing.txt", "missing.txt must be a file, or one of shakespeare, wikitext-2"),
        ("text", "pipe", "pipe must be a file, or one of"),
        ("text", "folder", "folder must hold .txt files; got none."),
        ("table", "folder", "folder must be a file, or one of trec; got neither."),
        ("table", "pipe", "pipe must be a file, or one of trec"),
        ("pairs", "/proc/self/mem", "/proc/self/mem must be readable; got Input/output error."),
    ],
)
def test_what_is_no_file_is_not_waited_for(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    name: Any,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder" / "a.txt").mkdir(parents=True)
    os.mkfifo("pipe")
    assert said in refused(capsys, "train", recipe_file(tmp_path, key, name), "--out", "run")
    assert said.startswith("recipe") or not list((tmp_path / "run").iterdir())


# ── the recipe ────────────────────────────────────────────────────────────────────────────────

KEYS: list[tuple[dict[str, Any], str]] = [
    ({"training": {"stepz": 3}}, "recipe [training]: stepz must be one of its keys"),
    ({"training": {"steps": "3"}}, "recipe [training]: steps must be a whole number; got '3'"),
    ({"training": {"steps": 0}}, "recipe [training]: steps must be at least 1; got 0"),
    ({"training": {"batch": 0}}, "recipe [training]: batch must be at least 1"),
    ({"training": {"evaluate": 0}}, "recipe [training]: evaluate must be at least 1"),
    ({"training": {"batch": -6}}, "recipe [training]: batch must be at least 1; got -6"),
    ({"model": {"width": 9}}, "recipe [model]: width must be a multiple of the 2 heads; got 9"),
    ({"model": {"width": 10**9}}, "there is not enough memory for that: a smaller [model]"),
    ({"optimizer": {"learning_rate": -1.0}}, "recipe [optimizer]: learning_rate must be at least"),
    ({"training": 5}, "recipe: training must be a table, [training]; got 5"),
    ({"seed": -1}, "recipe: seed must be a whole number from 0"),
]


@pytest.mark.parametrize(("changes", "said"), KEYS)
def test_a_key_that_cannot_be_used_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], said: str
) -> None:
    file = recipe_file(tmp_path, **changes)
    assert said in refused(capsys, "train", file, "--out", str(tmp_path / "run"))


def test_columns_and_vocabularies_are_keys_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tsv").write_text(PAIRS)
    for changed, said in (
        ({"source": "9" * 5000}, "recipe [data]: source must be the number of a column"),
        (
            {"target": "es"},
            "recipe [data]: target must be the number of a column, from 1; got 'es'",
        ),
        ({"vocabulary": 10}, "recipe [data]: vocabulary must be at least 261"),
    ):
        file = recipe_file(tmp_path, "pairs", str(tmp_path / "a.tsv"), data=changed)
        assert said in refused(capsys, "train", file, "--out", str(tmp_path / "run"))
    notes: list[str] = []
    data = {"pairs": str(tmp_path / "a.tsv"), "vocabulary": 9000}
    recipe = recipe_of({**small().content, "task": "translate", "data": data})
    prepared(recipe, tmp_path / "run", notes.append)
    assert any(note.startswith("data.vocabulary is 9,000; the texts give") for note in notes)


def test_a_recipe_that_is_no_file_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    out = ["--out", str(tmp_path / "run")]
    for name in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path)):
        assert f"recipe: {name} must be a regular file" in refused(capsys, "train", name, *out)
    recipe = Path(recipe_file(tmp_path))
    recipe.write_bytes(codecs.BOM_UTF8 + recipe.read_bytes())
    assert main(["train", str(recipe), "--show"]) == 0


# ── folders ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["data", "tokenizer.json"])
def test_what_is_somebody_s_is_not_taken_for_what_a_start_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    if name == "data":
        (mine / name).mkdir()
        (mine / name / "thesis.txt").write_text(TEXT)
    else:
        (mine / name).write_text("{}")
    said = refused(capsys, "train", recipe_file(tmp_path), "--out", str(mine), "--resume")
    assert f"must be a run, which has recipe.toml; got {name}." in said
    assert [path.name for path in mine.iterdir()] == [name]
    assert name != "data" or (mine / name / "thesis.txt").read_text() == TEXT


def test_a_second_process_takes_nothing_away_from_one_that_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    file = recipe_file(tmp_path, "text", str(tmp_path / "a.txt"))
    out = ["--out", str(tmp_path / "run")]
    keep = prepare._keep

    def meanwhile(*given: Any) -> None:  # its tokens are written, its tokenizer is not
        assert "a run that another process trains" in refused(capsys, "train", file, *out)
        keep(*given)

    monkeypatch.setattr(prepare, "_keep", meanwhile)
    assert main(["train", file, *out]) == 0


@pytest.mark.parametrize("place", ["file", "file/run", "pipe", "link"])
def test_a_place_for_no_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    said = refused(capsys, "train", recipe_file(tmp_path), "--out", str(tmp_path / place))
    assert str(tmp_path / place) in said
    assert (tmp_path / "file").read_text() == "mine"


def test_a_run_that_was_tampered_with_is_refused_by_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    trained(run, small(training={"steps": 2}))
    file = run / "tokenizer.json"
    kept = file.read_bytes()
    for kind, text in (("bytes", []), ("characters", ["ab"])):
        file.write_text(make_tokenizer(kind, text).to_str())
        for command in (["generate", str(run), "abc"], ["export", str(run), str(out)]):
            assert f"{file} must be the one that the run has learned with" in refused(
                capsys, *command
            )
        again = refused(capsys, "train", "--out", str(run), "--resume")
        assert f"{file} must be the one that the run has learned from" in again
    file.unlink()
    os.mkfifo(file)
    assert f"{file} must" in refused(capsys, "generate", str(run), "abc")
    assert f"{file} must be a file" in refused(capsys, "train", "--out", str(run), "--resume")
    file.unlink()
    file.write_bytes(kept)
    assert main(["train", "--out", str(run), "--resume"]) == 0
    assert not out.exists()


def test_a_name_that_no_disk_takes_is_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "must be a run; got File name too long" in refused(capsys, "generate", "x" * 300, "abc")
    (tmp_path / "file").write_text("mine")
    said = refused(capsys, "export", str(tmp_path / "file"), str(tmp_path / "out"))
    assert "file must be a run, which has recipe.toml; got a file." in said
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# ── somebody who has seen enough ──────────────────────────────────────────────────────────────


def interrupting(make: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with a Ctrl-C in it, the first time."""
    done: list[bool] = []

    def interrupted(*given: Any) -> Any:
        if not done:
            done.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        return make(*given)

    return interrupted


@pytest.mark.parametrize("tokens", ["characters", "bpe"])
def test_ctrl_c_while_texts_are_read_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: str
) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    data = {"tokens": tokens, "vocabulary": 270}
    file = recipe_file(tmp_path, "text", str(tmp_path / "a.txt"), data=data)
    portions = prepare.portions_of

    def cut(path: Path) -> Iterator[str]:
        for portion in portions(path):
            yield portion[:100]
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(prepare, "portions_of", cut)
        assert main(["train", file, "--out", str(tmp_path / "run")]) == 130
    assert not list((tmp_path / "run").iterdir())
    assert main(["train", file, "--out", str(tmp_path / "run")]) == 0


def test_ctrl_c_while_it_evaluates_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path / "undisturbed")
    recipe = recipe_file(tmp_path, training=small().content["training"])
    with monkeypatch.context() as patch:
        patch.setattr(loop, "evaluate", interrupting(loop.evaluate))
        assert main(["train", recipe, "--out", str(tmp_path / "run")]) == 0
    assert "Stopped by SIGINT after 6 steps." in capsys.readouterr().out
    trained(tmp_path / "run")
    assert left(tmp_path / "run") == left(tmp_path / "undisturbed")


def test_a_reader_who_goes_away_ends_it_without_a_word(tmp_path: Path) -> None:
    """As in `regard train … 2>&1 | head -1`."""
    trained(tmp_path / "undisturbed")
    recipe = recipe_file(tmp_path, training=small().content["training"])
    command = [sys.executable, "-m", "regard", "train", recipe, "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("step 5: loss")
    process.stdout.close()
    assert process.wait(timeout=300) == 128 + signal.SIGPIPE
    trained(tmp_path / "run")
    assert left(tmp_path / "run") == left(tmp_path / "undisturbed")


# ── how far it is ─────────────────────────────────────────────────────────────────────────────


def test_how_far_a_long_text_is_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "_EACH", 0.0)
    monkeypatch.setattr(reading, "_PORTION", 60_000)
    (tmp_path / "a.txt").write_text("a line of it\n" * 10_000)
    data = {"text": str(tmp_path / "a.txt"), "length": 11, "tokens": "bpe", "vocabulary": 265}
    shown: list[str] = []
    recipe = small("language-model", data=data)
    prepared(recipe, tmp_path / "run", show=shown.append)
    far = ["0.0 of 0.1 MB", "0.1 of 0.1 MB", "0.1 of 0.1 MB"]
    assert shown == [
        *(f"Reading the text: {each}" for each in far),
        "Putting 265 pieces together",
        *(f"Taking its tokens: {each}" for each in far),
    ]
