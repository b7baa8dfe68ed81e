"""Tables print short, and are Arrow all the same."""

from __future__ import annotations

import copy
import pickle
import unicodedata

import duckdb
import pyarrow as pa
import pytest
from rich.cells import cell_len

from regard import Run
from regard.run.table import Table


def made(rows: int, text: str = "it") -> Table:
    numbers = list(range(rows))
    return Table(pa.table({"n": numbers, "share": [n / 7 for n in numbers], "text": [text] * rows}))


def test_a_short_table_is_printed_whole_with_its_numbers_aligned() -> None:
    lines = repr(made(20)).splitlines()
    assert lines[0] == " n   share  text"
    assert lines[1] == " 0       0  it"
    assert lines[20] == "19   2.714  it"
    assert lines[21:] == ["20 rows"]
    assert str(made(0)).splitlines() == ["n  share  text", "0 rows"]


def test_a_long_table_shows_its_first_and_last_rows_and_how_many_there_are() -> None:
    lines = repr(made(1234, "animal " * 50)).splitlines()
    assert [line.split()[0] for line in lines[1:11]] == [str(n) for n in range(10)]
    assert lines[11] == "…"
    assert [line.split()[0] for line in lines[12:22]] == [str(n) for n in range(1224, 1234)]
    assert lines[22:] == ["1,234 rows"]
    assert max(map(cell_len, lines)) <= 80


def test_hostile_texts_are_printed_and_obeyed_by_nobody() -> None:
    printed = repr(made(3, "\x1b[31mred\u202e\n"))
    assert "␛[31mred" in printed
    assert not {c for c in printed if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}


def test_what_python_cannot_hold_is_printed_as_arrow_does() -> None:
    assert "day: date32" in repr(Run().sql("select date '290000-01-01' as day"))


def test_hostile_texts_beside_what_python_cannot_hold_are_obeyed_by_nobody() -> None:
    printed = repr(Run().sql("select date '290000-01-01' as day, chr(27) || '[31mred' as text"))
    assert "␛[31mred" in printed
    assert "\x1b" not in printed


def test_a_mistake_in_printing_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*_: object) -> None:
        raise ValueError("a mistake")

    monkeypatch.setattr("regard.view.table.render_table", mistaken)
    with pytest.raises(ValueError, match="a mistake"):
        repr(made(3))


def test_a_table_is_arrow() -> None:
    table = made(50)
    plain = table.to_arrow()
    assert type(plain) is pa.Table
    assert isinstance(table, pa.Table)
    assert table == plain
    assert plain == table
    assert table.equals(made(50))
    assert table != made(49)
    assert pa.table(table) == plain
    assert len(table) == table.num_rows == 50
    assert table["n"].to_pylist() == table.column("n").to_pylist() == list(range(50))
    assert table[1:3].to_pylist() == table.to_pylist()[1:3]
    assert table.schema == plain.schema
    assert "column_names" in dir(table)
    for same in (copy.copy(table), copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
        assert type(same) is Table
        assert same == table


def test_what_is_made_of_a_table_prints_as_one() -> None:
    table = made(50).sort_by([("n", "descending")]).select(["n"]).slice(0, 2)
    assert repr(table) == " n\n49\n48\n2 rows"
    joined = made(3).select(["n"]).join(made(5), "n").sort_by("n")
    assert joined["text"].to_pylist() == ["it"] * 3


def test_duckdb_reads_a_table() -> None:
    assert duckdb.from_arrow(made(5)).sum("n").fetchall() == [(10,)]
