"""The lab in the studio: lists, measures by a job, tells, cancels, and refuses in words."""

from __future__ import annotations

import time
from typing import Any

import pytest
from helpers.studio_client import Client

from regard.lab import NAMES

ORDER = {"experiment": "order", "quick": True, "settings": {"shuffles": 3}}


def _over(client: Client, job: str, seconds: float = 120) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = client.get(f"/api/jobs/{job}").json()
        if found["state"] in ("done", "failed", "cancelled"):
            return found
        time.sleep(0.05)
    raise AssertionError("the job did not end")


def test_every_experiment_is_listed_with_its_settings(client: Client) -> None:
    found = client.get("/api/lab").json()
    assert [each["experiment"] for each in found] == list(NAMES)
    order = next(each for each in found if each["experiment"] == "order")
    assert {setting["name"] for setting in order["possible"]} == {
        *("sentence", "shuffled", "shuffles", "causal"),
    }
    assert order["guesses"][0]["said"]


def test_a_run_is_measured_by_a_job_and_can_be_asked_for(client: Client) -> None:
    job = client.post("/api/lab", json={**ORDER, "seed": 7}).json()["job"]
    done = _over(client, job)
    assert done["state"] == "done", done["error"]
    found = client.get(f"/api/lab/{done['result']}").json()
    assert found["verdict"]["outcome"] == "holds"
    assert found["seed"] == 7
    assert found["settings"]["shuffles"] == 3
    broken = _over(client, client.post("/api/lab", json={**ORDER, "false": True}).json()["job"])
    assert client.get(f"/api/lab/{broken['result']}").json()["verdict"]["outcome"] == "fails"


def test_a_run_that_is_cancelled_ends_and_the_next_one_is_measured(client: Client) -> None:
    job = client.post("/api/lab", json={"experiment": "cost"}).json()["job"]  # a minute or more
    while client.get(f"/api/jobs/{job}").json()["state"] == "waiting":
        time.sleep(0.02)
    client.post(f"/api/jobs/{job}/cancel")
    assert _over(client, job)["state"] == "cancelled"
    after = _over(client, client.post("/api/lab", json=ORDER).json()["job"])
    assert after["state"] == "done"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "Choose an experiment."),
        ({"experiment": "gravity"}, "there must be an experiment of that name"),
        ({"experiment": "order", "settings": [1]}, "settings must be an object"),
        ({"experiment": "order", "settings": {"shuffles": 0}}, "shuffles must be"),
        ({"experiment": "order", "settings": {"depth": 1}}, "depth must be one of its settings"),
        ({"experiment": "order", "settings": {"shuffled": "dog"}}, "must have the words of the"),
        ({"experiment": "meaning", "settings": {"own": "a | b"}}, "own must be five parts"),
        ({"experiment": "order", "quick": 1}, "quick must be true or false."),
        ({"experiment": "order", "seed": -1}, "seed must be a whole number"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_words(
    client: Client, asked: dict[str, Any], message: str
) -> None:
    found = client.post("/api/lab", json=asked)
    assert found.status_code == 400
    assert message in found.json()["error"]


def test_that_a_model_is_loaded_is_told_in_the_readers_language(client: Client) -> None:
    settings = {"model": "minilm", "pairs": 101}
    asked = {"experiment": "geometry", "settings": settings, "quick": True, "language": "bn"}
    job = client.post("/api/lab", json=asked).json()["job"]
    told: list[tuple[str, bool]] = []
    while (found := client.get(f"/api/jobs/{job}").json())["state"] in ("waiting", "running"):
        told.append((found["step"], found["total"] > 0))
        time.sleep(0.02)
    assert found["state"] == "done", found["error"]
    title = client.get(f"/api/lab/{found['result']}").json()["title"]
    loading = ("MiniLM মডেলটি লোড হচ্ছে …", False)
    assert loading in told
    assert set(told) <= {("", False), (title, True), loading}
    assert told[-1] == (title, True)


def test_a_run_that_is_gone_is_said_to_be(client: Client) -> None:
    found = client.get("/api/lab/no-such-run")
    assert found.status_code == 404
    assert "gone" in found.json()["error"]
