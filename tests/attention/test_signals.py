"""A signal handler may call attention while attention runs: neither changes a bit of the other."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

import regard
from regard._linear import linear


def attended(n: int, **options: object) -> Tensor:
    x = torch.arange(n * 64.0).reshape(1, 1, n, 64).sin()
    return regard.attention(x, x.cos(), x.flip(2), **options)  # pyright: ignore[reportCallIssue, reportArgumentType]


@torch.enable_grad()  # a handler has the grad mode of what it interrupts
def pulled_back(n: int) -> tuple[Tensor, ...]:
    x = torch.arange(n * 64.0).reshape(1, 1, n, 64).sin().requires_grad_()
    k, v = x.detach().cos().requires_grad_(), x.detach().flip(2).requires_grad_()
    out = regard.attention(x, k, v, causal=True)
    return torch.autograd.grad(out, (x, k, v), torch.ones_like(out).cumsum(2) / n)


def observed(n: int) -> tuple[Tensor, ...]:
    x = torch.arange(n * 64.0).reshape(1, 1, n, 64).sin()
    see = regard.See(entropy=True, top=3, map=(7, 11), received=True, distance=True)
    out, seen = regard.attention(x, x.cos(), x, causal=True, see=see)
    parts = (seen.lse, seen.entropy, seen.top_keys, seen.map, seen.received, seen.distance)
    return out, *(part for part in parts if part is not None)


def tiles(n: int) -> tuple[Tensor, ...]:
    x = torch.arange(n * 64.0).reshape(1, 1, n, 64).sin()
    lse = torch.full((1, 1, n), 9.0)
    picture = regard.pooled(x, x.cos(), lse=lse, shape=(13, 17))
    return picture, regard.weights(x, x.cos(), lse=lse, rows=slice(0, 1009))


def mapped(n: int) -> Tensor:
    x = torch.arange(n * 4.0).reshape(4, n).sin()
    return linear(x, torch.arange(n * 1013.0).reshape(1013, n).cos(), None)


WORK: dict[str, Callable[[], object]] = {
    "forward": lambda: attended(9000),
    "few queries": lambda: [attended(2)] + [regard.attention(*_long_cache()) for _ in range(40)],
    "observed": lambda: observed(6007),
    "backward": lambda: pulled_back(5003),
    "tiles": lambda: tiles(9001),
    "linear": lambda: [mapped(8191) for _ in range(11)],
}


def _long_cache() -> tuple[Tensor, Tensor, Tensor]:
    cache = torch.arange(20011 * 64.0).reshape(1, 1, 20011, 64).sin()
    return cache[:, :, :1], cache, cache


def flat(found: object) -> list[Tensor]:
    if isinstance(found, Tensor):
        return [found]
    assert isinstance(found, list | tuple)
    return [x for part in found for x in flat(part)]


@pytest.fixture
def handle() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Have a function called again and again, by a signal handler."""
    before = signal.getsignal(signal.SIGALRM)

    def often(function: Callable[[], None]) -> None:
        signal.signal(signal.SIGALRM, lambda *_: function())
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)

    yield often
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("name", WORK)
def test_a_handler_that_calls_attention_changes_no_bit_and_gets_its_own(
    name: str, handle: Callable[[Callable[[], None]], None]
) -> None:
    def all_small() -> list[Tensor]:
        return flat([attended(300), attended(1), pulled_back(101), observed(97), tiles(103)])

    expected, small = flat(WORK[name]()), all_small()
    wrong, called, busy = [0], [0], [False]

    def in_between() -> None:
        if not busy[0]:  # signals go on while the handler works
            busy[0] = True
            called[0] += 1
            wrong[0] += not all(map(torch.equal, all_small(), small))
            busy[0] = False

    handle(in_between)
    end = time.monotonic() + 20.0
    while called[0] < 2 and time.monotonic() < end:
        assert all(map(torch.equal, flat(WORK[name]()), expected))
    assert called[0] >= 2
    assert not wrong[0]


@pytest.mark.usefixtures("_threads")
def test_a_handler_that_fails_in_a_call_of_its_own_ends_both(
    handle: Callable[[Callable[[], None]], None],
) -> None:
    class Enough(Exception):
        pass

    depth = [0]

    def in_between() -> None:
        depth[0] += 1
        if depth[0] == 2:  # inside the call that the first handler made
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            raise Enough
        if depth[0] == 1:  # a third one was on its way already
            attended(20011)

    expected = attended(300)

    def many() -> None:
        end = time.monotonic() + 20.0
        while time.monotonic() < end:
            attended(20011)

    handle(in_between)
    with pytest.raises(Enough):
        many()
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    assert torch.equal(attended(300), expected)
