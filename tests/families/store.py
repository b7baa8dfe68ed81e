"""Verdicts on disk, one JSON line a family, for one version of transformers and of Regard."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from families.verdict import Verdict

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "families"


def key() -> str:
    """Names the code that verdicts are of: a change in either asks for new ones."""
    found = hashlib.sha256()
    for folder in ("src/regard", "native"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".h", ".cpp"):
                found.update(path.read_bytes())
    return f"transformers-{version('transformers')}-regard-{found.hexdigest()[:12]}"


class Store:
    """The verdicts that are there; a later line of a family takes the place of an earlier one."""

    def __init__(self, name: str | None = None, folder: Path = FOLDER) -> None:
        self.path = folder / f"{name or key()}.jsonl"
        self.verdicts: dict[str, Verdict] = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                verdict = Verdict(**json.loads(line))
                self.verdicts[verdict.family] = verdict

    def add(self, verdict: Verdict) -> None:
        self.verdicts[verdict.family] = verdict
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(verdict)) + "\n")
