"""`write_text`: a file is written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from regard._files import write_text


def test_text_is_written_as_utf8_with_its_own_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    write_text(path, "아\r\nb\n")
    assert path.read_bytes() == "아\r\nb\n".encode()


def test_a_failure_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "note.txt"
    path.write_text("old")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_kept_and_new_files_have_the_usual_ones(tmp_path: Path) -> None:
    kept, new, usual = (tmp_path / name for name in ("kept", "new", "usual"))
    kept.write_text("old")
    kept.chmod(0o640)
    usual.write_text("")
    write_text(kept, "new")
    write_text(new, "new")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert new.stat().st_mode == usual.stat().st_mode


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_what_is_no_regular_file_is_written_to_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("path", ["missing/note.txt", ".", "x" * 300])
def test_an_impossible_path_raises_oserror(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match=r".+"):
        write_text(path, "text")
    assert not list(tmp_path.iterdir())
