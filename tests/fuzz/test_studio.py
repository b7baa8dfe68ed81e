"""Attacks on every question that the studio answers: odd values get an answer, or words."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from helpers.made_runs import made_run
from helpers.odd_sql import LEAVES, expression
from helpers.soak import attacks
from helpers.studio_client import PORT, TOKEN, Client
from starlette.websockets import WebSocketDisconnect

from regard.studio.app import make_app
from regard.studio.places import Settings

NUMBERS = (
    *(0, 1, 2, 4, 12, 13, -1, 255, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63)),
    *(10**30, 10**400, "nan", "inf", "1e9", "", " 1", "1_000", "0x1", "１", "true", "1.0", "-0"),
)
TEXTS = (
    *("", " ", "\0", "a\0b", "\x1b[31m", "\u202e", "\ufeff", "\ud800", "a\udfff", "é" * 150, "가"),
    *(
        "가" * 80,
        "가" * 100,
        "x" * 300,
        "x" * 100_000,
        "../" * 90,
        "/etc/passwd",
        ".",
        "..",
        "con",
        "%00",
    ),
    *("<script>", "'; drop table heads", "😀" * 70, "e\u0301" * 40, "\r\nset-cookie: a", "null"),
    *("12", "The cat sat", "Q = [[1, 2]]\nK = [[3, 4]]", "apple", "minilm", "sinusoidal"),
)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 3, 2**31, 10**30, 1.5, -0.0, 1e308, float("nan"), float("inf")),
    *([], {}, [[]], [[1, 2], [3]], [[1.0, 2.0], [3.0, 4.0]], [[[1.0]], [[2.0]]], {"a": {}}, [None]),
    *TEXTS,
)
RUN = "/api/runs/{run}"
QUESTIONS = {
    f"{RUN}/row": ("sequence", "layer", "query", "head"),
    f"{RUN}/column": ("sequence", "layer", "key", "head"),
    f"{RUN}/links": ("sequence", "layer", "head"),
    f"{RUN}/map": ("sequence", "layer", "head"),
    f"{RUN}/tile": ("sequence", "layer", "head", "level", "row", "column", "reduce"),
    f"{RUN}/rollout": ("sequence", "token"),
    f"{RUN}/hidden_states": ("sequence", "tokens"),
    RUN: (),
    "/api/effect": ("run", "other"),
    "/api/jobs/{run}": (),
    "/web/{run}": (),
    "/": ("token",),
    **dict.fromkeys(("/api/runs", "/api/examples", "/api/models"), ()),
}
BODIES = {
    "/api/explain": (
        *("text", "example", "causal", "scale", "positions", "heads", "width", "seed"),
        *("edited", "tokens", "title"),
    ),
    "/api/check": ("text", "name"),
    "/api/slides": ("content", "name"),
    f"{RUN}/save": ("name",),
    f"{RUN}/ablate": ("ablate",),
    "/api/see": ("text", "model"),
    "/api/jobs/{run}/cancel": (),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder: Path = tmp_path_factory.mktemp("studio")
    made_run().save(folder / "runs" / "one")
    made_run(keep=False, hidden_states=False).save(folder / "runs" / "bare")
    app = make_app(Settings([folder / "runs"], store=folder / "store"), token=TOKEN, port=PORT)
    with Client(app) as made:
        yield made


@pytest.fixture(scope="module")
def runs(client: Client) -> list[str]:
    return [each["id"] for each in client.get("/api/runs").json()]


def check(answer: Any) -> None:
    """It has words, or numbers. An error that nobody has thought of is raised by the client."""
    assert answer.status_code < 500 or answer.status_code == 507, answer.text
    if answer.status_code >= 400 and answer.headers["content-type"] == "application/json":
        words = answer.json()
        assert words.get("error") or words["detail"] in ("Not Found", "Method Not Allowed"), words
    elif answer.headers.get("content-type") == "application/json":
        json.loads(answer.content, parse_constant=pytest.fail)


def post(client: Client, path: str, body: dict[str, Any]) -> None:
    """Ask, and look after the job that comes of it, if one does."""
    answer = client.post(
        path, content=json.dumps(body), headers={"content-type": "application/json"}
    )
    check(answer)
    if "job" in answer.text and "job" in answer.json():
        check(client.get(f"/api/jobs/{answer.json()['job']}"))


def escaped(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def test_questions_with_odd_values_are_answered_in_words(client: Client, runs: list[str]) -> None:
    for choose in attacks(120):
        path, names = choose.choice(list(QUESTIONS.items()))
        run = choose.choice([*runs, *runs, *TEXTS])
        asked: list[str] = []
        for name in names:
            odd: Any = choose.choice(NUMBERS)
            if name in ("run", "other", "reduce", "token", "tokens"):
                odd = choose.choice([*runs, *TEXTS, "1,2", "max", odd])
            asked += [f"{name}={escaped(str(odd))[:3000]}"] * choose.choice([1, 1, 1, 0, 2])
        method = choose.choice(
            ["GET"] * 8 + ["POST", "PUT", "DELETE" if "{" not in path else "GET"]
        )
        query = "&".join([*asked, *(["%ff=%fe&=&&"] if choose.random() < 0.1 else [])])
        check(client.request(method, f"{path.format(run=escaped(run)[:2000])}?{query}"))


def value(choose: random.Random, depth: int = 2) -> Any:
    kind = choose.random()
    if depth and kind < 0.15:
        return [value(choose, depth - 1) for _ in range(choose.randrange(4))]
    if depth and kind < 0.3:
        names = ["X", "W_Q", "W_K", "W_V", "W_O", "given_heads", "a"]
        return {choose.choice(names): value(choose, depth - 1) for _ in range(choose.randrange(6))}
    return choose.choice(ODD)


def test_bodies_with_odd_values_are_answered_in_words(client: Client, runs: list[str]) -> None:
    sensible = {"text": "we like it", "tokens": ["a", "b"], "model": "no-such-model"}
    for choose in attacks(80):
        path, names = choose.choice(list(BODIES.items()))
        body: dict[str, Any] = {}
        for name in names:
            if choose.random() < 0.5:
                body[name] = value(choose)
            elif name in sensible:
                body[name] = sensible[name]
        path = path.format(run=escaped(choose.choice([*runs, *TEXTS]))[:2000])
        post(client, path, body)


def test_every_odd_text_is_answered_wherever_it_stands(client: Client, runs: list[str]) -> None:
    for path, names in BODIES.items():
        for name in names:
            for text in TEXTS:
                body = {"text": "we like it", "model": "no-such-model", name: text}
                post(client, path.format(run=runs[0]), body)


def matrices(choose: random.Random) -> dict[str, Any]:
    """X and the matrices of an edited page, often of shapes that fit."""
    n, width, heads = choose.randrange(1, 4), choose.randrange(1, 4), choose.randrange(1, 4)

    def numbers(*shape: int) -> Any:
        if not shape:
            return choose.choice([0, 1, -1.5, 1e-320, 1e154, -1e308, 1e308, 2**70])
        length = shape[0] if choose.random() < 0.95 else choose.randrange(4)
        return [numbers(*shape[1:]) for _ in range(length)]

    several = [heads] if choose.random() < 0.5 else []
    found = {name: numbers(*several, width, 2) for name in ("W_Q", "W_K", "W_V")}
    if choose.random() < 0.3:
        found["W_O"] = numbers(2 * heads, width)
    return {"edited": {"X": numbers(n, width), **found}, "tokens": ["a"] * n}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, as the numbers overflow
def test_edited_numbers_of_any_size_are_explained_or_refused(client: Client) -> None:
    for choose in attacks(60):
        body = {**matrices(choose), "causal": choose.random() < 0.5}
        check(client.post("/api/explain", json=body))


def test_sql_of_any_type_is_answered(client: Client, runs: list[str]) -> None:
    for choose in attacks(3):
        columns = [f"{leaf} as x" for leaf in choose.sample(LEAVES, 40)]
        columns += [f"try({expression(choose)}) as y" for _ in range(3)]
        names = choose.choice([runs, runs[:1], ["gone"], [runs[0], 3], [None], ["\0"]])
        asked = {"query": f"select {', '.join(columns)}", "runs": names}
        check(client.post("/api/sql", json=asked))


def test_a_socket_for_no_job_is_closed(client: Client) -> None:
    for choose in attacks(5):
        path = f"/api/jobs/{escaped(choose.choice(TEXTS))[:2000]}/progress"
        with (
            pytest.raises(WebSocketDisconnect) as closed,
            client.websocket_connect(f"ws://127.0.0.1:{PORT}{path}") as socket,
        ):
            socket.receive_text()
        assert closed.value.code in (1000, 1008)
