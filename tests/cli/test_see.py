"""`regard see`: what is promised for the command line, with small random models and MiniLM."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from helpers.model_folders import save_bert, save_llama
from rich.cells import cell_len
from torch import nn

import regard
from regard.ask._see import each_block
from regard.cli import common, main, see
from regard.cli.model import progress
from regard.models import build

TEXT = "i love apple phones . i love it"


@pytest.fixture(autouse=True)
def usual_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "TERM", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("encoder")
    save_bert(folder)
    return str(folder)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("decoder")
    save_llama(folder)
    return str(folder)


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that succeeds prints."""
    code = main(["see", *arguments])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def complaint_about(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command with bad input prints."""
    code = main(["see", *arguments])
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("regard: ")
    assert err.count("\n") == 1
    return err


def never(*_: object, **__: object) -> None:
    """Stands for what must not be reached."""
    raise AssertionError("it came this far")


# ── what is shown ─────────────────────────────────────────────────────────────────────────────


def test_it_shows_what_was_run_kinds_links_and_a_map_in_80_columns(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    out = output_of(capsys, TEXT, "--model", encoder)
    lines = out.splitlines()
    assert lines[0] == TEXT
    told = r"10 tokens · 2 layers × 3 heads · read in \d+\.\d\d s once loaded"
    assert re.search(told, " ".join(out.split()))
    counts = re.findall(r"^    (?:\w+ ?\w*?) +(\d+)   ", out, re.MULTILINE)
    assert sum(map(int, counts)) == 6
    assert "→" in out.partition("Strongest links")[2]
    assert "Left out: links" in out or "are among these" in out
    assert max(map(cell_len, lines)) <= 80
    assert "\x1b" not in out


def test_a_causal_model_is_said_to_be_causal(
    capsys: pytest.CaptureFixture[str], decoder: str
) -> None:
    out = output_of(capsys, TEXT, "--model", decoder)
    assert "2 layers × 3 heads · causal" in " ".join(out.split())


def test_layer_or_head_leaves_out_the_others(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    out = output_of(capsys, TEXT, "--model", encoder, "--layer", "1")
    links = out.partition("Strongest links")[2].partition("Head ")[0]
    assert set(re.findall(r"(\d)\.\d(?: |$)", re.sub(r"0\.\d\d", "", links), re.MULTILINE)) == {"1"}
    out = output_of(capsys, TEXT, "--model", encoder, "--head", "2")
    assert re.search(r"^Head \d\.2", out, re.MULTILINE)


def test_layer_and_head_show_that_head_in_detail(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    out = output_of(capsys, TEXT, "--model", encoder, "--layer", "1", "--head", "2")
    assert "Head 1.2: " in out
    assert "encoder.layer.1.attention.self" in out
    detail = out.partition("Where each token looks")[2].splitlines()[1:]
    assert len(detail) == 10
    assert all(re.search(r" → \S+ [01]\.\d\d", line) for line in detail)
    assert "Heads by kind" not in out


def test_token_shows_where_every_head_looks_from_it(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    out = output_of(capsys, TEXT, "--model", encoder, "--token", "love#2")
    assert "Where “love” looks   token 8 of 10" in out
    assert "all layers" in out
    assert "layer 1" in out
    grid = out.partition("a column a head")[2].partition("Strongest links")[0].split()
    assert grid[:3] == ["0", "1", "2"]
    assert len(grid) == 3 + 2 * (1 + 3)
    assert set(re.findall(r"^    (\S+) →", out, re.MULTILINE)) == {"love#2"}


def test_a_token_may_be_named_by_its_number(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    assert "token 5 of 10" in output_of(capsys, TEXT, "--model", encoder, "--token", "5")


def test_what_token_shows_is_the_weights_of_the_model(
    capsys: pytest.CaptureFixture[str], decoder: str
) -> None:
    arguments = (TEXT, "--model", decoder, "--token", "phones", "--json", "-")
    found = json.loads(output_of(capsys, *arguments))["token"]
    loaded = regard.models.load(decoder)
    loaded.model.set_attn_implementation("eager")
    with torch.no_grad():
        truth = loaded.model(**loaded.inputs(TEXT), output_attentions=True).attentions
    place = found["position"]
    assert loaded.tokens(TEXT)[place].text == "phones"
    for head in found["heads"]:
        row = truth[head["layer"]][0, head["head"], place]
        assert head["weight"] == pytest.approx(row.max().item(), abs=1e-5)
        assert row[head["key"]].item() == pytest.approx(row.max().item(), abs=1e-5)
    for layer, mean in enumerate(found["mean"]):
        assert mean == pytest.approx(truth[layer][0, :, place].mean(0).tolist(), abs=1e-5)


def test_cut_shows_no_change_before_the_cut_and_some_after(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    out = output_of(capsys, TEXT, "--model", encoder, "--ablate", "1.0", "--ablate", "1.2")
    changes = dict(re.findall(r"^    (\w+) +(\d+\.\d\d)%", out, re.MULTILINE))
    assert "Without 1.0, 1.2" in out
    assert list(changes) == ["0", "1", "output"]
    assert float(changes["0"]) == 0
    assert float(changes["1"]) > 0


@pytest.mark.parametrize("choice", [("--layer", "1"), ("--head", "2")])
def test_cut_comes_after_the_layer_or_the_head_that_is_asked_for(
    capsys: pytest.CaptureFixture[str], encoder: str, choice: tuple[str, str]
) -> None:
    alone = output_of(capsys, TEXT, "--model", encoder, *choice).partition("Heads by kind")[2]
    out = output_of(capsys, TEXT, "--model", encoder, *choice, "--ablate", "0.1")
    shown, _, changed = out.partition("Heads by kind")[2].partition("\nWithout 0.1")
    assert shown == alone != ""
    assert "block   mean change" in changed


def test_cut_tells_of_the_next_word_where_the_model_predicts_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from helpers.model_folders import save, small_llama
    from transformers import LlamaForCausalLM

    torch.manual_seed(5)
    save(LlamaForCausalLM(small_llama(vocab_size=31)), tmp_path)
    out = output_of(capsys, TEXT, "--model", str(tmp_path), "--ablate", "0.1")
    assert re.search(r"Next word: \S+ nats of divergence .* of 10 tokens", " ".join(out.split()))


def test_sql_prints_the_table_and_nothing_else(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    query = "select layer, count(*) as heads from heads group by layer order by layer"
    out = output_of(capsys, TEXT, "--model", encoder, "--sql", query)
    assert out.split("\n") == ["layer  heads", "    0      3", "    1      3", "2 rows", ""]


def test_the_model_is_chosen_by_the_number_of_words_and_one_line_says_so() -> None:
    name, why = see._choose("I love apple phones.")
    assert name == "minilm"
    assert why == "minilm, as the text is short; --model smollm2 reads up to 8,192 tokens."
    name, why = see._choose("word " * 101)
    assert name == "smollm2"
    assert why == "smollm2, as the text is long; --model minilm reads up to 512 tokens."


def test_why_a_model_was_chosen_is_not_said_if_one_was_named(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    assert "as the text is" not in output_of(capsys, TEXT, "--model", encoder)


# ── tokens that the model does not know ───────────────────────────────────────────────────────


def test_a_token_that_the_model_does_not_know_is_shown_as_what_it_reads(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    arguments = ("i love 🍎 . i love 🦄 🍎", "--model", encoder)
    out = output_of(capsys, *arguments, "--layer", "1", "--head", "2")
    told = " ".join(out.split())
    assert f"3 tokens are unknown to {encoder}, which reads [UNK] for each: 🍎, 🦄." in told
    rows = out.partition("Where each token looks")[2]
    assert {"[UNK]#1", "[UNK]#2", "[UNK]#3"} <= set(re.findall(r"^ *(\S+) →", rows, re.MULTILINE))
    assert "🍎" not in rows
    found = json.loads(output_of(capsys, *arguments, "--json", "-"))["tokens"][3]
    assert found == {"text": "[UNK]", "start": 7, "end": 8}


def test_a_token_that_the_model_does_not_know_is_found_by_its_text_and_by_its_sign(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    text = "i love 🍎 . i love 🦄 🍎"
    for name, place in (("🦄", 8), ("🍎#2", 9), ("[UNK]#3", 9)):
        out = output_of(capsys, text, "--model", encoder, "--token", name)
        assert f"Where “[UNK]” looks   token {place} of 10" in out


def test_a_model_that_knows_every_token_is_not_said_to_lack_one(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    assert "unknown" not in output_of(capsys, "i love apple phones .", "--model", encoder)


# ── files ─────────────────────────────────────────────────────────────────────────────────────


def test_a_file_or_standard_input_is_read_like_a_text(
    capsys: pytest.CaptureFixture[str],
    encoder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    direct, from_file = (
        json.loads(output_of(capsys, *given, "--model", encoder, "--json", "-"))
        for given in ((TEXT,), ("--file", str(file)))
    )
    assert from_file["tokens"] == direct["tokens"]
    monkeypatch.setattr(common, "read_input", lambda path: TEXT)
    assert output_of(capsys, "-", "--model", encoder).startswith(TEXT)


def test_json_has_heads_links_and_tokens(capsys: pytest.CaptureFixture[str], encoder: str) -> None:
    found = json.loads(output_of(capsys, TEXT, "--model", encoder, "--json", "-"))
    assert found["format"] == "regard.see"
    assert found["text"] == TEXT
    assert [token["text"] for token in found["tokens"]][1:3] == ["i", "love"]
    assert len(found["heads"]) == 6
    assert found["links"]
    assert all(0 < link["weight"] <= 1 for link in found["links"])
    assert not {"sql", "token", "effect"} & set(found)


def test_json_has_what_was_asked_for(capsys: pytest.CaptureFixture[str], encoder: str) -> None:
    asked = ("--token", "apple", "--ablate", "0.1", "--sql", "select 1 as one")
    found = json.loads(output_of(capsys, TEXT, "--model", encoder, *asked, "--json", "-"))
    assert found["sql"] == [{"one": 1}]
    assert found["token"]["position"] == 3
    assert found["effect"]["ablated"] == [{"layer": 0, "head": 1}]
    assert len(found["effect"]["relative"]["output"]) == 10


def test_save_keeps_a_run_whose_weights_can_be_had(
    capsys: pytest.CaptureFixture[str], encoder: str, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    assert main(["see", TEXT, "--model", encoder, "--save", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert err == f"Wrote {folder}\n"
    assert "Heads by kind" in out
    weights = regard.load(folder).weights(1, 2)
    assert weights.shape == (1, 10, 10)
    assert weights.sum(-1).allclose(torch.ones(1, 10))


def test_svg_is_a_picture_of_the_same_output(
    capsys: pytest.CaptureFixture[str], encoder: str, tmp_path: Path
) -> None:
    path = tmp_path / "see.svg"
    assert main(["see", TEXT, "--model", encoder, "--token", "apple", "--svg", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == f"Wrote {path}\n"
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    written = " ".join(element.text or "" for element in root.iter())
    for word in out.partition("Where")[2].split():
        assert word in written


def test_a_picture_of_the_same_text_is_the_same_every_time(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    arguments = (TEXT, "--model", encoder, "--svg", "-")
    assert output_of(capsys, *arguments) == output_of(capsys, *arguments)


# ── bad input ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "a text or --file is needed"),
        ([TEXT, "--file", "x"], "exclude each other"),
        ([""], "the text is empty"),
        ([" \n\t "], "the text is empty"),
        (["\udcff"], "not UTF-8"),
        (["--file", "no/such.txt"], "cannot read no/such.txt: No such file"),
        (["--file", "."], "cannot read .: "),
        ([TEXT, "--ablate", "3"], "LAYER.HEAD, such as 3.5; got '3'"),
        ([TEXT, "--layer", "-1"], "--layer"),
        ([TEXT, "--model", "./no/such/folder"], "./no/such/folder must be a folder"),
        ([TEXT, "--json", "-", "--svg", "-"], "standard output"),
        ([TEXT, "--nonsense"], "--nonsense"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    assert why in complaint_about(capsys, *arguments)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--layer", "2"], "no layer 2; there are 2 here, from 0"),
        (["--head", "3"], "no head 3; there are 3 here, from 0"),
        (["--layer", "1", "--head", "3"], "no head 3 in layer 1; there are 3"),
        (["--ablate", "2.0"], "no layer 2; there are 2 here, from 0"),
        (["--ablate", "0.3"], "no head 3 in layer 0"),
        (["--token", "pears"], "no token 'pears'. There are: [CLS], i, love"),
        (["--token", "love"], "'love' occurs 2 times: say love#1 or love#2."),
        (["--token", "love#3"], "'love' occurs 2 times: say love#1 or love#2."),
    ],
)
def test_what_the_model_has_not_got_is_refused_in_one_line_before_it_runs(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    encoder: str,
    arguments: list[str],
    why: str,
) -> None:
    monkeypatch.setattr(regard.ask, "see", never)
    assert why in complaint_about(capsys, TEXT, "--model", encoder, *arguments)


def test_a_layer_that_the_config_promises_and_the_run_has_not_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, encoder: str
) -> None:
    loaded = regard.models.load(encoder)
    loaded.model.config.num_hidden_layers = 5
    monkeypatch.setattr(build, "build", lambda opened: loaded)
    err = complaint_about(capsys, TEXT, "--model", encoder, "--layer", "3")
    assert "no layer 3; there are 2 here" in err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--sql", "drop table heads"], "--sql must be one SELECT; got 'drop table heads'."),
        (["--sql", "selec 1"], 'Parser Error: syntax error at or near "selec".'),
        (["--sql", "select nothing from heads"], 'Referenced column "nothing" not found'),
        (["--sql", "select * from nowhere"], "Table with name nowhere does not exist!"),
        (["--save", __file__], "must be a folder"),
        (["--save", str(Path(__file__).parent)], "must hold a run and nothing else"),
        (["--save", f"{__file__}/run"], f"cannot write {__file__}/run: Not a directory."),
        (["--json", "missing/x.json"], "cannot write missing/x.json: No such file or directory."),
        (["--svg", "missing/x.svg"], "cannot write missing/x.svg: No such file or directory."),
        (["--json", "."], "cannot write .: Is a directory."),
    ],
)
def test_what_needs_no_model_is_refused_before_one_is_loaded(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    why: str,
) -> None:
    monkeypatch.setattr(regard.models, "open_model", never)
    err = complaint_about(capsys, TEXT, *arguments)
    assert why in err
    assert err.endswith(".\n")


@pytest.mark.parametrize("query", ["selec 1", "select nothing from heads", "select 'a'::int"])
def test_an_error_of_sql_speaks_of_the_option_and_not_of_python(
    capsys: pytest.CaptureFixture[str], query: str
) -> None:
    err = complaint_about(capsys, TEXT, "--sql", query)
    assert err.startswith("regard: --sql must be a query that DuckDB can answer; ")
    assert re.search(r"\. The tables are .*; regard see --help has their columns\.\n$", err)
    assert not re.search(r"run\.|help\(|LINE 1|\^", err)


def test_help_names_the_tables_of_sql_with_all_their_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = " ".join(output_of(capsys, "--help").split())
    for table in ("edges", "heads", "layers", "tokens"):
        columns = regard.Run().sql(f"select * from {table}").column_names
        assert f"{table}: {', '.join(columns)}" in out


def test_help_is_no_wider_than_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(cell_len, output_of(capsys, "--help").splitlines())) <= 80


def test_a_text_that_is_too_long_says_what_there_is_room_for_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture[str], encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "build", never)
    err = complaint_about(capsys, "love " * 12, "--model", encoder)
    assert "at most the 13 tokens" in err
    assert "got 14" in err
    assert "--first 13" in err


def test_first_reads_the_first_tokens_of_a_text(
    capsys: pytest.CaptureFixture[str], encoder: str
) -> None:
    out = output_of(capsys, "love " * 12, "--model", encoder, "--first", "13")
    assert " ".join(out.split()).startswith("love " * 10 + "love " + encoder + " · 13 tokens")
    short = json.loads(output_of(capsys, TEXT, "--model", encoder, "--first", "5", "--json", "-"))
    assert short["text"] == "i love apple"
    assert [token["text"] for token in short["tokens"]] == [
        *("[CLS]", "i", "love", "apple", "[SEP]")
    ]
    assert "regard: --first must leave room" in complaint_about(
        capsys, TEXT, "--model", encoder, "--first", "2"
    )


def test_a_token_that_the_text_has_not_got_is_refused_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture[str], encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "build", never)
    err = complaint_about(capsys, TEXT, "--model", encoder, "--token", "pears")
    assert "no token 'pears'" in err


def test_a_file_that_is_no_text_says_which_byte(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes(b"love\xff")
    assert "is not UTF-8: byte 5 is wrong" in complaint_about(capsys, "--file", str(file))
    file.write_bytes(b"a" * (2**20 + 1))
    assert "longer than 1,048,576 bytes" in complaint_about(capsys, "--file", str(file))
    file.write_bytes(b"\n")
    assert "is empty" in complaint_about(capsys, "--file", str(file))


def test_a_folder_without_a_tokenizer_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    save_bert(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    capsys.readouterr()  # what saving says
    assert "tokenizer.json" in complaint_about(capsys, TEXT, "--model", str(tmp_path))


def test_a_model_that_reads_one_text_and_writes_another_is_seen_with_what_it_writes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from helpers.hugging_face_models import made, marian
    from helpers.model_folders import save
    from transformers import MarianMTModel

    save(made(MarianMTModel(marian(vocab_size=11, max_position_embeddings=13))), tmp_path)
    capsys.readouterr()  # what saving says
    assert main(["see", TEXT, "--model", str(tmp_path)]) == 0
    assert "4 layers" in " ".join(capsys.readouterr().out.split())
    assert main(["see", TEXT, "--model", str(tmp_path), "--next"]) == 0
    assert "What it writes next" in capsys.readouterr().out
    assert main(["see", TEXT, "--model", str(tmp_path), "--layer", "3", "--head", "1"]) == 0


def test_a_model_without_a_head_cannot_write(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from helpers.hugging_face_models import made, marian
    from helpers.model_folders import save
    from transformers import MarianModel

    save(made(MarianModel(marian(vocab_size=11, max_position_embeddings=13))), tmp_path)
    capsys.readouterr()  # what saving says
    assert "it has no head (MarianModel)" in complaint_about(capsys, TEXT, "--model", str(tmp_path))


def test_what_comes_next_is_a_table_with_bars(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import torch
    from helpers.model_folders import save, small_llama
    from transformers import LlamaForCausalLM

    import regard

    torch.manual_seed(3)
    save(LlamaForCausalLM(small_llama(initializer_range=0.4)), tmp_path / "model")
    folder = str(tmp_path / "model")
    capsys.readouterr()  # what saving says
    found = regard.models.load(folder).see("i love apple").predictions(5)
    for more, position in (([], 4), (["--token", "love"], 2)):
        assert main(["see", "i love apple", "--model", folder, "--next", *more]) == 0
        out = capsys.readouterr().out
        named = f"“{found[position][0].token}”"
        line = next(line for line in out.splitlines() if line.strip().startswith(named))
        assert f"{found[position][0].probability:.3f}  █" in line
    path = tmp_path / "next.json"
    assert main(["see", "i love apple", "--model", folder, "--next", "--json", str(path)]) == 0
    written = json.loads(path.read_text())["next"]
    assert [each["id"] for each in written] == [each.id for each in found[4]]


# ── while it runs ─────────────────────────────────────────────────────────────────────────────


class Stack(nn.Module):
    """Three blocks that do nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Identity() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def test_progress_is_told_in_a_terminal_once_it_takes_long_and_then_removed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Stack()
    times = iter((0.0, 1.0, 2.5, 3.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress() as tell:
        assert tell is not None
        with each_block(model, tell):
            model(torch.zeros(1))
    told = capsys.readouterr().err.split("\r\x1b[K")
    assert told == ["", "layer 2 of 3, 2 s", "layer 3 of 3, 3 s", ""]


def test_progress_is_not_told_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as tell:
        assert tell is None
    assert capsys.readouterr().err == ""


def test_interruption_ends_it_quietly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, encoder: str
) -> None:
    loaded = regard.models.load(encoder)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    loaded.model.get_submodule("encoder.layer.1").register_forward_hook(interrupt)
    monkeypatch.setattr(build, "build", lambda opened: loaded)
    assert main(["see", TEXT, "--model", encoder]) == 130
    assert capsys.readouterr() == ("", "")


def test_control_c_is_exit_code_130(tmp_path: Path) -> None:
    fifo = tmp_path / "never"
    os.mkfifo(fifo)
    regard_ = str(Path(sys.executable).with_name("regard"))
    with subprocess.Popen(
        [regard_, "see", "--file", str(fifo)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # In the background of a shell it would be ignored, here and in every child.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        writer = os.open(fifo, os.O_WRONLY)  # returns when the command reads
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()  # if it is still there
            os.close(writer)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_help_needs_no_torch() -> None:
    code = (
        "import sys; from regard.cli import main; main(['see', '--help']); "
        "print([name for name in ('torch', 'numpy', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.stdout.decode().splitlines()[-1] == "[]"
    assert b"--token" in done.stdout


# ── MiniLM ────────────────────────────────────────────────────────────────────────────────────


def test_minilm_looks_from_it_to_the_animal(capsys: pytest.CaptureFixture[str]) -> None:
    text = "The animal didn't cross the street because it was too tired."
    out = output_of(capsys, text, "--token", "it")
    assert "\nminilm, as the text is short; --model smollm2 reads up to 8,192 tokens.\n" in out
    assert "6 layers × 12 heads" in out
    assert re.search(r"it → animal +0\.\d\d", out)
    assert max(map(cell_len, out.splitlines())) <= 80


def test_minilm_reads_as_many_tokens_as_is_said() -> None:
    assert regard.models.load("minilm").model.config.max_position_embeddings == 512


def test_minilm_has_several_tokens_for_a_syllable_and_a_map_numbers_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = output_of(capsys, "우리 전화기")
    rows = re.findall(r"^ +(\S+) │", out, re.MULTILINE)
    assert {"우#1", "우#2", "리#1", "리#2"} <= set(rows)
    assert len(set(rows)) == len(rows)
    assert max(map(cell_len, out.splitlines())) <= 80


def test_minilm_says_which_words_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    out = output_of(capsys, "I ate 🍎 and 🍏 today 🦄")
    assert "3 tokens are unknown to minilm, which reads [UNK] for each: 🍎, 🍏, 🦄." in out
