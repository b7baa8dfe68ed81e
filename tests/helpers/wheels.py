"""Wheels for the tests, with a model or with anything else in them."""

from __future__ import annotations

import zipfile
from pathlib import Path

INSIDE = "toy_model/model"


def make_wheel(folder: Path, members: dict[str, bytes]) -> Path:
    """A wheel that pip takes, with these files in it."""
    about = "toy_model-1.0.dist-info"
    path = folder / "toy_model-1.0-py3-none-any.whl"
    tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n"
        )
        archive.writestr(f"{about}/WHEEL", tag)
        archive.writestr(f"{about}/RECORD", "")
    return path
