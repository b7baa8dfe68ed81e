"""`regard studio`: the local web application."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import BadInput
from regard.studio.places import Settings

EPILOG = """
\b
Examples:
  regard studio
  regard studio runs/one runs/two
  regard studio --model ./my-model --port 8000 --no-browser

\b
It listens on this machine alone, opens only what is in the folders named here and
where it saves runs (REGARD_RUNS, or ~/.local/share/regard/runs), and fetches nothing
but a built-in model, when you ask for it. Ctrl-C stops it.
"""


def studio(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN …]", show_default=False, help="Runs, or folders of them."),
    ] = None,
    model: Annotated[
        list[Path] | None,
        typer.Option(metavar="M", help="A folder with a model that may be chosen; repeatable."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="P", show_default=False, help="Any (0).")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
    sql_seconds: Annotated[
        float,
        typer.Option(min=0.1, max=86_400, metavar="S", help="How long a query in SQL may take."),
    ] = Settings.sql_seconds,
    sql_memory: Annotated[
        float, typer.Option(min=0.1, max=10_000, metavar="GB", help="How much memory it may take.")
    ] = Settings.sql_memory,
    check_seconds: Annotated[
        float,
        typer.Option(min=0.1, max=86_400, metavar="S", help="How long a text may take to check."),
    ] = Settings.check_seconds,
) -> None:
    """Look at attention in the browser: explain, see, compare, check."""
    for folder in [*(runs or []), *(model or [])]:
        if not folder.is_dir():
            raise BadInput(f"{folder} must be a folder; there is none.")
    if any(map(math.isnan, (sql_seconds, sql_memory, check_seconds))):
        raise BadInput("--sql-seconds, --sql-memory and --check-seconds must be numbers; got nan.")
    from regard.studio.serve import CannotListen, leave, serve

    settings = Settings(
        runs or (),
        model or (),
        sql_seconds=sql_seconds,
        sql_memory=sql_memory,
        check_seconds=check_seconds,
    )
    try:
        serve(settings, port=port, browser=not no_browser, ready=_say)
    except ImportError as error:
        raise BadInput(
            f"the studio needs {error.name}, which is not installed: pip install 'regard[studio]'."
        ) from error
    except CannotListen as error:
        raise BadInput(str(error)) from error
    leave()


def _say(address: str) -> None:
    print(f"The studio is at\n\n  {address}\n\nCtrl-C stops it.", flush=True)
