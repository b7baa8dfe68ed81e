"""Starting the studio: on loopback alone, with a token, until it is stopped."""

from __future__ import annotations

import contextlib
import errno
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

__all__ = ["CannotListen", "serve"]


class CannotListen(Exception):
    """The port is taken, or may not be used."""


def serve(
    *,
    folders: list[Path],
    models: list[Path],
    store: Path,
    port: int = 0,
    browser: bool = True,
    ready: Callable[[str], None],
) -> None:
    """Serve until Ctrl-C. `ready` gets the address with its token, once it can be opened.

    Port 0 takes one that is free. Raises CannotListen.
    """
    import uvicorn

    from regard.studio.app import make_app

    listening = _listen(port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    app = make_app(token=token, port=port, folders=folders, models=models, store=store)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=2,
        ws="websockets-sansio",
    )
    address = f"http://127.0.0.1:{port}/?token={token}"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready(address)
            if browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    with contextlib.closing(listening), contextlib.suppress(KeyboardInterrupt):
        Server(config).run(sockets=[listening])


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        listening.close()
        why = (
            "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        )
        raise CannotListen(f"Port {port} {why}. --port 0 takes one that is free.") from error
    return listening
