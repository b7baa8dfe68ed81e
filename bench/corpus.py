"""A model over many texts, beside a plain loop and beside nothing seen: `python bench/corpus.py`.

Every figure is of this run: texts of random words, of 8 to 250 tokens, through MiniLM. Before
anything is timed, the rows of the corpus are compared with those of the loop. Beside the time on
the clock stands that of the processor, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from racing import line

import regard
from regard.corpus import load_corpus, make
from regard.corpus.batches import batches
from regard.corpus.measure import look
from regard.corpus.plan import read_plan
from regard.corpus.sketch import STATISTICS
from regard.corpus.unit import Worker, texts_of_unit

MODEL = "minilm"
UNIT = 512  # texts, as it is unless somebody says otherwise: one for each of two processes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer texts, fewer rounds")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as place:
        loaded = regard.models.load(MODEL)
        unit = UNIT // 8 if quick else UNIT
        sizes: dict[str, Any] = {"unit": unit, "unit_bytes": 1 << 20}
        texts = some_texts(loaded, 2 * unit)
        file = Path(place, "texts.txt")
        file.write_text("\n".join(texts) + "\n", encoding="utf-8")
        print(f"torch {torch.__version__}, {MODEL}, {len(texts)} texts\n")
        out = make([file], MODEL, Path(place, "corpus"), by="line", **sizes, workers=1)
        tokens = verify(loaded, texts, out)
        overhead(loaded, out, 1 if quick else 2)
        throughput(loaded, texts, tokens, file, Path(place), sizes)


def some_texts(loaded: Any, count: int) -> list[str]:
    """Texts of random words that are one token each."""
    chance = random.Random(3)
    vocabulary = sorted(loaded.tokenizer.get_vocab())
    words = [word for word in vocabulary if word.isascii() and word.isalpha()]
    return [" ".join(chance.choices(words, k=int(8 * 31 ** chance.random()))) for _ in range(count)]


def see(loaded: Any, text: str) -> regard.Run:
    """What a plain loop does with a text."""
    with regard.watch(loaded.model, look(0.25)) as run, torch.no_grad():
        loaded.model(**loaded.inputs(text))
    return run


def verify(loaded: Any, texts: list[str], out: Path) -> int:
    """Are the rows of the corpus those of the loop? The number of tokens."""
    rows = {
        (row["text"], row["layer"], row["head"]): row
        for row in load_corpus(out).heads.to_table().to_pylist()
    }
    furthest = 0.0
    for text in range(0, len(texts), 13):
        for head in see(loaded, texts[text]).heads():
            row = rows[text, head["layer"], head["head"]]
            for name in STATISTICS:
                if (row[name] is None) != (head[name] is None):
                    raise SystemExit(f"text {text}: {name} is {row[name]}, and was {head[name]}")
                if head[name] is not None:
                    apart = abs(row[name] - head[name]) / max(abs(head[name]), 0.1)
                    furthest = max(furthest, apart)
    if furthest > 1e-4:
        raise SystemExit(f"rows differ from those of the loop by {furthest:.1e}")
    line("rows differ from those of a plain loop by at most", f"{furthest:.1e}")
    tokens = load_corpus(out).about["tokens"]
    line("tokens", f"{tokens:,}")
    return tokens


@torch.no_grad()
def overhead(loaded: Any, out: Path, rounds: int) -> None:
    """One process, one thread: a unit, from its file to its shard; and its batches, blind."""
    plan = read_plan(out)
    assert plan is not None
    worker, unit = Worker(out, loaded), 0
    readings = [
        loaded.reader().read(text.text) for text in map(worker._read, texts_of_unit(plan, unit))
    ]
    lengths = [len(reading.ids) for reading in readings]
    placed = list(batches(lengths, plan.recipe.batch))
    inputs = [loaded.batch([readings[n] for n in places]) for places in placed]
    area = sum(x["input_ids"].numel() for x in inputs)

    def blind() -> None:
        for each in inputs:
            loaded.model(**each)

    def corpus() -> None:
        folder = out / "units" / "unit-000000"
        if folder.exists():
            folder.rename(out / f".{time.monotonic_ns()}")
        worker.do(unit)

    ways = {"blind": blind, "corpus": corpus, "again": blind}
    clock, processor = (dict.fromkeys(ways, float("inf")) for _ in range(2))
    for turn in range(rounds + 1):
        for name, call in ways.items():
            start, used = time.perf_counter(), time.process_time()
            call()
            if turn:  # the first one warms up
                clock[name] = min(clock[name], time.perf_counter() - start)
                processor[name] = min(processor[name], time.process_time() - used)

    def multiple(name: str) -> str:
        on_clock, used = clock[name] / clock["blind"], processor[name] / processor["blind"]
        return f"{on_clock:.3f} × ({used:.3f} ×)"

    print(f"\n{len(readings)} texts in {len(inputs)} batches, 1 thread: on the clock (processor)")
    line("padding, as a share of all tokens", f"{1 - sum(lengths) / area:.3f}")
    line("the model blind", f"{clock['blind']:.2f} s ({processor['blind']:.2f} s)")
    line("corpus, as a multiple of it", multiple("corpus"), "≤ 1.15 ×")
    line("blind against itself", multiple("again"))


def throughput(
    loaded: Any, texts: list[str], tokens: int, file: Path, place: Path, sizes: dict[str, Any]
) -> None:
    """Two processes of one thread, from the first batch on; and a loop in one, of two threads."""
    torch.set_num_threads(2)
    start = time.perf_counter()
    for text in texts:
        see(loaded, text)
    best = {"loop": len(texts) / (time.perf_counter() - start)}
    began: list[tuple[float, int]] = []  # when so many texts were done
    make(
        [file],
        MODEL,
        place / "two",
        by="line",
        **sizes,
        workers=2,
        tell=lambda how_far: began.append((time.perf_counter(), how_far.done)),
    )
    took = time.perf_counter() - began[0][0]
    best["corpus"] = (len(texts) - began[0][1]) / took
    print("\nTwo processes beside a plain loop with watch in one, of two threads")
    line("the loop", f"{best['loop']:.1f} texts a second")
    line("corpus", f"{best['corpus']:.1f} texts a second")
    line("as a multiple", f"{best['corpus'] / best['loop']:.2f} ×", "≥ 1.6 ×")
    line("tokens a second", f"{best['corpus'] * tokens / len(texts):,.0f}")


if __name__ == "__main__":
    main()
