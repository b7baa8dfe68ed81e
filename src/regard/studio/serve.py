"""Starting the studio: on loopback alone, with a token, until it is stopped."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from typing import NoReturn

from regard.studio.places import Settings


class CannotListen(Exception):
    """The port is taken, or may not be used."""


def serve(settings: Settings, *, port: int, browser: bool, ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C. `ready` gets the address with its token, once it can be opened.

    Port 0 takes one that is free. Raises CannotListen. What is being computed then is left to
    itself, in threads: `leave` is the way out.
    """
    import uvicorn

    from regard.studio.app import make_app

    listening = _listen(port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    closing = threading.Event()
    app = make_app(settings, token=token, port=port, closing=closing)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
        ws="websockets-sansio",
    )
    address = f"http://127.0.0.1:{port}/?token={token}"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready(address)
            if browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            closing.set()
            await super().shutdown(sockets)

    with contextlib.closing(listening), contextlib.suppress(KeyboardInterrupt):
        Server(config).run(sockets=[listening])


def leave() -> NoReturn:
    """End this process, after `serve`.

    Python would wait for threads that compute, and abort where one of them comes back from native
    code while it takes itself apart. All that is saved is whole: a run goes to a folder of another
    name first, and processes of ours end when they cannot reach this one.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        why = f"cannot be used: {os.strerror(error.errno or 0)}"
        why = "is in use" if error.errno == errno.EADDRINUSE else why
        raise CannotListen(f"Port {port} {why}. --port 0 takes one that is free.") from error
