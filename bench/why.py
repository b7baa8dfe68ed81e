"""What asking a model besides costs, beside one pass of it: `python bench/why.py [--quick]`.

Calls take turns, best of several. `run.why` without ablations: 128 tokens through SmolLM2, 30 × 9
heads; `run.lens`: the same text after every layer.
"""

from __future__ import annotations

import argparse

import torch
from racing import line, race

import regard

_TEXT = "When Mary and John went to the store, John gave a drink to Mary, who sat at the window. "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, a shorter text")
    quick: bool = parser.parse_args().quick
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    asked(32 if quick else 128, 2 if quick else 7)


def asked(tokens: int, rounds: int) -> None:
    """`run.why` and `run.lens` as multiples of a blind pass with one row of logits."""
    loaded = regard.models.load("smollm2")
    reading = loaded.reader().read(_TEXT * tokens, first=tokens)
    inputs, run = loaded.batch([reading]), loaded.see(reading)

    @torch.no_grad()
    def blind() -> object:
        return loaded.model(**inputs, use_cache=False, logits_to_keep=1)

    why = run.why(-1, " Mary", " John", ablate=0)
    took = race(
        {
            "pass": blind,
            "why": lambda: run.why(-1, " Mary", " John", ablate=0),
            "again": blind,
        },
        rounds,
    )
    took |= race({"lens": run.lens}, 1)
    print(f"SmolLM2, {tokens} tokens: asked besides")
    off = abs(why.rounding / why.total)
    line("shares add up to the difference of two logits", f"{off:.1e}", "≤ 1e-05")
    line(
        "run.why, no ablations, as a multiple of a pass",
        f"{took['why'] / took['pass']:.2f} ×",
        "≤ 2 ×",
    )
    line("run.lens, all layers and positions", f"{took['lens'] / took['pass']:.1f} ×")
    line("a pass against itself", f"{took['again'] / took['pass']:.2f} ×")
    line("a pass", f"{took['pass'] * 1000:.0f} ms")
    print()


if __name__ == "__main__":
    main()
