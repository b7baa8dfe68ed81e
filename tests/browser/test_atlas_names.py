"""What stands beside the map of `<regard-atlas>`: names that can be told apart, and none cut."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from helpers.browser_page import Opened
from helpers.made_runs import long_text, made_run

from regard.text import Token
from regard.view.html.page import page as page_of
from regard.view.html.run import run_page

OpenPage = Callable[..., Opened]
AT = "#view=atlas&layer=0&head=1"
# Each name that ends at a place, and where it begins.
_FILLED = """
window.filled = [];
const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, most = Infinity) {
    if (this.textAlign === "right") {
        window.filled.push([text, x - Math.min(most, this.measureText(text).width)]);
    }
    fill.apply(this, most === Infinity ? [text, x, y] : [text, x, y, most]);
};
"""


@pytest.mark.parametrize(("language", "tokens"), [("en", 13), ("ko", 89), ("bn", 89)])
def test_nothing_beside_the_map_is_cut(
    open_page: OpenPage, language: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.view.html.run.page", partial(page_of, language=language))
    run = made_run(long_text(tokens), layers=1, heads=2)
    for width in (400, 1200):
        opened = open_page(run_page(run), address=AT, width=width, script=_FILLED)
        filled = opened.page.evaluate("window.filled")
        assert len({text for text, _ in filled}) > 3
        assert [text for text, left in filled if left < 0] == []


def test_tokens_that_share_a_letter_are_told_apart(open_page: OpenPage) -> None:
    run = made_run("동 물 은", layers=1, heads=2)
    run.text, run.tokens = "동", [[Token("동", 0, 1)] * 3]
    opened = open_page(run_page(run), address=AT, script=_FILLED)
    filled = {text for text, _ in opened.page.evaluate("window.filled")}
    assert {"동 (1/3)", "동 (2/3)", "동 (3/3)"} <= filled
