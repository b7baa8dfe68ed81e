"""`regard explain`: what is promised for the command line, run as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.cells import cell_len

from regard import Trace
from regard.cli import main

REGARD = str(Path(sys.executable).with_name("regard"))
UNWANTED = (
    "COLUMNS",
    "NO_COLOR",
    "FORCE_COLOR",
    "COLORTERM",
    "TERM",
    "TTY_COMPATIBLE",
    "PYTHONUNBUFFERED",
)


@pytest.fixture(autouse=True)
def usual_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in UNWANTED:
        monkeypatch.delenv(name, raising=False)


def run(
    *arguments: str, text: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [REGARD, *arguments],
        input=text,
        capture_output=True,
        env={**os.environ, **environment},
        timeout=60,
    )


def run_in_terminal(*arguments: str, **environment: str) -> str:
    """What the command writes to a terminal of 80 columns."""
    leader, follower = pty.openpty()
    os.set_blocking(leader, True)
    command = f"stty cols 80 rows 40; {shlex.join([REGARD, *arguments])}"
    with subprocess.Popen(
        ["sh", "-c", command],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm-256color", **environment},
    ) as process:
        os.close(follower)
        output = b""
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the terminal was closed at the other end
                break
            if not piece:
                break
            output += piece
        process.wait(60)
    os.close(leader)
    return output.decode().replace("\r\n", "\n")


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that succeeds prints."""
    code = main(arguments)
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def complaint_about(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command with bad input prints."""
    code = main(arguments)
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("regard: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


# ── the whole run ─────────────────────────────────────────────────────────────────────────────


def test_without_a_text_it_explains_apple_in_ten_steps_that_fit_80_columns() -> None:
    done = run("explain")
    assert done.returncode == 0
    assert done.stderr == b""
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "I love apple phones"
    assert len(lines) <= 110
    assert max(map(cell_len, lines)) <= 80
    assert re.findall(r"^([ 1]\d)  \w", "\n".join(lines), re.MULTILINE) == [
        f"{number:2}" for number in range(1, 11)
    ]


def test_the_commands_to_try_next_work_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    out = output_of(capsys, "explain")
    commands = re.findall(
        r"^  (regard .*?)(?:   .*)?$", out.partition("Try next:")[2], re.MULTILINE
    )
    assert len(commands) == 3
    for command in commands:
        words = ["--help" if word == "FILE" else word for word in shlex.split(command)]
        assert output_of(capsys, *words[1:])


def test_what_to_try_next_uses_the_text_at_hand(capsys: pytest.CaptureFixture[str]) -> None:
    out = output_of(capsys, "explain", "we like it")
    command = re.findall(r"^  (regard .*?)(?:   .*)?$", out.partition("Try next:")[2], re.MULTILINE)
    assert command[0] == 'regard explain "we like it" --cell like,it'
    assert "like → it" in output_of(capsys, *shlex.split(command[0])[1:])


def test_a_text_of_ones_own_is_said_to_be_random(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("we like it",), ("we", "like", "it"), ("we like it", "--cell", "we,it")):
        assert "random numbers (seed 0)" in output_of(capsys, "explain", *arguments)


def test_it_starts_without_torch_and_help_without_numpy() -> None:
    for arguments, absent in ((["explain"], ["torch", "scipy"]), (["--help"], ["numpy", "rich"])):
        code = (
            "import sys; from regard.cli import main; "
            f"code = main({arguments}); "
            f"print([name for name in {absent} if name in sys.modules], file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
        assert done.stderr.decode().strip() == "[]"


# ── pipes, terminals, colours ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["나는 전화기를 사랑한다", "আমি ভাত খাই", "I love it"])
def test_a_pipe_gets_no_codes_and_no_line_over_80_cells(text: str) -> None:
    out = run("explain", text).stdout.decode()
    assert "\x1b" not in out
    assert max(cell_len(line) for line in out.splitlines()) <= 80


def test_a_terminal_gets_colours() -> None:
    assert "\x1b[" in run_in_terminal("explain")
    assert "48;2;" in run_in_terminal("explain", COLORTERM="truecolor")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_codes_where_no_colours_are_wanted(environment: dict[str, str]) -> None:
    out = run_in_terminal("explain", **environment)
    assert "\x1b" not in out
    assert out.startswith("I love apple phones")


def test_in_a_terminal_columns_are_set_after_text_of_doubtful_width() -> None:
    assert re.search(r"আমি +\x1b\[\d+G", run_in_terminal("explain", "আমি ভাত"))
    assert "\x1b" not in run_in_terminal("explain", "আমি ভাত", NO_COLOR="1")


def test_columns_sets_the_width() -> None:
    narrow = run("explain", COLUMNS="50").stdout.decode().partition("Try next")[0]
    assert max(map(cell_len, narrow.splitlines())) <= 50
    wide = run("explain", "one two three four five six", COLUMNS="200").stdout.decode()
    assert max(map(cell_len, wide.splitlines())) > 100
    for nonsense in ("0", "-3", "many", "1"):
        assert run("explain", COLUMNS=nonsense).returncode == 0


def test_a_closed_pipe_ends_it_quietly() -> None:
    with subprocess.Popen(
        [REGARD, "explain", "word " * 200, "--json", "-"],  # far more than a pipe holds
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_a_pipe_that_was_never_open_ends_it_quietly() -> None:
    for arguments in (["--help"], ["explain"], ["--version"]):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = subprocess.run([REGARD, *arguments], stdout=write_end, stderr=subprocess.PIPE)
        os.close(write_end)
        assert (done.returncode, done.stderr) == (141, b"")


def test_interruption_ends_it_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(path: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.cli.common.read_input", interrupt)
    assert main(["explain", "-"]) == 130
    assert capsys.readouterr() == ("", "")


def test_an_encoding_without_these_characters_is_no_error() -> None:
    done = run("explain", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert b"I love apple phones" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said_in_one_line() -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run([REGARD, "explain"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"No space left" in done.stderr


# ── options ───────────────────────────────────────────────────────────────────────────────────


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert re.fullmatch(r"regard \d+\.\d+\.\d+\n", output_of(capsys, "--version"))
    assert "explain" in output_of(capsys)
    for option in ("--step", "--cell", "--no-scale", "--svg"):
        assert option in output_of(capsys, "explain", "--help")


@pytest.mark.parametrize("name", ["apple", "cat", "poem", "scaling", "given"])
def test_every_example_is_shown(capsys: pytest.CaptureFixture[str], name: str) -> None:
    out = output_of(capsys, "explain", "--example", name)
    assert " 7  Weights" in out
    assert "Try next" in out


def test_step_shows_this_step_only(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("weights", "A", "7", "w"):
        out = output_of(capsys, "explain", "--step", name)
        assert re.findall(r"^([ 1]\d)  \w", out, re.MULTILINE) == [" 7"]
        assert "Try next" not in out


def test_head_shows_this_head_only(capsys: pytest.CaptureFixture[str]) -> None:
    out = output_of(capsys, "explain", "we like it", "--step", "A", "--head", "2")
    assert "head 2" in out
    assert "head 1" not in out


def test_cell_explains_the_steps_where_both_labels_make_sense(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = output_of(capsys, "explain", "--cell", "love,phones")
    assert re.findall(r"^ (\d)  ", out, re.MULTILINE) == ["5", "6", "7"]
    assert "love → phones: 1.75 = 1.0·1.2 + 1.1·0.5" in out
    assert "1.2374 ≈ 1.75 / √2" in out
    out = output_of(capsys, "explain", "--cell", "love,q2")
    assert "love, q2: 1.1 = 0.9·0.0 + 1.1·1.0 + 0.1·0.0 + 0.0·1.0" in out


def test_cell_with_a_step_explains_this_step_and_every_head(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = output_of(capsys, "explain", "a, b", "--cell", ",,b", "--step", "scores")
    assert re.findall(r"^ (\d)  ", out, re.MULTILINE) == ["5"]
    assert "head 1: , → b:" in out
    assert "head 2: , → b:" in out
    out = output_of(capsys, "explain", "a, b", "--cell", ",,b", "--step", "S", "--head", "2")
    assert "head 1" not in out


def test_no_scale_leaves_out_the_division_and_compares(capsys: pytest.CaptureFixture[str]) -> None:
    out = output_of(capsys, "explain", "--example", "scaling", "--no-scale")
    assert "S′ = S, not scaled" in out
    comparison = out.partition("What √dₖ = √4 does")[2]
    for figure in ("0.7311", "0.8808", "entropy", "0.5822", "0.3653"):
        assert figure in comparison


def test_causal_masks_what_comes_later(capsys: pytest.CaptureFixture[str]) -> None:
    assert output_of(capsys, "explain", "--causal", "--step", "scaled").count("−∞") == 1 + 6
    assert "−∞" not in output_of(capsys, "explain", "--step", "scaled")


def test_positions_are_added(capsys: pytest.CaptureFixture[str]) -> None:
    out = output_of(capsys, "explain", "--positions", "sinusoidal", "--step", "input")
    assert "+ positions" in out
    assert "positions" not in output_of(capsys, "explain", "--step", "query")


def test_seed_heads_and_width_shape_a_text_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    out = output_of(capsys, "explain", "a b", "--heads", "3", "--width", "6", "--seed", "5")
    assert "d_model = 6 · 3 heads · dₖ = 2" in out
    assert "seed 5" in out
    assert out != output_of(capsys, "explain", "a b", "--heads", "3", "--width", "6")


def test_long_texts_are_elided_and_all_shows_everything(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(f"w{i}" for i in range(40))
    short = output_of(capsys, "explain", text, "--step", "A")
    assert "12 of 40 rows" in short
    assert "w20" not in short.partition("7  Weights")[2]
    whole = output_of(capsys, "explain", text, "--step", "A", "--all")
    assert "w20" in whole.partition("7  Weights")[2]


def test_a_dash_reads_standard_input() -> None:
    done = run("explain", "-", "--step", "A", text="나는\n너".encode())
    assert done.returncode == 0
    assert done.stdout.decode().startswith("나는 너\n")


# ── files ─────────────────────────────────────────────────────────────────────────────────────


def test_json_holds_the_whole_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    assert main(["explain", "--json", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "10  Output" in out
    assert err == f"Wrote {path}\n"
    written = Trace.from_json(path.read_text(encoding="utf-8"))
    assert written.tokens == ("I", "love", "apple", "phones")


def test_svg_is_a_picture_of_the_same_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "steps.svg"
    assert main(["explain", "--step", "A", "--svg", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == f"Wrote {path}\n"
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    written = " ".join(element.text or "" for element in root.iter())
    for word in out.split():
        assert word in written
    assert "regard explain --step A" in written
    assert str(path) not in written


def test_a_dash_prints_the_file_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(output_of(capsys, "explain", "--json", "-"))["format"] == "regard.trace"
    assert ElementTree.fromstring(output_of(capsys, "explain", "--svg=-")) is not None


# ── bad input ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([""], "no word"),
        ([" \n\t "], "no word"),
        (["\u200b\u202e"], "no word"),
        (["text", "--example", "cat"], "exclude"),
        (["--example", "dog"], "apple, cat, poem, scaling, given"),
        (["--step", "nothing"], "1 input"),
        (["--step", "sc"], "scaled or scores"),
        (["--example", "given", "--step", "scores"], "7 weights"),
        (["--head", "3"], "there are 2"),
        (["--head", "0"], "--head"),
        (["--cell", "love"], "a row and a column"),
        (["--cell", "love,pears"], "I, love, apple, phones"),
        (["the the", "--cell", "the,the"], "the#1, the#2"),
        (["text", "--heads", "3"], "3 heads do not divide a width of 4"),
        (["text", "--heads", "0"], "--heads"),
        (["text", "--width", "0"], "--width"),
        (["text", "--width", "100000"], "--width"),
        (["text", "--seed", "-1"], "--seed"),
        (["text", "--seed", "x"], "--seed"),
        (["--seed", "1"], "text of your own"),
        (["--positions", "rotary"], "--positions"),
        (["--example", "scaling", "--positions", "sinusoidal"], "no input"),
        (["--example", "given", "--causal"], "no scores"),
        (["--example", "given", "--no-scale"], "no scores"),
        (["--json", "-", "--svg", "-"], "standard output"),
        (["--json", "missing/folder/x.json"], "cannot write missing/folder/x.json"),
        (["--svg", "."], "cannot write ."),
        (["--nonsense"], "--nonsense"),
        (["word " * 2001], "2,001 tokens: with 2 heads, explain takes at most 2,000"),
        (["word " * 1500, "--heads", "4"], "1,500 tokens"),
        (["word " * 800, "--all"], "--all would print"),
        (["\udcff"], "not UTF-8"),
        (["--layer", "2"], "--layer needs a --model"),
        (["--model", "minilm"], "--model needs a text"),
        (["text", "--model", "minilm", "--example", "cat"], "no --example"),
        (["text", "--model", "minilm", "--causal"], "a mask of its own: --causal"),
        (["text", "--model", "minilm", "--no-scale", "--seed", "1"], "--seed and --no-scale"),
        ([" ", "--model", "minilm"], "the text is empty"),
        (["text", "--model", "./no/such/folder"], "./no/such/folder must be a folder"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    arguments: Sequence[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert why in complaint_about(capsys, "explain", *arguments)


def test_an_unknown_command_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert "explode" in complaint_about(capsys, "explode")


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"\xff\xfe", b"not UTF-8"), (b"", b"no word"), (b"a " * 600_000, b"longer than")],
)
def test_bad_standard_input_is_bad_input(content: bytes, why: bytes) -> None:
    done = run("explain", "-", text=content)
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_complaint_repeats_no_code_and_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    err = complaint_about(capsys, "explain", "a b", "--cell", "a,\x1b[31m" + "x" * 10_000)
    assert "\x1b" not in err
    assert len(err) <= 600


# ── a real model ──────────────────────────────────────────────────────────────────────────────

WORDS = "i love apple phones"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    from helpers.model_folders import save_bert, save_llama

    paths = {name: tmp_path_factory.mktemp(name) for name in ("encoder", "decoder")}
    save_bert(paths["encoder"])
    save_llama(paths["decoder"])
    return {name: str(path) for name, path in paths.items()}


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_a_models_own_numbers_are_explained_and_said_to_be_checked(
    capsys: pytest.CaptureFixture[str], folders: dict[str, str], kind: str
) -> None:
    arguments = (WORDS, "--model", folders[kind], "--layer", "1", "--head", "2")
    out = output_of(capsys, "explain", *arguments)
    assert out.startswith(f"{WORDS}\n")
    told = " ".join(out.split())
    assert "Head 2 of layer 1 of" in told
    assert re.search(r"weights · V is what the model computed, within (1e−\d\d|rounding)\.", told)
    assert "the matrices of this head, W_O and every step are the model's own numbers" in told
    assert re.findall(r"^([ 1]\d)  \w", out, re.MULTILINE) == [f"{n:2}" for n in range(1, 11)]
    assert ("causal: no token sees a later one" in told) == (kind == "decoder")
    assert ("−∞" in out) == (kind == "decoder")


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_the_weights_of_a_models_head_are_those_of_transformers(
    capsys: pytest.CaptureFixture[str], folders: dict[str, str], kind: str
) -> None:
    import torch

    from regard.models import load

    arguments = (WORDS, "--model", folders[kind], "--layer", "1", "--head", "2", "--json", "-")
    found = Trace.from_json(output_of(capsys, "explain", *arguments))
    loaded = load(folders[kind])
    loaded.model.set_attn_implementation("eager")
    with torch.no_grad():
        out = loaded.model(**loaded.inputs(WORDS), output_attentions=True)
    truth = out.attentions[1][0, 2].double().numpy()
    assert found.tokens == ("[CLS]", "i", "love", "apple", "phones", "[SEP]")
    shown = loaded.see(WORDS).flow(1).steps_of(1, 2)
    assert found.steps.keys() == shown.steps.keys()
    for name, step in shown.steps.items():
        np.testing.assert_allclose(found.steps[name].array, step.array, atol=1e-6, err_msg=name)
    # A decoder turns Q and K by their positions: they stand there as they were before it.
    made = {"encoder": {"W_Q", "W_K"}, "decoder": {"Q before it is turned", "cosine", "sine"}}
    assert made[kind] | {"W_V", "W_O"} <= found.matrices.keys()
    assert abs(found.steps["weights"].array[0] - truth).max() < 1e-6


def test_a_cell_of_a_models_head_is_worked_out(
    capsys: pytest.CaptureFixture[str], folders: dict[str, str]
) -> None:
    out = output_of(
        capsys, "explain", WORDS, "--model", folders["encoder"], "--cell", "love,phones"
    )
    assert re.findall(r"^ (\d)  ", out, re.MULTILINE) == ["5", "6", "7"]
    assert "Head 0 of layer 0" in out
    assert re.search(r"love → phones: \S+ ≈ \S+ / √4", out)


def test_a_picture_of_a_models_head(
    capsys: pytest.CaptureFixture[str], folders: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "head.svg"
    arguments = (WORDS, "--model", folders["decoder"], "--step", "A", "--svg", str(path))
    out = output_of(capsys, "explain", *arguments)
    written = path.read_text(encoding="utf-8")
    assert all(word in written for word in ("phones", "Weights"))
    assert "Try next" not in out


def test_a_model_that_computed_something_else_is_exit_code_1(
    capsys: pytest.CaptureFixture[str], folders: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from regard.cli import explain

    look = explain.look

    def wrong(*arguments: Any, **options: Any) -> Any:
        run, seconds = look(*arguments, **options)
        for name, layer in run.layers.items():
            assert layer.output is not None
            run.layers[name] = replace(layer, output=layer.output + 1e-3)
        return run, seconds

    monkeypatch.setattr(explain, "look", wrong)
    assert main(["explain", WORDS, "--model", folders["encoder"]]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "differs from what the model computed by 1.0e−03" in err


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (("--layer", "2"), "no layer 2; there are 2 here, from 0"),
        (("--head", "3"), "no head 3 in layer 0; there are 3 here, from 0"),
    ],
)
def test_a_layer_or_head_that_the_model_has_not_got_is_bad_input(
    capsys: pytest.CaptureFixture[str], folders: dict[str, str], place: Sequence[str], why: str
) -> None:
    assert why in complaint_about(capsys, "explain", WORDS, "--model", folders["encoder"], *place)


def test_a_layer_that_sees_a_window_only_is_refused_in_words(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from helpers.model_folders import save
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=11,
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=3,
        num_key_value_heads=1,
        intermediate_size=7,
        sliding_window=2,
    )
    save(MistralForCausalLM(config), tmp_path)
    capsys.readouterr()  # what saving says
    err = complaint_about(capsys, "explain", WORDS, "--model", str(tmp_path))
    assert "layer 0 sees a window of the text only" in err


def test_minilm_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    text = "The animal didn't cross the street because it was too tired."
    out = output_of(
        capsys, "explain", text, "--model", "minilm", "--layer", "3", "--head", "1", "--step", "A"
    )
    assert "(encoder.layer.3.attention.self)" in out
    row = next(line for line in out.splitlines() if line.startswith("    it "))
    assert row.split()[1:4] == ["0.1016", "0.0443", "0.6768"]
    assert max(map(cell_len, out.splitlines())) <= 80
