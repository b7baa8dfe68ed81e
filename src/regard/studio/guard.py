"""Who may ask the studio anything: the reader who started it, from its own pages, in moderation."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MOST_BYTES = 4_000_000  # of a request: more text than any model here can read
_TOO_LONG = f"A request may have {MOST_BYTES:,} bytes."
_SAFE = ("GET", "HEAD")
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
        self._cookie = f"regard-{port}"
        self._pass = hmac.digest(
            secrets.token_bytes(32), f"{port} {token}".encode(), "sha256"
        ).hex()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = _headers(scope)
        refused = self._refusal(scope, headers)
        if refused is None and scope["type"] == "http":
            entering = self._entering(scope)
            if entering is not None:
                await _redirect(send, entering)
                return
        if refused is None and not self._has_pass(headers):
            refused = (
                401,
                "The studio needs its token: open the address that `regard studio` printed.",
            )
        if refused is not None:
            await _refuse(scope, send, *refused)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        await self._app(scope, _limited(receive), self._with_headers(send, headers["host"]))

    # ── what is refused ───────────────────────────────────────────────────────────────────────

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if host not in self._hosts:
            return 421, "The studio answers on this machine only, under the address it printed."
        origin = headers.get("origin")
        changes = scope["type"] == "websocket" or scope["method"] not in _SAFE
        if origin is None and changes:
            return 403, "Only pages of the studio may ask for that."
        if origin is not None and origin != f"http://{host}":
            return 403, "Only pages of the studio may ask for that."
        site = headers.get("sec-fetch-site", "none")
        if site not in ("none", "same-origin") and scope.get("path") != "/":
            return 403, "Only pages of the studio may ask for that."
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return 413, _TOO_LONG
        return None

    def _has_pass(self, headers: dict[str, str]) -> bool:
        for pair in headers.get("cookie", "").split(";"):
            name, _, value = pair.strip().partition("=")
            if name == self._cookie and hmac.compare_digest(value.encode(), self._pass.encode()):
                return True
        return False

    def _entering(self, scope: Scope) -> str | None:
        """The cookie of a reader who comes with the token in the address."""
        if scope["path"] != "/" or scope["method"] != "GET":
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if len(given) != 1 or not hmac.compare_digest(given[0].encode(), self._token.encode()):
            return None
        return f"{self._cookie}={self._pass}; HttpOnly; SameSite=Strict; Path=/"

    # ── what is added ─────────────────────────────────────────────────────────────────────────

    def _with_headers(self, send: Send, host: str) -> Send:
        policy = (
            "default-src 'none'; script-src 'self'; img-src 'self' data: blob:; "
            f"connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        added = {**_HEADERS, "content-security-policy": policy}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in added.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        return sending


def _headers(scope: Scope) -> dict[str, str]:
    """By name. A second one of the same name makes the request nobody's."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


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


async def _redirect(send: Send, cookie: str) -> None:
    headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
    headers += [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(scope: Scope, send: Send, status: int, words: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": words})
        return
    body = words.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    headers += [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
