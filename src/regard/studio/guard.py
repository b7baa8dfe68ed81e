"""Who may ask the studio anything: the reader who started it, from its own pages, in moderation."""

from __future__ import annotations

import hmac
import secrets
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import Message, Receive, Scope, Send

MOST_BYTES = 4_000_000  # of a request: more text than any model here can read
_TOO_LONG = f"A request may have {MOST_BYTES:,} bytes."
_FOREIGN = 403, "Only pages of the studio may ask for that."
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class TooLong(ValueError):
    """The body of a request goes on and on."""


class Guard:
    """Stands before an application, and lets through what its own pages ask, and nothing else.

    - The Host must be this machine under the studio's port: a name that somebody else has pointed
      here (DNS rebinding) is refused.
    - The Origin, where there is one, must be the studio; whatever changes something, and every
      socket, must have one.
    - `/?token=…` sets a cookie that scripts cannot read and other sites cannot send, and leads to
      `/`. A browser shows its cookies to every port of this machine, so it holds no token, but what
      follows from the token, the port and a secret of this server: no other server knows it, and
      the token cannot be told from it.
    - A request has at most 4 MB.
    """

    def __init__(self, app: Any, *, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        follows = hmac.digest(secrets.token_bytes(32), f"{port} {token}".encode(), "sha256")
        self._cookie = f"regard-{port}={follows.hex()}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        is_page, asked = scope["type"] == "http", HTTPConnection(scope)
        refused = self._refusal(asked)
        if refused is None and is_page and self._is_entering(asked):
            cookie = f"{self._cookie}; HttpOnly; SameSite=Strict; Path=/"
            entering = RedirectResponse("/", 303, {**_HEADERS, "set-cookie": cookie})
            await entering(scope, receive, send)
            return
        if refused is None and not self._has_pass(asked):
            words = "The studio needs its token: open the address that `regard studio` printed."
            refused = 401, words
        if refused is None:
            if is_page:
                receive, send = _limited(receive), _with_headers(send, asked.headers["host"])
            await self._app(scope, receive, send)
            return
        status, words = refused
        if is_page:
            refusal = PlainTextResponse(words, status, {**_HEADERS, "connection": "close"})
            await refusal(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": words})

    def _refusal(self, asked: HTTPConnection) -> tuple[int, str] | None:
        def header(name: str, otherwise: str) -> str:
            """A second one of the same name makes the request nobody's."""
            return ", ".join(asked.headers.getlist(name)) if name in asked.headers else otherwise

        host = header("host", "")
        if host not in self._hosts:
            return 421, "The studio answers on this machine only, under the address it printed."
        own = f"http://{host}"
        may_lack = asked["type"] == "http" and asked["method"] in ("GET", "HEAD")
        if header("origin", own if may_lack else "") != own:
            return _FOREIGN
        site = header("sec-fetch-site", "none")
        if site not in ("none", "same-origin") and asked["path"] != "/":
            return _FOREIGN
        length = header("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return 413, _TOO_LONG
        return None

    def _has_pass(self, asked: HTTPConnection) -> bool:
        # Another server may have set one of the same name, which does not keep the reader out.
        cookies = ";".join(asked.headers.getlist("cookie")).split(";")
        return any(_is_same(each.strip(), self._cookie) for each in cookies)

    def _is_entering(self, asked: HTTPConnection) -> bool:
        """Does a reader come with the token in the address?"""
        given = asked.query_params.getlist("token")
        is_door = asked["path"] == "/" and asked["method"] == "GET"
        return is_door and len(given) == 1 and _is_same(given[0], self._token)


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _with_headers(send: Send, host: str) -> Send:
    policy = (
        "default-src 'none'; script-src 'self'; img-src 'self' data: blob:; "
        f"connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update({**_HEADERS, "content-security-policy": policy})
        await send(message)

    return sending


def _limited(receive: Receive) -> Receive:
    """A body that did not say its length is refused where it gets too long."""
    taken = 0

    async def receiving() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MOST_BYTES:
            raise TooLong(_TOO_LONG)
        return message

    return receiving
