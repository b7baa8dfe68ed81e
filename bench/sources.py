"""Is what an answer looked at what it needed: `python bench/sources.py [--each N] [--keep FILE]`.

Questions on two documents, made from WikiText-2 and Tatoeba, of three kinds:
- copied: half of a sentence of a document is asked for; the answer is its other half
- continued: the answer is the sentence that follows a document in its article, and is in neither
- glossary: two lists of English sentences with their Spanish ones; the answer is in one of them
In half of them the document that it is made from stands first. SmolLM2 reads documents, question
and answer; `regard.ask` says which document has the larger share, by weights and by contribution;
then each document is blocked, and the one without which the answer loses most is what it needed.

Each question is a line of FILE, and is not asked again. One thread.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import regard
from regard.ask._blocked import LEAST, Blocking
from regard.ask._cut import sentences
from regard.ask._pass import Again
from regard.ask._places import places_of
from regard.ask._prompt import prompt_of
from regard.ask._sources import looks, shares_of
from regard.lab.statistics import share
from regard.train.texts import fetch_text

KINDS = ("copied", "continued", "glossary")
Question = dict[str, Any]  # documents, question, answer, and which document it was made from


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=24, help="questions of each kind")
    parser.add_argument("--keep", type=Path, default=Path("sources.jsonl"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    made = questions(given.each)
    found: dict[str, Any] = {}
    if given.keep.is_file():
        for line in given.keep.read_text(encoding="utf-8").splitlines():
            found |= {(row := json.loads(line))["id"]: row}
    loaded = regard.models.load("smollm2")
    with given.keep.open("a", encoding="utf-8") as kept:
        for id, question in made.items():
            if id not in found:
                found[id] = {"id": id, **measured(loaded, question)}
                kept.write(json.dumps(found[id]) + "\n")
                kept.flush()
                print(f"\r{id}: {len(found)} of {len(made)}", end="", file=sys.stderr, flush=True)
    report([found[id] for id in made])


# ── questions ─────────────────────────────────────────────────────────────────────────────────


def questions(each: int) -> dict[str, Question]:
    """By an id, the same every time, and the first ones whatever their number."""
    paragraphs, pairs = articles(), glossary()
    makers: dict[str, Callable[[random.Random], Question]] = {
        "copied": lambda drawn: copied(paragraphs, drawn),
        "continued": lambda drawn: continued(paragraphs, drawn),
        "glossary": lambda drawn: translated(pairs, drawn),
    }
    found: dict[str, Question] = {}
    for n in range(each):
        for kind, make in makers.items():
            drawn = random.Random(f"{kind} {n}")
            question = make(drawn)
            if n % 2:  # the other document stands first
                question["documents"].reverse()
            found[f"{kind} {n}"] = {**question, "kind": kind, "truth": n % 2}
    return found


def articles() -> list[list[str]]:
    """Of each paragraph of WikiText-2 that is long enough its sentences, as they are written."""
    text = fetch_text("wikitext-2", print).read_text(encoding="utf-8")
    found: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith(" = ") or len(line.split()) < 110 or "<unk>" in line:
            continue
        plain = re.sub(r" @(.)@ ", r"\1", line.strip())
        plain = re.sub(r" ([,.;:!?%)\]]|'s\b|n't\b)", r"\1", plain).replace("( ", "(")
        plain = re.sub(r'" ([^"]*?) "', r'"\1"', plain)
        parts = [plain[a:b] for a, b in sentences(plain)]
        if len(parts) >= 4:
            found.append(parts)
    return found


def glossary() -> list[tuple[str, str]]:
    lines = fetch_text("tatoeba-en-es", print).read_text(encoding="utf-8").splitlines()
    pairs = [tuple(line.split("\t")[:2]) for line in lines if line.count("\t")]
    return [(a, b) for a, b in pairs if 4 <= len(a.split()) <= 8 and 3 <= len(b.split()) <= 8]


def document(parts: list[str], least: int = 45) -> tuple[str, int]:
    """The first sentences of a paragraph, of so many words or more, and how many there are."""
    count = next(n for n in range(1, len(parts) + 1) if len(" ".join(parts[:n]).split()) >= least)
    return " ".join(parts[:count]), count


def two(paragraphs: list[list[str]], drawn: random.Random) -> tuple[list[str], str, str, int]:
    """A paragraph, the document that it gives, another one of about its length, and how many
    sentences were taken."""
    while True:
        own, other = drawn.sample(paragraphs, 2)
        (first, count), (second, _) = document(own), document(other)
        lengths = sorted(len(each.split()) for each in (first, second))
        if lengths[1] <= min(1.25 * lengths[0], 90) and count < len(own):
            return own, first, second, count


def copied(paragraphs: list[list[str]], drawn: random.Random) -> Question:
    while True:
        own, first, second, count = two(paragraphs, drawn)
        long = [each.split() for each in own[:count] if 12 <= len(each.split()) <= 40]
        if long:
            words = drawn.choice(long)
            half, rest = words[: len(words) // 2], words[len(words) // 2 :]
            asked = f'Complete this sentence from one of the texts: "{" ".join(half)}"'
            return {"documents": [first, second], "question": asked, "answer": " ".join(rest)}


def continued(paragraphs: list[list[str]], drawn: random.Random) -> Question:
    while True:
        own, first, second, count = two(paragraphs, drawn)
        if 8 <= len(own[count].split()) <= 40:
            asked = "Write the sentence that follows one of the texts."
            return {"documents": [first, second], "question": asked, "answer": own[count]}


def translated(pairs: list[tuple[str, str]], drawn: random.Random) -> Question:
    some = drawn.sample(pairs, 10)
    lists = ["\n".join(f"{a} = {b}" for a, b in part) for part in (some[:5], some[5:])]
    english, spanish = some[drawn.randrange(5)]
    return {"documents": lists, "question": f'What is "{english}" in Spanish?', "answer": spanish}


# ── what is measured ──────────────────────────────────────────────────────────────────────────


def measured(loaded: regard.models.Loaded, question: Question) -> dict[str, Any]:
    """The shares of both documents over the whole answer, and what it loses without each."""
    documents = dict(zip("ab", question["documents"], strict=True))
    text, spans = prompt_of(loaded, documents, question["question"])
    start = len(text)
    reading = loaded.reader().read(text + question["answer"])
    places = places_of(reading, (start, len(reading.text)), spans, None)
    again = Again(loaded, reading, {})
    see = regard.See(spans=places.labels, n_spans=2)
    logits, run = again.rows(places.rows, see, keep=("q", "k", "v"))
    blocking = Blocking(again, places)
    before = sum(blocking.take(logits))
    return {
        "kind": question["kind"],
        "truth": question["truth"],
        "tokens": len(reading.ids),
        "log_probability": before,
        "weights": shares_of(looks(run, places), slice(None)),
        "contribution": shares_of(looks(run, places, "contribution"), slice(None)),
        "lost": [before - sum(blocking.without(places.tokens_of(n))) for n in (0, 1)],
    }


def report(rows: list[dict[str, Any]]) -> None:
    """How often a guess is the document whose removal hurts most, or that it was made from."""
    picks: dict[str, Callable[[dict[str, Any]], int]] = {
        "largest share, by weights": lambda row: int(row["weights"][1] > row["weights"][0]),
        "largest share, by contribution": lambda row: int(
            row["contribution"][1] > row["contribution"][0]
        ),
        "nearest to the question": lambda _: 1,
        "whose removal hurts most": hurts,
    }
    print(f"\nSmolLM2, {len(rows)} questions of {mean_of(rows, 'tokens'):.0f} tokens on average.\n")
    for title, target in (("whose removal hurts most", hurts), ("it was made from", made_from)):
        print(f"How often it is the document {title}, with a 95 % interval:\n")
        print(f"| | all {len(rows)} | {' | '.join(KINDS)} |\n|---|---|{'---|' * len(KINDS)}")
        for name, pick in picks.items():
            if target is hurts and pick is hurts:
                continue
            cells = [told(some, pick, target) for some in parts_of(rows)]
            print(f"| {name} | {' | '.join(cells)} |")
        print(f"| uniform: either, by chance | {' | '.join(['50 %'] * (1 + len(KINDS)))} |\n")
    clear = [row for row in rows if abs(row["lost"][0] - row["lost"][1]) >= LEAST]
    most = [max(row["lost"]) for row in rows]
    print(
        f"In {len(clear)} of {len(rows)} the two losses differ by {LEAST} or more; in "
        f"{sum(loss < LEAST for loss in most)} neither document is needed. The larger loss is "
        f"{sorted(most)[len(most) // 2]:.1f} nats in the median, "
        f"{sorted(min(row['lost']) for row in rows)[len(rows) // 2]:.1f} the smaller."
    )


def parts_of(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [rows, *([row for row in rows if row["kind"] == kind] for kind in KINDS)]


def told(rows: list[dict[str, Any]], pick: Any, target: Any) -> str:
    found = share(sum(pick(row) == target(row) for row in rows), len(rows))
    return f"{found.value:.0%} ({found.low:.0%}–{found.high:.0%})".replace("%", " %")


def hurts(row: dict[str, Any]) -> int:
    return int(row["lost"][1] > row["lost"][0])


def made_from(row: dict[str, Any]) -> int:
    return row["truth"]


def mean_of(rows: list[dict[str, Any]], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)


if __name__ == "__main__":
    main()
