"""What takes long in the studio ends when it shall: by Ctrl-C, by a click, in time."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.made_runs import long_text, made_run
from helpers.model_folders import save, small_llama
from helpers.studio_process import Studio, studio
from transformers import LlamaForCausalLM

from regard.cli import main
from regard.run import load

COUNTING = "select count(*) as n from range(1000000000000)"
# DuckDB looks for an interrupt between pieces of work. This is one piece, of minutes.
ENDLESS = "select levenshtein(repeat('a', 700000), repeat('b', 700000)) as n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small model that takes texts of any length."""
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(7)
    save(LlamaForCausalLM(small_llama(max_position_embeddings=10**6)), folder)
    return str(folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("runs")
    made_run().save(folder / "one")
    return str(folder)


def begin_reading(server: Studio, model: str, words: int) -> str:
    return server.ask("/api/see", {"text": "i " * words, "model": model})["job"]


def has_begun(server: Studio, job: str) -> None:
    """Wait until the model is on its way through the text."""
    end = time.monotonic() + 40
    while server.ask(f"/api/jobs/{job}")["step"] != "Reading the text":
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.5)


def test_a_job_ends_by_a_click_and_with_the_studio_by_ctrl_c(model: str) -> None:
    with studio("--model", model) as server:
        job = begin_reading(server, model, 400_000)
        has_begun(server, job)
        start = time.monotonic()
        server.ask(f"/api/jobs/{job}/cancel", {})
        server.wait_for(job, "cancelled", seconds=10)
        assert time.monotonic() - start < 10
        again = server.ask("/api/see", {"text": "i love apple", "model": model})["job"]
        assert server.wait_for(again, "done", "failed")["error"] == ""
        has_begun(server, begin_reading(server, model, 50_000))
        children = server.children()
        assert server.end(signal.SIGINT) == (0, "")
    assert children
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


@pytest.mark.parametrize(("sent", "query"), [(signal.SIGINT, ENDLESS), (signal.SIGTERM, COUNTING)])
def test_ctrl_c_ends_the_studio_in_the_middle_of_a_query(
    runs: str, sent: signal.Signals, query: str
) -> None:
    with studio(runs) as server:
        run = server.ask("/api/runs")[0]["id"]
        server.begin("POST", "/api/sql", {"query": query, "runs": [run]})
        while not (children := server.children()):
            time.sleep(0.05)
        time.sleep(0.5)
        assert server.end(sent) == (0 if sent == signal.SIGINT else -sent, "")
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


def test_a_run_that_is_being_saved_at_ctrl_c_is_whole_or_not_there(
    tmp_path: Path,
) -> None:
    made = made_run(long_text(1009), layers=5, hidden_states=False, top=0)
    made.save(tmp_path / "one")
    with studio(str(tmp_path)) as server:
        run = server.ask("/api/runs")[0]["id"]
        assert server.send("GET", f"/api/runs/{run}")[0] == 200
        for number in range(5):
            server.begin("POST", f"/api/runs/{run}/save", {"name": f"copy {number}"})
        while not (server.store / "copy 0").exists():
            time.sleep(0.01)
        assert server.end(signal.SIGINT) == (0, "")
        saved = [each for each in server.store.iterdir() if not each.name.startswith(".")]
        assert len(saved) > 0
        for each in saved:
            assert load(each).layer(4).shape == made.layer(4).shape


def test_slow_queries_hold_up_no_page_and_end_when_nobody_waits(runs: str) -> None:
    with studio(runs) as server:
        run = server.ask("/api/runs")[0]["id"]
        asked: dict[str, Any] = {"query": ENDLESS, "runs": [run]}
        waiting = [server.begin("POST", "/api/sql", asked) for _ in range(45)]
        time.sleep(1.5)
        for path in ("/", "/web/dom.js", "/api/runs", f"/api/runs/{run}", "/api/examples"):
            assert server.send("GET", path)[0] == 200
        refused = [each for each in waiting if _answered(each)]
        assert 0 < len(refused) < 45
        assert {each.getresponse().status for each in refused} == {429}
        for each in waiting:
            each.close()
        found = server.ask("/api/sql", {"query": "select 7 as seven", "runs": [run]})
        assert found["values"] == [[7]]


def _answered(connection: Any) -> bool:
    import select

    return bool(select.select([connection.sock], [], [], 0)[0])


@pytest.mark.parametrize("limit", ["nan", "inf", "0", "-1", "much"])
@pytest.mark.parametrize("option", ["--sql-seconds", "--sql-memory", "--check-seconds"])
def test_what_is_no_limit_is_refused(
    capsys: pytest.CaptureFixture[str], option: str, limit: str
) -> None:
    assert main(["studio", option, limit]) == 2
    assert option in capsys.readouterr().err


def test_a_query_has_so_much_time_and_memory_and_no_more(runs: str) -> None:
    with studio(runs, "--sql-seconds", "3", "--sql-memory", "0.3") as server:
        runs_ = [server.ask("/api/runs")[0]["id"]]
        late = server.ask("/api/sql", {"query": ENDLESS, "runs": runs_})
        assert "3 seconds" in late["error"]
        assert "--sql-seconds" in late["error"]
        large = server.ask(
            "/api/sql", {"query": "select list(range) from range(100000000)", "runs": runs_}
        )
        assert "0.3 GB" in large["error"]
        assert "--sql-memory" in large["error"]
        few = server.ask(
            "/api/sql",
            {"query": "select repeat('a', 1000000) || range from range(1000)", "runs": runs_},
        )
        assert "error" in few or len(str(few)) < 10_000_000
        peak = Path(f"/proc/{server.process.pid}/status").read_text().split("VmHWM:")[1].split()[0]
        assert int(peak) < 1_500_000  # kB
