"""`make`: a model over many texts, to a folder of tables; safe to stop, and the same in the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from regard._arguments import whole
from regard._checkpoint.errors import plain
from regard._files import naming
from regard.corpus.errors import CorpusError
from regard.corpus.manifest import MANIFEST, finish
from regard.corpus.plan import PLAN, Plan, changed_sources, make_plan, read_plan, save_plan
from regard.corpus.reading import By
from regard.corpus.recipe import Recipe, cores, hash_of_model, threads_here, where
from regard.corpus.shard import UNITS, name_of, remove_damaged, sweep
from regard.corpus.sources import find_sources
from regard.models import open_model

_LOCK = ".lock"
_OWN = {PLAN, UNITS, MANIFEST, _LOCK, "sketches.parquet"}


@dataclass(frozen=True)
class Progress:
    """How far it is: texts that are done, of all, and how many were done before this began."""

    done: int
    texts: int
    before: int


def make(
    texts: Sequence[str | os.PathLike[str]],
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    by: By = "file",
    field: str = "text",
    first: int | None = None,
    min_weight: float = 0.25,
    edges: int = 4,
    workers: int | None = None,
    threads: int | None = None,
    ray: str | None = None,
    tell: Callable[[Progress], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
    show: Callable[[str], None] = lambda _: None,
    **sizes: int,
) -> Path:
    """Have a model read texts, and keep where each head looked in each of them, in a folder.

    - `texts`: files (text, `.jsonl`, `.parquet`, `.arrow`), folders of them, folders that
      `datasets` has saved, or the name of a text that can be fetched, such as "wikitext-2"
    - `by`: what of a text file is one text: the `file`, a `paragraph` or a `line`; `field`: what
      has the text in JSON lines and in tables
    - `first`: read only so many tokens of a text; None: one that is too long is not read
    - `min_weight`, `edges`: the links of at least that weight are counted, and so many of each
      text and head are kept, the strongest
    - `workers`: processes, as many as there are cores unless it is said; `threads` of each, 1
      unless it is said: what they compute must not depend on how many they are
    - `ray`: the address of a Ray cluster that does the work, or "local"
    - `tell` is told how far it is, `note` what is unusual, `show` what takes its time
    - `sizes`: `batch`, `unit` and `unit_bytes` of the `Recipe`

    Whenever it is stopped, the same call goes on: what was done is not done again, and the rows in
    the end are the same. Raises CorpusError, a ValueError, if the folder holds something else or
    was begun otherwise; KeyboardInterrupt for Ctrl-C and SIGTERM.

    >>> make([], "minilm", "corpus")
    Traceback (most recent call last):
    ValueError: corpus(): texts must have at least one file; got none. Name some.
    """
    place = Path(out).resolve()
    sources = find_sources(texts, place, note)
    workers = cores() if workers is None else whole("corpus()", "workers", workers, 1, 1024)
    opened = open_model(model)
    recipe = Recipe(
        where(model),
        hash_of_model(opened.folder),
        by,
        field,
        first,
        min_weight,
        edges,
        threads_here(threads),
        **sizes,  # pyright: ignore[reportArgumentType] -- whole numbers are what is left
    )
    with _own(place), _stoppable():
        plan = read_plan(place)
        if plan is None:
            plan = make_plan(recipe, sources, lambda count: show(f"listing: {count:,} texts"))
            save_plan(plan, place)
        else:
            _refuse_others(place, plan, recipe, sources)
        with naming(place / UNITS):
            (place / UNITS).mkdir(exist_ok=True)
        sweep(place)
        for unit in remove_damaged(place, len(plan.units)):
            note(f"{name_of(unit)} was damaged, and is made anew")
        left = [n for n in range(len(plan.units)) if not (place / UNITS / name_of(n)).is_dir()]
        if left or not (place / MANIFEST).is_file():
            try:
                _work(place, plan, left, workers, ray, tell, show)
            finally:
                sweep(place)
            show("writing the manifest")
            finish(place, plan)
    return place


def _work(
    place: Path,
    plan: Plan,
    left: list[int],
    workers: int,
    ray: str | None,
    tell: Callable[[Progress], None],
    show: Callable[[str], None],
) -> None:
    before = plan.texts - sum(map(plan.count, left))
    done = before
    show("loading the model")

    def count(number: int) -> None:
        nonlocal done
        done += number
        tell(Progress(done, plan.texts, before))

    if not left:
        return
    if ray is not None:
        from regard.corpus.on_ray import on_ray

        on_ray(ray, place, plan, left, workers, count)
    elif min(workers, len(left)) > 1:
        from regard.corpus.processes import in_processes

        in_processes(place, left, workers, plan.recipe.threads, count)
    else:
        import torch

        from regard.corpus.unit import Worker

        threads = torch.get_num_threads()
        try:
            worker = Worker(place)
            for unit in left:
                worker.do(unit, count)
        finally:
            torch.set_num_threads(threads)


def _refuse_others(place: Path, plan: Plan, recipe: Recipe, sources: list[Any]) -> None:
    """Raise CorpusError if a corpus was begun otherwise."""
    wrong = [*recipe.different(plan.recipe), *changed_sources(plan, sources)]
    if wrong:
        more = f"; and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        raise CorpusError(
            f"corpus(): {plain(place)} must be gone on with as it was begun; "
            f"{'; '.join(wrong[:8])}{more}. Say it as before, or name another folder."
        )


@contextlib.contextmanager
def _own(place: Path) -> Generator[None]:
    """Hold the folder, which is a corpus, or becomes one. Raises CorpusError if it is another's."""
    if place.exists() and not place.is_dir():
        raise CorpusError(f"corpus(): out must be a folder; got {plain(place)}, a file.")
    with naming(place):
        place.mkdir(parents=True, exist_ok=True)
    others = sorted(each.name for each in place.iterdir() if not each.name.startswith("."))
    if strange := [name for name in others if name not in _OWN]:
        raise CorpusError(
            f"corpus(): {plain(place)} must hold a corpus and nothing else, or be empty; got "
            f"{plain(', '.join(strange))}. Name another folder."
        )
    with naming(place / _LOCK):
        handle = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CorpusError(
                f"corpus(): {plain(place)} must be written by one at a time; another process "
                "writes it. Wait for it, or end it: what is done is kept."
            ) from None
        except OSError:
            pass  # a disk without locks: two that write the same write the same
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _stoppable() -> Generator[None]:
    """SIGTERM is as Ctrl-C: the units that are being done are dropped, and processes ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
