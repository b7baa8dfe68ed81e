"""The notebooks in `examples/`: what they are stored with is what they put out.

`REGARD_NOTEBOOKS=1` (`make notebooks`) stores it anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
MOST_BYTES = 200_000
# What is stored of an output: what every reader of notebooks shows. Pages in frames are left out.
KINDS = ("text/plain", "image/png", "image/svg+xml")
NUMBER = re.compile(r"-?\d+\.\d+")


class Ran:
    """The outputs of a notebook, cell by cell."""

    def __init__(self, notebook: Any) -> None:
        self.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]

    def of(self, code: str) -> str:
        """What the one cell that has this code put out, as text."""
        (cell,) = [cell for cell in self.cells if code in cell.source]
        return "\n".join(map(_text, cell.outputs))

    def shown(self, code: str, kind: str) -> str:
        """The output of that kind, such as text/html, of the one cell that has this code."""
        (cell,) = [cell for cell in self.cells if code in cell.source]
        return next(each.data[kind] for each in cell.outputs if kind in each.get("data", {}))


def _text(output: Any) -> str:
    if output.output_type == "stream":
        assert output.name == "stdout", output.text  # no warning goes unseen
        return output.text
    return output.data.get("text/plain", "")


# In a process of its own, so that what the kernel's sockets leave behind ends with it.
_RUN = """
import sys
import jupyter_client, nbclient, nbformat

path, folder = sys.argv[1:]
notebook = nbformat.read(path, as_version=4)
manager = jupyter_client.AsyncKernelManager()
# A kernel of this interpreter, whatever kernels are installed.
manager.kernel_spec.argv = [
    sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"
]
where = {"metadata": {"path": folder}}
nbclient.NotebookClient(notebook, km=manager, timeout=600, resources=where).execute()
nbformat.write(notebook, folder + "/ran.ipynb")
"""


def run(path: Path, folder: Path) -> Ran:
    """Run a notebook in a fresh kernel, in a folder of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, path, folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return Ran(nbformat.read(folder / "ran.ipynb", as_version=4))


def stored(path: Path, ran: Ran) -> Ran:
    """The outputs that a notebook is stored with: those of this run, if they are made anew."""
    notebook = nbformat.read(path, as_version=4)
    kept = Ran(notebook)
    if os.environ.get("REGARD_NOTEBOOKS"):
        for number, (cell, made) in enumerate(zip(kept.cells, ran.cells, strict=True), 1):
            cell.execution_count = number
            cell.outputs = [_small(output, number) for output in _kept(made)]
        nbformat.write(notebook, path)
    return kept


def _kept(cell: Any) -> list[Any]:
    """Without what libraries of this machine say on the side."""
    return [output for output in cell.outputs if output.get("name") != "stderr"]


def _small(output: Any, number: int) -> Any:
    if output.output_type == "stream":
        return output
    data = {kind: output.data[kind] for kind in KINDS if kind in output.data}
    more = {"execution_count": number} if output.output_type == "execute_result" else {}
    return nbformat.v4.new_output(output.output_type, data, **more)


def assert_is_stored(path: Path, ran: Ran) -> None:
    """Text is the same as stored, but for the last digits of a model's numbers."""
    for kept, made in zip(stored(path, ran).cells, ran.cells, strict=True):
        assert kept.source == made.source
        texts = ["\n".join(map(_text, _kept(cell))) for cell in (kept, made)]
        assert NUMBER.sub("0.0", texts[0]) == NUMBER.sub("0.0", texts[1])
        numbers = [[float(x) for x in NUMBER.findall(text)] for text in texts]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.02, abs=0.011)
        shown, found = (
            {kind for each in cell.outputs for kind in each.get("data", {})}
            for cell in (kept, made)
        )
        assert shown == found & set(KINDS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_small_and_with_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < MOST_BYTES
    for number, cell in enumerate(Ran(notebook).cells, 1):
        assert cell.outputs
        assert cell.execution_count == number


def test_explain_attention_shows_its_steps_and_finds_the_wrong_cell(tmp_path: Path) -> None:
    ran = run(EXAMPLES / "explain_attention.ipynb", tmp_path)
    assert_is_stored(EXAMPLES / "explain_attention.ipynb", ran)
    frame = ran.shown("trace = regard.trace(", "text/html")
    assert frame.startswith("<iframe")
    assert 'sandbox="allow-scripts"' in frame
    assert "10  Output" in ran.of("enumerate(trace.steps")
    assert "((2, 4, 4), [[1.0, 1.0, 1.0, 1.0]" in ran.of("weights.shape")
    assert "1.75 = 1.0·1.2 + 1.1·0.5" in ran.of('apple.explain("scores"')
    assert "1.2374 ≈ 1.75 / √2" in ran.of('apple.explain("scaled"')
    assert "−∞: masked" in ran.of("causal=True)")
    assert "apple" in ran.shown("SVG(", "image/svg+xml")
    assert (tmp_path / "steps.pdf").read_bytes().startswith(b"%PDF")
    assert "is printed as 5, and should be 4" in ran.of("check_text")


def test_watch_a_model_shows_the_run_and_what_a_cut_head_did(tmp_path: Path) -> None:
    ran = run(EXAMPLES / "watch_a_model.ipynb", tmp_path)
    assert_is_stored(EXAMPLES / "watch_a_model.ipynb", ran)
    frame = ran.shown("keep = (", "text/html")
    assert frame.startswith("<iframe")
    assert 1e5 < len(frame) < 5e6
    assert "'first token': 42" in ran.of("Counter(")
    assert "previous token 1.00" in ran.of("Counter(")
    assert "0.68" in ran.of('words.index("animal")')
    assert "{'layer': 3, 'head': 1, 'weight': 0.68" in ran.of("run.sql(")
    effect = ran.of("ablate={3: [1]}").splitlines()
    changes = {line.split()[0]: line.split()[1] for line in effect[1:]}
    blocks = [value for name, value in changes.items() if name.startswith("encoder.layer")]
    assert blocks[:3] == ["0.00%"] * 3
    assert "0.00%" not in blocks[3:]
    assert "Run('BertModel': 6 layers, 72 heads, 16 tokens)" in ran.of("run.save(")
    assert (tmp_path / "animal.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (tmp_path / "head.pdf").read_bytes().startswith(b"%PDF")
    assert ran.shown("run.save(", "image/png")
