"""Texts to tokens on disk, once for a run: `tokenizer.json`, and `data/`, the tokens."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from regard._checkpoint.errors import CheckpointError, plain
from regard._checkpoint.files import read_bytes
from regard._extras import need
from regard._files import naming, write_text
from regard.train.batches import random_of
from regard.train.reading import file_of, is_folder, pairs_of, portions_of, reading, table_of
from regard.train.recipe import Recipe
from regard.train.settings import GeneratedData, PairData, TableData, TextData
from regard.train.store import Store, hash_of, write_store
from regard.train.tasks.pairs import GeneratedTask, TranslateTask, letters_of
from regard.train.tasks.task import Task
from regard.train.tasks.texts import ClassifyTask, LanguageTask, MaskedTask
from regard.train.texts import fetch_text, named
from regard.train.tokens import STOP, ids_of, make_tokenizer, reader_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER, DATA = "tokenizer.json", "data"
_LARGEST = 1_000_000_000  # bytes of a tokenizer
_EACH = 0.5  # seconds between two words on how far it is
Note = Callable[[str], None]
_Labelled = tuple[tuple[int, ...], int]  # the tokens of a text, and the number of its label


def prepare(
    recipe: Recipe,
    folder: Path,
    note: Note = lambda text: None,
    show: Note = lambda text: None,
) -> Task:
    """The task of a recipe, with what it learns from in a folder: read, or found there already.

    `note` gets sentences for the reader, `show` how far it is, each in place of the last one.
    """
    data, tell = recipe.data, _Tell(note, show)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / DATA).is_dir() or not (folder / TOKENIZER).is_file():
        if isinstance(data, GeneratedData):
            tokenizer = _letters(letters_of(recipe))
            _keep(folder, tokenizer)
            write_store(folder / DATA, {}, {}, 0)
        elif isinstance(data, TextData):
            _prepare_text(data, folder, tell)
        elif isinstance(data, PairData):
            _prepare_pairs(recipe, data, folder, tell)
        else:
            _prepare_table(recipe, cast("TableData", data), folder, tell)
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
    """The tokenizer of a run. Raises CheckpointError if there is none."""
    library = need("train()", "tokenizers", "models")
    file = folder / TOKENIZER
    remedy = "Put back the file that training wrote."
    content = read_bytes(file, _LARGEST)
    try:
        return library.Tokenizer.from_buffer(content)
    except Exception as error:  # noqa: BLE001, as the library has none of its own
        raise CheckpointError(
            file, "be a tokenizer", plain(error), remedy, call="train()"
        ) from None


class _Tell:
    """What the reader is told: sentences, and now and then how far it is."""

    def __init__(self, note: Note, show: Note) -> None:
        self.note, self._show = note, show
        self._next = 0.0

    def show(self, text: str, *, now: bool = False) -> None:
        moment = time.monotonic()
        if now or moment >= self._next:
            self._next = moment + _EACH
            self._show(text)


def _tokenizer(data: TextData | PairData | TableData, texts: Iterable[str], tell: _Tell) -> Any:
    """The tokenizer of texts; that they give fewer tokens than were asked for is said."""

    def until_the_last() -> Iterator[str]:
        yield from texts
        if data.tokens == "bpe":
            tell.show(f"Putting {data.vocabulary:,} pieces together", now=True)

    made = make_tokenizer(data.tokens, until_the_last(), data.vocabulary)
    size = made.get_vocab_size()
    if data.tokens == "bpe" and size < data.vocabulary:
        tell.note(f"data.vocabulary is {data.vocabulary:,}; the texts give no more than {size:,}")
    return made


def _keep(folder: Path, tokenizer: Any) -> None:
    file = folder / TOKENIZER
    if file.exists() and not file.is_file():  # a pipe would wait for who reads it
        raise CheckpointError(file, "be a file", "something else", "Remove it.", call="train()")
    with naming(file):
        write_text(file, tokenizer.to_str(pretty=True))


def _hash_of(path: Path) -> str:
    with reading(path):
        return hash_of(path)


def _letters(letters: str) -> Tokenizer:
    """Letters are tokens in their own order, which may not be that of their codes."""
    made = json.loads(make_tokenizer("characters", [letters]).to_str())
    specials = len(made["added_tokens"])
    for number, letter in enumerate(letters):
        made["model"]["vocab"][letter] = specials + number
    library = need("train()", "tokenizers", "models")
    return library.Tokenizer.from_str(json.dumps(made))


# ── running text ──────────────────────────────────────────────────────────────────────────────


def _prepare_text(data: TextData, folder: Path, tell: _Tell) -> None:
    files = _files_of(data, tell)
    size = sum(path.stat().st_size for path in files)
    tell.note(f"Reading {len(files)} file{'s' * (len(files) > 1)}, {size:,} bytes")

    def portions(doing: str, path: Path) -> Iterator[str]:
        done = sum(each.stat().st_size for each in itertools.takewhile(path.__ne__, files))
        for portion in portions_of(path):
            tell.show(f"{doing}: {done / 1e6:,.1f} of {size / 1e6:,.1f} MB")
            done += len(portion.encode("utf-8"))
            yield portion

    texts = itertools.chain.from_iterable(portions("Reading the text", path) for path in files)
    tokenizer = _tokenizer(data, texts, tell)
    vocabulary = tokenizer.get_vocab_size()
    read = reader_of(data.tokens, tokenizer)

    def tokens() -> Iterator[Any]:
        for number, path in enumerate(files):
            if number:
                yield [STOP]
            yield from map(read, portions("Taking its tokens", path))

    # All of them first, as where the last part begins is known only then.
    about = {"files": [{"name": path.name, "sha256": _hash_of(path)} for path in files]}
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


def _files_of(data: TextData, tell: _Tell) -> list[Path]:
    found: list[Path] = []
    for name in data.text:
        if named(name, "text"):
            found.append(fetch_text(name, tell.note))
        elif is_folder(name):
            inside = sorted(path for path in Path(name).rglob("*.txt") if path.is_file())
            if not inside:
                raise ValueError(f"train(): {name} must hold .txt files; got none.")
            found += inside
        else:
            found.append(file_of(name, "text", "text"))
    if not found:
        raise ValueError("recipe [data]: text must name a text; got none.")
    if not any(path.stat().st_size for path in found):
        names = plain(", ".join(data.text))
        raise ValueError(f"train(): {names} must have a word in it; got an empty corpus.")
    return found


# ── pairs ─────────────────────────────────────────────────────────────────────────────────────


def _prepare_pairs(recipe: Recipe, data: PairData, folder: Path, tell: _Tell) -> None:
    note = tell.note
    if named(data.pairs, "pairs"):
        path = fetch_text(data.pairs, note)
    else:
        path = file_of(data.pairs, "pairs", "pairs")
    pairs = list(pairs_of(path, data.source, data.target))
    if not pairs:
        raise ValueError(f"train(): {path} must have a pair in it; got an empty corpus.")
    note(f"Reading {len(pairs):,} pairs")
    texts = itertools.chain.from_iterable(pairs)
    tokenizer = _tokenizer(data, texts, tell)
    known: dict[str, list[int]] = {}

    def read(text: str) -> list[int]:
        if text not in known:
            tell.show(f"Taking the tokens of {len(known):,} texts")
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
    about = {"file": path.name, "sha256": _hash_of(path), "aside": len(aside)}
    write_store(folder / DATA, about, arrays, tokenizer.get_vocab_size())
    _keep(folder, tokenizer)


# ── texts with labels ─────────────────────────────────────────────────────────────────────────


def _prepare_table(recipe: Recipe, data: TableData, folder: Path, tell: _Tell) -> None:
    if named(data.table, "table"):
        path = fetch_text(data.table, tell.note)
    else:
        path = file_of(data.table, "table", "table")
    rows = list(table_of(path, data.text, data.label))
    labels = sorted({label for _, label in rows})

    def check(different: int) -> None:
        if different < 20 or len(labels) < 2:
            raise ValueError(
                f"train(): {path} must have at least 20 different texts with 2 labels; got "
                f"{different} with {len(labels)}."
            )

    check(len({text for text, _ in rows}))
    tell.note(f"Reading {len(rows):,} texts with {len(labels)} labels")
    tokenizer = _tokenizer(data, (text for text, _ in rows), tell)
    number_of = {label: number for number, label in enumerate(labels)}
    read: list[_Labelled] = []
    for text, label in rows:
        tell.show(f"Taking the tokens of {len(read):,} of {len(rows):,} texts")
        read.append((tuple(ids_of(tokenizer, text)[: data.longest]), number_of[label]))
    different = list(dict.fromkeys(tokens for tokens, _ in read))
    check(len(different))  # some may differ only where they are cut off
    # What is kept aside is never learned from, however often it is there, and with which label.
    random = random_of(recipe.seed, 6)
    order = random.permutation(len(different)).tolist()
    count = max(1, int(len(different) * data.validation))
    aside = {different[number] for number in order[len(different) - count :]}
    learned = [row for row in read if row[0] not in aside]
    learned = [learned[number] for number in random.permutation(len(learned)).tolist()]
    kept = list(dict.fromkeys(row for row in read if row[0] in aside))
    seen = Counter(label for _, label in learned)
    if unseen := [label for label in labels if number_of[label] not in seen]:
        tell.note(f"No text to learn from has the label {plain(', '.join(unseen))}")
    both = [*learned, *kept]
    about = {
        **{"file": path.name, "sha256": _hash_of(path)},
        **{"labels": labels, "first": len(learned)},
    }
    arrays: dict[str, Iterable[Any]] = {
        "texts": [tokens for tokens, _ in both],
        "texts-ends": [np.cumsum([len(tokens) for tokens, _ in both])],
        "labels": [[label for _, label in both]],
    }
    size = max(tokenizer.get_vocab_size(), len(labels))
    write_store(folder / DATA, about, arrays, size)
    _keep(folder, tokenizer)
