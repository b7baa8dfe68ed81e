"""One HTML file: its data, its script, and a policy that lets nothing else in.

In a notebook it stands in a frame: it can run its own script, and reach nothing around it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.text import readable
from regard.view.html.bundle import bundle, word

_MORE = 50_000  # bytes of a page that are neither its script nor its parts
_TYPES = {"uint8": "u1", "uint16": "u2", "int32": "i4", "float32": "f4"}


@dataclass(frozen=True, eq=False)
class Part:
    """An array in a page: packed bytes, which the page unpacks when it needs them."""

    kind: str
    shape: tuple[int, ...]
    packed: str

    @classmethod
    def of(cls, array: NDArray[Any]) -> Part:
        """An array of uint8, uint16, int32 or float32.

        >>> Part.of(np.zeros((2, 3), dtype=np.uint16)).info
        {'type': 'u2', 'shape': [2, 3]}
        """
        content = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        packed = gzip.compress(content.tobytes(), compresslevel=6, mtime=0)
        return cls(_TYPES[array.dtype.name], array.shape, base64.b64encode(packed).decode("ascii"))

    @property
    def info(self) -> dict[str, Any]:
        return {"type": self.kind, "shape": list(self.shape)}


def page(
    kind: str,
    title: str,
    subtitle: str,
    content: dict[str, Any],
    parts: dict[str, Part] | None = None,
    language: str = "en",
) -> str:
    """A page that shows a trace or a run: what it is called, `content`, and its parts.

    Its policy allows one script, by its hash, and no request to anywhere.

    >>> made = page("trace", "a <b>", "", {})
    >>> "<title>a &lt;b&gt;</title>" in made, "default-src 'none'" in made
    (True, True)
    """
    parts = parts or {}
    about = {"kind": kind, "version": 1, "made": version("regard")}
    about |= {"title": title, "subtitle": subtitle}
    content = {**about, **content, "parts": {name: part.info for name, part in parts.items()}}
    script = "\n" + bundle("main", language).replace("</script", "<\\/script") + "\n"
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    packed = "\n".join(
        f'<script type="application/octet-stream" id="regard-part-{name}">{part.packed}</script>'
        for name, part in parts.items()
    )
    return f"""<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src 'sha256-{digest}'; img-src data: blob:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{escape(readable(title))}</title>
</head>
<body>
<noscript>{word("page.no_script", language)}</noscript>
<script type="application/json" id="regard-data">{_json(content)}</script>
{packed}
<script type="module">{script}</script>
</body>
</html>
"""


def room_for_parts(limit: int, said: Any = None) -> int:
    """The bytes that parts may have in a page of so many: what is left beside the script, what is
    `said` of them, and some more.
    """
    script = len(bundle("main").encode("utf-8"))
    return limit - script - len(_json({"said": said}).encode("utf-8")) - _MORE


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


def _json(content: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in: every < is written as an escape."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return readable(text.replace("<", "\\u003c"))


def beginning(text: str, most: int = 90) -> str:
    """The first words of a text on one line, of so many characters at most: a title.

    >>> beginning("I love\\napple phones", 12)
    'I love …'
    """
    words = " ".join(text.split())
    return words if len(words) <= most else words[:most].rsplit(" ", 1)[0] + " …"
