"""`model_for`: which model on this machine reads a text, and why that one; none is fetched."""

from __future__ import annotations

from typing import NamedTuple

from regard._checkpoint.errors import plain
from regard.models.fetch import BUILT_IN, is_here


class Choice(NamedTuple):
    """A model by its name, empty if there is none, and a sentence that says why."""

    model: str
    why: str


def model_for(text: str) -> Choice:
    """The model that reads a sentence of one's own: MiniLM, which is small, or SmolLM2 where MiniLM
    would read [UNK] for some of it, or where MiniLM is not here. Nothing is fetched.

    >>> import os, tempfile, unittest.mock
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     with unittest.mock.patch.dict(os.environ, REGARD_CACHE=empty):
    ...         model_for("I love apple phones").model
    ''
    """
    here = [name for name in BUILT_IN if is_here(name)]
    if not here:
        return Choice("", "No model is on this machine: the numbers are random.")
    if "minilm" not in here:
        return Choice("smollm2", "Read by smollm2, as minilm is not on this machine.")
    from regard.models._load import open_model

    has_other = "smollm2" in here
    try:
        reading = open_model("minilm", progress=False).read(text)
    except ValueError as error:
        if not has_other:
            raise
        return Choice("smollm2", f"Read by smollm2, as minilm cannot: {plain(error)}")
    if not reading.unknown:
        return Choice("minilm", "Read by minilm.")
    lost = f"{reading.sign} for {', '.join(dict.fromkeys(reading.unknown[:3]))}"
    if has_other:
        return Choice("smollm2", f"Read by smollm2, as minilm would read {lost}.")
    return Choice("minilm", f"Read by minilm, which reads {lost}.")
