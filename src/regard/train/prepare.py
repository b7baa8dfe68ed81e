"""Texts to tokens on disk, once for a run: `tokenizer.json`, and `data/`, the tokens."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from regard._checkpoint.errors import CheckpointError, plain
from regard._extras import need
from regard._files import write_text
from regard.train.batches import random_of
from regard.train.recipe import Recipe
from regard.train.settings import GeneratedData, PairData, TableData, TextData
from regard.train.store import Store, hash_of, portions_of, write_store
from regard.train.tasks.pairs import GeneratedTask, TranslateTask, letters_of
from regard.train.tasks.task import Task
from regard.train.tasks.texts import ClassifyTask, LanguageTask, MaskedTask
from regard.train.texts import fetch_text, named
from regard.train.tokens import STOP, ids_of, make_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER, DATA = "tokenizer.json", "data"
_LONGEST_LINE = 1_000_000
Note = Callable[[str], None]


def prepare(recipe: Recipe, folder: Path, note: Note = lambda text: None) -> Task:
    """The task of a recipe, with what it learns from in a folder: read, or found there already."""
    data = recipe.data
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / DATA).is_dir() or not (folder / TOKENIZER).is_file():
        if isinstance(data, GeneratedData):
            tokenizer = _letters(letters_of(recipe))
            _keep(folder, tokenizer)
            write_store(folder / DATA, {}, {}, 0)
        elif isinstance(data, TextData):
            _prepare_text(data, folder, note)
        elif isinstance(data, PairData):
            _prepare_pairs(recipe, data, folder, note)
        else:
            _prepare_table(recipe, cast("TableData", data), folder, note)
    return open_task(recipe, folder)


def open_task(recipe: Recipe, folder: Path) -> Task:
    """The task of a recipe whose data was prepared in a folder."""
    tokenizer, store = read_tokenizer(folder), Store(folder / DATA)
    if recipe.task == "translate":
        return TranslateTask(recipe, tokenizer, store)
    if recipe.task == "classify":
        return ClassifyTask(recipe, tokenizer, store)
    if recipe.task == "masked":
        return MaskedTask(recipe, tokenizer, store)
    if recipe.task == "language-model":
        return LanguageTask(recipe, tokenizer, store)
    return GeneratedTask(recipe, tokenizer)


def read_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a run."""
    library = need("train()", "tokenizers", "models")
    file = folder / TOKENIZER
    try:
        return library.Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001, as the library has none of its own
        remedy = "Put back the file that training wrote."
        raise CheckpointError(
            file, "be a tokenizer", plain(error), remedy, call="train()"
        ) from None


def _keep(folder: Path, tokenizer: Any) -> None:
    write_text(folder / TOKENIZER, tokenizer.to_str(pretty=True))


def _letters(letters: str) -> Tokenizer:
    """Letters are tokens in their own order, which may not be that of their codes."""
    made = json.loads(make_tokenizer("characters", [letters]).to_str())
    specials = len(made["added_tokens"])
    for number, letter in enumerate(letters):
        made["model"]["vocab"][letter] = specials + number
    library = need("train()", "tokenizers", "models")
    return library.Tokenizer.from_str(json.dumps(made))


# ── running text ──────────────────────────────────────────────────────────────────────────────


def _prepare_text(data: TextData, folder: Path, note: Note) -> None:
    files = _files_of(data, note)
    size = sum(path.stat().st_size for path in files)
    note(f"Reading {len(files)} file{'s' * (len(files) > 1)}, {size:,} bytes")

    def portions() -> Iterator[str]:
        return itertools.chain.from_iterable(map(portions_of, files))

    tokenizer = make_tokenizer(data.tokens, portions(), data.vocabulary)
    vocabulary = tokenizer.get_vocab_size()

    def tokens() -> Iterator[list[int]]:
        for number, path in enumerate(files):
            for portion in portions_of(path):
                yield ids_of(tokenizer, portion)
            if number + 1 < len(files):
                yield [STOP]

    # All of them first, as where the last part begins is known only then.
    about = {"files": [{"name": path.name, "sha256": hash_of(path)} for path in files]}
    write_store(folder / DATA, about, {"train": tokens()}, vocabulary)
    whole = Store(folder / DATA)["train"]
    first = len(whole) - int(len(whole) * data.validation)
    parts = {"train": len(whole[:first]), "validation": len(whole[first:])}
    for name, count in parts.items():
        if count <= data.length:
            of = plain(", ".join(data.text))
            raise ValueError(
                f"train(): {of} must have more than the {data.length} tokens of data.length for "
                f"{name}; got {count:,}. Take a longer text, or a smaller data.length."
            )
    split = {"train": _cut(whole[:first]), "validation": _cut(whole[first:])}
    write_store(folder / DATA, about, split, vocabulary)
    _keep(folder, tokenizer)


def _cut(tokens: Any, size: int = 1 << 20) -> Iterator[Any]:
    for start in range(0, len(tokens), size):
        yield tokens[start : start + size]


def _files_of(data: TextData, note: Note) -> list[Path]:
    found: list[Path] = []
    for name in data.text:
        if named(name, "text"):
            found.append(fetch_text(name, note))
        elif Path(name).is_dir():
            inside = sorted(path for path in Path(name).rglob("*.txt") if path.is_file())
            if not inside:
                raise ValueError(f"train(): {name} must hold .txt files; got none.")
            found += inside
        else:
            found.append(_file(name, "text"))
    if not any(path.stat().st_size for path in found):
        names = plain(", ".join(data.text)) or "data.text"
        raise ValueError(f"train(): {names} must have a word in it; got an empty corpus.")
    return found


def _file(name: str, kind: str) -> Path:
    from regard.train.texts import TEXTS

    path = Path(name)
    if not path.is_file():
        known = ", ".join(sorted(each for each, text in TEXTS.items() if text.kind == kind))
        raise ValueError(f"train(): {plain(name)} must be a file, or one of {known}; got neither.")
    return path


# ── pairs ─────────────────────────────────────────────────────────────────────────────────────


def _prepare_pairs(recipe: Recipe, data: PairData, folder: Path, note: Note) -> None:
    path = (
        fetch_text(data.pairs, note) if named(data.pairs, "pairs") else _file(data.pairs, "pairs")
    )
    pairs = list(_pairs_of(path, data))
    if not pairs:
        raise ValueError(f"train(): {path} must have a pair in it; got an empty corpus.")
    note(f"Reading {len(pairs):,} pairs")
    texts = itertools.chain.from_iterable(pairs)
    tokenizer = make_tokenizer(data.tokens, texts, data.vocabulary)
    known: dict[str, list[int]] = {}

    def read(text: str) -> list[int]:
        if text not in known:
            known[text] = ids_of(tokenizer, text)
        return known[text]

    short = [pair for pair in pairs if all(0 < len(read(text)) <= data.longest for text in pair)]
    if len(short) < 20:
        raise ValueError(
            f"train(): {path} must have at least 20 pairs of at most {data.longest} tokens, "
            f"data.longest; got {len(short)} of {len(pairs):,}."
        )
    order = random_of(recipe.seed, 6).permutation(len(short)).tolist()
    shuffled = [short[number] for number in order]
    # No source that is kept aside is learned from, with whatever target.
    aside: dict[str, str] = {}
    most = min(data.validation, len(shuffled) // 10)
    for source, target in shuffled:
        if len(aside) < most:
            aside.setdefault(source, target)
    learned = [pair for pair in shuffled if pair[0] not in aside]
    if not learned or not aside:
        raise ValueError(
            f"train(): {path} must have sources enough to learn from some and keep others aside; "
            f"got {len({source for source, _ in short})} different ones."
        )
    rows = [*learned, *aside.items()]
    if len(learned) < len(pairs):
        note(f"{len(learned):,} pairs to learn from, {len(aside):,} kept aside")
    arrays: dict[str, Iterable[Any]] = {}
    for number, name in enumerate(("sources", "targets")):
        tokens = [read(row[number]) for row in rows]
        arrays[name] = tokens
        arrays[f"{name}-ends"] = [np.cumsum([len(each) for each in tokens])]
    about = {"file": path.name, "sha256": hash_of(path), "aside": len(aside)}
    write_store(folder / DATA, about, arrays, tokenizer.get_vocab_size())
    _keep(folder, tokenizer)


def _pairs_of(path: Path, data: PairData) -> Iterator[tuple[str, str]]:
    """The pairs of a file, by lines; a line that is none is an error that names it."""
    is_json = path.suffix.lower() in (".jsonl", ".ndjson", ".json")
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        where = f"train(): line {number} of {path}"
        if is_json:
            try:
                found = json.loads(line)
                pair = found[data.source], found[data.target]
            except (ValueError, KeyError, TypeError, IndexError, RecursionError):
                raise ValueError(
                    f"{where} must be a JSON object with {data.source!r} and {data.target!r}; got "
                    f"{plain(line[:60])}."
                ) from None
        else:
            columns = line.split("\t")
            places = [_column(data.source), _column(data.target)]
            if len(columns) < max(places):
                count = "one column" if len(columns) == 1 else f"{len(columns)} columns"
                raise ValueError(
                    f"{where} must have at least {max(places)} columns, separated by tabs; got "
                    f"{count}: {plain(line[:60])}."
                )
            pair = columns[places[0] - 1], columns[places[1] - 1]
        if not all(isinstance(text, str) for text in pair):
            raise ValueError(f"{where} must have two texts; got something else.")
        if any("\ud800" <= letter <= "\udfff" for text in pair for letter in text):
            raise ValueError(f"{where} must be Unicode; got half of a surrogate pair.")
        source, target = (text.strip() for text in pair)
        if source and target:
            yield source, target


def _column(name: str) -> int:
    if not name.isdecimal() or int(name) < 1:
        raise ValueError(
            "recipe [data]: source and target must be the numbers of columns, from 1; got "
            f"{name!r}."
        )
    return int(name)


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            while line := file.readline(_LONGEST_LINE):
                yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"train(): {path} must be text in UTF-8; got {error.reason}.") from None


# ── texts with labels ─────────────────────────────────────────────────────────────────────────


def _prepare_table(recipe: Recipe, data: TableData, folder: Path, note: Note) -> None:
    path = (
        fetch_text(data.table, note) if named(data.table, "table") else _file(data.table, "table")
    )
    rows: list[tuple[str, str]] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            for column in (data.text, data.label):
                if column not in (reader.fieldnames or ()):
                    known = plain(", ".join(reader.fieldnames or ())) or "no header"
                    raise ValueError(f"train(): {path} must have a column {column!r}; got {known}.")
            for row in reader:
                text, label = row[data.text], row[data.label]
                if text is None or label is None or not text.strip() or not label.strip():
                    raise ValueError(
                        f"train(): line {reader.line_num} of {path} must have a text and a label; "
                        "got less."
                    )
                rows.append((text.strip(), label.strip()))
    except UnicodeDecodeError as error:
        raise ValueError(f"train(): {path} must be text in UTF-8; got {error.reason}.") from None
    except csv.Error as error:
        raise ValueError(f"train(): {path} must be a table in CSV; got {error}.") from None
    labels = sorted({label for _, label in rows})
    if len(rows) < 20 or len(labels) < 2:
        raise ValueError(
            f"train(): {path} must have at least 20 texts with 2 labels; got {len(rows)} with "
            f"{len(labels)}."
        )
    note(f"Reading {len(rows):,} texts with {len(labels)} labels")
    tokenizer = make_tokenizer(data.tokens, (text for text, _ in rows), data.vocabulary)
    order = random_of(recipe.seed, 6).permutation(len(rows)).tolist()
    tokens = [ids_of(tokenizer, rows[number][0])[: data.longest] for number in order]
    numbers = [labels.index(rows[number][1]) for number in order]
    first = len(rows) - max(1, int(len(rows) * data.validation))
    about = {"file": path.name, "sha256": hash_of(path), "labels": labels, "first": first}
    arrays = {
        "texts": tokens,
        "texts-ends": [np.cumsum([len(each) for each in tokens])],
        "labels": [numbers],
    }
    size = max(tokenizer.get_vocab_size(), len(labels))
    write_store(folder / DATA, about, cast("dict[str, Any]", arrays), size)
    _keep(folder, tokenizer)
