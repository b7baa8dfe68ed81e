"""The modules of the views: written so that one script can be made of them, and nothing let in."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

import regard.view
from regard.view.html.bundle import bundle, source_of
from regard.view.html.page import Part, page

NAMES = sorted(path.stem for path in Path(regard.view.__file__).parent.glob("web/*.js"))


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_written_in_the_few_ways_that_a_bundle_knows(name: str) -> None:
    text = source_of(name)
    assert text.startswith("// "), "its first line says what it is for"
    for line in re.findall(r"^import\b.*?;$", text, re.MULTILINE | re.DOTALL):
        assert re.fullmatch(r'import (\{[\w\s,]+\} from )?"\./[\w-]+\.js";', line), line
    for line in re.findall(r"^export\b.*", text, re.MULTILINE):
        assert re.match(r"export (async function|function|class|const) \w+", line), line
    assert not re.search(r"^await\b", text, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_no_module_makes_markup_of_text(name: str) -> None:
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc"
    assert not re.search(ways, source_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_no_module_names_another_host(name: str) -> None:
    found = re.findall(r"\w+://[^\s\"'`]*", source_of(name))
    assert set(found) <= {"http://www.w3.org/2000/svg"}


def test_every_element_is_in_the_page() -> None:
    script = bundle("main")
    for name in NAMES:
        for element in re.findall(r'customElements\.define\("([\w-]+)"', source_of(name)):
            assert f'customElements.define("{element}"' in script, element


def test_what_a_module_imports_stands_before_it() -> None:
    script = bundle("main")
    for name in NAMES:
        if f"const ${name} =" not in script:
            continue
        for other in re.findall(r'from "\./([\w-]+)\.js";', source_of(name)):
            assert script.index(f"const ${other} =") < script.index(f"const ${name} =")


def test_the_policy_allows_the_one_script_by_its_hash() -> None:
    made = page("run", "a title", "", {})
    script = re.findall(r'<script type="module">(.*?)</script>', made, re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', made)[0]
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_no_text_can_leave_the_data_of_a_page() -> None:
    hostile = "</script><script>alert(1)</script><!-- \u2028 \ud800"
    made = page("run", hostile, "", {"tokens": [hostile]})
    assert made.count("<script") == made.count("</script>") == 2
    assert "alert(1)</script>" not in made
    data = re.findall(r'id="regard-data">(.*?)</script>', made, re.DOTALL)[0]
    assert json.loads(data)["tokens"] == [hostile.replace("\ud800", "�")]
    made.encode("utf-8")


def test_a_part_is_packed_without_loss() -> None:
    import gzip

    array = np.arange(35, dtype=np.uint16).reshape(5, 7)[:, ::2]
    part = Part.of(array)
    unpacked = gzip.decompress(base64.b64decode(part.packed))
    assert part.info == {"type": "u2", "shape": [5, 4]}
    assert np.array_equal(np.frombuffer(unpacked, dtype="<u2").reshape(5, 4), array)
