"""How fast the views are: tiles of the atlas, one file with a whole run, a flow, the studio.

`make bench-views`. Tiles are asked for over HTTP, each for the first time, at any zoom; a page is
opened in Chromium, if it is there. Nothing is asserted: the figures are printed beside what they
should be.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import regard
from regard.run import Layer, Options, Run
from regard.run.atlas import build_levels, levels
from regard.view.html.run import run_page

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def main() -> None:
    sizes = [int(n) for n in sys.argv[1:]] or [8_192, 32_768, 100_000]
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            tiles(Path(folder, str(size)), size)
        start(Path(folder))
        one_file(Path(folder))
        flow(Path(folder))


# ── the atlas ─────────────────────────────────────────────────────────────────────────────────


def tiles(folder: Path, n: int) -> None:
    """Tiles that nobody has asked for yet, of a head whose upper levels are built."""
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, n, 64) * 1.5, torch.randn(1, 1, n, 64)
    see = regard.See(entropy=True, top=8, map=(64, 64))
    _, seen = regard.attention(q, k, k, causal=True, see=see)
    layer = Layer("head", seen, Options(causal=True), kv_heads=1, q=q, k=k)
    begun = time.perf_counter()
    run = Run({"head": build_levels(layer, ("mean", "max"))}, model=f"{n:,} tokens")
    built = time.perf_counter() - begun
    run.save(folder)
    del run, layer
    random.seed(0)
    with studio(folder) as server:
        name = json.loads(server.get("/api/runs")[1])[0]["id"]
        server.get(f"/api/runs/{name}")
        seconds: list[float] = []
        for _ in range(120):
            level = random.randint(0, levels_of(n))
            side = -(-n // (256 << level))
            row = random.randrange(side)
            column = random.randrange(row + 1)  # below the diagonal, where there is work
            place = f"sequence=0&layer=0&head=0&level={level}&row={row}&column={column}"
            reduce = random.choice(("mean", "max"))
            begun = time.perf_counter()
            status, _ = server.get(f"/api/runs/{name}/tile?{place}&reduce={reduce}")
            seconds.append(time.perf_counter() - begun)
            assert status == 200
        seconds.sort()
        goal = {8_192: "100 ms", 32_768: "250 ms"}.get(n, "no bound")
        print(
            f"{n:>7,} tokens: a tile takes {statistics.median(seconds) * 1e3:.0f} ms, 95th "
            f"percentile {seconds[int(len(seconds) * 0.95)] * 1e3:.0f} ms ({goal}); upper levels "
            f"{built:.1f} s; server {server.peak() / 1e9:.2f} GB (2)",
            flush=True,
        )


def levels_of(n: int) -> int:
    seen = regard.Observation(lse=torch.zeros(1, 1, n), n_keys=n)
    return levels(Layer("a", seen))


# ── the studio ────────────────────────────────────────────────────────────────────────────────


class Server:
    """A studio that is running, asked as its own pages do."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address
        host, entry = re.findall(r"http://([^/]+)(/\S+)", address)[0]
        self._connection = http.client.HTTPConnection(host)
        self._connection.request("GET", entry)
        entered = self._connection.getresponse()
        entered.read()
        self._cookie = entered.headers["set-cookie"].partition(";")[0]

    def get(self, path: str) -> tuple[int, bytes]:
        self._connection.request("GET", path, headers={"Cookie": self._cookie})
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def peak(self) -> int:
        """The most memory that it ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) * 1024

    def has_torch(self) -> bool:
        return "libtorch" in Path(f"/proc/{self.process.pid}/maps").read_text()


@contextmanager
def studio(folder: Path) -> Generator[Server]:
    command = [sys.executable, "-m", "regard", "studio", str(folder), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = next(filter(None, (re.search(r"http://\S+", x) for x in process.stdout)))
            yield Server(process, found[0])
        finally:
            process.terminate()


def start(folder: Path) -> None:
    """From the command to a page that can be used."""
    begun = time.perf_counter()
    with studio(folder) as server:
        listening = time.perf_counter() - begun
        words = f"studio: answers after {listening:.2f} s"
        with chromium() as browser:
            if browser is not None:
                elsewhere: list[str] = []
                page = browser.new_page()
                page.on("request", lambda r: elsewhere.append(r.url))
                opened = time.perf_counter()
                page.goto(server.address)
                page.wait_for_selector("regard-flow")
                usable = listening + time.perf_counter() - opened
                host = server.address.partition("?")[0]
                others = [url for url in elsewhere if not url.startswith((host, "data:", "blob:"))]
                words += f", a page can be used after {usable:.2f} s (3 s)"
                words += f"; requests to other hosts: {len(others)} (0)"
        print(f"{words}; torch imported: {server.has_torch()}", flush=True)


@contextmanager
def chromium() -> Generator[Any]:
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium")
    if found is None:
        print("Chromium is not installed: no page was opened.")
        yield None
        return
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=_ARGUMENTS)
        yield browser
        browser.close()


# ── one file ──────────────────────────────────────────────────────────────────────────────────


def one_file(folder: Path) -> None:
    """SmolLM2 on 2,048 tokens, all 270 heads, in one page; and how it moves."""
    loaded = regard.models.load("smollm2")
    assert loaded.tokenizer is not None
    words = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8") * 9
    ids = torch.tensor([loaded.tokenizer.encode(words)[:2_048]])
    with (
        regard.watch(loaded.model, keep=("q", "k"), tokenizer=loaded.tokenizer) as run,
        torch.no_grad(),
    ):
        loaded.model(input_ids=ids, use_cache=False, logits_to_keep=1)
    begun = time.perf_counter()
    page = run_page(run)
    made = time.perf_counter() - begun
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    size = file.stat().st_size / 1e6
    words = f"one file, {ids.shape[1]:,} tokens × 270 heads"
    print(f"{words}: {size:.1f} MB (25), made in {made:.1f} s")
    with chromium() as browser:
        if browser is not None:
            _opened(browser, file)


def flow(folder: Path) -> None:
    """SmolLM2 on 200 tokens as a flow: from a run that is there to its first picture; its page."""
    loaded = regard.models.load("smollm2")
    words = Path(__file__).parent.parent.joinpath("README.md").read_text(encoding="utf-8")
    run = loaded.see(words, first=200, keep=("q", "k", "hidden_states", "output"))
    seconds: list[float] = []
    made = None
    for _ in range(3):
        begun = time.perf_counter()
        made = run.flow(layer=3)
        made.picture(next(name for name in made.outline["stages"] if name.endswith(".weights")))
        seconds.append(time.perf_counter() - begun)
    assert made is not None
    print(
        f"flow, 200 tokens × 30 layers: first picture {seconds[0]:.2f} s after the run, which "
        f"converts the model (1 s); then {min(seconds[1:]):.2f} s",
        flush=True,
    )
    begun = time.perf_counter()
    head = {"kind": "head", "attention": "decoder.layers.3.attention", "head": 1}
    made.changed([head]).predictions(199)
    print(f"  without a head, the next word after {time.perf_counter() - begun:.2f} s")
    begun = time.perf_counter()
    file = folder / "flow.html"
    made.html(file)
    taken, size = time.perf_counter() - begun, file.stat().st_size / 1e6
    print(f"  one file: {size:.1f} MB (25), made in {taken:.1f} s", flush=True)


def _opened(browser: Any, file: Path) -> None:
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    page.add_init_script(
        "window.long = []; new PerformanceObserver((list) => "
        "window.long.push(...list.getEntries().map((each) => each.duration)))"
        ".observe({ type: 'longtask', buffered: true });"
    )
    begun = time.perf_counter()
    page.goto(file.as_uri())
    page.wait_for_selector("regard-text")
    print(f"  opens in {time.perf_counter() - begun:.2f} s (3 s)")
    page.goto(file.as_uri() + "#view=atlas&layer=3&head=1")
    page.wait_for_selector("regard-atlas")
    page.wait_for_timeout(3000)
    page.evaluate("window.long.length = 0")
    page.mouse.move(500, 500)
    for _ in range(3):
        page.mouse.wheel(0, -300)
        page.wait_for_timeout(100)
    page.wait_for_timeout(1500)
    page.evaluate("window.long.length = 0")
    page.evaluate("document.querySelector('regard-atlas').frames.length = 0")
    page.mouse.down()
    for n in range(60):
        page.mouse.move(500 - 3 * n, 500 - 2 * n)
        page.wait_for_timeout(16)
    page.mouse.up()
    frames = sorted(page.evaluate("[...document.querySelector('regard-atlas').frames]"))
    long = page.evaluate("window.long")
    if frames:
        print(
            f"  panning: {len(frames)} frames, drawing takes {statistics.median(frames):.1f} ms, "
            f"at most {frames[-1]:.1f} ms; tasks above 50 ms: {len(long)} (0)"
        )


if __name__ == "__main__":
    main()
