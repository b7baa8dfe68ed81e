"""A page in a frame, for notebooks: it can run its own script, and reach nothing around it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.run import Run

_LIMIT = 4_000_000  # bytes of a run's page: a notebook keeps all that it shows


def frame(html: str, height: int = 640) -> str:
    """The page as an element of so many pixels that stands in the output of a cell.

    The page is inside, as text: JupyterLab, VS Code and Colab show it without a server. Its origin
    is its own, so that it sees neither the notebook nor its cookies.

    >>> frame("<p>one & two</p>", 80)
    '<iframe title="Regard" sandbox="allow-scripts" ... srcdoc="&lt;p&gt;one &amp; two...'
    """
    return (
        '<iframe title="Regard" sandbox="allow-scripts" width="100%" '
        f'height="{int(height)}" style="border:0" srcdoc="{escape(html)}"></iframe>'
    )


def run_frame(run: Run) -> str:
    """A run in a cell; a sentence if there is nothing to show.

    >>> from regard.run import Run
    >>> run_frame(Run(model="a < b"))
    '<p>Run(&#x27;a &lt; b&#x27;: 0 layers, 0 heads, 0 tokens): no attention was seen.</p>'
    """
    from regard.view.html.run import run_page

    if not run.layers:
        return f"<p>{escape(repr(run))}: no attention was seen.</p>"
    return frame(run_page(run, limit=_LIMIT))
