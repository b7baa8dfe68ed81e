"""`regard export`: a trained run as a folder in Hugging Face's layout."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import BadInput, notes
from regard.cli.output import check_room, writing

EPILOG = """
\b
Examples:
  regard export mine gpt2-mine           a run of language-model, in GPT-2's or Llama's shape
  regard see "ROMEO:" --model gpt2-mine  as any other model
"""


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", show_default=False)],
    folder: Annotated[str, typer.Argument(metavar="FOLDER", show_default=False)],
) -> None:
    """Write a trained RUN to a FOLDER that transformers can load, where it has such a model."""
    place = Path(folder)
    with writing(folder):
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise BadInput(f"{folder} must be a new folder, or an empty one.")
        is_new = not place.exists()
        place.mkdir(parents=True, exist_ok=True)
        try:
            check_room(place)
            with notes():
                from regard.train import export_run, open_run

                name = export_run(open_run(run), place)
        except BaseException:
            if is_new:
                with suppress(OSError):
                    place.rmdir()
            raise
    print(f"Wrote {folder}: {name}, with its tokenizer", file=sys.stderr)
