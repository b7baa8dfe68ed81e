"""Any lie in the document of a run: refused with a message, or a run that does no harm."""

from __future__ import annotations

import json
import math
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.run_by_hand import run_of_everything
from helpers.soak import times
from helpers.time_limit import within
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.run import RunError, load

HOSTILE = st.sampled_from(
    [
        *(None, True, False, 0, 1, -1, -3, 7, 11, 12, 22, 2**16, 2**20, 2**23, 2**24, 2**31, 2**40),
        *(2**63, 10**30, 0.5, -0.5, 1e300, -1e300, math.nan, math.inf),
        *("", "x", "\ud800", "block.0", "float64"),
        *([], [1], [1, 2], [None, None], [3, None], [-1, 2**63], [2**31] * 4, [[]], [["a", 0, 1]]),
        *({}, {"a": 1}),
    ]
)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest") / "run"
    run_of_everything().save(folder)
    return folder


def places(value: object) -> list[tuple[Any, ...]]:
    """The way to every value inside of a JSON value."""
    inside: list[tuple[Any, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [way for key, each in inside for way in [(key,), *((key, *x) for x in places(each))]]


def change(document: Any, way: tuple[Any, ...], value: object, how: str) -> None:
    """Change what stands there, if an earlier change has left it there."""
    for step in way[:-1]:
        inside = isinstance(document, dict) and step in document
        if not inside and not (isinstance(document, list) and step in range(len(document))):
            return
        document = document[step]
    last = way[-1]
    if isinstance(document, dict):
        if how == "remove":
            document.pop(last, None)
        else:
            document[f"{last}x" if how == "add" else last] = value
    elif isinstance(document, list) and last in range(len(document)):
        if how == "remove":
            del document[last]
        elif how == "add":
            document.insert(last, value)
        else:
            document[last] = value


@settings(max_examples=times(75), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_document_that_was_changed_anywhere_is_refused_or_does_no_harm(
    honest: Path, tmp_path: Path, data: st.DataObject
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(honest, folder, dirs_exist_ok=True)
    document = json.loads((honest / "run.json").read_text())
    ways = places(document)
    # A tenth of the ways are to layers and their options; half of the changes should be.
    telling = [way for way in ways if way[0] not in ("tokens", "tensors")]
    for _ in range(data.draw(st.integers(1, 2))):
        way = data.draw(st.sampled_from(telling) | st.sampled_from(ways))
        how = data.draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]))
        change(document, way, data.draw(HOSTILE), how)
    (folder / "run.json").write_text(json.dumps(document))
    if data.draw(st.booleans()):
        (folder / "edges.parquet").unlink()
    with within(60), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = load(folder)
        except RunError as error:
            assert str(error).startswith("load(): ")  # noqa: PT017
            return
        assert repr(run).startswith("Run(")
        asked: list[Callable[[], object]] = [
            run.heads,
            run.edges,
            run.truncated_rows,
            lambda: run.sql("select count(*) from edges"),
            lambda: run.sql("select * from heads, layers, tokens limit 3"),
            lambda: [repr(layer) for layer in run.layers.values()],
        ]
        for ask in asked:
            try:
                ask()
            except ValueError as error:
                assert "(): " in str(error)  # noqa: PT017
