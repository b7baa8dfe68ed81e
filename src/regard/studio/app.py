"""The studio's pages, and the questions that they may ask."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse

from regard.studio.answers import Answers
from regard.studio.checker import Checker
from regard.studio.experiments import Experiments, NoSuchResult
from regard.studio.explain import examples, explain
from regard.studio.flows import Flows, NoSuchFlow, choose, read_text
from regard.studio.guard import Guard, TooLong
from regard.studio.jobs import Full, Job, Jobs, plain_words
from regard.studio.places import Forbidden, Places, Settings
from regard.studio.process import Process
from regard.studio.question import Question
from regard.studio.reading import Models
from regard.studio.shelf import NoSuchRun, Shelf
from regard.studio.sql import Queries
from regard.studio.trainings import NoSuchTraining, Trainings
from regard.studio.work import Gone, Line
from regard.view.html.page import beginning

Asked = Annotated[Question, Depends(Question.of)]

_MOST_TEXT = 1_000_000  # characters
_MOST_WORD = 100  # characters of a token
# What is asked, and the method of `Studio` that answers it. One that is `async` needs no thread of
# the server, so that no work can hold it up.
_ROUTES = {
    "GET /": "shell",
    "GET /web/{name}": "module",
    "GET /api/examples": "examples",
    "POST /api/explain": "explain",
    "POST /api/check": "check",
    "POST /api/slides": "slides",
    "GET /api/runs": "runs",
    "DELETE /api/runs/{run}": "delete",
    "POST /api/runs/{run}/save": "save",
    "POST /api/runs/{run}/ablate": "ablate",
    "GET /api/runs/{run}/predictions": "predictions",
    "GET /api/runs/{run}/lens": "lens",
    "POST /api/runs/{run}/why": "why",
    "GET /api/effect": "effect",
    "GET /api/moved": "moved",
    "POST /api/sql": "sql",
    "GET /api/learn": "lessons",
    "GET /api/learn/{name}": "lesson",
    "GET /api/lab": "experiments",
    "POST /api/lab": "measure",
    "GET /api/lab/{result}": "measured",
    "GET /api/trainings": "trainings",
    "GET /api/trainings/{training}": "training",
    "GET /api/trainings/{training}/news": "training_news",
    "GET /api/trainings/{training}/head": "training_head",
    "GET /api/models": "models",
    "POST /api/see": "see",
    "POST /api/flow": "open_flow",
    "GET /api/flow/{flow}": "outline",
    "POST /api/flow/{flow}/changed": "changed",
    "GET /api/jobs/{name}": "job",
    "POST /api/jobs/{name}/cancel": "cancel",
}
# What a run is asked beside its `info`, each a method of `Answers`, whose parameters are those of
# the address.
_OF_A_RUN = ("row", "column", "links", "map", "tile", "rollout", "hidden_states")
# What a flow is asked, and what each question is given: a stage by its name, and whole numbers.
_OF_A_FLOW = {
    "picture": ("stage", "head"),
    "cells": ("stage", "head", "first_row", "end_row", "first_column", "end_column"),
    "explain": ("stage", "head", "row", "column"),
    "predictions": ("position",),
    "steps": ("stage", "head"),
}
_STATUSES: dict[type[Exception], int] = {
    Forbidden: 403,
    TooLong: 413,
    NoSuchRun: 404,
    NoSuchFlow: 404,
    NoSuchResult: 404,
    NoSuchTraining: 404,
    Full: 429,
    ValueError: 400,
    ImportError: 501,
    MemoryError: 507,
    OSError: 507,
    RequestValidationError: 400,
    Gone: 499,  # which nobody reads
}


def make_app(
    settings: Settings, *, token: str, port: int, closing: threading.Event | None = None
) -> Guard:
    """The application behind its guard. Nothing of torch is imported before a run is opened.

    All that is being worked on ends once `closing` is set.
    """
    studio = Studio(settings, closing or threading.Event())
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=_life)
    app.state.jobs = studio.jobs
    for kind, status in _STATUSES.items():
        app.add_exception_handler(kind, _refusal(status))
    for route, name in _ROUTES.items():
        method, _, path = route.partition(" ")
        app.add_api_route(path, getattr(studio, name), methods=[method], response_model=None)
    for path, name in [("", "info"), *((f"/{name}", name) for name in _OF_A_RUN)]:
        app.add_api_route(f"/api/runs/{{run}}{path}", studio.of_a_run(name), response_model=None)
    for name in _OF_A_FLOW:
        app.add_api_route(f"/api/flow/{{flow}}/{name}", studio.of_a_flow(name), response_model=None)
    app.add_api_websocket_route("/api/jobs/{name}/progress", studio.progress)
    return Guard(app, token=token, port=port)


@asynccontextmanager
async def _life(_: FastAPI) -> AsyncGenerator[None]:
    yield
    for process in list(Process.alive):
        process.end()


class Answered(Response):
    """JSON that every text and number fits into: half of a surrogate pair is written as an escape,
    and null stands for what is not finite.
    """

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        try:
            return json.dumps(content, allow_nan=False).encode()
        except ValueError:
            from regard.run.info import finite

            return json.dumps(finite(content), allow_nan=False).encode()


def _array(array: Any, about: dict[str, Any]) -> Response:
    """The bytes of an array, float32 from the lowest byte; its shape and the rest in headers."""
    headers = {"x-shape": ",".join(map(str, array.shape))}
    headers |= {f"x-{name}": "" if value is None else repr(value) for name, value in about.items()}
    return Response(array.astype("<f4").tobytes(), 200, headers, "application/octet-stream")


def _unpacked(found: dict[str, Any]) -> Response:
    """The bytes of an array that came packed: float32, or float64; its shape in a header."""
    array, headers = found["array"], dict[str, str]()
    for name, sizes in {"shape": array["shape"], **found["about"]}.items():
        headers[f"x-{name}"] = ",".join(map(str, sizes))
    content = base64.b64decode(array["bytes"])
    return Response(content, 200, headers, "application/octet-stream")


def _refusal(status: int) -> Callable[[Request, Exception], Response]:
    """The answer to a question that has raised an error."""

    def answer(_: Request, error: Exception) -> Response:
        said = plain_words(error)
        if isinstance(error, RequestValidationError):
            said = " ".join(f"{each['loc'][-1]}: {each['msg']}." for each in error.errors())
        elif isinstance(error, OSError):
            said = f"The disk does not let that be done: {error.strerror or error}."
        return Answered({"error": said}, status)

    return answer


class Studio:
    """What the pages are answered; each method is one of `_ROUTES`."""

    def __init__(self, settings: Settings, closing: threading.Event) -> None:
        self.jobs = Jobs()
        places = Places([*settings.folders, settings.store])
        self._shelf = Shelf(places, settings.store)
        self._trainings = Trainings(places)
        self._models = Models(settings, closing)
        self._flows = Flows(self._models)
        self._experiments = Experiments(closing)
        self._checker = Checker(settings.check_seconds)
        self._queries = Queries(settings)
        # Each computes with all cores. A page asks for six things at a time, and there may be many.
        self._computing = Line(at_once=2, waiting=100, closing=closing)
        self._flowing = Line(at_once=1, waiting=200, closing=closing)
        self._checking = Line(at_once=1, waiting=8, closing=closing)
        self._asking = Line(at_once=2, waiting=8, closing=closing)
        pages, views = (files(f"regard.{room}") / "web" for room in ("studio", "view"))
        self._shell = pages / "studio.html"
        modules = [each for room in (pages, views) for each in room.iterdir()]
        self._modules = {each.name: each for each in modules if each.name.endswith(".js")}

    # ── pages ─────────────────────────────────────────────────────────────────────────────────

    async def shell(self) -> Response:
        return Response(self._shell.read_bytes(), media_type="text/html; charset=utf-8")

    async def module(self, name: str) -> Response:
        if name not in self._modules:
            return PlainTextResponse("There is no such module.", 404)
        content = self._modules[name].read_bytes()
        return Response(content, media_type="text/javascript; charset=utf-8")

    # ── explain and check ─────────────────────────────────────────────────────────────────────

    def examples(self) -> Response:
        return Answered(examples())

    async def explain(self, request: Request, asked: Asked) -> Response:
        return Answered(await self._computing.do(request, explain, asked))

    async def check(self, request: Request, asked: Asked) -> Response:
        text = asked.text("text", "Paste a worked example: matrices of numbers with their names.")
        name = asked.get("name", "text")
        if not isinstance(name, str) or len(name) > 200:
            raise ValueError("The name must be a short text.")
        taken_as, fix = asked.names("as"), asked.flag("fix", False)

        def work() -> Any:
            return self._checker.check(text, name, taken_as, fix=fix)

        return Answered(await self._checking.do(request, work))

    async def slides(self, request: Request, asked: Asked) -> Response:
        content = asked.text("content", "Send a PDF or PPTX file, in base64.")
        name = asked.text("name", "The name of the file must be a short text.", most=200)

        def work() -> Any:
            return self._checker.text_of(content, name)

        return Answered(await self._checking.do(request, work))

    # ── runs ──────────────────────────────────────────────────────────────────────────────────

    def runs(self) -> Response:
        found = self._shelf.list()
        for each in found:  # whether its text can be read once more
            origin = self._shelf.origin(each["id"])
            each["again"] = origin is not None or self._models.named(each["model"]) is not None
        return Answered(found)

    def of_a_run(self, name: str) -> Callable[..., Any]:
        """A question of `Answers` as one to the studio: of which run, and with its parameters."""

        async def ask(request: Request, run: str, **given: Any) -> Response:
            def work() -> Response:
                found = getattr(Answers(self._shelf.get(run)), name)(**given)
                return _array(*found) if isinstance(found, tuple) else Answered(found)

            return await self._computing.do(request, work)

        own = inspect.signature(ask, eval_str=True)
        theirs = inspect.signature(getattr(Answers, name), eval_str=True)
        parameters = [*own.parameters.values()][:2] + [*theirs.parameters.values()][1:]
        named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        ask.__signature__ = inspect.Signature(named)
        return ask

    async def save(self, run: str, asked: Asked) -> Response:
        name = str(asked.get("name"))
        return Answered({"id": await self._computing.do(None, self._shelf.save, run, name)})

    def delete(self, run: str) -> Response:
        self._shelf.delete(run)
        return Answered({"deleted": True})

    async def predictions(self, request: Request, run: str) -> Response:
        """The likeliest tokens at each position, of a run that was made here; null if there are
        none.
        """
        return await self._ask_model(request, run, {"what": "predictions"})

    async def lens(self, request: Request, run: str) -> Response:
        """The same after each layer, by layer and position; null if there are none."""
        return await self._ask_model(request, run, {"what": "lens"})

    async def why(self, request: Request, run: str, asked: Asked) -> Response:
        """Where the logit of a `token` after a `position` comes from, or `against` another."""
        position, token, against = (asked.get(name) for name in ("position", "token", "against"))
        if type(position) is not int or not isinstance(token, str):
            raise ValueError("A position and a token are needed, such as 3 and “ Mary”.")
        if not isinstance(against, str | None) or max(len(token), len(against or "")) > _MOST_WORD:
            raise ValueError(f"A token is a text of at most {_MOST_WORD} letters.")
        given = {"what": "why", "position": position, "token": token, "against": against}
        return await self._ask_model(request, run, given)

    async def _ask_model(self, request: Request, run: str, given: dict[str, Any]) -> Response:
        """What the model of a run that was made here is asked besides."""
        origin = {"layer": 0, "changes": [], **await self._origin(run)}
        asked = self._models.ask_flow, origin, "of the run", given, None
        return Answered(await self._flowing.do(request, *asked))

    async def effect(self, request: Request, run: str, other: str) -> Response:
        def work() -> Any:
            from regard.run.info import effect_info

            found = self._shelf.get(run).effect(self._shelf.get(other))
            return [{"name": name, **changes} for name, changes in effect_info(found).items()]

        return Answered({"blocks": await self._computing.do(request, work)})

    async def moved(self, request: Request, run: str, other: str) -> Response:
        def work() -> Any:
            from regard.run.moved import moved

            return moved(self._shelf.get(run), self._shelf.get(other))

        return Answered({"layers": await self._computing.do(request, work)})

    async def sql(self, request: Request, asked: Asked) -> Response:
        refusal = "Choose a run, and write a SELECT."
        query, names = asked.text("query", refusal), asked.texts("runs", refusal)
        if not names:
            raise ValueError(refusal)

        def work() -> Any:
            return self._queries.ask(query, {name: self._shelf.get(name) for name in names})

        return Answered(await self._asking.do(request, work))

    # ── flows ─────────────────────────────────────────────────────────────────────────────────

    async def open_flow(self, request: Request, asked: Asked) -> Response:
        """The flow of an example or of numbers at once; of a text or a run by a job, whose result
        is the id of the flow.
        """
        layer = asked.number("layer", 0, most=100_000)
        if asked.get("run") is not None:
            return self._flow_later({**await self._origin(str(asked["run"])), "layer": layer})
        if asked.get("model") is not None:
            refusal = "Choose a model, and give it a text."
            model, text = asked.text("model", refusal), read_text(asked, refusal)
            return self._flow_later({"model": model, "text": text, "layer": layer})
        if asked.get("example") is None and asked.get("edited") is None:
            choice = await self._computing.do(request, choose, asked)
            if choice.model:
                origin = {"model": choice.model, "text": asked["text"], "layer": layer}
                return self._flow_later({**origin, "why": choice.why})
            made = await self._computing.do(request, self._flows.of_numbers, asked)
            return Answered({**made, "why": choice.why})
        return Answered(await self._computing.do(request, self._flows.of_numbers, asked))

    def _flow_later(self, origin: dict[str, Any]) -> Response:
        def work(job: Job) -> dict[str, str]:
            return {"flow": self._flows.of_text(origin, job)}

        return Answered({"job": self.jobs.add(beginning(origin["text"], 60), work).id})

    def outline(self, flow: str) -> Response:
        return Answered({"id": flow, "outline": self._flows.outline(flow)})

    def of_a_flow(self, name: str) -> Callable[..., Any]:
        """A question to a flow as one to the studio."""

        async def ask(request: Request, flow: str) -> Response:
            given: dict[str, Any] = {}
            for part in _OF_A_FLOW[name]:
                value = request.query_params.get(part, "")
                is_number = value.isdecimal() and value.isascii() and len(value) < 10
                if part != "stage" and not is_number:
                    raise ValueError(f"{part} must be a whole number.")
                given[part] = value if part == "stage" else int(value)
            found = await self._flowing.do(request, self._flows.ask, flow, name, given)
            if isinstance(found, dict) and "array" in found:
                return _unpacked(found)
            if isinstance(found, str):  # JSON already
                return Response(found, media_type="application/json")
            return Answered(found)

        return ask

    async def changed(self, request: Request, flow: str, asked: Asked) -> Response:
        return Answered(await self._flowing.do(request, self._flows.changed, flow, asked))

    # ── the course and the lab ───────────────────────────────────────────────────────────────────

    def lessons(self, language: str = "en") -> Response:
        from regard.learn import lessons

        found = lessons(language)
        return Answered([{"name": each.name, "title": each.title} for each in found])

    async def lesson(self, request: Request, name: str, language: str = "en") -> Response:
        def work() -> Any:
            from regard.learn import lesson
            from regard.learn.course import document

            return document(lesson(name, language), {}, language)

        return Answered(await self._computing.do(request, work))

    def experiments(self, language: str = "en") -> Response:
        return Answered(self._experiments.list(language))

    async def measure(self, asked: Asked) -> Response:
        """A run of an experiment by a job, whose result is the id of what came out."""
        title, work = self._experiments.ask(asked)
        return Answered({"job": self.jobs.add(title, work).id})

    def measured(self, result: str) -> Response:
        return Answered(self._experiments.result(result))

    # ── trainings ─────────────────────────────────────────────────────────────────────────────

    def trainings(self) -> Response:
        return Answered(self._trainings.list())

    async def training(self, request: Request, training: str) -> Response:
        return Answered(await self._computing.do(request, self._trainings.about, training))

    def training_news(self, training: str, after: int = 0) -> Response:
        return Answered(self._trainings.news(training, after))

    async def training_head(
        self, request: Request, training: str, layer: int, head: int, after: int = -1
    ) -> Response:
        asked = self._trainings.head, training, layer, head, after
        return _array(*await self._computing.do(request, *asked))

    # ── what takes long ───────────────────────────────────────────────────────────────────────

    def models(self) -> Response:
        return Answered(self._models.list())

    async def see(self, asked: Asked) -> Response:
        refusal = "Choose a model, and give it a text."
        text = asked.text("text", refusal, most=_MOST_TEXT)
        return self._read_later(asked.text("model", refusal), text, {})

    async def ablate(self, run: str, asked: Asked) -> Response:
        """The same text through the same model once more, without some heads."""
        model, text, heads = await self._computing.do(None, self._made_from, run)
        for layer, some in asked.heads("ablate").items():
            known = heads.setdefault(layer, [])
            known += [head for head in some if head not in known]
        return self._read_later(model, text, heads)

    async def _origin(self, run: str) -> dict[str, Any]:
        model, text, heads = await self._computing.do(None, self._made_from, run)
        return {"model": model, "text": text, "ablate": heads}

    def _made_from(self, name: str) -> tuple[str, str, dict[int, list[int]]]:
        """The model and the text of a run, and the heads that were ablated."""
        run, origin = self._shelf.get(name), self._shelf.origin(name)
        model = self._models.named(run.model) if origin is None else origin["model"]
        text = run.text if origin is None else origin["text"]
        if model is None or not isinstance(text, str):
            raise ValueError(
                f"The text cannot be read again: the studio has no model called {run.model!r}, or "
                "the run no text of its own."
            )
        heads: dict[int, list[int]] = {}
        for key, some in run.ablated.items():
            heads[list(run.layers).index(key)] = [*some]
        return model, text, heads

    def _read_later(self, model: str, text: str, ablate: dict[int, list[int]]) -> Response:
        """Have a text read by a job, whose result is the id of the run."""
        title = beginning(text, 60)
        heads = ", ".join(f"{layer}.{head}" for layer, some in ablate.items() for head in some)
        title = f"{title} (without {heads})" if heads else title

        def work(job: Job) -> str:
            run, told = self._models.read(model, text, ablate, job)
            run.model = Path(model).name
            about = {
                "name": title,
                "model": run.model,
                "text": text[:200],
                "layers": len(run.layers),
                "tokens": max((x.shape[3] for x in run.layers.values()), default=0),
                "exact": True,
                "seconds": told["seconds"],
                "bytes": told["bytes"],
                "predicts": told["predicts"],
                "has_lens": told["has_lens"],
            }
            origin = {"model": model, "text": text}
            return self._shelf.add(run, time.time(), about, origin)

        return Answered({"job": self.jobs.add(title, work).id})

    def job(self, name: str) -> Response:
        found = self.jobs.get(name)
        if found is None:
            return Answered({"error": "There is no such job."}, 404)
        return Answered(found.public())

    def cancel(self, name: str) -> Response:
        found = self.jobs.get(name)
        if found is not None:
            found.cancel()
        return self.job(name)

    async def progress(self, socket: WebSocket, name: str) -> None:
        """Tells how far a job is, whenever it has got further."""
        found = self.jobs.get(name)
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
