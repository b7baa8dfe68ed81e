"""A small corpus for the tests: texts of our own making, a small model, and what comes of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from helpers.model_folders import edit_weights, save_bert
from torch import Tensor

from regard.corpus import make
from regard.corpus.shard import UNITS

__all__ = ["WORDS", "left", "made", "model_folder", "paragraphs", "sentences"]

WORDS = ("i", "love", "apple", "phones", ".", "and", "pears")
SMALL: dict[str, Any] = {"by": "paragraph", "unit": 5, "batch": 40, "workers": 1}


def sentences(count: int, seed: int = 3) -> list[str]:
    """Texts of 1 to 11 words, which with the two special tokens are the 13 that the model takes."""
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, 11))) for _ in range(count)]


def paragraphs(path: Path, texts: list[str]) -> Path:
    path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    return path


def model_folder(place: Path) -> Path:
    """A BERT of 2 layers and 3 heads with random weights, and its tokenizer. Its queries and keys
    are long, so that its heads look somewhere.
    """
    folder = place / "model"
    folder.mkdir(parents=True)
    save_bert(folder)

    def sharpen(tensors: dict[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            if "query.weight" in name or "key.weight" in name:
                tensor *= 40

    edit_weights(folder, sharpen)
    return folder


def made(place: Path, out: str = "corpus", **options: Any) -> Path:
    """The corpus of `place/texts.txt`, read by the model beside it."""
    texts = options.pop("texts", [place / "texts.txt"])
    return make(texts, place / "model", place / out, **{**SMALL, **options})


def left(folder: Path) -> dict[str, bytes]:
    """Every byte that a corpus consists of."""
    files = [*folder.glob(f"{UNITS}/*/*"), folder / "manifest.json", folder / "sketches.parquet"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
