"""A page in the browser, and what the tests of every element do with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["Opened"]


class Opened:
    """A page that was opened from a file; `page` is Playwright's.

    Elements are in open shadow roots, which Playwright's selectors look into:
    `opened.page.locator("regard-text .token")`.
    """

    def __init__(
        self,
        browser: Any,
        html: str,
        path: Path,
        *,
        address: str = "",
        width: int = 1200,
        height: int = 800,
        dark: bool = False,
        reduced_motion: bool = False,
        script: str = "",
    ) -> None:
        path.write_text(html, encoding="utf-8")
        self._context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if reduced_motion else "no-preference",
        )
        self.page = self._context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("console", self._heard)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.add_init_script(script)
        # Counts what was drawn, so that `settle` knows when all is.
        self.page.add_init_script(
            "window.drawn = 0; addEventListener('regard-drawn', () => { window.drawn++; });"
        )
        self.page.goto(path.as_uri() + address)
        # A script of the page may not be made of text, so this is no `wait_for_function`.
        self.page.evaluate(
            """async () => {
                const end = performance.now() + 30_000;
                while (!(window.drawn > 0) && performance.now() < end) {
                    await new Promise(requestAnimationFrame);
                }
                if (!(window.drawn > 0)) throw new Error("nothing was drawn in 30 seconds");
            }"""
        )
        self.settle()

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text}")

    def settle(self) -> None:
        """Wait until nothing is drawn any more for a few frames."""
        self.page.evaluate(
            """async () => {
                let before = -1;
                while (before !== window.drawn) {
                    before = window.drawn;
                    for (let n = 0; n < 4; n++) await new Promise(requestAnimationFrame);
                    await new Promise((done) => setTimeout(done, 30));
                }
            }"""
        )

    def state(self) -> dict[str, str]:
        """What the address says."""
        script = "Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"
        return dict(self.page.evaluate(script))

    def ask(self, script: str, *arguments: Any) -> Any:
        """What a script with `element`, the first of ours, says: `element.source.info`."""
        return json.loads(
            self.page.evaluate(
                """async ([script, values]) => {
                    const main = document.querySelector("main");
                    const element = [...main.querySelectorAll("*")]
                        .find((each) => each.localName.startsWith("regard-"));
                    const body = `return (async () => ${script})()`;
                    const found = await new Function("element", "values", body)(element, values);
                    return JSON.stringify(found, (_, x) => ArrayBuffer.isView(x) ? [...x] : x);
                }""",
                [script, list(arguments)],
            )
        )

    def close(self) -> None:
        """The page must have been quiet: no error, and no request but for itself."""
        address = self.page.url.partition("#")[0]
        self._context.close()
        assert self.problems == [], self.problems
        elsewhere = [
            url for url in self.requests if not url.startswith((address, "data:", "blob:"))
        ]
        assert elsewhere == []
