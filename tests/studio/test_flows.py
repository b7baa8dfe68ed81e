"""Flows over HTTP: the numbers of Python, of examples, texts and runs; refused in words."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.model_folders import save, small_bert, small_llama
from helpers.studio_client import PORT, TOKEN, Client
from transformers import BertModel, LlamaForCausalLM

import regard
from regard.studio.app import make_app
from regard.studio.places import Settings
from regard.worked import example

TEXT = "i love apple phones"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    torch.manual_seed(3)
    save(LlamaForCausalLM(small_llama(initializer_range=0.4)), place / "llama")
    save(BertModel(small_bert(initializer_range=0.4)), place / "bert")
    return place


@pytest.fixture(scope="module")
def models(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A studio that may read with these models; its process is kept for all tests."""
    settings = Settings([folder], [folder / "llama"], store=tmp_path_factory.mktemp("store"))
    with Client(make_app(settings, token=TOKEN, port=PORT)) as made:
        yield made


def _opened(client: Client, **question: Any) -> dict[str, Any]:
    answer = client.post("/api/flow", json=question)
    assert answer.status_code == 200, answer.text
    job = answer.json()["job"]
    end = time.monotonic() + 120
    while (now := client.get(f"/api/jobs/{job}").json())["state"] in ("waiting", "running"):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert now["state"] == "done", now["error"]
    return client.get(f"/api/flow/{now['result']['flow']}").json()


def _array(client: Client, path: str, kind: str, **question: Any) -> np.ndarray[Any, Any]:
    found = client.get(path, params=question)
    assert found.status_code == 200, found.text
    shape = [int(n) for n in found.headers["x-shape"].split(",")]
    return np.frombuffer(found.content, dtype=kind).reshape(shape)


def _cells(client: Client, path: str, stage: str, head: int, rows: int, columns: int) -> Any:
    place = {"first_row": 0, "end_row": rows, "first_column": 0, "end_column": columns}
    return _array(client, f"{path}/cells", "<f8", stage=stage, head=head, **place)


def test_an_example_is_opened_at_once_with_its_trace(client: Client) -> None:
    answer = client.post("/api/flow", json={"example": "apple", "causal": True}).json()
    truth = example("apple").trace(causal=True)
    assert answer["trace"]["steps"]["weights"]["array"] == truth.steps["weights"].array.tolist()
    assert answer["outline"]["changes"]
    path = f"/api/flow/{answer['id']}"
    assert client.get(path).json()["outline"] == answer["outline"]
    assert np.array_equal(_cells(client, path, "weights", 0, 4, 4), truth.steps["weights"].array[0])
    picture = client.get(f"{path}/picture", params={"stage": "scaled", "head": 0})
    assert picture.headers["x-block"] == "1,1"
    place = {"stage": "query", "head": 0, "row": 1, "column": 0}
    line = client.get(f"{path}/explain", params=place).json()["line"]
    assert line == truth.explain("query", 1, 0)
    assert client.get(f"{path}/predictions", params={"position": 0}).json() is None
    change = {"kind": "number", "stage": "W_Q", "head": 0, "row": 0, "column": 0, "value": 2}
    other = client.post(f"{path}/changed", json={"changes": [change]}).json()
    assert other["outline"]["stages"]["concatenated"]["columns"] == 4
    assert _cells(client, f"/api/flow/{other['id']}", "W_Q", 0, 4, 2)[0, 0] == 2


def test_a_text_through_a_model_has_the_numbers_of_python(models: Client, folder: Path) -> None:
    opened = _opened(models, text=TEXT, model=str(folder / "llama"), layer=1)
    outline, path = opened["outline"], f"/api/flow/{opened['id']}"
    assert outline["chosen"] == "decoder.layers.1"
    truth = regard.models.load(folder / "llama").see(TEXT).flow(1)
    assert outline == {**truth.outline, "model": outline["model"], "note": outline["note"]}
    for name, stage in outline["stages"].items():
        head, size = stage["heads"] - 1, (stage["rows"], stage["columns"])
        exact = truth.cells(name, head, (0, size[0]), (0, size[1]))
        assert np.array_equal(_cells(models, path, name, head, *size), exact), name
    place = {"stage": "decoder.layers.0.feed_forward.hidden", "head": 0, "row": 2, "column": 3}
    line = models.get(f"{path}/explain", params=place).json()["line"]
    assert line == truth.explain(*place.values())  # pyright: ignore[reportArgumentType]
    found = models.get(f"{path}/predictions", params={"position": 3}).json()
    expected = truth.predictions(3)
    assert expected is not None
    assert [each["token"] for each in found] == [each.token for each in expected]
    assert [each["probability"] for each in found] == pytest.approx(
        [x.probability for x in expected]
    )
    # The same pass, changed; and as it was.
    change = {"kind": "head", "attention": "decoder.layers.0.attention", "head": 1}
    other = models.post(f"{path}/changed", json={"changes": [change]}).json()
    changed = truth.changed([change])
    stage = "decoder.norm.output"
    exact = changed.cells(stage, 0, (0, 6), (0, 12))
    assert np.array_equal(_cells(models, f"/api/flow/{other['id']}", stage, 0, 6, 12), exact)
    assert not np.array_equal(exact, truth.cells(stage, 0, (0, 6), (0, 12)))
    # It answers though its process was ended in between.
    from regard.studio.process import Process

    for process in list(Process.alive):
        process.end()
    with pytest.raises(AssertionError, match="process that read the text ended"):
        _cells(models, path, stage, 0, 6, 12)
    exact = truth.cells(stage, 0, (0, 6), (0, 12))
    assert np.array_equal(_cells(models, path, stage, 0, 6, 12), exact)


def test_a_run_is_opened_as_what_it_was_made_from(models: Client, folder: Path) -> None:
    job = models.post("/api/see", json={"text": TEXT, "model": str(folder / "bert")}).json()["job"]
    while (now := models.get(f"/api/jobs/{job}").json())["state"] in ("waiting", "running"):
        time.sleep(0.05)
    assert models.get(f"/api/runs/{now['result']}/predictions").json() is None
    opened = _opened(models, run=now["result"])
    truth = regard.models.load(folder / "bert").see(TEXT).flow()
    path, stage = f"/api/flow/{opened['id']}", "encoder.layers.1.norms.1.output"
    exact = truth.cells(stage, 0, (0, 6), (0, 12))
    assert np.array_equal(_cells(models, path, stage, 0, 6, 12), exact)
    assert opened["outline"]["predictions"] is False
    word = {"kind": "word", "position": 2, "text": "apple"}
    other = models.post(f"{path}/changed", json={"changes": [word]}).json()
    assert other["outline"]["sequences"]["input"][2] == "apple"


def test_what_a_run_predicts_is_told_at_each_position(models: Client, folder: Path) -> None:
    model = str(folder / "llama")
    job = models.post("/api/see", json={"text": TEXT, "model": model}).json()["job"]
    while (now := models.get(f"/api/jobs/{job}").json())["state"] in ("waiting", "running"):
        time.sleep(0.05)
    found = models.get(f"/api/runs/{now['result']}/predictions").json()
    truth = regard.models.load(folder / "llama").see(TEXT).predictions()
    assert [[token for token, _ in one] for one in found] == [
        [x.token for x in one] for one in truth
    ]
    assert found[3][0][1] == pytest.approx(truth[3][0].probability, abs=1e-5)


def test_the_model_of_a_run_is_asked_after_each_layer_and_why(models: Client, folder: Path) -> None:
    model = str(folder / "llama")
    job = models.post("/api/see", json={"text": TEXT, "model": model}).json()["job"]
    while (now := models.get(f"/api/jobs/{job}").json())["state"] in ("waiting", "running"):
        time.sleep(0.05)
    path = f"/api/runs/{now['result']}"
    truth = regard.models.load(folder / "llama").see(TEXT)
    found = models.get(f"{path}/lens").json()
    assert [[one[0][0] for one in of] for of in found] == [
        [one[0].token for one in of] for of in truth.lens()
    ]
    asked = {"position": 2, "token": "love", "against": "apple"}
    why = models.post(f"{path}/why", json=asked).json()
    assert why["total"] == pytest.approx(truth.why(2, "love", "apple").total, rel=1e-5)
    assert len(why["ablated"]) == 5
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"token": "love apple"}, "token must be one token"),
        ({"position": 99}, "There are 6 tokens"),
        ({"position": "2"}, "A position and a token are needed"),
        ({"token": 3}, "A position and a token are needed"),
        ({"against": "x" * 101}, "at most 100 letters"),
    ]
    for changes, said in wrong:
        answer = models.post(f"{path}/why", json=asked | changes)
        assert answer.status_code == 400
        assert said in answer.json()["error"]


def test_a_text_alone_has_random_numbers_where_no_model_is(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "none"))
    answer = client.post("/api/flow", json={"text": "Dogs chase cats"}).json()
    assert answer["trace"]["sequences"]["input"] == ["Dogs", "chase", "cats"]
    assert answer["why"] == "No model is on this machine: the numbers are random."


@pytest.mark.parametrize(
    ("path", "question", "status", "words"),
    [
        ("nothing/picture", {"stage": "weights", "head": 0}, 404, "not here any more"),
        ("{id}/picture", {"stage": "nothing", "head": 0}, 400, "has no stage"),
        ("{id}/picture", {"stage": "weights", "head": "-1"}, 400, "head must be a whole number"),
        ("{id}/picture", {"stage": "weights", "head": "٣"}, 400, "head must be a whole number"),
        ("{id}/picture", {"stage": "weights", "head": 1}, 400, "from 0 to 0; got 1"),
        (
            "{id}/explain",
            {"stage": "weights", "head": 0, "row": 4, "column": 0},
            400,
            "from 0 to 3",
        ),
        ("{id}/predictions", {}, 400, "position must be a whole number"),
        (
            "{id}/cells",
            dict.fromkeys(("first_row", "first_column"), 0)
            | {"stage": "weights", "head": 0, "end_row": 300, "end_column": 300},
            400,
            "At most 65,536 cells",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(
    client: Client, path: str, question: dict[str, Any], status: int, words: str
) -> None:
    name = client.post("/api/flow", json={"example": "apple"}).json()["id"]
    answer = client.get(f"/api/flow/{path.format(id=name)}", params=question)
    assert answer.status_code == status
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({}, "Write a sentence"),
        ({"text": "a" * 100_001, "model": "minilm"}, "100,000 characters"),
        ({"text": "hello", "model": 3}, "Choose a model"),
        ({"example": "nothing"}, "There are the examples"),
        ({"run": "nothing"}, "is not here any more"),
        ({"text": "hello", "layer": -1}, "layer must be a whole number"),
    ],
)
def test_what_cannot_be_opened_is_refused(
    client: Client, question: dict[str, Any], words: str
) -> None:
    answer = client.post("/api/flow", json=question)
    assert answer.status_code in (400, 404)
    assert words in answer.json()["error"]


def test_a_folder_out_of_reach_is_refused(client: Client, tmp_path: Path) -> None:
    answer = client.post("/api/flow", json={"text": TEXT, "model": str(tmp_path / "elsewhere")})
    job = answer.json()["job"]
    while (now := client.get(f"/api/jobs/{job}").json())["state"] in ("waiting", "running"):
        time.sleep(0.05)
    assert now["state"] == "failed"
    assert "only what is in the folders" in now["error"]


def test_changes_that_make_no_sense_are_refused(client: Client) -> None:
    name = client.post("/api/flow", json={"example": "apple"}).json()["id"]
    for changes, words in (({"kind": "scale"}, "a list"), ([{"kind": "shake"}], "the kind of")):
        answer = client.post(f"/api/flow/{name}/changed", json={"changes": changes})
        assert answer.status_code == 400
        assert words in answer.json()["error"]


def test_somebody_else_is_not_answered(app: Any) -> None:
    with Client(app, token=None) as stranger:
        assert stranger.post("/api/flow", json={"example": "apple"}).status_code == 401
    with Client(app, origin="http://elsewhere.example") as foreign:
        assert foreign.post("/api/flow", json={"example": "apple"}).status_code == 403
