"""How the flow moves: the first picture of a page, and its frames while it is dragged and played.

`bench/flow.py page.html …`; without pages two are made: attention on 200 tokens, in 4 heads, and
SmolLM2's pass of 200 tokens. Nothing is asserted: the figures are printed beside what they should
be.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from views import chromium

import regard

_FRAMES = 180

# The time of each frame while `moved` is done before it.
_WATCH = """async ([count, moved]) => {
    const element = document.querySelector("regard-flow");
    const canvas = element.root.querySelector("canvas");
    canvas.setPointerCapture = () => {};
    const times = [];
    let last = performance.now();
    for (let n = 0; n < count; n++) {
        const [clientX, clientY] = [600 + 90 * Math.sin(n / 9), 400 + 50 * Math.cos(n / 7)];
        const kind = n === 0 ? "pointerdown" : "pointermove";
        if (moved) canvas.dispatchEvent(new PointerEvent(kind, { pointerId: 1, clientX, clientY }));
        await new Promise(requestAnimationFrame);
        times.push(performance.now() - last);
        last = performance.now();
    }
    canvas.dispatchEvent(new PointerEvent("pointerup", { pointerId: 1 }));
    return times;
}"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(name).resolve() for name in sys.argv[1:]]
        if not files:
            x = np.random.default_rng(0).normal(size=(200, 64))
            files = [Path(folder, "attention on 200 tokens.html")]
            regard.trace(x, heads=4).html(files[0])
            files.append(Path(folder, "SmolLM2 on 200 tokens.html"))
            smollm2(files[-1])
        with chromium() as browser:
            if browser is not None:
                for file in files:
                    flow(browser, file)


def smollm2(file: Path) -> None:
    """A page of SmolLM2's pass, its last layer whole."""
    text = " ".join(f"The {n}th river of the map runs to the {n + 1}th sea." for n in range(40))
    regard.flow(text, model="smollm2", layer=29, first=200).html(file)


def flow(browser: Any, file: Path) -> None:
    """Open a page of a flow, drag it from afar and near, and play it."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.add_init_script(
        "addEventListener('regard-drawn', () => { window.first ??= performance.now(); });"
    )
    page.goto(file.as_uri())
    # A page may not make a script of text, so this is no `wait_for_function`.
    page.evaluate("async () => { while (!window.first) await new Promise(requestAnimationFrame); }")
    first = page.evaluate("window.first") / 1e3
    print(f"{file.stem}: {file.stat().st_size / 1e6:.1f} MB (25), first picture {first:.2f} s (1)")
    page.wait_for_timeout(6_000)
    frames("all of it dragged", page.evaluate(_WATCH, [_FRAMES, True]))
    page.evaluate(
        """() => {
            const element = document.querySelector("regard-flow");
            const { stages } = element.source.outline;
            const step = Object.keys(stages).find((name) => stages[name].part === "weights");
            element.say({ step, token: 3, zoom: null });
        }"""
    )
    page.wait_for_timeout(5_000)
    frames("its weights dragged", page.evaluate(_WATCH, [_FRAMES, True]))
    page.evaluate("document.querySelector('regard-flow').say({ step: null, zoom: null })")
    page.wait_for_timeout(2_000)
    page.get_by_role("button", name="Play").click()
    frames("played", page.evaluate(_WATCH, [3 * _FRAMES, False]))
    page.close()


def frames(what: str, times: list[float]) -> None:
    slow = 100 * sum(time > 33 for time in times) / len(times)
    median = statistics.median(times)
    print(f"  {what}: a frame takes {median:.0f} ms (17), above 33 ms {slow:.1f} % (5)", flush=True)


if __name__ == "__main__":
    main()
