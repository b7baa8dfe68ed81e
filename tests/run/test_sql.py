"""SQL: the same answers as from the tables, and nothing else in reach."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from helpers.run_by_hand import make_run

import regard
import regard.run.store
from regard.run import Run, load, sql

PLENTY = regard.See(top=11, entropy=True, distance=True)


def test_a_group_by_is_what_pyarrow_computes() -> None:
    run, _ = make_run("causal", "grouped", see=PLENTY)
    found = run.sql(
        "select layer, head, count(*) as n, sum(weight)::double as w from edges "
        "where weight >= 0.1 group by all order by all"
    )
    table = run.edges(0.1)
    expected = (
        pa.table({name: table[name] for name in ("layer", "head", "weight")})
        .group_by(["layer", "head"])
        .aggregate([("weight", "count"), ("weight", "sum")])
        .sort_by([("layer", "ascending"), ("head", "ascending")])
    )
    assert found["layer"].to_pylist() == expected["layer"].to_pylist()
    assert found["head"].to_pylist() == expected["head"].to_pylist()
    assert found["n"].to_pylist() == expected["weight_count"].to_pylist()
    assert found["w"].to_pylist() == pytest.approx(expected["weight_sum"].to_pylist())


def test_edges_start_at_a_twentieth_unless_another_weight_is_given() -> None:
    run, _ = make_run("causal")
    count = "select count(*) as n, min(weight) as least from edges"
    for least in (None, 0.2, 0.01):
        [row] = run.sql(count, min_weight=least).to_pylist()
        assert row["n"] == run.edges(0.05 if least is None else least).num_rows


def test_tokens_can_be_asked_for_by_their_text() -> None:
    run, _ = make_run("causal")
    found = run.sql("select * from edges where key_token = 'a3' order by query, head, key")
    table = run.edges(0.05)
    assert found.num_rows == table["key_token"].to_pylist().count("a3")
    rows = run.sql("select * from tokens order by sequence, position").to_pylist()
    assert rows[12] == {
        "sequence": 1,
        "position": 1,
        "token": "b1",
        "start": 2,
        "stop": 4,
        "id": 12,
    }


def test_heads_and_layers_are_tables() -> None:
    run, made = make_run("window", "grouped")
    assert run.sql("select * from heads order by layer, head").to_pylist() == run.heads()
    assert run.sql("select first, self, kind from heads limit 1").num_rows == 1
    rows = run.sql("select * from layers order by layer").to_pylist()
    assert rows[0] == {
        **{"layer": 0, "name": "block.0", "sequences": 2, "heads": 3, "kv_heads": 3},
        **{"queries": 11, "keys": 11, "is_causal": False, "is_cross": False},
        **{"window_left": 3, "window_right": 1},
    }
    assert rows[1]["kv_heads"] == made[1].layer.kv_heads == 2
    names = run.sql("show tables")["name"].to_pylist()
    assert names == ["edges", "heads", "layers", "tokens"]


def test_tables_join() -> None:
    run, _ = make_run("causal", "plain")
    joined = run.sql(
        "select l.name, h.kind, count(*) as n from edges e join heads h using (layer, head) "
        "join layers l using (layer) group by all"
    )
    assert sum(joined["n"].to_pylist()) == run.edges(0.05).num_rows


def test_several_runs_are_one_table() -> None:
    one, _ = make_run("causal")
    two, _ = make_run("plain", "window")
    runs = {"it's one": one, "two": two}
    rows = sql("select run, count(*) as n from edges group by run order by run", runs).to_pylist()
    assert rows == [
        {"run": name, "n": run.edges(0.05).num_rows} for name, run in sorted(runs.items())
    ]
    heads = sql("select * from heads", runs)
    assert heads.column_names[0] == "run"
    assert heads.num_rows == 9


def test_edges_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = make_run("causal")
    expected = run.sql("select count(*) as n from edges")
    monkeypatch.setattr(regard.run.store, "edge_table", None)
    assert run.sql("select count(*) as n from edges") == expected
    monkeypatch.undo()
    other, _ = make_run("plain", "grouped")
    run.layers.update(other.layers)  # other layers, other edges
    assert run.sql("select count(*) as n from edges").to_pylist() == [
        {"n": run.edges(0.05).num_rows}
    ]


def test_a_saved_run_answers_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = make_run("causal", "left padding")
    run.save(tmp_path / "run")
    monkeypatch.setattr(regard.run.store, "edge_table", None)
    loaded = load(tmp_path / "run")
    query = "select * from edges order by all"
    assert loaded.sql(query) == run.sql(query)


def test_truncated_rows_are_warned_of(tmp_path: Path) -> None:
    run, _ = make_run("causal", see=regard.See(top=1), keep=())
    with pytest.warns(UserWarning, match="rows are truncated") as warned:
        run.sql("select * from edges")
    assert warned[0].filename == __file__
    run.save(tmp_path / "run")
    with pytest.warns(UserWarning, match="rows are truncated"):
        load(tmp_path / "run").sql("select * from edges")
    file = tmp_path / "run" / "edges.parquet"
    table = pyarrow.parquet.read_table(file)
    told = {**table.schema.metadata}
    told[b"regard.cut"] = told.pop(b"regard.truncated")  # as runs were saved once
    pyarrow.parquet.write_table(table.replace_schema_metadata(told), file)
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    document["files"]["edges.parquet"] = file.stat().st_size
    (tmp_path / "run" / "run.json").write_text(json.dumps(document))
    with pytest.warns(UserWarning, match="rows are truncated"):
        load(tmp_path / "run").sql("select * from edges")
    with pytest.warns(UserWarning, match="rows are truncated") as warned:
        sql("select * from edges", {"a": run})
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="rows are truncated") as warned:
        run.edges()
    assert warned[0].filename == __file__
    run.sql("select * from heads")  # which does not ask for them


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_text('{file}')",
        "select * from '{file}'",
        "select * from read_csv('{file}')",
        "select * from glob('{folder}/*')",
        "select * from secret_table",
        "select * from query('select * from read_text(''{file}'')')",
        "select * from enable_logging(storage='file', storage_config={{'path': '{folder}/log'}})",
        "copy (select 1) to '{folder}/out.csv'",
        "install httpfs",
        "set enable_external_access = true",
        "attach '{folder}/other.db'",
        "create table t as select 1",
        "drop view heads",
        "select 1; select 2",
        "",
    ],
)
def test_a_query_reaches_nothing_but_the_tables(query: str, tmp_path: Path) -> None:
    secret_table = pa.table({"a": [1]})
    assert secret_table.num_rows == 1
    file = tmp_path / "secret.txt"
    file.write_text("secret")
    with pytest.raises(ValueError, match=r"sql\(\): (the )?query must be"):
        Run().sql(query.format(file=file, folder=tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["secret.txt"]


def test_mistakes_are_told_in_words() -> None:
    run, _ = make_run("causal")
    with pytest.raises(ValueError, match=r"(?s)sql\(\): the query must be.*weigth.*The tables are"):
        run.sql("select weigth from edges")
    with pytest.raises(ValueError, match=r"sql\(\): query must be SQL"):
        run.sql("selec 1")
    with pytest.raises(TypeError, match=r"sql\(\): query must be a text; got 3"):
        run.sql(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"sql\(\): min_weight must be from 0 to 1"):
        run.sql("select 1", min_weight=2)
    with pytest.raises(TypeError, match=r"sql\(\): runs must be a dictionary"):
        sql("select 1", run)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"sql\(\): runs must have at least one"):
        sql("select 1", {})


def test_a_value_that_arrow_has_not_is_a_text() -> None:
    [row] = (
        Run()
        .sql(
            "select 340282366920938463463374607431768211455::uhugeint as n, "
            "timetz '10:00:00+05' as t, [timetz '10:00:00+05'] as l, 7 as seven"
        )
        .to_pylist()
    )
    assert row == {"n": f"{2**128 - 1}", "t": "10:00:00+05", "l": "['10:00:00+05']", "seven": 7}


def test_the_order_and_the_names_of_an_answer_are_kept() -> None:
    found = Run().sql("select 1 as a, 2 as a, range from range(10000) order by hash(range)")
    assert found.column_names == ["a", "a", "range"]
    again = Run().sql(
        "select 1 as a, timetz '10:00:00+05' as a, range from range(10000) order by hash(range)"
    )
    assert again.column_names == ["a", "a", "range"]
    assert again["range"].to_pylist() == found["range"].to_pylist()
