"""A training that goes wrong, and what `regard.monitor` says of it before the loss does.

A small Transformer learns to copy digits: once with scores that are divided by √d_k, at a learning
rate that it bears; and once with scores as they are, the rate rising by 6 % a step. Then logits
grow, the weights of heads collapse to one key, and at last the loss, which had been near 0, is that
of guessing. The warnings come first, with layer and step.

    python examples/training_goes_wrong.py             some seconds on two cores
    python examples/training_goes_wrong.py --seed 2    with other weights
"""

from __future__ import annotations

import argparse
import math
import warnings
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import regard
from regard.nn import LanguageModel, LanguageModelConfig, Learned, MultiHeadAttention

DIGITS, LENGTH = 10, 7
EVERY = 5  # steps between two looks
LOST = 1.0  # nats above the best: such a loss has diverged


@dataclass
class Course:
    """What became of a training: its losses, when it was warned of, and when it was lost."""

    losses: list[float] = field(default_factory=list[float])
    warned: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    lost: int | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=70, help="how many batches to learn from")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error("--steps must be at least 1")
    print("Scores divided by √d_k, a learning rate of 0.002:")
    told(train(arguments.steps, True, arguments.seed))
    print("Scores as they are, the learning rate rising from there by 6 % a step:")
    told(train(arguments.steps, False, arguments.seed))


def train(steps: int, is_well: bool, seed: int) -> Course:
    """Train a new model, with a monitor at every fifth step."""
    torch.manual_seed(seed)
    config = LanguageModelConfig(
        vocabulary=DIGITS + 1,
        width=64,
        heads=2,
        layers=2,
        position=Learned(2 * LENGTH + 1),
        tied=False,
    )
    model = LanguageModel(config)
    for module in model.modules():
        if isinstance(module, MultiHeadAttention) and not is_well:
            module.scale = 1.0
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 1.0 if is_well else 1.06)
    lines: list[dict[str, list[float]]] = []
    monitor = regard.monitor(model, every=EVERY, report=lines.append)
    course = Course()
    for step in range(steps):
        tokens = some_lines(64)
        lines.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with monitor.step() as is_watched:
                logits = model(tokens[:, :-1])[:, LENGTH:]
                loss = cross_entropy(logits.flatten(0, 1), tokens[:, LENGTH + 1 :].flatten())
                loss.backward()
        course.losses.append(loss.item())
        course.warned += [(step, str(each.message)) for each in caught]
        if is_watched:
            most = max(logit for line in lines for logit in line["max_logit"])
            least = min(entropy for line in lines for entropy in line["entropy"])
            print(
                f"  step {step:3}   loss {loss.item():.4f}   largest logit {most:5.0f}   "
                f"least entropy {least:.3f}",
                flush=True,
            )
        for each in caught:
            print(f"    {each.message}")
        if course.lost is None and not loss.item() < min(course.losses) + LOST:
            course.lost = step
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return course


def told(course: Course) -> None:
    """What came first."""
    if course.lost is None:
        print(f"  The loss has not diverged; {len(course.warned)} warnings.\n")
        return
    first = min((step for step, _ in course.warned), default=math.inf)
    print(
        f"  The loss has diverged at step {course.lost}, {course.lost - first} steps after the "
        "first warning.\n"
    )


def some_lines(count: int) -> Tensor:
    """Lines (count, 2 · LENGTH + 1): digits, a bar, the same digits."""
    digits = torch.randint(DIGITS, (count, LENGTH))
    return torch.cat([digits, torch.full((count, 1), DIGITS), digits], 1)


if __name__ == "__main__":
    main()
