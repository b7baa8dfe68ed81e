"""`regard heads`: refused before a model runs; what is printed is what is written as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard.ask
import regard.models
from regard.ask import Heads, Recall, Scored, ScoredHead
from regard.cli import main

FOUND = Heads(
    "small",
    97,
    [{"name": "Oslo", "depth": 0.5, "position": 31}],
    [
        ScoredHead(0, 1, {"retrieval": Scored(0.25, 0.01, 0.02)}, 0.0625),
        ScoredHead(1, 0, {"retrieval": Scored(0.75, 0.01, 0.02)}, 0.0625),
    ],
    Recall(1, 1, -0.5),
    {"as it is": Recall(1, 1, -0.5), "without the best": Recall(0, 1, -3.25)},
    {"as it is": [], "without the best": [(1, 0)]},
)


def test_what_was_found_is_printed_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, Any] = {}

    def found(loaded: object, text: str, **options: Any) -> Heads:
        asked.update(options, loaded=loaded, text=text)
        return FOUND

    monkeypatch.setattr(regard.ask, "heads", found)
    monkeypatch.setattr(regard.models, "load", lambda name: f"model {name}")
    path = tmp_path / "heads.json"
    arguments = ["a", "text", "--model", "tiny", "--first", "97", "--ablate", "--needles", "1"]
    assert main(["heads", *arguments, "--json", str(path)]) == 0
    said = capsys.readouterr().out
    assert (asked["loaded"], asked["text"]) == ("model tiny", "a text")
    assert [asked[name] for name in ("first", "needles", "ablate", "seed")] == [97, 1, 10, 0]
    rows = [line.split() for line in said.splitlines()]
    assert rows.index(["1.0", "0.750", "0.0100", "0.0200", "0.0625"]) + 1 == rows.index(
        ["0.1", "0.250", "0.0100", "0.0200", "0.0625"]
    )
    assert "2 of 2 heads: at least 0.1" in said
    assert "without the best  0 of 1 found, log-probability  -3.25" in said
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content == json.loads(json.dumps(FOUND.info()))
    assert content["heads"][1]["retrieval"] == {"value": 0.75, "null": 0.01, "most": 0.02}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "a text or --file is needed"),
        (["a", "--file", "b.txt"], "a text and --file exclude each other"),
        (["a", "--needles", "0"], "--needles must be at least 1; got 0"),
    ],
)
def test_wrong_input_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.setattr(regard.models, "load", lambda name: None)
    assert main(["heads", *arguments]) == 2
    assert said in capsys.readouterr().err
