"""The flow of a model in a page: its blocks, cells and lines are those of Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.traced_models import made

import regard
from regard import Flow
from regard.view.html.bundle import bundle
from regard.view.html.flow import flow_page

# Every rule stands in one of these bands.
MODELS = {
    "language model": [0, 1],
    "language model with ALiBi": [0],
    "encoder model": [0],
    "transformer": [0, 2, 3],
    "decoder": [1],
    "window": [0],
    "post-norm": [0],
    "low-rank value of slices": [0],
    "decoder layer": [0],
}


def _flow(name: str, layer: int) -> Flow:
    model, given, options = made(name)
    given = given.float() if hasattr(given, "float") else given
    options = {key: x.float() if hasattr(x, "float") else x for key, x in options.items()}
    return regard.flow(given, model=model.float(), layer=layer, **options)


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page()
    yield opened
    opened.close()


def _opened(page: Any, flow: Flow, path: Path, limit: int = 24_000_000) -> None:
    """A page with the parts of that of a flow, and nothing but the source of it as a script."""
    html = flow_page(flow, limit)
    found = re.findall(r'<script type="application/.*?</script>', html, re.DOTALL)
    script = bundle("flow_embedded").replace("</script", "<\\/script")
    script += "\nwindow.source = new $flow_embedded.EmbeddedFlow($embedded.manifest());"
    parts = "\n".join(found)
    path.write_text(
        f'<!doctype html><meta charset="utf-8">{parts}<script type="module">{script}</script>',
        encoding="utf-8",
    )
    page.goto(path.as_uri())
    page.wait_for_function("window.source !== undefined")


@pytest.mark.parametrize(("name", "layer"), [(n, k) for n, all_ in MODELS.items() for k in all_])
def test_what_a_page_holds_is_what_python_says(
    page: Any, tmp_path: Path, name: str, layer: int
) -> None:
    flow = _flow(name, layer)
    _opened(page, flow, tmp_path / "page.html")
    outline = flow.outline
    held = page.evaluate(
        "Object.entries(source.outline.stages).filter(([, x]) => x.held === 'whole')"
    )
    chosen = next(band for band in outline["bands"] if band["id"] == outline["chosen"])
    assert {stage for stage, _ in held} >= set(chosen["stages"])
    for stage in chosen["stages"]:
        about = outline["stages"][stage]
        rows, columns = about["rows"], about["columns"]
        for head in {0, about["heads"] - 1}:
            exact = flow.cells(stage, head, (0, rows), (0, columns))
            script = "([s, h, r, c]) => source.cells(s, h, [0, r], [0, c])"
            found = page.evaluate(
                f"async (given) => [...await ({script})(given)]", [stage, head, rows, columns]
            )
            np.testing.assert_allclose(np.reshape(found, exact.shape), exact, rtol=2e-6, atol=1e-7)
            for row, column in ((0, 0), (rows - 1, columns - 1), (rows // 2, columns // 3)):
                line = page.evaluate(
                    """async ([s, h, r, c]) =>
                        (await source.explain(s, h, r, c)).map((each) => each.text).join("")""",
                    [stage, head, row, column],
                )
                assert line == flow.explain(stage, head, row, column), stage


def test_other_bands_are_there_in_blocks(page: Any, tmp_path: Path) -> None:
    flow = _flow("language model", 1)
    _opened(page, flow, tmp_path / "page.html")
    for stage, about in flow.outline["stages"].items():
        for head in range(about["heads"]):
            found = page.evaluate(
                """async ([s, h]) => {
                    const made = await source.picture(s, h);
                    return { ...made, values: [...made.values] };
                }""",
                [stage, head],
            )
            values, block = flow.picture(stage, head)
            assert (found["rows"], found["columns"]) == values.shape
            assert found["block"] == list(block)
            known = np.isfinite(values)
            size = np.abs(values[known]).max()
            read = np.reshape(np.array(found["values"], dtype=float), values.shape)
            assert np.array_equal(np.isneginf(read), ~known)
            np.testing.assert_allclose(read[known], values[known], atol=size / 60_000)
    other = "decoder.layers.0.attention.query"
    assert page.evaluate("(s) => source.cells(s, 0, [0, 1], [0, 1])", other) is None
    assert page.evaluate("(s) => source.explain(s, 0, 0, 0)", other) is None
    assert page.evaluate("source.changed([])") is None
    assert "Changes need the studio" in page.evaluate("source.outline.lacks")
    expected = flow.predictions(4)
    assert expected is not None
    found = page.evaluate("source.predictions(4)")
    assert [(each["token"], each["probability"]) for each in found] == [
        (each.token, pytest.approx(each.probability, abs=1e-6)) for each in expected
    ]
