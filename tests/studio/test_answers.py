"""What the studio says of a run, and of text: the numbers of Python, and errors in words."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.made_runs import long_text, made_run
from helpers.studio_client import PORT, TOKEN, Client

import regard
from regard.studio.app import make_app
from regard.studio.places import Places, Settings
from regard.studio.shelf import Shelf
from regard.worked import example


@pytest.fixture
def run(client: Client) -> str:
    return client.get("/api/runs").json()[0]["id"]


def test_a_run_is_described_as_it_is(client: Client, run: str) -> None:
    info = client.get(f"/api/runs/{run}").json()
    assert [(x["heads"], x["queries"], x["keys"]) for x in info["layers"]] == [(5, 13, 13)] * 3
    assert info["whole"] is True
    assert info["rollout"] is True
    tokens = [token["text"] for token in info["sequences"][0]["tokens"]]
    assert tokens == [token.text for token in (made_run().tokens or [[]])[0]]
    assert [head["kind"] for head in info["heads"]] == [x["kind"] for x in made_run().heads()]


def test_rows_columns_maps_and_rollouts_are_those_of_python(client: Client, run: str) -> None:
    made, path = made_run(), f"/api/runs/{run}"
    weights = made.weights(1)[0].numpy()
    place: dict[str, Any] = {"sequence": 0, "layer": 1}
    one = client.array(f"{path}/row", **place, head=3, query=7)
    np.testing.assert_allclose(one, weights[3, 7], atol=1e-6)
    mean = client.array(f"{path}/row", **place, query=7)
    np.testing.assert_allclose(mean, weights[:, 7].mean(0), atol=1e-6)
    column = client.array(f"{path}/column", **place, head=3, key=2)
    np.testing.assert_allclose(column, weights[3, :, 2], atol=1e-6)
    layer = made.layer(1)
    assert layer.map is not None
    np.testing.assert_allclose(
        client.array(f"{path}/map", **place, head=3), layer.map[0, 3].numpy(), atol=1e-6
    )
    np.testing.assert_allclose(
        client.array(f"{path}/rollout", sequence=0, token=9), made.rollout(9).numpy(), atol=1e-6
    )
    hidden_states = client.array(f"{path}/hidden_states", sequence=0, tokens="3,11")
    expected = np.stack([x[0, [3, 11]].numpy() for x in made.hidden_states.values()], axis=1)
    np.testing.assert_allclose(hidden_states, expected, atol=1e-6)


def test_links_are_the_strongest_keys(client: Client, run: str) -> None:
    layer = made_run().layer(2)
    found = client.array(f"/api/runs/{run}/links", sequence=0, layer=2, head=4)
    assert layer.top_keys is not None
    assert layer.top_weights is not None
    assert np.array_equal(found[:, :8], layer.top_keys[0, 4].numpy())
    np.testing.assert_allclose(found[:, 8:], layer.top_weights[0, 4].numpy(), atol=1e-6)


def test_links_are_made_where_they_were_not_recorded(tmp_path: Path) -> None:
    made_run(top=0).save(tmp_path / "run")
    app = make_app(Settings([tmp_path / "run"], store=tmp_path / "store"), token=TOKEN, port=PORT)
    with Client(app) as client:
        run = client.get("/api/runs").json()[0]["id"]
        found = client.array(f"/api/runs/{run}/links", sequence=0, layer=2, head=4)
    layer = made_run().layer(2)
    assert layer.top_weights is not None
    np.testing.assert_allclose(found[:, 8:], layer.top_weights[0, 4].numpy(), atol=1e-6)
    assert (found[0, :8] == [0, *[-1] * 7]).all()


@pytest.mark.parametrize("reduce", ["mean", "max"])
@pytest.mark.parametrize(("level", "row", "column"), [(0, 2, 1), (1, 1, 0), (2, 0, 0), (5, 0, 0)])
def test_a_tile_is_exact_at_every_level(
    tmp_path: Path, level: int, row: int, column: int, reduce: str
) -> None:
    made = made_run(long_text(701), layers=1, heads=2, hidden_states=False)
    made.save(tmp_path / "run")
    app = make_app(Settings([tmp_path / "run"], store=tmp_path / "store"), token=TOKEN, port=PORT)
    with Client(app) as client:
        run = client.get("/api/runs").json()[0]["id"]
        place = {"sequence": 0, "layer": 0, "head": 1, "level": level, "row": row, "column": column}
        found = client.array(f"/api/runs/{run}/tile", **place, reduce=reduce)
    size = 1 << level
    weights = made.weights(0, 1)[0].double().numpy()
    weights = weights[row * 256 * size :, column * 256 * size :][: 256 * size, : 256 * size]
    for r, c in [(0, 0), (found.shape[0] - 1, found.shape[1] - 1), (found.shape[0] // 2, 1)]:
        if c >= found.shape[1]:
            continue
        block = weights[r * size : (r + 1) * size, c * size : (c + 1) * size]
        expected = block.mean() if reduce == "mean" else block.max()
        assert found[r, c] == pytest.approx(expected, abs=1e-6, rel=1e-4)


def test_a_run_without_q_and_k_says_what_it_has(tmp_path: Path) -> None:
    made_run(keep=False).save(tmp_path / "run")
    app = make_app(Settings([tmp_path / "run"], store=tmp_path / "store"), token=TOKEN, port=PORT)
    with Client(app) as client:
        run = client.get("/api/runs").json()[0]["id"]
        info = client.get(f"/api/runs/{run}").json()
        assert (info["whole"], info["top"], info["rollout"]) == (False, 8, False)
        found = client.get(
            f"/api/runs/{run}/row", params={"sequence": 0, "layer": 1, "head": 2, "query": 12}
        )
        assert 0 < float(found.headers["x-rest"]) < 1
        place = {"sequence": 0, "layer": 0, "head": 1, "level": 0, "row": 0, "column": 0}
        refused = client.get(f"/api/runs/{run}/tile", params=place)
        assert refused.status_code == 400
        assert "q and k" in refused.json()["error"]


@pytest.mark.parametrize(
    "question",
    [
        "row?sequence=0&layer=9&query=1",
        "row?sequence=7&layer=0&query=1",
        "row?sequence=0&layer=0&head=99&query=1",
        "row?sequence=0&layer=0&head=-1&query=1",
        "row?sequence=0&layer=0&head=1&query=13",
        "column?sequence=0&layer=0&head=1&key=13",
        "tile?sequence=0&layer=0&head=1&level=99&row=0&column=0",
        "tile?sequence=0&layer=0&head=1&level=0&row=7&column=0",
        "hidden_states?sequence=0&tokens=1,x",
        "hidden_states?sequence=0&tokens=99",
        "rollout?sequence=0&token=99",
    ],
)
def test_a_place_that_is_not_there_is_refused_in_words(
    client: Client, run: str, question: str
) -> None:
    found = client.get(f"/api/runs/{run}/{question}")
    assert found.status_code == 400
    assert found.json()["error"].endswith(".")


def test_sql_is_answered_over_several_runs(client: Client, run: str, folder: Path) -> None:
    made_run(seed=1).save(folder / "two")
    runs = [each["id"] for each in client.get("/api/runs").json()]
    asked = {"query": "select run, count(*) as n from heads group by run", "runs": runs}
    found = client.post("/api/sql", json=asked).json()
    assert found["columns"] == ["run", "n"]
    assert sorted(found["values"][0]) == sorted(runs)
    assert found["values"][1] == [15, 15]
    wrong = client.post("/api/sql", json={"query": "selec", "runs": runs})
    assert wrong.status_code == 400
    assert "selec" in wrong.json()["error"]
    nothing = client.post("/api/sql", json={"query": "select 1", "runs": ["gone"]})
    assert nothing.status_code == 404


def test_the_first_rows_of_an_answer_are_shown_and_that_there_are_more(
    client: Client, run: str
) -> None:
    def ask(query: str) -> Any:
        return client.post("/api/sql", json={"query": query, "runs": [run]}).json()

    many = ask("select range as n from range(100000) order by n desc")
    assert many["values"][0] == list(range(99_999, 98_999, -1))
    assert many["more"] is True
    all_of_them = ask("select range as n from range(1000)")
    assert (len(all_of_them["values"][0]), all_of_them["more"]) == (1000, False)
    none = ask("select 1 as a, 2 as b where false")
    assert none == {"columns": ["a", "b"], "values": [[], []], "more": False}
    long = ask("select repeat('a', 1000000) as a, range from range(1000)")
    assert long["more"] is True
    assert 0 < len(json.dumps(long)) < 3_000_000
    assert long["values"][0][0] == "a" * 10_000 + " …"


def test_a_value_of_any_type_is_shown_as_it_is(client: Client, run: str) -> None:
    values = {
        "date '290000-01-01'": "290000-01-01",
        "'infinity'::date": "infinity",
        "time '24:00:00'": "24:00:00",
        "interval '3 months 2 days'": "3 months 2 days",
        "340282366920938463463374607431768211455::uhugeint": f"{2**128 - 1}",
        "9007199254740993": "9007199254740993",  # which JavaScript would round
        "9007199254740992": 9007199254740992,
        "'nan'::float": "nan",
        "[date '290000-01-01', null]": "[290000-01-01, NULL]",
        "{'a': 1.5::decimal(3,1)}": "{'a': 1.5}",
        "'101'::bit": "101",
        "null": None,
        "true": True,
    }
    query = f"select {', '.join(values)}"
    found = client.post("/api/sql", json={"query": query, "runs": [run]})
    assert [column[0] for column in found.json()["values"]] == list(values.values())


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/api/explain", {"text": "a \ud800"}),
        ("/api/check", {"text": "Q = [[1]] \udfff"}),
        ("/api/see", {"text": "\ud83d", "model": "minilm"}),
        ("/api/sql", {"query": "select '\ud800'", "runs": ["x"]}),
        ("/api/runs/x/save", {"name": "\ud800"}),
        ("/api/explain", {"text": "a b", "title\udc00": 1}),
    ],
)
def test_half_of_a_surrogate_pair_is_refused_in_words(
    client: Client, path: str, asked: dict[str, Any]
) -> None:
    headers = {"content-type": "application/json"}
    found = client.post(path, content=json.dumps(asked), headers=headers)
    assert found.status_code == 400
    assert "surrogate" in found.json()["error"]


def test_the_list_of_runs_waits_for_nobody_who_saves(
    client: Client, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    saving = regard.Run.save

    def slowly(self: regard.Run, folder: Path) -> None:
        begun.set()
        assert go_on.wait(20)
        saving(self, folder)

    monkeypatch.setattr(regard.Run, "save", slowly)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(client.post, f"/api/runs/{run}/save", json={"name": "two"})
        try:
            assert begun.wait(20)
            assert len(client.get("/api/runs").json()) == 1
            second = client.post(f"/api/runs/{run}/save", json={"name": "two"})
            assert second.status_code == 400  # the same name, which is being written to
        finally:
            go_on.set()
        assert first.result().status_code == 200
    assert len(client.get("/api/runs").json()) == 2


def test_runs_that_are_not_saved_are_not_given_up_for_saved_ones(tmp_path: Path) -> None:
    for name in "abcde":
        made_run(layers=1).save(tmp_path / name)
    shelf = Shelf(Places([tmp_path]), tmp_path)
    new = shelf.add(made_run(layers=1), 0.0, {}, {})
    for each in shelf.list():
        assert len(shelf.get(each["id"]).layers) == 1
    assert new in [each["id"] for each in shelf.list()]


def test_two_runs_are_compared(client: Client, run: str, folder: Path) -> None:
    made_run(seed=1).save(folder / "two")
    ids = {each["name"]: each["id"] for each in client.get("/api/runs").json()}
    found = client.get("/api/effect", params={"run": ids["one"], "other": ids["two"]}).json()
    expected = made_run().effect(made_run(seed=1))
    assert [each["name"] for each in found["blocks"]] == list(expected.layers)
    first = next(iter(expected.layers.values())).relative[0].tolist()
    assert found["blocks"][0]["relative"] == pytest.approx(first)


def test_a_run_is_deleted_with_its_folder_and_nothing_else(client: Client, folder: Path) -> None:
    made_run(seed=1).save(folder / "two")
    (folder / "two" / "mine.txt").write_text("keep")
    ids = {each["name"]: each["id"] for each in client.get("/api/runs").json()}
    assert client.delete(f"/api/runs/{ids['one']}").status_code == 200
    assert not (folder / "one").exists()
    refused = client.delete(f"/api/runs/{ids['two']}")
    assert refused.status_code == 400
    assert (folder / "two" / "mine.txt").exists()
    assert client.delete(f"/api/runs/{ids['one']}").status_code == 404


# ── explain and check ─────────────────────────────────────────────────────────────────────────


def test_an_example_is_traced_as_python_does(client: Client) -> None:
    found = client.post("/api/explain", json={"example": "apple", "causal": True}).json()
    expected = json.loads(example("apple").trace(causal=True).to_json())
    assert found == expected


def test_an_edited_number_changes_every_later_step(client: Client) -> None:
    first = client.post("/api/explain", json={"text": "we like it"}).json()
    edited = {"X": first["steps"]["input"]["array"], **first["matrices"]}
    edited["X"][1][2] = 2.5
    tokens = first["sequences"]["input"]
    found = client.post("/api/explain", json={"edited": edited, "tokens": tokens}).json()
    model = regard.Projections(*(np.array(edited[f"W_{x}"]) for x in "QKVO"))
    expected = regard.trace(edited["X"], model=model, tokens=tokens)
    np.testing.assert_allclose(
        found["steps"]["output"]["array"], expected.steps["output"].array, atol=1e-12
    )
    assert found["steps"]["output"] != first["steps"]["output"]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"text": ""},
        {"text": 3},
        {"example": "nothing"},
        {"text": "a b", "heads": 3},
        {"text": "a b", "heads": -1},
        {"text": "a b", "causal": "yes"},
        {"text": "word " * 2000},
        {"edited": {"X": [[1.0]]}, "tokens": ["a"]},
        {"edited": {"X": [[1.0]], "W_Q": "x", "W_K": [[1]], "W_V": [[1]]}, "tokens": ["a"]},
        {"edited": {"X": [[1.0]], "W_Q": [[1]], "W_K": [[1]], "W_V": [[1]]}, "tokens": "a"},
        {"edited": {"X": [[1.0]], "W_Q": [[1, 2]], "W_K": [[1]], "W_V": [[1]]}, "tokens": ["a"]},
        {
            "edited": {"X": [[1.0]] * 600, **dict.fromkeys(("W_Q", "W_K", "W_V"), [[[1]]] * 400)},
            "tokens": ["a"] * 600,
        },
    ],
)
def test_what_cannot_be_explained_is_refused_in_words(
    client: Client, asked: dict[str, Any]
) -> None:
    found = client.post("/api/explain", json=asked)
    assert found.status_code == 400
    assert found.json()["error"]


def test_wrong_cells_are_marked_where_they_stand(client: Client) -> None:
    text = "😀 Q = [[2, 3, 4, 1]]\nK = [[1, 0, 1, 0], [0, 1, 0, 1]]\nS = [[6, 5]]"
    found = client.post("/api/check", json={"text": text}).json()
    assert found["verdict"] == "wrong"
    (wrong,) = found["findings"]
    line = found["text"].splitlines()[wrong["line"] - 1]
    assert line[wrong["start"] : wrong["end"]] == "5"
    assert wrong["right"] == "4"


@pytest.mark.parametrize("text", ["", None, 7])
def test_what_is_no_text_is_refused(client: Client, text: Any) -> None:
    found = client.post("/api/check", json={"text": text})
    assert found.status_code == 400
    assert found.json()["error"]


def test_a_text_without_numbers_is_said_to_have_none(client: Client) -> None:
    found = client.post("/api/check", json={"text": "no numbers here"}).json()
    assert (found["verdict"], found["checked"], found["findings"]) == ("unclear", 0, [])
    assert "nothing to check" in found["remarks"][0]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000, b"\xff"])
def test_a_question_that_is_no_json_is_refused(client: Client, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    assert client.post("/api/check", content=body, headers=headers).status_code == 400
    assert client.post("/api/check", content=b"{}").status_code == 400
