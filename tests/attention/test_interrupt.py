"""Ctrl-C ends a long call, and the next one is right."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest
import torch

import regard
from regard._attention import native
from regard._attention.problem import Problem


def long_forward() -> None:
    x = torch.randn(1, 1, 65536, 64).expand(1, 64, -1, -1)  # half an hour of work, if it went on
    regard.attention(x, x, x)


def long_backward() -> None:
    x = torch.randn(1, 1, 65536, 64)
    many = x.expand(1, 64, -1, -1)  # twice as much
    problem, lse = Problem(many, x, x), torch.full((1, 64, 65536), 16.0)
    native.backward(problem, many, many, lse, (False, True, True))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("work", [long_forward, long_backward])
def test_ctrl_c_ends_a_long_call_and_the_next_is_right(
    work: Callable[[], None], threads: int
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    few = torch.randn(1, 2, 101, 7, requires_grad=True)

    def gradient() -> torch.Tensor:
        return torch.autograd.grad(regard.attention(few, few, few).square().sum(), few)[0]

    def interrupted() -> None:
        soon.start()  # on a busy machine that alone may take as long
        work()

    expected = gradient()
    soon = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    # What runs in the background of a shell is told to ignore it.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert torch.equal(gradient(), expected)
    finally:
        soon.join()
        signal.signal(signal.SIGINT, usual)
        torch.set_num_threads(before)
