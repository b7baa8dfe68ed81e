"""A small Transformer learns to copy: attention finds, by back-propagation alone, where to look.

The model reads `7 3 9 1 |` and must write `7 3 9 1`. Nobody tells it that to write the third digit
it has to look at the third digit: it starts by guessing, and learns from mistakes where to look.

    python examples/learn_to_copy.py            some seconds on two cores
    python examples/learn_to_copy.py --steps 30 a glance
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import regard
from regard.nn import LanguageModel, LanguageModelConfig, Learned

DIGITS = 10
BAR = DIGITS  # the token between what is read and what is written


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=150, help="how many batches to learn from")
    parser.add_argument("--length", type=int, default=11, help="how many digits to copy")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.length < 1:
        parser.error("--steps and --length must be at least 1")
    torch.manual_seed(arguments.seed)
    model = learn(arguments.steps, arguments.length)
    show(model, arguments.length)


def learn(steps: int, length: int) -> LanguageModel:
    """A model that has seen `steps` batches of random digits."""
    config = LanguageModelConfig(
        vocabulary=DIGITS + 1,
        width=64,
        heads=2,
        layers=2,
        position=Learned(2 * length + 1),
        tied=False,
    )
    model = LanguageModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    print(f"{sum(p.numel() for p in model.parameters()):,} weights, {length} digits to copy")
    start = time.perf_counter()
    for step in range(1, steps + 1):
        model.train()
        tokens = some_lines(64, length)
        # Predicting the next token is asked for behind the bar only: before it there is no knowing.
        logits = model(tokens[:, :-1])[:, length:]
        loss = cross_entropy(logits.flatten(0, 1), tokens[:, length + 1 :].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step == 1 or step % max(steps // 10, 1) == 0:
            print(
                f"step {step:4}   loss {loss.item():.4f}   right {accuracy(model, length):6.1%}"
                f"   {time.perf_counter() - start:4.0f} s",
                flush=True,
            )
    return model.eval()


def some_lines(count: int, length: int) -> Tensor:
    """Lines (count, 2 · length + 1): digits, a bar, the same digits."""
    digits = torch.randint(DIGITS, (count, length))
    return torch.cat([digits, torch.full((count, 1), BAR), digits], 1)


@torch.no_grad()
def accuracy(model: LanguageModel, length: int) -> float:
    """The share of digits that are copied rightly from lines that were never seen."""
    model.eval()
    tokens = some_lines(64, length)
    guessed = model(tokens[:, :-1])[:, length:].argmax(-1)
    return (guessed == tokens[:, length + 1 :]).double().mean().item()


@torch.no_grad()
def show(model: LanguageModel, length: int) -> None:
    """What the model writes, token by token, and where it looked for each digit."""
    tokens = some_lines(1, length)
    written = model.generate(tokens[0, : length + 1].tolist(), max_new_tokens=length)
    print("\nread     ", *tokens[0, :length].tolist())
    print("written  ", *written.tokens[0])
    with regard.watch(model, regard.See(top=1)) as run:
        model(tokens[:, :-1])
    rows = slice(length, 2 * length)  # the bar and what is written after it
    wanted = torch.arange(length)
    found: list[tuple[float, int, int]] = []
    for number, layer in enumerate(run.layers.values()):
        assert layer.top_keys is not None
        right = (layer.top_keys[0, :, rows, 0] == wanted).double().mean(1)
        found += [(share, number, head) for head, share in enumerate(right.tolist())]
    share, number, head = max(found)
    print(
        f"\nHead {head} of layer {number} looks at the digit that is to be written next "
        f"for {share:.0%} of them:"
    )
    layer = run.layer(number)
    assert layer.top_keys is not None
    assert layer.top_weights is not None
    for i in range(length):
        key = int(layer.top_keys[0, head, length + i, 0])
        name = "|" if i == 0 else str(int(tokens[0, length + i]))
        weight = float(layer.top_weights[0, head, length + i, 0])
        print(f"  at {name} (place {length + i:2})  →  place {key:2}, weight {weight:.2f}")


if __name__ == "__main__":
    main()
