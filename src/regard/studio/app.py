"""The studio's pages, and the questions that they may ask."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse

from regard.studio import workshop
from regard.studio.answers import Answer, Answers
from regard.studio.guard import Guard, TooLong
from regard.studio.jobs import Full, Job, Jobs
from regard.studio.places import Forbidden, Places
from regard.studio.reading import Models, keep_levels, read
from regard.studio.shelf import NoSuchRun, Shelf

__all__ = ["make_app"]

_MOST_TEXT = 1_000_000  # characters
_MOST_ROWS = 1_000  # of an answer to SQL
_SHELL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Regard studio</title>
</head>
<body>
<noscript>The studio draws itself, and needs JavaScript for that.</noscript>
<script type="module" src="/web/studio.js"></script>
</body>
</html>
"""


def make_app(
    *, token: str, port: int, folders: list[Path], models: list[Path], store: Path
) -> Guard:
    """The application behind its guard. Nothing of torch is imported before a run is opened."""
    places = Places([*folders, *models, store])
    shelf, jobs = Shelf(Places([*folders, store]), store), Jobs(_words)
    app = FastAPI(title="Regard studio", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.jobs = jobs
    _add_errors(app)
    _add_pages(app)
    _add_workshop(app)
    _add_runs(app, shelf)
    _add_jobs(app, shelf, jobs, Models(places, models))
    return Guard(app, token=token, port=port)


def _words(error: BaseException) -> str | None:
    """What went wrong, where it is for the reader to know."""
    if isinstance(error, ValueError | NoSuchRun | ImportError | Full | MemoryError):
        return _plain_words(error) or "There is not enough memory for that."
    return None


def _plain_words(error: BaseException) -> str:
    """What an error says, without the name of the function that a reader never called."""
    return re.sub(r"^[\w.]+\(\): ", "", str(error))


def _add_errors(app: FastAPI) -> None:
    statuses: dict[type[Exception], int] = {
        Forbidden: 403,
        TooLong: 413,
        NoSuchRun: 404,
        ValueError: 400,
        ImportError: 501,
        Full: 429,
    }

    def handler(status: int) -> Callable[[Request, Exception], Response]:
        return lambda _, error: JSONResponse({"error": _plain_words(error)}, status)

    for kind, status in statuses.items():
        app.add_exception_handler(kind, handler(status))


# ── pages ─────────────────────────────────────────────────────────────────────────────────────


def _add_pages(app: FastAPI) -> None:
    rooms = [files("regard.studio").joinpath("web"), files("regard.view").joinpath("web")]
    modules = {
        each.name: each for room in rooms for each in room.iterdir() if each.name.endswith(".js")
    }

    @app.get("/")
    def shell() -> Response:
        return Response(_SHELL, media_type="text/html; charset=utf-8")

    @app.get("/web/{name}")
    def module(name: str) -> Response:
        if name not in modules:
            return PlainTextResponse("There is no such module.", 404)
        return Response(modules[name].read_bytes(), media_type="text/javascript; charset=utf-8")


def _add_workshop(app: FastAPI) -> None:
    @app.get("/api/examples")
    def examples() -> list[dict[str, str]]:
        return workshop.examples()

    @app.post("/api/explain")
    async def explain(request: Request) -> dict[str, Any]:
        return await run_in_threadpool(workshop.explain, await _body(request))

    @app.post("/api/check")
    async def check(request: Request) -> dict[str, Any]:
        return await run_in_threadpool(workshop.check, await _body(request))


# ── runs ──────────────────────────────────────────────────────────────────────────────────────


def _add_runs(app: FastAPI, shelf: Shelf) -> None:
    @app.get("/api/runs")
    def runs() -> list[dict[str, Any]]:
        return shelf.list()

    @app.get("/api/runs/{run}")
    def info(run: str) -> dict[str, Any]:
        return Answers(shelf.get(run)).info()

    @app.get("/api/runs/{run}/row")
    def row(run: str, sequence: int, layer: int, query: int, head: int | None = None) -> Response:
        return _array(Answers(shelf.get(run)).row(sequence, layer, head, query))

    @app.get("/api/runs/{run}/column")
    def column(run: str, sequence: int, layer: int, key: int, head: int | None = None) -> Response:
        return _array(Answers(shelf.get(run)).column(sequence, layer, head, key))

    @app.get("/api/runs/{run}/links")
    def links(run: str, sequence: int, layer: int, head: int) -> Response:
        return _array(Answers(shelf.get(run)).links(sequence, layer, head))

    @app.get("/api/runs/{run}/map")
    def map_(run: str, sequence: int, layer: int, head: int) -> Response:
        return _array(Answers(shelf.get(run)).map(sequence, layer, head))

    @app.get("/api/runs/{run}/tile")
    def tile(
        run: str,
        sequence: int,
        layer: int,
        head: int,
        level: int,
        row: int,
        column: int,
        reduce: Literal["mean", "max"] = "mean",
    ) -> Response:
        answers = Answers(shelf.get(run))
        return _array(answers.tile(sequence, layer, head, level, row, column, reduce))

    @app.get("/api/runs/{run}/rollout")
    def rollout(run: str, sequence: int, token: int) -> Response:
        return _array(Answers(shelf.get(run)).rollout(sequence, token))

    @app.get("/api/runs/{run}/vectors")
    def vectors(run: str, sequence: int, tokens: str) -> Response:
        return _array(Answers(shelf.get(run)).vectors(sequence, _whole_numbers(tokens)))

    @app.post("/api/runs/{run}/save")
    async def save(run: str, request: Request) -> dict[str, str]:
        asked = await _body(request)
        return {"id": await run_in_threadpool(shelf.save, run, str(asked.get("name", "")))}

    @app.delete("/api/runs/{run}")
    def delete(run: str) -> dict[str, bool]:
        shelf.delete(run)
        return {"deleted": True}

    @app.post("/api/sql")
    async def sql(request: Request) -> dict[str, Any]:
        asked = await _body(request)
        return await run_in_threadpool(_ask_sql, shelf, asked)

    @app.get("/api/effect")
    def effect(run: str, other: str) -> dict[str, Any]:
        return _effect(shelf, run, other)


def _ask_sql(shelf: Shelf, asked: dict[str, Any]) -> dict[str, Any]:
    from regard.run._sql import sql

    query, names = asked.get("query"), asked.get("runs")
    if not isinstance(query, str) or not isinstance(names, list) or not names:
        raise ValueError("Choose a run, and write a SELECT.")
    table = sql(query, {str(name): shelf.get(str(name)) for name in names})
    shown = table.slice(0, _MOST_ROWS)
    columns = [[_plain(value) for value in column.to_pylist()] for column in shown.columns]
    return {"columns": table.column_names, "values": columns, "rows": table.num_rows}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    return float(value) if isinstance(value, float) and abs(value) < float("inf") else str(value)


def _effect(shelf: Shelf, run: str, other: str) -> dict[str, Any]:
    found = shelf.get(run).effect(shelf.get(other))
    changes = {**found.layers, **({} if found.output is None else {"output": found.output})}
    return {
        "blocks": [
            {
                "name": name,
                "relative": [_plain(float(x)) for x in change.relative[0].reshape(-1)],
                "cosine": [_plain(float(x)) for x in change.cosine[0].reshape(-1)],
            }
            for name, change in changes.items()
        ]
    }


# ── what takes long ───────────────────────────────────────────────────────────────────────────


def _add_jobs(app: FastAPI, shelf: Shelf, jobs: Jobs, models: Models) -> None:
    @app.get("/api/models")
    def choices() -> list[dict[str, Any]]:
        return models.list()

    @app.post("/api/see")
    async def see(request: Request) -> dict[str, str]:
        asked = await _body(request)
        text, model = asked.get("text"), asked.get("model")
        if not isinstance(text, str) or not text.strip() or not isinstance(model, str):
            raise ValueError("Choose a model, and give it a text.")
        if len(text) > _MOST_TEXT:
            raise ValueError(f"A text may have {_MOST_TEXT:,} characters.")
        return {"job": _read_later(jobs, shelf, models, model, text, {}).id}

    @app.post("/api/runs/{run}/cut")
    async def cut(run: str, request: Request) -> dict[str, str]:
        """The same text through the same model once more, without some heads."""
        origin = shelf.origin(run)
        heads = _heads_to_cut((await _body(request)).get("cut"))
        whole = {layer: [*origin["cut"].get(layer, [])] for layer in {*origin["cut"], *heads}}
        for layer, some in heads.items():
            whole[layer] += [head for head in some if head not in whole[layer]]
        return {"job": _read_later(jobs, shelf, models, origin["model"], origin["text"], whole).id}

    @app.get("/api/jobs/{name}")
    def job(name: str) -> Response:
        found = jobs.get(name)
        if found is None:
            return JSONResponse({"error": "There is no such job."}, 404)
        return JSONResponse(found.public())

    @app.post("/api/jobs/{name}/cancel")
    def cancel(name: str) -> Response:
        found = jobs.get(name)
        if found is None:
            return JSONResponse({"error": "There is no such job."}, 404)
        found.cancel()
        return JSONResponse(found.public())

    @app.websocket("/api/jobs/{name}/progress")
    async def progress(socket: WebSocket, name: str) -> None:
        found = jobs.get(name)
        await socket.accept()
        told = ""
        try:
            while found is not None:
                over = found.is_over
                now = json.dumps(found.public())
                if now != told:
                    await socket.send_text(now)
                    told = now
                if over:
                    break
                await asyncio.sleep(0.1)
            await socket.close()
        except (WebSocketDisconnect, RuntimeError):
            return


def _read_later(
    jobs: Jobs, shelf: Shelf, models: Models, model: str, text: str, cut: dict[int, list[int]]
) -> Job:
    """Have a text read; the result of the job is the id of the run."""

    def work(job: Job) -> str:
        run, seconds = read(models.load(model, job), text, cut, job)
        keep_levels(run, job)
        about = {
            "name": _title(text, cut),
            "model": Path(model).name,
            "text": text[:200],
            "layers": len(run.layers),
            "tokens": max((x.shape[3] for x in run.layers.values()), default=0),
            "exact": True,
            "seconds": seconds,
        }
        return shelf.add(run, time.time(), about, {"model": model, "text": text, "cut": cut})

    return jobs.add(_title(text, cut), work)


def _heads_to_cut(given: Any) -> dict[int, list[int]]:
    pairs = given if isinstance(given, list) and given else [None]
    found: dict[int, list[int]] = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not all(type(x) is int for x in pair):
            raise ValueError("Heads to cut are pairs of a layer and a head.")
        found.setdefault(pair[0], []).append(pair[1])
    return found


def _title(text: str, cut: dict[int, list[int]]) -> str:
    words = " ".join(text.split())
    title = words if len(words) <= 60 else words[:60].rsplit(" ", 1)[0] + " …"
    heads = ", ".join(f"{layer}.{head}" for layer, heads in cut.items() for head in heads)
    return f"{title} (without {heads})" if heads else title


# ── in and out ────────────────────────────────────────────────────────────────────────────────


async def _body(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise ValueError("A question must be JSON.")
    raw = await request.body()
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise ValueError("A question must be a JSON object.")
    return body


def _whole_numbers(text: str) -> list[int]:
    parts = text.split(",")
    if len(parts) > 1000 or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise ValueError("Tokens are whole numbers with commas between them.")
    return [int(part) for part in parts]


def _array(answer: Answer) -> Response:
    """The bytes of an array, float32 from the lowest byte; its shape and the rest in headers."""
    array, about = answer
    headers = {"x-shape": ",".join(map(str, array.shape))}
    headers |= {f"x-{name}": "" if value is None else repr(value) for name, value in about.items()}
    return Response(array.astype("<f4").tobytes(), 200, headers, "application/octet-stream")
