"""The runs of the studio: none hides another, and none is lost unsaid."""

from __future__ import annotations

import json
import math
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.made_runs import made_run
from helpers.studio_client import PORT, TOKEN, Client

from regard.run import Run
from regard.run.links import links_that_stand_out
from regard.studio.app import make_app
from regard.studio.places import Places, Settings
from regard.studio.shelf import NoSuchRun, Shelf
from regard.text import Token

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


def test_a_run_that_is_saved_is_found_by_the_id_it_had(tmp_path: Path) -> None:
    shelf = Shelf(Places([tmp_path]), tmp_path)
    old = shelf.add(made_run(), 7.0, {"name": "one"}, {"model": "minilm"})
    new = shelf.save(old, "my run")
    assert shelf.get(old) is shelf.get(new)
    (listed,) = shelf.list()
    assert (listed["id"], listed["aliases"], listed["saved"]) == (new, [old], True)
    assert shelf.origin(old) == shelf.origin(new) == {"model": "minilm"}
    shelf.delete(old)
    assert shelf.list() == []


def test_runs_are_let_go_when_memory_is_full_and_named(tmp_path: Path) -> None:
    shelf = Shelf(Places([tmp_path]), tmp_path, most=70)

    def add(name: str, size: int) -> str:
        return shelf.add(made_run(layers=1), 0.0, {"name": name, "bytes": size}, {})

    first, second = add("first", 30), add("second", 30)
    shelf.get(first)
    third = add("third", 40)
    names = {each["name"]: each.get("let_go") for each in shelf.list()}
    assert names == {"first": None, "third": ["second"]}
    with pytest.raises(NoSuchRun, match=r"“second” was let go .* not saved"):
        shelf.get(second)
    shelf.save(first, "kept")
    large = add("large", 1000)  # which is there, though it is too large
    assert {each["name"] for each in shelf.list()} == {"kept", "large"}
    assert shelf.get(large) is not shelf.get(first)
    with pytest.raises(NoSuchRun, match="third"):
        shelf.get(third)


def test_a_saved_run_can_be_run_again_where_its_model_is(tmp_path: Path, folder: Path) -> None:
    run = made_run()
    run.model, run.ablated = "small", {"model.layers.1.attention": [3]}
    run.save(folder / "two")
    settings = Settings([folder], [tmp_path / "small"], tmp_path / "store")
    with Client(make_app(settings, token=TOKEN, port=PORT)) as client:
        listed = {each["name"]: each for each in client.get("/api/runs").json()}
        assert {name: each["again"] for name, each in listed.items()} == {"one": False, "two": True}
        refused = client.post(f"/api/runs/{listed['one']['id']}/ablate", json={"ablate": [[0, 1]]})
        assert refused.status_code == 400
        assert "no model called 'made up'" in refused.json()["error"]
        cut = client.post(f"/api/runs/{listed['two']['id']}/ablate", json={"ablate": [[2, 4]]})
        job = client.get(f"/api/jobs/{cut.json()['job']}").json()
    assert job["what"].endswith("(without 1.3, 2.4)")


def test_words_that_a_model_does_not_know_are_said(client: Client, folder: Path) -> None:
    text = "we 길을 go"
    tokens = [Token("[CLS]", 0, 0), Token("we", 0, 2), Token("[UNK]", 3, 5), Token("go", 6, 8)]
    run = made_run("a b c d", layers=1)
    Run(run.layers, model="made up", text=text, tokens=[tokens]).save(folder / "two")
    listed = {each["name"]: each["id"] for each in client.get("/api/runs").json()}
    (note,) = client.get(f"/api/runs/{listed['two']}").json()["notes"]
    assert note.startswith("The model does not know “길을”, and read [UNK] instead")
    assert client.get(f"/api/runs/{listed['one']}").json()["notes"] == []


def test_a_run_begins_where_something_stands_out(client: Client, folder: Path) -> None:
    (listed,) = client.get("/api/runs").json()
    found = client.get(f"/api/runs/{listed['id']}").json()["opening"]
    links, _ = links_that_stand_out(made_run())
    told = max(links, key=lambda link: link.weight * math.log2(1 + abs(link.query - link.key)))
    assert found == {"layer": told.layer, "head": told.head, "token": told.query}
