"""The commands. Each imports what it needs when it runs, so that all of them start fast.

A command is a file here, and a line of `_COMMANDS`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
import typer.main

from regard.cli import (
    bench,
    check,
    corpus,
    doctor,
    evict,
    explain,
    export,
    generate,
    heads,
    lab,
    learn,
    see,
    sources,
    studio,
    train,
)

__all__ = ["app", "main"]

app = typer.Typer(
    name="regard",
    help="Regard: self-attention you can look at.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
_COMMANDS = {
    explain.explain: explain.EPILOG,
    check.check: check.EPILOG,
    see.see: see.EPILOG,
    sources.sources: sources.EPILOG,
    heads.heads: heads.EPILOG,
    evict.evict: evict.EPILOG,
    learn.learn: learn.EPILOG,
    lab.lab: lab.EPILOG,
    studio.studio: studio.EPILOG,
    train.train: train.EPILOG,
    generate.generate: generate.EPILOG,
    export.export: export.EPILOG,
    corpus.corpus: corpus.EPILOG,
    bench.bench: bench.EPILOG,
    doctor.doctor: None,
}
for _command, _epilog in _COMMANDS.items():
    app.command(epilog=_epilog)(_command)


@app.callback(invoke_without_command=True)
def regard(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    if version:
        from regard import __version__

        print(f"regard {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: 0, 2 for bad input, 130 for Ctrl-C.

    >>> main(["explain", "--example", "scaling", "--step", "weights", "--cell", "Q,K1"])
    Why the scores are divided by √dₖ
    ...
     7  Weights   A = softmax(S′), row by row                                  1 × 2
        How much attention a row's token gives each column's token; a row sums to 1.
        Q → K1: 0.7311 ≈ e^3.0 / (e^3.0 + e^2.0) ≈ 20.0855 / 27.4746
    0
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an encoding that has no √ shall show ? instead
            stream.reconfigure(errors="replace")
    command = typer.main.get_command(app)
    try:
        code = 0
        try:
            with command.make_context("regard", [*given], obj={"arguments": given}) as context:
                command.invoke(context)
        except typer.Exit as request:
            code = request.exit_code
        print(end="", flush=True)
        return code
    except typer.TyperException as error:
        wrong, code = error.format_message(), error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:  # whoever reads the output has seen enough of it
        _let_go()
        return 128 + 13
    except OSError as error:
        wrong, code = f"cannot write the output: {error.strerror or error}.", 2
    from regard.view.labels import fit

    try:
        print(fit(f"regard: {wrong}", 500), file=sys.stderr, flush=True)
    except BrokenPipeError:
        _let_go()
    return code


def _let_go() -> None:
    """What was said, and nobody reads any more, goes nowhere; else Python would fail in its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
