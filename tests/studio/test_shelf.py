"""One broken folder never hides the others: it is listed with what is wrong with it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.made_runs import made_run
from helpers.studio_client import Client

from regard.studio.places import Places
from regard.studio.shelf import Shelf

SECRET = "a secret outside of the folders"


def write(content: str | bytes) -> Callable[[Path], object]:
    raw = content if isinstance(content, bytes) else content.encode()
    return lambda document: document.write_bytes(raw)


def link(document: Path) -> None:
    outside = document.parents[2] / "outside.json"
    about = {"format": 1, "model": SECRET, "text": SECRET, "layers": [], "tensors": {}}
    outside.write_text(json.dumps(about))
    document.symlink_to(outside)


def listen(document: Path) -> None:
    here = Path.cwd()
    os.chdir(document.parent)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(document.name)
    finally:
        os.chdir(here)


RUN = '{"format": 1, "model": %s, "text": %s, "layers": [{"n_keys": %s}], "tensors": %s}'
SPOILT: dict[str, Callable[[Path], object]] = {
    "a surrogate": write(RUN % (r'"\ud800"', r'"half \udc00"', 7, "{}")),
    "texts with surrogates": write(RUN % ('"m"', r'["\ud800", "b"]', 7, "{}")),
    "an infinity": write(RUN % ('"m"', '""', "1e999", "{}")),
    "an infinite model": write(RUN % ("1e999", "-1e999", 7, "{}")),
    "not a number": write(RUN % ('"m"', '""', "NaN", "{}")),
    "a number of many digits": write(RUN % ('"m"', '""', "9" * 5000, "{}")),
    "a huge number": write(RUN % ('"m"', '""', "9" * 4000, "{}")),
    "no number": write(RUN % ('"m"', '""', '"7"', "{}")),
    "nested": write("[" * 100_000),
    "no object": write("[]"),
    "nothing": write(""),
    "no layers": write('{"layers": null, "tensors": {}, "model": ""}'),
    "no tensors": write(RUN % ('"m"', '""', 7, "null")),
    "no text": write(b"\xff\xfe\x00"),
    "a link": link,
    "a link to itself": lambda document: document.symlink_to(document),
    "a link to nothing": lambda document: document.symlink_to("nothing"),
    "a device": lambda document: document.symlink_to("/dev/zero"),
    "a pipe": lambda document: os.mkfifo(document),
    "a socket": listen,
    "a folder": lambda document: document.mkdir(),
}


def spoil(folder: Path, name: str | bytes, how: str) -> None:
    broken = Path(os.fsdecode(os.fsencode(folder) + b"/" + os.fsencode(name)))
    broken.mkdir()
    SPOILT[how](broken / "run.json")


def runs(client: Client) -> dict[str, Any]:
    found = client.get("/api/runs")
    assert found.status_code == 200, found.text
    assert SECRET not in found.text
    return {run["name"]: run for run in found.json()}


@pytest.mark.parametrize("how", SPOILT)
def test_a_broken_run_hides_no_other(client: Client, folder: Path, how: str) -> None:
    spoil(folder, "broken", how)
    listed = runs(client)
    assert set(listed) == {"one", "broken"}
    assert listed["one"]["layers"] == 3
    assert "unreadable" not in listed["one"]
    answer = client.get(f"/api/runs/{listed['broken']['id']}")
    assert answer.status_code == 400
    assert "run.json" in answer.json()["error"]
    assert client.delete(f"/api/runs/{listed['broken']['id']}").status_code == 200
    assert set(runs(client)) == {"one"}


@pytest.mark.parametrize("how", ["an infinity", "nested", "a link", "a pipe", "a folder"])
def test_what_is_wrong_with_a_run_is_said_where_it_is_listed(
    client: Client, folder: Path, how: str
) -> None:
    spoil(folder, "broken", how)
    run = runs(client)["broken"]
    assert run["unreadable"] is True
    assert run["text"].startswith("This run cannot be read: ")


def test_a_folder_whose_name_is_no_unicode_is_listed(client: Client, folder: Path) -> None:
    (folder / "one").rename(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe"))
    (run,) = runs(client).values()
    assert run["layers"] == 3


def test_a_run_that_cannot_be_saved_is_told_so_and_stays(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the folder for runs should be")
    shelf = Shelf(Places([tmp_path]), tmp_path / "store")
    name = shelf.add(made_run(), 7.0, {"name": "one"}, {})
    with pytest.raises(OSError, match="File exists"):  # which the page is told in words
        shelf.save(name, "my run")
    assert [run["id"] for run in shelf.list()] == [name]


def test_a_folder_that_is_a_link_to_elsewhere_is_not_listed(
    client: Client, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / "one").rename(tmp_path / "elsewhere" / "one")
    (folder / "one").symlink_to(tmp_path / "elsewhere" / "one")
    (folder / "two").symlink_to(folder / "two")
    assert runs(client) == {}
