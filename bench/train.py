"""Training beside plain PyTorch, and the published figures: `python bench/train.py [--quick]`.

Speed: both have the same weights and batches, their losses and gradients are compared first, then
they take turns, best of several. What is learned is trained here, by the recipes that are shipped.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from racing import line, race
from torch import Tensor, nn
from torch.nn import functional

import regard
from regard.train import Recipe, read_recipe, train
from regard.train.batches import Batch
from regard.train.loop import Trainer
from regard.train.memory import kept_memory
from regard.train.prepare import prepare

PUBLISHED = {"annotated": 0.27, "nanogpt": 1.88}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="speed alone, with fewer rounds")
    parser.add_argument("--only", choices=["speed", "tasks", "annotated", "nanogpt"])
    arguments = parser.parse_args()
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    parts = {"speed": speed, "tasks": tasks, "annotated": annotated, "nanogpt": nanogpt}
    for name, part in parts.items():
        wanted = arguments.only or ("speed" if arguments.quick else name)
        if wanted == name:
            part(arguments.quick)


# ── the same model, in plain PyTorch ──────────────────────────────────────────────────────────


class PlainBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width, bias=False)
        self.join = nn.Linear(width, width, bias=False)
        self.widen = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        b, n, width = x.shape
        parts = self.attend(self.norm_1(x)).split(width, 2)
        q, k, v = (each.view(b, n, self.heads, -1).transpose(1, 2) for each in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(y.transpose(1, 2).reshape(b, n, width))
        return x + self.narrow(functional.gelu(self.widen(self.norm_2(x))))


class Plain(nn.Module):
    """A GPT of PyTorch's own modules."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([PlainBlock(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def plain_of(ours: Any) -> Plain:
    """A plain model with the weights of ours."""
    config = ours.config
    made = Plain(
        config.vocabulary, config.width, config.heads, config.layers, config.position.length
    )
    pairs: list[tuple[Tensor, Tensor]] = [
        (made.tokens.weight, ours.embedding.tokens.weight),
        (made.places.weight, ours.embedding.positions.weight),
    ]
    norms: list[tuple[nn.LayerNorm, Any]] = [(made.norm, ours.decoder.norm)]
    for theirs, own in zip(made.blocks, ours.decoder.layers, strict=True):
        assert isinstance(theirs, PlainBlock)
        attention, wide = own.attention, own.feed_forward
        joined = torch.cat([attention.w_q.weight, attention.w_k.weight, attention.w_v.weight])
        pairs += [
            (theirs.attend.weight, joined),
            (theirs.join.weight, attention.w_o.weight),
            (theirs.widen.weight, wide.w_in.weight),
            (theirs.narrow.weight, wide.w_out.weight),
        ]
        norms += zip((theirs.norm_1, theirs.norm_2), own.norms, strict=True)
    for norm, own in norms:
        pairs += [(norm.weight, own.weight), (norm.bias, own.bias)]
    with torch.no_grad():
        for mine, its in pairs:
            mine.copy_(its)
    return made


def plain_step(
    model: nn.Module, recipe: Recipe, around: Callable[[], AbstractContextManager[object]]
) -> Callable[[Batch], float]:
    """A step of the loop that people write: forward, loss, backward, clip, AdamW; with something
    around its passes."""
    settings = recipe.optimizer
    matrices = [each for each in model.parameters() if each.dim() > 1]
    others = [each for each in model.parameters() if each.dim() < 2]
    groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(
        groups,
        settings.learning_rate,
        (settings.beta1, settings.beta2),
        weight_decay=settings.weight_decay,
        fused=True,
    )

    def step(batch: Batch) -> float:
        with around():
            logits = model(batch.inputs["ids"])
            loss = functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


def speed(quick: bool) -> None:
    """Tokens a second beside plain PyTorch, and what the monitor costs at every step."""
    steps, rounds = 10, 3 if quick else 40
    with tempfile.TemporaryDirectory() as place:
        trainers: dict[str, Trainer] = {}
        for name, every in (("ours", 0), ("watched", 1), ("at times", 10)):
            recipe = read_recipe("language-model", [f"watch.every={every}", "watch.pictures=0"])
            task = prepare(recipe, Path(place, name))
            trainers[name] = Trainer(task, Path(place, name))
        task, recipe = trainers["ours"].task, trainers["ours"].recipe
        batches = [task.batch(step) for step in range(steps)]
        plain = plain_of(trainers["ours"].model)
        same, seen = (plain_of(trainers["ours"].model) for _ in range(2))
        _compare(trainers["ours"], plain, batches[0])
        own, twin = (plain_step(model, recipe, nullcontext) for model in (plain, same))
        monitor = regard.monitor(seen, every=10, report=Path(place, "heads.jsonl"))
        monitored = plain_step(seen, recipe, monitor.step)
        calls: dict[str, Callable[[], object]] = {
            "plain": lambda: [own(task.batch(step)) for step in range(steps)],
            "again": lambda: [twin(task.batch(step)) for step in range(steps)],
            "monitored": lambda: [monitored(task.batch(step)) for step in range(steps)],
        }
        for name, trainer in trainers.items():
            calls[name] = lambda trainer=trainer: [
                trainer.learn(task.batch(step)) for step in range(steps)
            ]
        with kept_memory():  # as `train` has it
            took = race(calls, rounds)
    count = sum(batch.count for batch in batches)
    shape = "4 layers × 4 heads × 128 wide, 12 × 64 characters"
    print(f"\nA training step, {shape}: forward, backward, clip, AdamW")
    line("plain PyTorch, tokens a second", f"{count / took['plain']:,.0f}")
    line("regard train, with its log", f"{count / took['ours']:,.0f}")
    line("as a multiple of plain PyTorch", f"{took['plain'] / took['ours']:.3f} ×", "≥ 1.0 ×")
    line("plain PyTorch against itself", f"{took['plain'] / took['again']:.3f} ×")
    cost = took["watched"] / took["ours"]
    line("time with the signs of all heads at every step", f"{cost:.3f} ×", "≤ 1.05 ×")
    cost = took["at times"] / took["ours"]
    line("the same at every 10th step", f"{cost:.3f} ×", "≤ 1.02 ×")
    cost = took["monitored"] / took["plain"]
    line("plain PyTorch with regard.monitor at every 10th step", f"{cost:.3f} ×", "≤ 1.02 ×")


def _compare(trainer: Trainer, plain: nn.Module, batch: Batch) -> None:
    ours: Any = trainer.model
    with torch.no_grad():
        expected = plain(batch.inputs["ids"])
        torch.testing.assert_close(ours(batch.inputs["ids"]), expected, rtol=1e-4, atol=1e-5)


# ── what is learned ───────────────────────────────────────────────────────────────────────────


def _trained(recipe: Recipe) -> tuple[dict[str, float], float]:
    """The best scores on what was kept aside, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        found = train(recipe, Path(place, "run"))
        assert found.best is not None
        return found.best, time.perf_counter() - began


def tasks(quick: bool) -> None:
    print("\nSequences that were never seen, by the recipes as they are shipped")
    for name in ("copy", "reverse", "sort", "addition"):
        best, seconds = _trained(read_recipe(name))
        aim = "≥ 99.5 %, ≤ 120 s" if name != "addition" else ""
        line(f"{name}: exact", f"{best['exact']:.1%}, {seconds:.0f} s", aim)


def annotated(quick: bool) -> None:
    """The Annotated Transformer's first task, by its settings, with seeds of our own."""
    width, warmup = 512, 400
    changes = [
        *(f"model.width={width}", "model.heads=8", "model.hidden=2048", "model.layers=2"),
        *("model.dropout=0.1", "model.embedding_scale=true", "model.activation=relu"),
        "model.tied=false",  # its generator is a matrix of its own
        *("data.symbols=10", "data.shortest=10", "data.longest=10", "data.validation=150"),
        *(f"optimizer.learning_rate={width**-0.5 * warmup**-0.5}", "optimizer.beta2=0.98"),
        *("optimizer.eps=1e-9", "optimizer.clip=0", "schedule.kind=inverse-sqrt"),
        *(f"schedule.warmup={warmup}", "training.steps=200", "training.batch=30"),
        *("training.evaluate=200", "training.save=200", "watch.every=0", "watch.pictures=0"),
    ]
    losses: list[float] = []
    for seed in range(5):
        best, _ = _trained(read_recipe("copy", [*changes, f"seed={seed}"]))
        losses.append(best["loss"] * 11 / 10)  # that of the end of a sequence is nearly 0
    print("\nThe Annotated Transformer's copy task: 200 batches of 30, 5 seeds")
    said = ", ".join(f"{loss:.3f}" for loss in sorted(losses))
    line(
        f"losses {said}: median", f"{statistics.median(losses):.3f}", f"≤ {PUBLISHED['annotated']}"
    )


def nanogpt(quick: bool) -> None:
    best, seconds = _trained(read_recipe("language-model"))
    print("\nThe characters of Shakespeare, 2,000 steps of 12 × 64")
    line("loss on the last tenth of the text", f"{best['loss']:.4f}", f"≤ {PUBLISHED['nanogpt']}")
    line("seconds, evaluations and pictures included", f"{seconds:.0f}")


if __name__ == "__main__":
    main()
