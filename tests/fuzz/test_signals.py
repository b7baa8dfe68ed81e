"""Attention of any kind, interrupted at any moment by a handler that calls attention itself."""

from __future__ import annotations

import random
import signal

import torch
from helpers.soak import attacks
from torch import Tensor

import regard


@torch.enable_grad()
def work(choice: random.Random, longest: int) -> tuple[Tensor, ...]:
    """Some attention, and its gradients, which follow from the choices made."""
    n_queries, n_keys = (choice.choice([1, 2, 5, 101, longest]) for _ in range(2))
    width, heads = choice.choice([7, 64]), choice.choice([1, 2])
    generator = torch.Generator().manual_seed(choice.randrange(2**31))
    q, k, v = (
        torch.randn(1, heads, n, width, generator=generator, requires_grad=True)
        for n in (n_queries, n_keys, n_keys)
    )
    causal = choice.random() < 0.5
    kind = choice.choice(["forward", "observed", "backward", "weights", "pooled", "softcap"])
    if kind == "forward":
        return (regard.attention(q.detach(), k.detach(), v.detach(), causal=causal),)
    if kind == "observed":
        see = regard.See(entropy=True, top=3, map=(5, 7), received=True)
        out, seen = regard.attention(q, k, v, causal=causal, see=see)
        assert seen.map is not None
        assert seen.received is not None
        return out.detach(), seen.lse, seen.map, seen.received
    if kind == "weights":
        return (regard.weights(q, k, causal=causal, rows=slice(0, min(n_queries, 307))),)
    if kind == "pooled":
        return (regard.pooled(q, k, causal=causal, shape=(11, 13)),)
    softcap = 3.0 if kind == "softcap" else None
    out = regard.attention(q, k, v, causal=causal, softcap=softcap)
    return torch.autograd.grad(out.square().sum(), (q, k, v))


def test_no_handler_changes_a_bit_of_what_it_interrupts() -> None:
    before = signal.getsignal(signal.SIGALRM)
    inside = [0]
    wrong: list[str] = []

    try:
        for number, choice in enumerate(attacks(40)):
            threads = choice.choice([1, 2])
            torch.set_num_threads(threads)
            large, small = choice.randrange(2**31), choice.randrange(2**31)
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            expected = work(random.Random(large), 2503)
            of_handler = work(random.Random(small), 307)

            def handler(
                *_: object, number: int = number, small: int = small, own: object = of_handler
            ) -> None:
                if inside[0] < 2:  # also inside a handler's own call
                    inside[0] += 1
                    found = work(random.Random(small), 307)
                    assert isinstance(own, tuple)
                    if not all(map(torch.equal, found, own)):
                        wrong.append(f"attack {number}: in the handler")
                    inside[0] -= 1

            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, choice.uniform(0.001, 0.1), 0.03)
            for _ in range(2):
                if not all(map(torch.equal, work(random.Random(large), 2503), expected)):
                    wrong.append(f"attack {number}: around the handler")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        torch.set_num_threads(2)
    assert not wrong
