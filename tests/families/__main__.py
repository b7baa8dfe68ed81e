"""`python -m families`: judge every family, write docs/models.md, and say how many are exact.

What was judged before, with the same transformers and the same Regard, is not judged again; an
interrupted sweep goes on where it was. The exit code is 1 if a watched model is different.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing
from fnmatch import fnmatch

# Before torch is imported, which reads it. A process a core, and no threads that a fork would lose.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

from families.names import families
from families.packages.section import kept
from families.store import ROOT, Store
from families.table import page, summary
from families.workers import verdicts


def main() -> int:
    parser = argparse.ArgumentParser(prog="families", description=__doc__)
    parser.add_argument("--only", nargs="+", default=["*"], help="names or patterns of families")
    parser.add_argument("--slice", default="1/1", help="k/n: every n-th family, from the k-th on")
    parser.add_argument("--again", nargs="*", help="also what was judged, of these verdicts or all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    arguments = parser.parse_args()
    first, step = map(int, arguments.slice.split("/"))
    every = families()
    chosen = [name for name in every if any(fnmatch(name, each) for each in arguments.only)]
    chosen = chosen[first - 1 :: step]
    if not chosen:
        parser.error(f"no family is called {' or '.join(arguments.only)}")
    store, again = Store(), arguments.again
    waiting = [
        name
        for name in chosen
        if (known := store.verdicts.get(name)) is None
        or (again is not None and (not again or known.kind in again))
    ]
    try:
        with closing(verdicts(waiting, arguments.jobs)) as found:
            for n, verdict in enumerate(found, 1):
                store.add(verdict)
                what = f"{verdict.kind}: {verdict.why}" if verdict.why else verdict.kind
                print(f"[{n}/{len(waiting)}] {verdict.family} ({verdict.seconds} s) {what[:160]}")
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    judged = [store.verdicts[name] for name in chosen]
    print("\n".join(summary(judged)))
    if store.verdicts.keys() >= set(every):
        path = ROOT / "docs" / "models.md"
        packages = kept(path.read_text()) if path.exists() else ""
        text = page(store.verdicts[name] for name in every)
        path.write_text(f"{text}\n{packages}" if packages else text)
    return int(any(verdict.kind == "different" for verdict in judged))


if __name__ == "__main__":
    sys.exit(main())
