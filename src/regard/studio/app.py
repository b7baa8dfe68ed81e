"""The studio's pages, and the questions that they may ask."""

from __future__ import annotations

import asyncio
import json
import math
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse

from regard.studio import checker, sql, workshop
from regard.studio.answers import Answer, Answers
from regard.studio.guard import Guard, TooLong
from regard.studio.jobs import Full, Job, Jobs
from regard.studio.places import Forbidden, Places
from regard.studio.process import end_all
from regard.studio.reading import Models
from regard.studio.shelf import NoSuchRun, Shelf
from regard.studio.work import Gone, Line

_MOST_TEXT = 1_000_000  # characters
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
    *,
    token: str,
    port: int,
    folders: list[Path],
    models: list[Path],
    store: Path,
    sql_seconds: float = sql.SECONDS,
    sql_memory: float = sql.MEMORY,
    check_seconds: float = checker.SECONDS,
    closing: threading.Event | None = None,
) -> Guard:
    """The application behind its guard. Nothing of torch is imported before a run is opened.

    All that is being worked on ends once `closing` is set.
    """
    closing = closing or threading.Event()
    places = Places([*folders, *models, store])
    shelf, jobs = Shelf(Places([*folders, store]), store), Jobs(_words)
    app = FastAPI(
        title="Regard studio",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=_life,
    )
    app.state.jobs = jobs
    # Each computes with all cores. A page asks for six things at a time, and there may be many.
    computing = Line(at_once=2, waiting=100, closing=closing)
    _add_errors(app)
    _add_pages(app)
    _add_workshop(app, computing, checker.Checker(check_seconds), Line(1, 8, closing))
    _add_runs(app, shelf, computing)
    _add_sql(app, shelf, sql.Queries(sql_seconds, sql_memory), Line(2, 8, closing))
    _add_jobs(app, shelf, jobs, Models(places, models, closing))
    return Guard(app, token=token, port=port)


@asynccontextmanager
async def _life(_: FastAPI) -> AsyncGenerator[None]:
    yield
    end_all()


class Answered(Response):
    """JSON that every text and number fits into: half of a surrogate pair is written as an escape,
    and null stands for what is not finite.
    """

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        try:
            return json.dumps(content, allow_nan=False).encode()
        except ValueError:
            return json.dumps(_finite(content), allow_nan=False).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
        Gone: 499,  # which nobody reads
    }

    def handler(status: int) -> Callable[[Request, Exception], Response]:
        return lambda _, error: Answered({"error": _plain_words(error)}, status)

    for kind, status in statuses.items():
        app.add_exception_handler(kind, handler(status))
    app.add_exception_handler(
        MemoryError, lambda *_: Answered({"error": "There is not enough memory for that."}, 507)
    )
    app.add_exception_handler(OSError, lambda _, error: Answered({"error": _disk(error)}, 507))

    app.add_exception_handler(
        RequestValidationError, lambda _, error: Answered({"error": _misfits(error)}, 400)
    )


def _disk(error: Exception) -> str:
    return f"The disk does not let that be done: {getattr(error, 'strerror', None) or error}."


def _misfits(error: Exception) -> str:
    """Which parts of a question are not what they must be."""
    assert isinstance(error, RequestValidationError)
    return " ".join(f"{each['loc'][-1]}: {each['msg']}." for each in error.errors())


# ── pages ─────────────────────────────────────────────────────────────────────────────────────


def _add_pages(app: FastAPI) -> None:
    rooms = [files("regard.studio").joinpath("web"), files("regard.view").joinpath("web")]
    modules = {
        each.name: each for room in rooms for each in room.iterdir() if each.name.endswith(".js")
    }

    # They need no thread, so that no work can hold them up.
    @app.get("/")
    async def shell() -> Response:
        return Response(_SHELL, media_type="text/html; charset=utf-8")

    @app.get("/web/{name}")
    async def module(name: str) -> Response:
        if name not in modules:
            return PlainTextResponse("There is no such module.", 404)
        return Response(modules[name].read_bytes(), media_type="text/javascript; charset=utf-8")


def _add_workshop(app: FastAPI, computing: Line, texts: checker.Checker, checking: Line) -> None:
    @app.get("/api/examples")
    def examples() -> Response:
        return Answered(workshop.examples())

    @app.post("/api/explain")
    async def explain(request: Request) -> Response:
        return Answered(await computing.do(request, workshop.explain, await _body(request)))

    @app.post("/api/check")
    async def check(request: Request) -> Response:
        asked = await _body(request)
        return Answered(await checking.do(request, workshop.check, texts, asked))


# ── runs ──────────────────────────────────────────────────────────────────────────────────────


def _add_runs(app: FastAPI, shelf: Shelf, computing: Line) -> None:
    async def of(
        request: Request, run: str, form: Callable[[Any], Response], question: str, *given: Any
    ) -> Response:
        """What a run is asked, one of the questions of `Answers`, in the form of an answer."""

        def work() -> Response:
            return form(getattr(Answers(shelf.get(run)), question)(*given))

        return await computing.do(request, work)

    @app.get("/api/runs")
    def runs() -> Response:
        return Answered(shelf.list())

    @app.get("/api/runs/{run}")
    async def info(request: Request, run: str) -> Response:
        return await of(request, run, Answered, "info")

    @app.get("/api/runs/{run}/row")
    async def row(
        request: Request, run: str, sequence: int, layer: int, query: int, head: int | None = None
    ) -> Response:
        return await of(request, run, _array, "row", sequence, layer, head, query)

    @app.get("/api/runs/{run}/column")
    async def column(
        request: Request, run: str, sequence: int, layer: int, key: int, head: int | None = None
    ) -> Response:
        return await of(request, run, _array, "column", sequence, layer, head, key)

    @app.get("/api/runs/{run}/links")
    async def links(request: Request, run: str, sequence: int, layer: int, head: int) -> Response:
        return await of(request, run, _array, "links", sequence, layer, head)

    @app.get("/api/runs/{run}/map")
    async def map_(request: Request, run: str, sequence: int, layer: int, head: int) -> Response:
        return await of(request, run, _array, "map", sequence, layer, head)

    @app.get("/api/runs/{run}/tile")
    async def tile(
        request: Request,
        run: str,
        sequence: int,
        layer: int,
        head: int,
        level: int,
        row: int,
        column: int,
        reduce: Literal["mean", "max"] = "mean",
    ) -> Response:
        place = (sequence, layer, head, level, row, column, reduce)
        return await of(request, run, _array, "tile", *place)

    @app.get("/api/runs/{run}/rollout")
    async def rollout(request: Request, run: str, sequence: int, token: int) -> Response:
        return await of(request, run, _array, "rollout", sequence, token)

    @app.get("/api/runs/{run}/hidden_states")
    async def hidden_states(request: Request, run: str, sequence: int, tokens: str) -> Response:
        return await of(request, run, _array, "hidden_states", sequence, _whole_numbers(tokens))

    @app.post("/api/runs/{run}/save")
    async def save(run: str, request: Request) -> Response:
        name = (await _body(request)).get("name")
        return Answered({"id": await computing.do(None, shelf.save, run, str(name))})

    @app.delete("/api/runs/{run}")
    def delete(run: str) -> Response:
        shelf.delete(run)
        return Answered({"deleted": True})

    @app.get("/api/effect")
    async def effect(request: Request, run: str, other: str) -> Response:
        return Answered(await computing.do(request, _effect, shelf, run, other))


def _add_sql(app: FastAPI, shelf: Shelf, queries: sql.Queries, line: Line) -> None:
    @app.post("/api/sql")
    async def ask(request: Request) -> Response:
        asked = await _body(request)
        query, names = asked.get("query"), asked.get("runs")
        if not isinstance(query, str) or not isinstance(names, list) or not names:
            raise ValueError("Choose a run, and write a SELECT.")
        answer = await line.do(
            request,
            lambda: queries.ask(query, {str(name): shelf.get(str(name)) for name in names}),
        )
        return Answered(answer)


def _effect(shelf: Shelf, run: str, other: str) -> dict[str, Any]:
    found = shelf.get(run).effect(shelf.get(other))
    changes = {**found.layers, **({} if found.output is None else {"output": found.output})}
    return {
        "blocks": [
            {
                "name": name,
                "relative": change.relative[0].reshape(-1).tolist(),
                "cosine": change.cosine[0].reshape(-1).tolist(),
            }
            for name, change in changes.items()
        ]
    }


# ── what takes long ───────────────────────────────────────────────────────────────────────────


def _add_jobs(app: FastAPI, shelf: Shelf, jobs: Jobs, models: Models) -> None:
    @app.get("/api/models")
    def choices() -> Response:
        return Answered(models.list())

    @app.post("/api/see")
    async def see(request: Request) -> Response:
        asked = await _body(request)
        text, model = asked.get("text"), asked.get("model")
        if not isinstance(text, str) or not text.strip() or not isinstance(model, str):
            raise ValueError("Choose a model, and give it a text.")
        if len(text) > _MOST_TEXT:
            raise ValueError(f"A text may have {_MOST_TEXT:,} characters.")
        return Answered({"job": _read_later(jobs, shelf, models, model, text, {}).id})

    @app.post("/api/runs/{run}/ablate")
    async def ablate(run: str, request: Request) -> Response:
        """The same text through the same model once more, without some heads."""
        origin = shelf.origin(run)
        heads = _heads_to_ablate((await _body(request)).get("ablate"))
        whole = {layer: [*origin["ablate"].get(layer, [])] for layer in {*origin["ablate"], *heads}}
        for layer, some in heads.items():
            whole[layer] += [head for head in some if head not in whole[layer]]
        model, text = origin["model"], origin["text"]
        return Answered({"job": _read_later(jobs, shelf, models, model, text, whole).id})

    @app.get("/api/jobs/{name}")
    def job(name: str) -> Response:
        found = jobs.get(name)
        if found is None:
            return Answered({"error": "There is no such job."}, 404)
        return Answered(found.public())

    @app.post("/api/jobs/{name}/cancel")
    def cancel(name: str) -> Response:
        found = jobs.get(name)
        if found is None:
            return Answered({"error": "There is no such job."}, 404)
        found.cancel()
        return Answered(found.public())

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
    jobs: Jobs, shelf: Shelf, models: Models, model: str, text: str, ablate: dict[int, list[int]]
) -> Job:
    """Have a text read; the result of the job is the id of the run."""

    def work(job: Job) -> str:
        run, seconds = models.read(model, text, ablate, job)
        about = {
            "name": _title(text, ablate),
            "model": Path(model).name,
            "text": text[:200],
            "layers": len(run.layers),
            "tokens": max((x.shape[3] for x in run.layers.values()), default=0),
            "exact": True,
            "seconds": seconds,
        }
        return shelf.add(run, time.time(), about, {"model": model, "text": text, "ablate": ablate})

    return jobs.add(_title(text, ablate), work)


def _heads_to_ablate(given: Any) -> dict[int, list[int]]:
    pairs = given if isinstance(given, list) and given else [None]
    found: dict[int, list[int]] = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not all(type(x) is int for x in pair):
            raise ValueError("Heads to ablate are pairs of a layer and a head.")
        found.setdefault(pair[0], []).append(pair[1])
    return found


def _title(text: str, ablate: dict[int, list[int]]) -> str:
    words = " ".join(text.split())
    title = words if len(words) <= 60 else words[:60].rsplit(" ", 1)[0] + " …"
    heads = ", ".join(f"{layer}.{head}" for layer, heads in ablate.items() for head in heads)
    return f"{title} (without {heads})" if heads else title


# ── in and out ────────────────────────────────────────────────────────────────────────────────


async def _body(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise ValueError("A question must be JSON.")
    raw = await request.body()
    try:
        body = json.loads(raw)
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise ValueError("A question must be Unicode: it has half of a surrogate pair.") from None
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise ValueError("A question must be a JSON object, with finite numbers.")
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
