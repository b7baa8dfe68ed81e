"""Who may ask the studio anything: every line of the contract on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.studio_client import ADDRESS, PORT, TOKEN, Client
from starlette.websockets import WebSocketDisconnect

from regard.studio.app import make_app
from regard.studio.guard import MOST_BYTES
from regard.studio.places import Forbidden, Places, Settings

RUNS = "/api/runs"


def test_the_reader_is_let_in(client: Client) -> None:
    assert client.get("/").status_code == 200
    assert [run["name"] for run in client.get(RUNS).json()] == ["one"]


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        f"example.org:{PORT}",
        "127.0.0.1",
        f"127.0.0.1:{PORT + 1}",
        f"[::2]:{PORT}",
        "",
    ],
)
def test_another_host_is_refused(client: Client, host: str) -> None:
    assert client.get(RUNS, headers={"host": host}).status_code == 421
    assert client.get(f"/?token={TOKEN}", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin",
    ["http://example.org", f"https://127.0.0.1:{PORT}", f"http://127.0.0.1:{PORT + 1}", "null", ""],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_another_origin_is_refused(client: Client, origin: str, method: str) -> None:
    found = client.request(method, RUNS, headers={"origin": origin})
    assert found.status_code == 403


def test_what_changes_something_needs_an_origin(app: Any) -> None:
    with Client(app, origin=None) as client:
        assert client.get(RUNS).status_code == 200
        assert client.post("/api/check", json={"text": "x"}).status_code == 403
        assert client.delete(f"{RUNS}/0123456789abcdef").status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_elsewhere_cannot_embed_an_answer(client: Client, site: str) -> None:
    assert client.get(RUNS, headers={"sec-fetch-site": site}).status_code == 403


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x"])
@pytest.mark.parametrize("path", ["/", RUNS, "/web/dom.js", "/api/jobs/0", "/api/examples"])
def test_without_the_token_there_is_nothing(app: Any, token: str | None, path: str) -> None:
    with Client(app, token=token) as client:
        found = client.get(path)
    assert found.status_code == 401
    assert "regard studio" in found.text


def test_the_token_is_asked_for_once_and_kept_where_scripts_cannot_read_it(app: Any) -> None:
    with Client(app, token=None) as client:
        found = client.get("/", params={"token": TOKEN})
        assert found.status_code == 303
        assert found.headers["location"] == "/"
        cookie = found.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert client.get("/").status_code == 200


def test_the_cookie_holds_no_token_and_is_good_for_this_server_and_port_alone(
    app: Any, folder: Path, tmp_path: Path
) -> None:
    def cookie(app: Any, port: int) -> str:
        with Client(app, token=None) as client:
            headers = {"host": f"127.0.0.1:{port}", "origin": f"http://127.0.0.1:{port}"}
            found = client.get("/", params={"token": TOKEN}, headers=headers)
            return found.headers["set-cookie"].partition(";")[0]

    def again(port: int) -> Any:
        return make_app(Settings([folder], store=tmp_path / "store"), token=TOKEN, port=port)

    own = cookie(app, PORT)
    assert own == cookie(app, PORT)
    assert TOKEN not in own
    others = [cookie(again(PORT), PORT), cookie(again(PORT + 1), PORT + 1)]
    values = [each.partition("=")[2] for each in others]
    with Client(app, token=None) as client:
        assert client.get(RUNS, headers={"cookie": own}).status_code == 200
        for value in (*values, TOKEN, "", own.partition("=")[2][:-1]):
            found = client.get(RUNS, headers={"cookie": f"regard-{PORT}={value}"})
            assert found.status_code == 401


@pytest.mark.parametrize("query", [f"token={TOKEN}x", "token=", f"token={TOKEN}&token={TOKEN}"])
def test_a_wrong_token_in_the_address_opens_nothing(app: Any, query: str) -> None:
    with Client(app, token=None) as client:
        assert client.get(f"/?{query}").status_code == 401
        assert client.get(f"/api/runs?token={TOKEN}").status_code == 401


@pytest.mark.parametrize(
    ("token", "origin", "host"),
    [
        (None, ADDRESS, f"127.0.0.1:{PORT}"),
        ("wrong", ADDRESS, f"127.0.0.1:{PORT}"),
        (TOKEN, "http://example.org", f"127.0.0.1:{PORT}"),
        (TOKEN, None, f"127.0.0.1:{PORT}"),
        (TOKEN, ADDRESS, "example.org"),
    ],
)
def test_a_socket_is_guarded_as_a_page_is(
    app: Any, token: str | None, origin: str | None, host: str
) -> None:
    with (
        Client(app, token=token, origin=origin) as client,
        pytest.raises(WebSocketDisconnect) as refused,
        client.websocket_connect("/api/jobs/0/progress", headers={"host": host}),
    ):
        pass
    assert refused.value.code == 1008


def test_a_socket_of_the_studio_is_accepted(client: Client) -> None:
    with client.websocket_connect(f"ws://127.0.0.1:{PORT}/api/jobs/0/progress") as socket:
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_text()
        assert closed.value.code == 1000


def test_a_body_that_is_too_long_is_refused(client: Client) -> None:
    found = client.post("/api/check", content=b"x" * (MOST_BYTES + 1))
    assert found.status_code == 413


def test_a_body_that_does_not_say_its_length_is_cut_off(client: Client) -> None:
    def pieces() -> Any:
        for _ in range(MOST_BYTES // 100_000 + 2):
            yield b" " * 100_000

    headers = {"content-type": "application/json"}
    found = client.post("/api/check", content=pieces(), headers=headers)
    assert found.status_code == 413


@pytest.mark.parametrize("path", ["/", RUNS, "/web/dom.js", "/api/no-such-thing"])
def test_every_answer_has_a_strict_policy(client: Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "name",
    ["..%2f..%2fguard.py", "%2e%2e/guard.py", "/etc/passwd", "tsconfig.json", "dom.js%00"],
)
def test_no_file_but_the_modules_is_served(client: Client, name: str) -> None:
    found = client.get(f"/web/{name}")
    assert found.status_code == 404


# ── folders ───────────────────────────────────────────────────────────────────────────────────


def test_only_what_is_in_the_folders_is_found(tmp_path: Path) -> None:
    data, secret = tmp_path / "data", tmp_path / "data-secret"
    for each in (data / "in", secret):
        each.mkdir(parents=True)
    (data / "link").symlink_to(secret)
    (data / "good").symlink_to(data / "in")
    places = Places([data])
    assert places.find(data / "in") == data / "in"
    assert places.find(data / "good") == data / "in"
    for path in (
        data / ".." / "data-secret",
        secret,
        data / "link",
        data / "link" / "model",
        Path("/etc"),
        "../data-secret",
        "\0",
        tmp_path,
    ):
        with pytest.raises(Forbidden):
            places.find(path)


@pytest.mark.parametrize(
    "path", ["{}/../data-secret", "{}-secret", "/etc", "{}/link", "../../etc", "gpt2"]
)
def test_a_model_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "data-secret").mkdir()
    (data / "link").symlink_to(tmp_path / "data-secret")
    app = make_app(Settings([data], store=tmp_path / "store"), token=TOKEN, port=PORT)
    with Client(app) as client:
        asked = {"text": "a", "model": path.format(data)}
        job = client.post("/api/see", json=asked).json()["job"]
        app._app.state.jobs.wait()
        found = client.get(f"/api/jobs/{job}").json()
    assert found["state"] == "failed"
    assert "only what is in the folders" in found["error"]


def test_a_run_behind_a_link_out_of_the_folder_is_not_listed(tmp_path: Path, folder: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "out").symlink_to(folder / "one")
    app = make_app(Settings([shown], store=tmp_path / "store"), token=TOKEN, port=PORT)
    with Client(app) as client:
        assert client.get(RUNS).json() == []


@pytest.mark.parametrize("name", ["가" * 80, "প্রাণীটি খুব ক্লান্ত", "a" * 80, "𠀀" * 63, "ไทย (1)"])
def test_a_run_is_saved_under_a_name_in_any_script(
    app: Any, client: Client, tmp_path: Path, name: str
) -> None:
    run = client.get(RUNS).json()[0]["id"]
    saved = client.post(f"{RUNS}/{run}/save", json={"name": name})
    assert saved.status_code == 200
    assert [each.name for each in (tmp_path / "store").iterdir()] == [name]
    assert client.get(f"{RUNS}/{saved.json()['id']}").status_code == 200
    again = client.post(f"{RUNS}/{run}/save", json={"name": name})
    assert again.status_code == 400
    assert "already" in again.json()["error"]


def test_a_disk_that_takes_nothing_is_told_in_words(client: Client, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("no folder")
    run = client.get(RUNS).json()[0]["id"]
    found = client.post(f"{RUNS}/{run}/save", json={"name": "one"})
    assert found.status_code == 507
    assert "disk" in found.json()["error"]


@pytest.mark.parametrize(
    "name",
    [
        *("../out", "/out", "a/b", "..", ".hidden", "", "x" * 81, "a\0", "𠀀" * 64, "a\n"),
        *("\u202eb", "a\u200b", "-a", " a"),
    ],
)
def test_a_run_is_saved_under_a_plain_name_only(client: Client, name: str) -> None:
    run = client.get(RUNS).json()[0]["id"]
    assert client.post(f"{RUNS}/{run}/save", json={"name": name}).status_code == 400


# ── jobs ──────────────────────────────────────────────────────────────────────────────────────


def test_more_jobs_than_the_queue_takes_are_refused(app: Any, client: Client) -> None:
    import threading

    hold = threading.Event()
    jobs = app._app.state.jobs
    jobs.add("first", lambda job: hold.wait(20))
    while jobs.get(next(iter(jobs._jobs))).state == "waiting":
        pass
    try:
        answers = [
            client.post("/api/see", json={"text": "a", "model": "no-such-model"}).status_code
            for _ in range(5)
        ]
    finally:
        for job in jobs._jobs.values():
            job.cancel()
        hold.set()
    assert answers == [200, 200, 200, 429, 429]
