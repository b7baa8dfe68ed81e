"""How well a run translates what it never saw: `python bench/translate.py RUN`.

Prints, as Markdown: the loss over its steps; of the pairs that were kept aside how many come out
word for word, and their BLEU; a few of them, chosen by a rule; where the decoder looked in one.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

import regard
from regard.train import history, open_run
from regard.train.batches import pair_batch
from regard.train.prepare import open_task
from regard.train.tasks.pairs import PairTask

CLASSES = ((1, 4), (5, 7), (8, 11), (12, 99))  # words of a source
EACH = 3  # samples of a class
MARKS = " ·░▒▓█"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    arguments = parser.parse_args()
    opened = open_run(arguments.run)
    task = open_task(opened.recipe, arguments.run)
    assert isinstance(task, PairTask)
    opened.model.eval()
    decode = opened.tokenizer.decode
    pairs = [(decode(source), decode(target)) for source, target in task.aside()]
    written = translated(task, opened.model)
    weights = sum(each.numel() for each in opened.model.parameters())
    print(f"{weights:,} weights, after {opened.step:,} steps\n")
    print_losses(arguments.run)
    print_scores(pairs, written)
    print_samples(pairs, written)
    chosen = next(samples(pairs, (8, 11)))
    print_map(task, opened.model, chosen)


def translated(task: PairTask, model: Any, size: int = 100) -> list[str]:
    """What the model writes for every source that was kept aside, always the likeliest token."""
    sources = [source for source, _ in task.aside()]
    found: list[str] = []
    for start in range(0, len(sources), size):
        found += map(task.tokenizer.decode, task.written(model, sources[start : start + size]))
    return found


# ── how well ──────────────────────────────────────────────────────────────────────────────────


def words_of(text: str) -> list[str]:
    """Words, numbers and marks, as they are written.

    >>> words_of("¿Qué es eso?")
    ['¿', 'Qué', 'es', 'eso', '?']
    """
    return re.findall(r"\w+|[^\w\s]", text)


def bleu(found: Sequence[str], wanted: Sequence[str]) -> float:
    """BLEU of Papineni and others, 2002, of all texts together, one reference each.

    exp(min(0, 1 − r/c)) · (p₁ p₂ p₃ p₄)^¼ with c and r the words of both, and pₙ the share of the
    n-grams written that are in the reference, each as often as it is there at most.

    >>> bleu(["a b c d e"], ["a b c d e"]), round(bleu(["a b c d e"], ["a b c d f"]), 3)
    (1.0, 0.669)
    """
    texts = [(words_of(one), words_of(other)) for one, other in zip(found, wanted, strict=True)]
    logarithms = 0.0
    for n in range(1, 5):
        right = total = 0
        for one, other in texts:
            have, may = Counter(_grams(one, n)), Counter(_grams(other, n))
            right += (have & may).total()
            total += have.total()
        if not right:
            return 0.0
        logarithms += math.log(right / total) / 4
    c, r = (sum(len(text[side]) for text in texts) for side in (0, 1))
    return math.exp(min(0.0, 1 - r / c) + logarithms)


def _grams(words: list[str], n: int) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(n)), strict=False)


def print_losses(run: Path) -> None:
    found = history(run)
    training, kept = found.losses, found.validation
    print(
        "| steps | loss in training | loss on what was kept aside | exact |\n|---:|---:|---:|---:|"
    )
    last = 0.0
    for step, loss, exact in zip(
        kept["loss"].steps, kept["loss"].values, kept["exact"].values, strict=True
    ):
        since = [
            value
            for at, value in zip(training.steps, training.values, strict=True)
            if last < at <= step and value is not None
        ]
        mean = sum(since) / len(since) if since else math.nan
        print(f"| {step:,.0f} | {mean:.2f} | {loss:.3f} | {exact:.1%} |")
        last = step


def print_scores(pairs: Sequence[tuple[str, str]], written: Sequence[str]) -> None:
    print("\n| words of the source | pairs | word for word | BLEU |\n|---|---:|---:|---:|")
    for low, high in (*CLASSES, (1, 99)):
        some = [
            (found, target)
            for (source, target), found in zip(pairs, written, strict=True)
            if low <= len(words_of(source)) <= high
        ]
        exact = sum(found == target for found, target in some) / max(1, len(some))
        score = bleu([found for found, _ in some], [target for _, target in some])
        name = (
            "all"
            if (low, high) == (1, 99)
            else f"{low} to {high}"
            if high < 99
            else f"{low} or more"
        )
        print(f"| {name} | {len(some):,} | {exact:.1%} | {100 * score:.1f} |")


def samples(pairs: Sequence[tuple[str, str]], among: tuple[int, int]) -> Iterator[int]:
    """The numbers of the pairs whose sources have so many words, in the order of the list."""
    low, high = among
    return (
        number for number, (source, _) in enumerate(pairs) if low <= len(words_of(source)) <= high
    )


def print_samples(pairs: Sequence[tuple[str, str]], written: Sequence[str]) -> None:
    print(f"\nThe first {EACH} of each class of lengths:\n")
    print("| source | written | in the list |\n|---|---|---|")
    for among in CLASSES:
        for number in islice(samples(pairs, among), EACH):
            source, target = pairs[number]
            other = "the same" if written[number] == target else target
            print(f"| {source} | {written[number]} | {other} |")


# ── where it looked ───────────────────────────────────────────────────────────────────────────


def print_map(task: PairTask, model: Any, number: int) -> None:
    """The weights of cross attention on each token of the source, the mean of the heads of the
    layer whose rows are the sharpest, for each token that the model wrote.
    """
    source, _ = task.aside()[number]
    target = task.written(model, [source])[0]
    batch = pair_batch([source], [target])
    with torch.no_grad(), regard.watch(model, regard.See(entropy=True), keep=("q", "k")) as run:
        model(**batch.inputs)
    cross = {
        name: each.weights()[0].mean(0) for name, each in run.layers.items() if "cross" in name
    }
    name = max(cross, key=lambda name: float(cross[name].max(-1).values.mean()))
    tokens = [task.tokenizer.decode([each]) for each in source]
    print(f"\nCross attention of {name}, the mean of its heads:\n\n```text")
    for place, token in enumerate(tokens):  # a column has no room for more than a stroke
        print(" " * 14 + "│  " * place + token.strip())
    for token, row in zip([*target, None], cross[name], strict=True):
        text = "(end)" if token is None else task.tokenizer.decode([token])
        marks = "  ".join(MARKS[min(5, int(float(weight) * 8))] for weight in row)
        print(f"{text.strip():>12}  {marks}".rstrip())
    print("```")


if __name__ == "__main__":
    main()
