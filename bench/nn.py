"""The modules of regard.nn beside PyTorch's and Hugging Face's: `python bench/nn.py [--quick]`.

Every figure is of this run: both get the same weights and inputs, their answers are compared first,
then they take turns, best of several.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from racing import line, race
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.nn import from_hugging_face, from_torch

BATCH, TOKENS, WIDTH, HEADS, HIDDEN = 8, 256, 512, 8, 2048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, fewer tokens")
    parser.add_argument("--no-models", action="store_true", help="leave out what needs SmolLM2")
    arguments = parser.parse_args()
    rounds, tokens = (3, 8) if arguments.quick else (40, 64)
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    print(f"An encoder layer, {BATCH} × {TOKENS} tokens × {WIDTH} wide, {HEADS} heads")
    inference(rounds)
    training(max(rounds // 2, 2))
    if not arguments.no_models:
        for dtype, aim in ((torch.float32, "≥ 1.5 ×"), (torch.bfloat16, "≥ 2.5 ×")):
            generation(tokens, 2 if arguments.quick else 5, dtype, aim)


class Operators(TorchDispatchMode):
    """Remembers the names of the operators that were called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.name())
        return func(*args, **kwargs or {})


def both(dropout: float = 0.0) -> tuple[nn.TransformerEncoderLayer, nn.Module, Tensor]:
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout, batch_first=True)
    return theirs, from_torch(theirs), torch.randn(BATCH, TOKENS, WIDTH)


@torch.no_grad()
def inference(rounds: int) -> None:
    theirs, ours, x = both()
    theirs.eval()
    ours.eval()
    with Operators() as seen:
        expected = theirs(x)
    assert "aten::_transformer_encoder_layer_fwd" in seen.names, "PyTorch's fast path did not run"
    torch.testing.assert_close(ours(x), expected, rtol=1e-5, atol=1e-5)
    took = race(
        {"theirs": lambda: theirs(x), "ours": lambda: ours(x), "again": lambda: theirs(x)}, rounds
    )
    line("PyTorch's, its inference fast path", f"{took['theirs'] * 1e3:.1f} ms")
    line("ours, as a multiple of it", f"{took['ours'] / took['theirs']:.3f} ×", "≤ 1.03 ×")
    line("PyTorch's against itself", f"{took['again'] / took['theirs']:.3f} ×")


def training(rounds: int) -> None:
    for dropout in (0.0, 0.1):
        theirs, ours, x = both(dropout)
        if not dropout:
            for layer in (theirs, ours):
                layer(x).square().mean().backward()
            weight = ours.feed_forward.w_in.weight.grad  # pyright: ignore[reportAttributeAccessIssue]
            torch.testing.assert_close(weight, theirs.linear1.weight.grad, rtol=1e-4, atol=1e-7)
        calls = {"theirs": step_of(theirs, x), "ours": step_of(ours, x)}
        took = race(calls | {"again": step_of(theirs, x)}, rounds)
        print(f"\nA training step of it: forward, backward, AdamW; dropout {dropout}")
        line("PyTorch's", f"{took['theirs'] * 1e3:.1f} ms")
        line("ours, as a multiple of it", f"{took['ours'] / took['theirs']:.3f} ×", "≤ 1 ×")
        line("PyTorch's against itself", f"{took['again'] / took['theirs']:.3f} ×")


def step_of(layer: nn.Module, x: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-6)
    layer.train()

    def step() -> None:
        optimizer.zero_grad()
        layer(x).square().mean().backward()
        optimizer.step()

    return step


@torch.no_grad()
def generation(tokens: int, rounds: int, dtype: torch.dtype, aim: str) -> None:
    theirs, _ = regard.models.load("smollm2")
    theirs = theirs.to(dtype)
    ours = from_hugging_face(theirs)
    ids = torch.randint(100, 40_000, (1, 17), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)

    def by_transformers() -> list[int]:
        found = theirs.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            use_cache=True,
        )
        return found[0, ids.shape[1] :].tolist()

    def by_regard() -> list[int]:
        return ours.generate(ids, max_new_tokens=tokens).tokens[0]  # pyright: ignore[reportCallIssue]

    same = by_transformers() == by_regard()
    took = race({"theirs": by_transformers, "ours": by_regard}, rounds)
    print(
        f"\nSmolLM2-135M in {dtype}, {ids.shape[1]} tokens in, {tokens} out, greedy, one sequence"
    )
    line("Hugging Face's generate, its cache on", f"{tokens / took['theirs']:.1f} tokens/s")
    line("regard.nn", f"{tokens / took['ours']:.1f} tokens/s")
    line("as a multiple", f"{took['theirs'] / took['ours']:.2f} ×", aim)
    line("the same tokens", "yes" if same else "no")


if __name__ == "__main__":
    main()
