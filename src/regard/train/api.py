"""`train`: a recipe and a folder to a trained run, from wherever it was left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
import tomllib
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from regard._checkpoint.errors import CheckpointError, listed, plain
from regard._files import naming, write_text
from regard._followed import RECIPE
from regard.train import checkpoint
from regard.train.diverged import Diverged
from regard.train.loop import CHECKPOINTS, Outcome, Progress
from regard.train.loop import train as train_task
from regard.train.prepare import DATA, TOKENIZER, open_task, prepare
from regard.train.ranks import joined
from regard.train.recipe import Recipe, recipe_of

PAGE = "page.html"
_MARK = ".regard-begun"  # there until the recipe is: all beside it was written by a start
_UNFINISHED = re.compile(r"\.(regard-[0-9a-f]+\.tmp|data\.regard-.*)")


def train(
    recipe: Recipe | None,
    folder: str | os.PathLike[str],
    *,
    resume: bool = False,
    tell: Callable[[Progress], None] = lambda progress: None,
    note: Callable[[str], None] = lambda text: None,
    show: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Train a model by a recipe, in a folder that is made for it.

    With `resume` a run that is in the folder already goes on from its newest checkpoint, by its own
    recipe; one that is given must be the same. `tell` gets the progress after each step, `note`
    sentences for the reader, `show` how far the texts are read. Raises ValueError if the recipe,
    the data or the folder cannot be used, OSError if the folder cannot be written to, Diverged if
    the loss is no number any more.
    """
    place = Path(folder)
    # Processes that torchrun starts again go on, whatever they were told when they began.
    resume = resume or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
    strategy = (recipe or _kept_or_none(place)).training.strategy
    with joined(strategy) as ranks, ExitStack() as held:

        def begin() -> dict[str, Any]:
            """Done by the first process alone: what it made, the others find."""
            kept = _kept(place, resume=resume)
            if kept is not None and recipe is not None:
                recipe.check_same(kept, plain(place))
            chosen = recipe or kept
            assert chosen is not None
            place.mkdir(parents=True, exist_ok=True)
            held.enter_context(_alone(place))
            with _beginning(place) if kept is None else contextlib.nullcontext():
                task = prepare(chosen, place, note, show)
                if kept is None:  # last: what cannot be learned from leaves no run behind
                    task.batch(0)
                    next(task.validation())
                    with naming(place / RECIPE):
                        write_text(place / RECIPE, chosen.toml())
            (place / _MARK).unlink(missing_ok=True)
            return chosen.content

        chosen = recipe_of(ranks.told(begin))
        if not (place / RECIPE).is_file():
            expected = "be a folder that all processes see"
            remedy = "Name one that all hosts share."
            raise CheckpointError(place, expected, "no run in it", remedy, call="train()")
        task = open_task(chosen, place)
        if not ranks.is_first:
            return train_task(task, place, ranks=ranks)
        try:
            outcome = train_task(task, place, tell, note, ranks)
        except Diverged as error:
            outcome = error
    _write_page(place, note)
    if isinstance(outcome, Diverged):
        raise outcome
    return outcome


def _write_page(place: Path, note: Callable[[str], None]) -> None:
    """Write the page of a run that has ended; that it cannot be is no reason for a failure."""
    from regard.train._history import history

    try:
        history(place).html(place / PAGE)
    except (OSError, ValueError, ImportError, MemoryError) as error:
        note(f"{PAGE} could not be written: {plain(error)}")


def _kept_or_none(place: Path) -> Recipe:
    kept = _kept(place, resume=True)
    if kept is None:
        raise ValueError(f"train(): {plain(place)} must hold a run to go on with; got none.")
    return kept


def read_kept(place: Path) -> Recipe:
    """The recipe of a run. Raises CheckpointError if the folder is none."""
    file = place / RECIPE
    try:
        is_run = file.is_file()
    except OSError as error:  # a name that no disk takes
        raise CheckpointError(place, "be a run", str(error.strerror), "", call="train()") from None
    if not is_run:
        found = "a file" if place.exists() else "nothing there"
        if place.is_dir():
            found = listed(path.name for path in place.iterdir()) or "an empty folder"
        remedy = "regard train RECIPE --out FOLDER makes one."
        raise CheckpointError(place, f"be a run, which has {RECIPE}", found, remedy, call="train()")
    try:
        return recipe_of(tomllib.loads(file.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError, OSError) as error:
        remedy = "Put back the file that training wrote."
        raise CheckpointError(file, "be a recipe", plain(error), remedy, call="train()") from None


def _kept(place: Path, *, resume: bool) -> Recipe | None:
    """The recipe of the run in a folder, if there is one, and it may go on."""
    if place.exists() and not place.is_dir():
        raise CheckpointError(place, "be a folder", "a file", "Name another.", call="train()")
    names = {path.name for path in place.iterdir()} if place.is_dir() else set[str]()
    if names == _left_by_a_start(names):
        return None
    recipe = read_kept(place)
    if not resume:
        remedy = "--resume goes on with it; another folder begins anew."
        raise CheckpointError(place, "be empty", "a run", remedy, call="train()")
    return recipe


def _left_by_a_start(names: set[str]) -> set[str]:
    """Those of the names in a folder that a start which came to nothing left there. Data and a
    tokenizer are its own only beside its mark: else they are somebody's.
    """
    own = {_MARK, TOKENIZER, DATA} if _MARK in names else set[str]()
    return {name for name in names if name in own or _UNFINISHED.fullmatch(name)}


@contextlib.contextmanager
def _beginning(place: Path) -> Generator[None]:
    """Around what a start writes: what one before it left goes, and all of it if it fails."""

    def sweep() -> None:
        # The mark last: without it, what is left could not be told from what is somebody's.
        left = _left_by_a_start({path.name for path in place.iterdir()})
        for name in sorted(left, key=_MARK.__eq__):
            if (place / name).is_dir():
                shutil.rmtree(place / name)
            else:
                (place / name).unlink()

    sweep()
    with naming(place / _MARK):
        (place / _MARK).touch()
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            sweep()
        raise


@contextlib.contextmanager
def _alone(place: Path) -> Generator[None]:
    """Hold a run as long as this process trains in it."""
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            _lock(handle)
        except BlockingIOError:
            raise CheckpointError(
                place,
                "be free",
                "a run that another process trains",
                "Wait for it.",
                call="train()",
            ) from None
        except OSError:
            pass  # a disk without locks
        yield
    finally:
        os.close(handle)


def _lock(handle: int, tries: int = 5) -> None:
    """Lock a folder. Who only looks whether somebody trains there holds it for a moment, too."""
    for number in range(tries):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if number + 1 == tries:
                raise
            time.sleep(0.02)


def best_or_last(place: Path) -> checkpoint.Saved:
    """The best checkpoint of a run, or the newest if it was never evaluated."""
    last = checkpoint.newest(place / CHECKPOINTS)
    if last is None:
        remedy = "Train it first."
        raise CheckpointError(place, "have a whole checkpoint", "none", remedy, call="train()")
    best = last.state.get("best")
    found = checkpoint.at_step(place / CHECKPOINTS, int(best["step"])) if best else None
    return found or last
