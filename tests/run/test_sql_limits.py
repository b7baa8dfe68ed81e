"""SQL ends: by Ctrl-C, in time, and before the memory does."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from helpers.run_by_hand import make_run

import regard
from regard.run import Run, sql

# DuckDB looks for an interrupt between pieces of work. This is one piece, of minutes.
ENDLESS = "select levenshtein(repeat('a', 700000), repeat('b', 700000)) as n"
COUNTING = "select count(*) as n from range(1000000000000)"


def ask_in_a_process(query: str, limits: str, *, interrupted: bool) -> tuple[int, str]:
    """The exit code of a program that asks, and what it was told after at most 10 seconds, Ctrl-C
    pressed or not.
    """
    program = f"""
import gc, sys, time
from regard.run import Run
run = Run()
run.sql("select 1")
try:
    print("asking", flush=True)
    run.sql({query!r}{limits})
except (KeyboardInterrupt, TimeoutError) as error:
    print(type(error).__name__, time.monotonic())
    gc.freeze()  # or it is looked through again at the end, which takes seconds
    sys.exit(7)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # where DuckDB tells what it could not free
        text=True,
        process_group=0,
    ) as python:
        assert python.stdout is not None
        assert python.stdout.readline() == "asking\n"
        try:
            if interrupted:
                time.sleep(0.7)
            start = time.monotonic()
            if interrupted:
                python.send_signal(signal.SIGINT)
            # On a busy machine torch takes long to let go at the end; the queries take far longer.
            said, _ = python.communicate(timeout=180)
        finally:
            python.kill()
    what, _, when = said.partition(" ")
    assert float(when) - start < 10
    return python.returncode, what


@pytest.mark.parametrize("query", [ENDLESS, COUNTING])
def test_ctrl_c_ends_a_query(query: str) -> None:
    assert ask_in_a_process(query, "", interrupted=True) == (7, "KeyboardInterrupt")


def test_a_query_has_so_much_time_and_no_more() -> None:
    assert ask_in_a_process(ENDLESS, ", seconds=0.3", interrupted=False) == (7, "TimeoutError")
    with pytest.raises(TimeoutError, match=r"sql\(\): .* 0\.3 seconds.*seconds="):
        Run().sql(COUNTING, seconds=0.3)
    with pytest.raises(TimeoutError):
        sql(COUNTING, {"one": Run()}, seconds=0.3)
    assert Run().sql("select 7 as n", seconds=60).to_pylist() == [{"n": 7}]


@pytest.mark.parametrize(
    "query",
    [
        "select range from range(1000000000)",
        "select list(range) as all from range(100000000)",
        "select count(*) from (select distinct range from range(100000000))",
        "select repeat('a', 1000) || range from range(10000000)",
    ],
)
def test_a_query_has_so_much_memory_and_no_more(query: str) -> None:
    with pytest.raises(MemoryError, match=r"sql\(\): .*50,000,000 bytes.*memory="):
        Run().sql(query, memory=50_000_000)
    assert Run().sql("select 7 as n", memory=50_000_000).to_pylist() == [{"n": 7}]


def test_no_query_raises_its_own_limits() -> None:
    for setting in ("memory_limit", "temp_directory", "threads"):
        with pytest.raises(ValueError, match=r"sql\(\): query must be one SELECT"):
            Run().sql(f"set {setting} = '1'", memory=50_000_000)
    limit = "select current_setting('memory_limit') as m, current_setting('temp_directory') as t"
    assert Run().sql(limit, memory=2**26).to_pylist() == [{"m": "64.0 MiB", "t": ""}]


def test_limits_change_no_answer() -> None:
    run, _ = make_run("causal", see=regard.See(top=11))
    query = "select * from edges order by all"
    assert run.sql(query, seconds=60, memory=2**30) == run.sql(query)
    none = run.sql("select * from edges where weight > 7")
    assert (none.num_rows, none.schema) == (0, run.sql(query).schema)


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "1", True])
def test_what_is_no_limit_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"sql\(\): seconds must be"):
        Run().sql("select 1", seconds=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"sql\(\): memory must be"):
        Run().sql("select 1", memory=wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("query", ["select '\ud800'", "select 1 -- \udfff"])
def test_a_query_that_is_no_text_is_refused(query: str) -> None:
    with pytest.raises(ValueError, match=r"sql\(\): query must be Unicode"):
        Run().sql(query)
