"""Runs every experiment of the lab, whole and made false: docs/lab.md is what came out.

What was measured with the same sources is not measured again: it is in build/lab/.

Usage: python bench/lab.py [NAME …]       docs/lab.md
       python bench/lab.py --quick [NAME …]  how long quick runs take; nothing is written
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from regard.lab import NAMES

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build/lab"
PAGE = ROOT / "docs/lab.md"
BEGIN, END = "<!-- lab: written by `make lab` -->", "<!-- /lab -->"
MARKS = {"holds": "✓", "fails": "✗", "open": "?"}


def main() -> None:
    if sys.argv[1:2] == ["--quick"]:
        quick(sys.argv[2:] or list(NAMES))
        return
    wanted = sys.argv[1:] or list(NAMES)
    room = ROOT / "src/regard/lab"
    sources = sorted([*room.glob("*.py"), *room.glob("data/*"), *room.glob("words/en/*")])
    content = b"".join(path.read_bytes() for path in sources)
    state = hashlib.sha256(content).hexdigest()[:12]
    KEPT.mkdir(parents=True, exist_ok=True)
    found: dict[tuple[str, bool], dict[str, Any]] = {}
    for name in NAMES:
        for is_false in (False, True):
            kept = KEPT / f"{name}{'-false' if is_false else ''}-{state}.json"
            if name in wanted and not kept.exists():
                measure(name, is_false, kept)
            if kept.exists():
                found[name, is_false] = json.loads(kept.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{written(found)}\n\n{END}{after}", encoding="utf-8")


def quick(names: list[str]) -> None:
    """Seconds of each quick run, with and without what starting a process takes."""
    for name in names:
        start = time.perf_counter()
        command = [sys.executable, "-m", "regard", "lab", name, "--quick", "--json", "-"]
        done = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
        whole = time.perf_counter() - start
        found = json.loads(done.stdout)
        print(f"{name:10} {whole:6.1f} s  ≤ 15 s  (measuring {found['seconds']:.1f} s)", flush=True)


def measure(name: str, is_false: bool, kept: Path) -> None:
    """A process of its own for each, so that none measures what another left behind."""
    print(f"{name}{', made false' if is_false else ''} …", flush=True)
    command = [sys.executable, "-m", "regard", "lab", name, "--json", str(kept)]
    command += ["--false"] if is_false else []
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def written(found: dict[tuple[str, bool], dict[str, Any]]) -> str:
    """A table of all verdicts, and a section for each experiment."""
    whole = [document for (_, is_false), document in found.items() if not is_false]
    rows = ["| experiment | claim | verdict | made false | seconds |", "|---|---|---|---|---|"]
    for document in whole:
        broken = found.get((document["experiment"], True))
        turned = broken["verdict"]["said"] if broken else "–"
        seconds = f"{document['seconds']:.0f}"
        cells = [f"`{document['experiment']}`", document["claim"], document["verdict"]["said"]]
        rows.append(f"| {' | '.join([*cells, turned, seconds])} |")
    versions = ", ".join(f"{name} {each}" for name, each in whole[0]["versions"].items())
    parts = ["\n".join(rows), f"Seed {whole[0]['seed']}; {versions}."]
    for document in whole:
        parts.append(f"### {document['title']}\n\n{document['about']}\n\n{told(document)}")
        broken = found.get((document["experiment"], True))
        if broken is not None:
            parts.append(f"**Made false.** {broken['make_false']['about']}\n\n{told(broken)}")
    return "\n\n".join(parts)


def told(document: dict[str, Any]) -> str:
    verdict = document["verdict"]
    lines = [f"**{verdict['said'].capitalize()}.**\n"]
    lines += [f"- {MARKS[each['outcome']]} {each['said']}" for each in verdict["findings"]]
    lines += [f"- {note}" for note in verdict["notes"]]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
