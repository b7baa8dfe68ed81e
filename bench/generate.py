"""What a running `received` costs a generation: `python bench/generate.py [--quick]`.

SmolLM2 writes greedily after a prompt, blind and watched in turns, by transformers' `generate` and
by `regard.nn`. `received` is there at the end, without q, k or any N × N, and is compared with that
of one pass over the whole text, first of all.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import torch
from racing import line, race
from torch import Tensor

import regard
from regard.nn import from_hugging_face

_SEE = regard.See(received=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, fewer tokens")
    quick: bool = parser.parse_args().quick
    prompt, tokens, rounds = (512, 32, 1) if quick else (2048, 512, 2)
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    theirs, _ = regard.models.load("smollm2")
    ids = torch.randint(100, 40_000, (1, prompt), generator=torch.Generator().manual_seed(0))

    def by_transformers() -> Tensor:
        return theirs.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            use_cache=True,
        )

    generation("transformers' generate", theirs, by_transformers, rounds, f"{prompt} + {tokens}")
    ours: Any = from_hugging_face(theirs)

    def by_regard() -> Tensor:
        made = ours.generate(ids, max_new_tokens=tokens).tokens
        return torch.cat([ids, torch.tensor(made)], 1)

    generation("regard.nn", ours, by_regard, rounds, f"{prompt} + {tokens}")


def generation(name: str, model: Any, blind: Callable[[], Tensor], rounds: int, size: str) -> None:
    def watched() -> tuple[Tensor, regard.Run]:
        with warnings.catch_warnings(), regard.watch(model, _SEE) as run:
            warnings.simplefilter("ignore")
            made = blind()
        return made, run

    made, run = watched()
    with torch.no_grad(), regard.watch(model, _SEE) as whole:
        model(made[:, :-1])
    pairs: Any = zip(run.layers.values(), whole.layers.values(), strict=True)
    apart = max(float((one.received - other.received).abs().max()) for one, other in pairs)
    took = race({"blind": blind, "watched": watched, "again": blind}, rounds)
    print(f"\nSmolLM2 by {name}, {size} tokens, greedy, one sequence")
    line("received, running, from that of one pass at most", f"{apart:.1e}")
    line("blind", f"{took['blind']:.1f} s")
    line(
        "with a running received, as a multiple of it",
        f"{took['watched'] / took['blind']:.3f} ×",
        "≤ 1.05 ×",
    )
    line("blind against itself", f"{took['again'] / took['blind']:.3f} ×")


if __name__ == "__main__":
    main()
