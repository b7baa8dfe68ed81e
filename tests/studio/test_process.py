"""Processes of the studio: what their time is, and how they end."""

from __future__ import annotations

import pytest
from helpers import slow_start

from regard.studio.process import Process


def test_the_start_of_a_process_takes_nothing_of_the_time_of_a_question() -> None:
    process = Process(slow_start.__name__)
    try:
        found = process.ask(
            {"number": 7}, slow_start.SECONDS / 2, late="It is late.", ended="It ended: {}."
        )
        assert found == {"asked": 7}
    finally:
        process.end()


def test_a_process_that_says_nothing_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.studio.process._START", 0.3)
    process = Process(slow_start.__name__)
    try:
        with pytest.raises(ValueError, match=r"^It is late\.$"):
            process.ask({"number": 7}, 60, late="It is late.", ended="It ended: {}.")
    finally:
        process.end()
