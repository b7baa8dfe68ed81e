"""One HTML file: its data, its script, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.view.html.bundle import bundle

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


def page(title: str, content: dict[str, Any], parts: dict[str, Part] | None = None) -> str:
    """A page that shows `content` and its parts.

    Its policy allows one script, by its hash, and no request to anywhere.

    >>> made = page("a <b>", {"kind": "trace"})
    >>> "<title>a &lt;b&gt;</title>" in made, "default-src 'none'" in made
    (True, True)
    """
    parts = parts or {}
    content = {**content, "parts": {name: part.info for name, part in parts.items()}}
    script = "\n" + bundle("main").replace("</script", "<\\/script") + "\n"
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    packed = "\n".join(
        f'<script type="application/octet-stream" id="regard-part-{name}">{part.packed}</script>'
        for name, part in parts.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src 'sha256-{digest}'; img-src data: blob:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{escape(_whole(title))}</title>
</head>
<body>
<noscript>This page draws itself, and needs JavaScript for that.</noscript>
<script type="application/json" id="regard-data">{_json(content)}</script>
{packed}
<script type="module">{script}</script>
</body>
</html>
"""


def _json(content: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in: every < is written as an escape."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _whole(text.replace("<", "\\u003c"))


def _whole(text: str) -> str:
    """A text that UTF-8 can hold: half of a surrogate pair becomes �."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
