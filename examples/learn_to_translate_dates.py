"""An encoder and a decoder learn to translate dates, and show where they look while they do.

From `12 March 1987`, `Thursday, Mar 12, 87` or `12.3.1987` to `1987-03-12`, letter by letter. The
dates are made up on the spot. What the decoder looks at in the source (its cross-attention) is
nobody's rule: it is learned by back-propagation, like everything else.

    python examples/learn_to_translate_dates.py              half a minute on two cores
    python examples/learn_to_translate_dates.py --steps 20   a glance
    python examples/learn_to_translate_dates.py --html dates.html   one pass, to be looked at
"""

from __future__ import annotations

import argparse
import random
import time
from datetime import date, timedelta

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import regard
from regard.nn import Learned, PreNorm, Transformer, TransformerConfig

PAD, START, STOP = 0, 1, 2
LETTERS = "0123456789-,./ ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
LONGEST = len("Wednesday, 30 September 1999")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=400, help="how many batches to learn from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--html", metavar="FILE", help="write the whole pass of a date as a page")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error("--steps must be at least 1")
    torch.manual_seed(arguments.seed)
    chance = random.Random(arguments.seed)
    model = learn(arguments.steps, chance)
    written, wanted = show(model, chance)
    if arguments.html is not None:
        flow_of(model, written, wanted).html(arguments.html)


# ── dates ─────────────────────────────────────────────────────────────────────────────────────


def some_pair(chance: random.Random) -> tuple[str, str]:
    """A date as somebody would write it, and as ISO 8601 has it."""
    day = date(1950, 1, 1) + timedelta(days=chance.randrange(36_500))
    month, short = day.strftime("%B"), day.strftime("%b")
    written = chance.choice(
        [
            f"{day.day} {month} {day.year}",
            f"{month} {day.day}, {day.year}",
            f"{short} {day.day}, {day.year}",
            f"{day.day}.{day.month}.{day.year}",
            f"{day.month:02}/{day.day:02}/{day.year}",
            f"{day.strftime('%A')}, {day.day} {month} {day.year}",
        ]
    )
    return written, day.isoformat()


def tokens_of(text: str) -> list[int]:
    return [3 + LETTERS.index(letter) for letter in text]


def text_of(tokens: list[int]) -> str:
    return "".join(LETTERS[token - 3] for token in tokens if token > STOP)


def some_batch(chance: random.Random, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sources (B, M) padded on the right, how long each is (B,), and targets (B, 12)."""
    pairs = [some_pair(chance) for _ in range(size)]
    sources = [tokens_of(source) for source, _ in pairs]
    longest = max(map(len, sources))
    padded = [source + [PAD] * (longest - len(source)) for source in sources]
    targets = [[START, *tokens_of(target), STOP] for _, target in pairs]
    lengths = [len(source) for source in sources]
    return torch.tensor(padded), torch.tensor(lengths), torch.tensor(targets)


# ── learning ──────────────────────────────────────────────────────────────────────────────────


def learn(steps: int, chance: random.Random) -> Transformer:
    """A model that has seen `steps` batches of dates."""
    config = TransformerConfig(
        vocabulary=3 + len(LETTERS),
        width=64,
        heads=4,
        layers=2,
        hidden=128,
        position=Learned(LONGEST + 2),
        residual=PreNorm(),
        tied=False,
    )
    model = Transformer(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    print(f"{sum(p.numel() for p in model.parameters()):,} weights")
    start = time.perf_counter()
    for step in range(1, steps + 1):
        model.train()
        source, lengths, target = some_batch(chance, 64)
        logits = model(source, target[:, :-1], source_lengths=lengths)
        loss = cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step == 1 or step % max(steps // 10, 1) == 0:
            print(
                f"step {step:4}   loss {loss.item():.4f}   "
                f"whole dates right {accuracy(model, chance):6.1%}   "
                f"{time.perf_counter() - start:4.0f} s",
                flush=True,
            )
    return model.eval()


@torch.no_grad()
def accuracy(model: Transformer, chance: random.Random) -> float:
    """The share of new dates that are translated rightly, letter for letter, by greedy search."""
    model.eval()
    source, lengths, target = some_batch(chance, 64)
    sources = [row[:length].tolist() for row, length in zip(source, lengths, strict=True)]
    written = model.generate(sources, start=START, stop=STOP, max_new_tokens=11)
    right = [
        text_of(found) == text_of(wanted)
        for found, wanted in zip(written.tokens, target.tolist(), strict=True)
    ]
    return sum(right) / len(right)


# ── looking ───────────────────────────────────────────────────────────────────────────────────


@torch.no_grad()
def show(model: Transformer, chance: random.Random) -> tuple[str, str]:
    """One date, and which of its letters the decoder looked at to write each of its own."""
    while len((pair := some_pair(chance))[0]) > 18 or not pair[0][0].isalpha():
        pass
    written, wanted = pair
    source = torch.tensor([tokens_of(written)])
    target = torch.tensor([[START, *tokens_of(wanted)]])
    with regard.watch(model, regard.See(top=1), keep=("q", "k")) as run:
        found = model(source, target).argmax(-1)[0].tolist()
    print(f"\n{written}  →  {text_of(found)}   (right: {wanted})\n")
    print("Where the last layer looked in the source for each letter, all heads together:\n")
    name = [name for name in run.layers if name.endswith("cross")][-1]
    weights = run.layers[name].weights()[0].mean(0)  # (target, source)
    print("          " + "  ".join(written))
    for letter, row in zip(wanted, weights[: len(wanted)], strict=True):
        marks = "  ".join(" ·░▒▓█"[min(5, int(float(weight) * 8))] for weight in row)
        print(f"      {letter}   {marks}")
    return written, wanted


class Letters:
    """Names for tokens, so that a picture can show them."""

    def __call__(self, text: str) -> list[int]:
        return tokens_of(text)

    def decode(self, tokens: list[int]) -> str:
        return "".join(("pad", "start", "stop", *LETTERS)[token] for token in tokens)


def flow_of(model: Transformer, written: str, wanted: str) -> regard.Flow:
    """The whole pass of a date in one picture; a page of it holds the last layer whole."""
    target = [START, *tokens_of(wanted)]
    return regard.flow(written, model=model, target=target, tokenizer=Letters(), layer=-1)


if __name__ == "__main__":
    main()
