"""Watching real models beside running them blind: `python bench/models.py [--quick]`.

Every figure is of this run: calls that take turns, best of several; memory is the peak of a process
of its own. The text is made up of random tokens: where a model looks does not change how long that
takes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from racing import line, race
from why import asked

import regard

SEE = regard.See(entropy=True, top=8, map=(64, 64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, shorter texts")
    parser.add_argument("--task", choices=sorted(TASKS), help=argparse.SUPPRESS)
    parser.add_argument("--tokens", type=int, default=2048, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        print(json.dumps(TASKS[arguments.task](arguments.tokens)))
        return
    quick = arguments.quick
    tokens, long, rounds = (256, 512, 2) if quick else (2048, 8192, 5)
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    for dtype in (torch.float32, torch.bfloat16):
        smollm2(tokens, rounds, dtype)
    installed(tokens, rounds)
    memory(tokens)
    far(long)
    minilm(8 if quick else 64, rounds)
    asked(32 if quick else 128, rounds)


@torch.no_grad()
def installed(tokens: int, rounds: int) -> None:
    """Our attention inside transformers, beside its own."""
    model, _ = regard.models.load("smollm2")
    ids = some_tokens(tokens)
    regard.install()

    def run(implementation: str) -> Any:
        model.set_attn_implementation(implementation)
        return model(input_ids=ids, use_cache=False, logits_to_keep=1).logits

    difference = float((run("regard") - run("sdpa")).abs().max())
    calls = {"sdpa": lambda: run("sdpa"), "regard": lambda: run("regard")}
    took = race({**calls, "again": lambda: run("sdpa")}, rounds)
    regard.uninstall()
    print(f'attn_implementation="regard" beside "sdpa", {tokens:,} tokens, float32')
    line("logits differ by at most", f"{difference:.1e}")
    line("time, as a multiple of sdpa's", f"{took['regard'] / took['sdpa']:.3f} ×", "≤ 1.00 ×")
    line("sdpa against itself", f"{took['again'] / took['sdpa']:.3f} ×")
    print()


@torch.no_grad()
def smollm2(tokens: int, rounds: int, dtype: torch.dtype) -> None:
    model, _ = regard.models.load("smollm2")
    model = model.to(dtype)
    ids = some_tokens(tokens)

    def plain() -> object:
        return model(input_ids=ids, use_cache=False, logits_to_keep=1)

    def watched() -> object:
        with regard.watch(model, SEE):
            return plain()

    took = race({"plain": plain, "watched": watched, "again": lambda: plain()}, rounds)
    print(f"SmolLM2-135M in {dtype}, {tokens:,} tokens, 270 heads: lse, entropy, top-8, maps")
    line("plain sdpa, which sees nothing", f"{took['plain']:.2f} s")
    line("watched, as a multiple of it", f"{took['watched'] / took['plain']:.3f} ×", "≤ 1.05 ×")
    line("plain sdpa against itself", f"{took['again'] / took['plain']:.3f} ×")


def memory(tokens: int) -> None:
    plain, watched, eager = (in_a_process(task, tokens) for task in ("plain", "watched", "eager"))
    ours, theirs = (x["peak"] - plain["peak"] for x in (watched, eager))
    line(
        "eager with output_attentions and the same statistics",
        f"{eager['seconds'] / watched['seconds']:.1f} ×",
        "≥ 4 × as long as watched",
    )
    line("memory above plain sdpa's: watched", f"{ours / 1e6:,.0f} MB")
    line("memory above plain sdpa's: eager", f"{theirs / 1e6:,.0f} MB", "≥ 10 × as much")


def far(tokens: int) -> None:
    found = in_a_process("far", tokens)
    print(f"\nSmolLM2-135M, {tokens:,} tokens, the same, q and k kept")
    line("time", f"{found['seconds']:.1f} s")
    line("peak memory of the process", f"{found['peak'] / 1e9:.2f} GB", "≤ 6 GB")
    line("edges of weight 0.05 or more", f"{found['edges']:,}")
    line("made in", f"{found['edges seconds']:.1f} s")
    line("run.sql with a filter and a group-by", f"{found['sql']:.2f} s", "≤ 2 s")


@torch.no_grad()
def minilm(sentences: int, rounds: int) -> None:
    model, _ = regard.models.load("minilm")
    ids = some_tokens(128, sentences, 1000, 20_000)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def plain() -> object:
        return model(**inputs)

    def watched() -> object:
        with regard.watch(model, SEE):
            return plain()

    took = race({"plain": plain, "watched": watched, "again": lambda: plain()}, rounds * 4)
    print(f"\nMiniLM, {sentences} sentences of 128 tokens")
    line("plain sdpa", f"{took['plain']:.3f} s")
    line("watched, as a multiple of it", f"{took['watched'] / took['plain']:.3f} ×", "≤ 1.10 ×")
    line("plain sdpa against itself", f"{took['again'] / took['plain']:.3f} ×")


# ── in processes of their own ─────────────────────────────────────────────────────────────────


def in_a_process(task: str, tokens: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--task", task, "--tokens", str(tokens)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def peak_memory() -> int:
    for entry in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if entry.startswith("VmHWM:"):
            return int(entry.split()[1]) * 1024
    return 0


def some_tokens(count: int, batch: int = 1, low: int = 100, high: int = 40_000) -> torch.Tensor:
    random = torch.Generator().manual_seed(0)
    return torch.randint(low, high, (batch, count), generator=random)


@torch.no_grad()
def run_plain(tokens: int) -> dict[str, Any]:
    model, _ = regard.models.load("smollm2")
    start = time.perf_counter()
    model(input_ids=some_tokens(tokens), use_cache=False, logits_to_keep=1)
    return {"seconds": time.perf_counter() - start, "peak": peak_memory()}


@torch.no_grad()
def run_watched(tokens: int) -> dict[str, Any]:
    model, _ = regard.models.load("smollm2")
    start = time.perf_counter()
    with regard.watch(model, SEE):
        model(input_ids=some_tokens(tokens), use_cache=False, logits_to_keep=1)
    return {"seconds": time.perf_counter() - start, "peak": peak_memory()}


@torch.no_grad()
def run_eager(tokens: int) -> dict[str, Any]:
    model, _ = regard.models.load("smollm2")
    model.set_attn_implementation("eager")
    start = time.perf_counter()
    out = model(
        input_ids=some_tokens(tokens), use_cache=False, logits_to_keep=1, output_attentions=True
    )
    side = 64
    for weights in out.attentions:
        torch.special.entr(weights).sum(-1)
        weights.topk(8, -1)
        if tokens % side == 0:
            step = tokens // side
            weights.unflatten(-1, (side, step)).sum(-1).unflatten(-2, (side, step)).mean(-2)
    return {"seconds": time.perf_counter() - start, "peak": peak_memory()}


@torch.no_grad()
def run_far(tokens: int) -> dict[str, Any]:
    model, _ = regard.models.load("smollm2")
    start = time.perf_counter()
    with regard.watch(model, SEE, keep=("q", "k")) as run:
        model(input_ids=some_tokens(tokens), use_cache=False, logits_to_keep=1)
    seconds, peak = time.perf_counter() - start, peak_memory()
    start = time.perf_counter()
    edges = run.edges(min_weight=0.05)
    edges_seconds = time.perf_counter() - start
    query = "select layer, head, count(*), avg(weight) from edges where weight > 0.3 group by all"
    run.sql(query)  # the table is made once
    start = time.perf_counter()
    run.sql(query)
    return {
        "seconds": seconds,
        "peak": peak,
        "edges": edges.num_rows,
        "edges seconds": edges_seconds,
        "sql": time.perf_counter() - start,
    }


TASKS: dict[str, Callable[[int], dict[str, Any]]] = {
    "plain": run_plain,
    "watched": run_watched,
    "eager": run_eager,
    "far": run_far,
}

if __name__ == "__main__":
    main()
