"""The manifest of a corpus: what it is, its totals, the hashes of its files; written last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard._checkpoint.errors import plain
from regard._checkpoint.files import own_file, read_object
from regard._extras import need
from regard._files import naming, write_bytes
from regard.corpus.errors import CorpusError
from regard.corpus.plan import FILES, PLAN, Plan
from regard.corpus.shard import UNITS, name_of, packed, read_about
from regard.corpus.sketch import Sketch, merged, table_of

MANIFEST, SKETCHES = "manifest.json", "sketches.parquet"
FORMAT, VERSION = "regard.corpus", 1
_LIMIT = 1_000_000_000


def finish(out: Path, plan: Plan) -> None:
    """Add up the sketches, see that every file is what its unit says, and write the manifest."""
    units = [_whole_unit(out, unit) for unit in range(len(plan.units))]
    arrow = need("corpus()", "pyarrow", "runs")
    sketches = sketches_of(out, range(len(units)))
    rows = ((*place, sketch) for place, sketch in sketches.items())
    with naming(out / SKETCHES):
        write_bytes(out / SKETCHES, packed(table_of(arrow, rows)))
    names = [*(f"{PLAN}/{name}" for name in FILES), SKETCHES]
    files = {name: _entry(out / name) for name in names}
    for unit, about in enumerate(units):
        files |= {f"{UNITS}/{name_of(unit)}/{name}": x for name, x in about["files"].items()}
    document = {
        "format": FORMAT,
        "version": VERSION,
        **totals(units, plan),
        "recipe": plan.recipe.to_dict(),
        "files": files,
    }
    with naming(out / MANIFEST):
        text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        write_bytes(out / MANIFEST, text.encode("utf-8"))


def totals(units: list[dict[str, Any]], plan: Plan) -> dict[str, Any]:
    """What all units come to."""
    layers = next((about["layers"] for about in units if about["layers"]), [])
    notes = dict.fromkeys(note for about in units for note in about["notes"])
    return {
        "units": len(units),
        "sources": len(plan.sources),
        **{name: sum(about[name] for about in units) for name in ("texts", "read", "tokens")},
        "layers": [{"name": name, "heads": heads} for name, heads in layers],
        "notes": list(notes),
    }


def sketches_of(out: Path, units: Iterable[int] | None) -> dict[tuple[int, int, str], Sketch]:
    """Those of some units, added up; None: of all, where that has been done."""
    parquet = need("corpus()", "pyarrow.parquet", "runs")
    places = [out / SKETCHES]
    if units is not None:
        places = [out / UNITS / name_of(unit) / SKETCHES for unit in units]
    return merged(parquet.read_table(path) for path in places)


def _whole_unit(out: Path, unit: int) -> dict[str, Any]:
    """What a unit says of itself; every byte of its files is compared with that."""
    folder = out / UNITS / name_of(unit)
    about = read_about(folder)
    for name, entry in about["files"].items() if about is not None else ():
        if _entry(folder / name) != entry:
            about = None
    if about is None:
        raise CorpusError(
            f"corpus(): {plain(folder)} must be as it was written; it is not. Remove it, and give "
            "the same command again: it is made anew."
        )
    return about


def _entry(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {
            "bytes": path.stat().st_size,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }


def read_manifest(out: Path) -> dict[str, Any] | None:
    """The manifest of a corpus; None if it is not finished. Raises CorpusError if it is none."""
    file = own_file(out, MANIFEST, links=False)
    if file is None:
        return None
    found = read_object(file, _LIMIT)
    if found.get("format") != FORMAT or found.get("version") != VERSION:
        raise CorpusError(
            f"load_corpus(): {plain(file)} must be that of a corpus of version {VERSION}; it is "
            "not. A newer Regard may read it: pip install --upgrade regard."
        )
    return found


def wrong_files(out: Path, manifest: dict[str, Any]) -> list[str]:
    """The files that are not what the manifest says, every byte of them compared."""
    found: list[str] = []
    for name, entry in manifest["files"].items():
        try:
            path = own_file(out, name, links=False)
            is_whole = path is not None and _entry(path) == entry
        except (OSError, ValueError):
            is_whole = False
        if not is_whole:
            found.append(name)
    return found
