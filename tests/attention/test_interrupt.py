"""Ctrl-C ends a long call, and the next one is right."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import torch

import regard


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_call_and_the_next_is_right(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    x = torch.randn(1, 1, 65536, 64).expand(1, 64, -1, -1)  # half an hour of work, if it went on
    few = torch.randn(1, 2, 101, 7)
    expected = regard.attention(few, few, few)
    soon = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    # What runs in the background of a shell is told to ignore it.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        soon.start()
        with pytest.raises(KeyboardInterrupt):
            regard.attention(x, x, x)
        assert torch.equal(regard.attention(few, few, few), expected)
    finally:
        soon.join()
        signal.signal(signal.SIGINT, usual)
        torch.set_num_threads(before)
