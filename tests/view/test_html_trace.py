"""A trace as one HTML file: every number of it is there, and nothing else is needed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from regard import Trace, trace
from regard.view.html.trace import trace_page
from regard.worked import example


def content_of(html: str) -> dict[str, Any]:
    found = re.search(
        r'<script type="application/json" id="regard-data">(.*?)</script>', html, re.S
    )
    assert found is not None
    return json.loads(found[1])


def test_the_trace_in_a_page_is_the_trace_bit_for_bit() -> None:
    made = trace("The cat sat on the mat", causal=True, positions="sinusoidal")
    content = content_of(trace_page(made))
    assert (content["kind"], content["version"]) == ("trace", 1)
    again = Trace.from_json(json.dumps(content["trace"]))
    assert again.to_json() == made.to_json()
    assert np.isneginf(again.steps["scaled"].array).any()


def test_a_page_has_the_title_of_its_trace_and_says_what_it_is() -> None:
    html = trace_page(example("cat").trace())
    assert "<title>The cat sat</title>" in html
    assert content_of(html)["subtitle"] == example("cat").trace().note


def test_a_trace_without_a_title_gets_one_and_a_long_one_is_cut_between_words() -> None:
    assert (
        content_of(trace_page(trace([[1.0, 2.0]], heads=1)))["title"] == "Attention, step by step"
    )
    title = content_of(trace_page(trace("seven words\n" * 29)))["title"]
    assert title == "seven words " * 7 + "seven …"


def test_hostile_tokens_cannot_end_the_data() -> None:
    html = trace_page(trace('</script><script>alert(1)</script> <!-- \u2028 & "x"'))
    assert html.count("<script") == html.count("</script>") == 2
    assert "<title>&lt;/script&gt;" in html


def test_html_writes_the_page_to_a_file(tmp_path: Path) -> None:
    made = example("apple").trace()
    made.html(tmp_path / "steps.html")
    assert (tmp_path / "steps.html").read_text(encoding="utf-8") == trace_page(made)


def test_a_page_of_a_trace_is_made_without_torch() -> None:
    script = (
        "import sys; from regard.worked import example; "
        "from regard.view.html.trace import trace_page; trace_page(example('apple').trace()); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
