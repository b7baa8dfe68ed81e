"""One sequence on two ranks beside one process with two threads: `python bench/parallel.py`.

Every figure is of this run: answers are compared first, then all take turns, best of several.
`--memory` measures what a rank of four takes at 131,072 tokens instead; minutes.
"""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections.abc import Callable
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from racing import line

import regard

HEADS, WIDTH = 8, 64
SOME = regard.See(entropy=True, top=8, distance=True)
ALL = regard.See(entropy=True, top=8, map=(128, 128), received=True, distance=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer tokens, one round")
    parser.add_argument("--memory", action="store_true", help="memory of a rank")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.memory:
        memory(4096 if arguments.quick else 131_072)
    else:
        speed(2048 if arguments.quick else 16_384, 1 if arguments.quick else arguments.rounds)


# ── speed ─────────────────────────────────────────────────────────────────────────────────────


def speed(tokens: int, rounds: int) -> None:
    torch.set_num_threads(2)
    q, k, v = inputs(tokens, HEADS)
    ranks = Ranks(2)
    ways: dict[str, Callable[..., float]] = {
        "one process × 2 threads": lambda: once(q, k, v, SOME),
        "one process × 2 threads, map and received": lambda: once(q, k, v, ALL),
    }
    shared = {
        "heads": ("heads", "contiguous", SOME),
        "heads, map and received": ("heads", "contiguous", ALL),
        "ring, zigzag": ("ring", "zigzag", SOME),
        "ring, zigzag, map and received": ("ring", "zigzag", ALL),
        "ring, contiguous": ("ring", "contiguous", SOME),
    }
    for name, given in shared.items():
        ranks.run(verified, tokens, HEADS, *given)
        ways[f"2 ranks × 1 thread: {name}"] = lambda given=given: max(
            ranks.run(timed, tokens, HEADS, *given)
        )
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, run in ways.items():
            best[name] = min(best[name], run())
    print(f"{tokens:,} tokens, {HEADS} heads, {WIDTH} wide, causal, observed; best of {rounds}\n")
    for name, seconds in best.items():
        print(f"{seconds:8.3f} s  {name}")
    alone, alone_all = list(best.values())[:2]
    heads, heads_all, zigzag, zigzag_all, contiguous = list(best.values())[2:]
    print()
    line("by heads, times as fast as one process", f"{alone / heads:.2f} ×", "≥ 0.9 ×")
    line("by heads, with map and received", f"{alone_all / heads_all:.2f} ×", "≥ 0.9 ×")
    line("ring, zigzag, times as fast as one process", f"{alone / zigzag:.2f} ×", "≥ 0.75 ×")
    line("ring, zigzag, with map and received", f"{alone_all / zigzag_all:.2f} ×", "≥ 0.55 ×")
    line("ring, zigzag, times as fast as contiguous", f"{contiguous / zigzag:.2f} ×", "≥ 1.25 ×")
    ranks.close()


def inputs(tokens: int, heads: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, heads, tokens, WIDTH) for _ in range(3)]


def once(q: Any, k: Any, v: Any, see: Any) -> float:
    start = time.perf_counter()
    regard.attention(q, k, v, causal=True, see=see)
    return time.perf_counter() - start


@cache
def parts(mesh: Any, tokens: int, heads: int, layout: Any) -> list[torch.Tensor]:
    from regard.parallel import shard

    return [shard(x, mesh, layout=layout, dim=2).contiguous() for x in inputs(tokens, heads)]


def verified(mesh: Any, tokens: int, heads: int, by: Any, layout: Any, see: Any) -> None:
    """Is it what one process finds?"""
    from regard.parallel import attention, shard

    few = min(tokens, 1543)
    out, seen = attention(
        *parts(mesh, few, heads, layout), mesh=mesh, by=by, layout=layout, causal=True, see=see
    )
    whole, whole_seen = regard.attention(*inputs(few, heads), causal=True, see=see)
    cut: dict[str, Any] = {"mesh": mesh, "layout": layout, "dim": 2}
    torch.testing.assert_close(out, shard(whole, **cut), atol=1e-5, rtol=1e-5)
    for name in ("lse", "entropy", "distance", "received"):
        if (x := getattr(whole_seen, name)) is not None:
            torch.testing.assert_close(getattr(seen, name), shard(x, **cut), atol=1e-3, rtol=1e-5)
    if whole_seen.map is not None:
        torch.testing.assert_close(seen.map, whole_seen.map, atol=1e-6, rtol=1e-4)


def timed(mesh: Any, tokens: int, heads: int, by: Any, layout: Any, see: Any) -> float:
    import torch.distributed as dist

    from regard.parallel import attention

    tensors = parts(mesh, tokens, heads, layout)
    dist.barrier(mesh)
    start = time.perf_counter()
    attention(*tensors, mesh=mesh, by=by, layout=layout, causal=True, see=see)
    return time.perf_counter() - start


# ── memory ────────────────────────────────────────────────────────────────────────────────────


def memory(tokens: int) -> None:
    heads = 4
    for by, layout in (("heads", "contiguous"), ("ring", "zigzag")):
        for size in (tokens // 2, tokens):
            ranks = Ranks(4)
            found = ranks.run(taken, size, heads, by, layout, ALL)
            ranks.close()
            held, peak = max(found, key=lambda each: each[1])
            print(
                f"{size:9,} tokens, 4 ranks, {by:5}: inputs, output and observations "
                f"{held / 2**20:6.1f} MB, at most {peak / 2**20:6.1f} MB: ",
                end="",
            )
            line("times as much", f"{peak / held:.2f} ×", "≤ 2.2 ×")


def taken(mesh: Any, tokens: int, heads: int, by: Any, layout: Any, see: Any) -> tuple[int, int]:
    """What this rank holds in the end, and the most that it held above what it began with."""
    from regard.observation import FIELDS
    from regard.parallel import Layout, attention

    options: dict[str, Any] = {"mesh": mesh, "by": by, "layout": layout, "causal": True}
    few = [torch.randn(1, heads, Layout(layout, 4).length(64, mesh.rank()), WIDTH)] * 3
    attention(*few, **options, see=see)
    before = resident("VmRSS")
    count = Layout(layout, 4).length(tokens, mesh.rank())
    tensors = [torch.randn(1, heads, count, WIDTH) for _ in range(3)]
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    out, seen = attention(*tensors, **options, see=see)
    held = [*tensors, out, *(x for name in FIELDS if (x := getattr(seen, name)) is not None)]
    return sum(x.nbytes for x in held), resident("VmHWM") - before


def resident(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.split(f"{name}:")[1].split()[0])


# ── ranks ─────────────────────────────────────────────────────────────────────────────────────


class Ranks:
    """Processes on this machine, with one thread each, that wait for work."""

    def __init__(self, count: int) -> None:
        context = get_context("spawn")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        pairs = [context.Pipe() for _ in range(count)]
        self._pipes = [ours for ours, _ in pairs]
        self._processes = [
            context.Process(target=serve, args=(theirs, rank, count, port), daemon=True)
            for rank, (_, theirs) in enumerate(pairs)
        ]
        for process in self._processes:
            process.start()

    def run(self, job: Callable[..., Any], *args: Any) -> list[Any]:
        for pipe in self._pipes:
            pipe.send((job, args))
        found = [pipe.recv() for pipe in self._pipes]
        for each in found:
            if isinstance(each, Exception):
                raise each
        return found

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def serve(pipe: Connection, rank: int, count: int, port: int) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
        "127.0.0.1", port, count, rank == 0
    )
    dist.init_process_group("gloo", store=store, rank=rank, world_size=count)
    while True:
        job, args = pipe.recv()
        try:
            pipe.send(job(dist.group.WORLD, *args))
        except Exception as error:  # noqa: BLE001 — it is raised where it was asked for
            pipe.send(error)


if __name__ == "__main__":
    main()
