"""What is learned from: read as it is, kept apart, and refused in words where it cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.small_run import TEXT, small

from regard.train.batches import Epochs
from regard.train.prepare import prepare
from regard.train.recipe import Recipe, recipe_of
from regard.train.store import Store
from regard.train.tasks.pairs import PairTask
from regard.train.tokens import (
    IGNORED,
    MASK,
    SPECIAL,
    START,
    STOP,
    ids_of,
    make_tokenizer,
    reader_of,
)

CHANGED = {
    "copy": lambda text: text,
    "reverse": lambda text: text[::-1],
    "sort": lambda text: "".join(sorted(text)),
    "addition": lambda text: str(sum(map(int, text.split("+")))),
}


@pytest.mark.parametrize("task", CHANGED)
def test_made_up_pairs_are_what_the_task_says(tmp_path: Path, task: str) -> None:
    made = prepare(small(task), tmp_path)
    assert isinstance(made, PairTask)
    batch = made.batch(5)
    decode = made.tokenizer.decode
    rows = zip(batch.inputs["source"].tolist(), batch.targets.tolist(), strict=True)
    for row, (source, target) in enumerate(rows):
        text = decode([each for each in source if each])
        said = [each for each in target if each != IGNORED]
        assert said[-1] == STOP
        assert decode(said) == CHANGED[task](text)
        given = batch.inputs["target"][row].tolist()
        assert given[: len(said)] == [START, *said[:-1]]
        assert ids_of(made.tokenizer, text) == source[: int(batch.inputs["source_lengths"][row])]


def test_no_sequence_that_is_kept_aside_is_ever_learned_from(tmp_path: Path) -> None:
    made = prepare(small("copy", data={"symbols": 3, "longest": 4, "validation": 97}), tmp_path)
    assert isinstance(made, PairTask)
    aside = {tuple(source) for source, _ in made.aside()}
    seen = {
        tuple(each for each in row if each)
        for step in range(101)
        for row in made.batch(step).inputs["source"].tolist()
    }
    assert len(aside) > 3
    assert len(seen) > 50
    assert not aside & seen


def test_a_batch_follows_from_seed_and_step_alone(tmp_path: Path) -> None:
    one, two = (prepare(small("sort"), tmp_path / name) for name in ("one", "two"))
    one.batch(3)
    assert one.batch(7).targets.tolist() == two.batch(7).targets.tolist()
    other = prepare(small("sort", seed=4), tmp_path / "three")
    assert one.batch(7).targets.tolist() != other.batch(7).targets.tolist()


def test_the_parts_of_a_batch_are_its_rows(tmp_path: Path) -> None:
    whole = prepare(small(), tmp_path).batch(0)
    parts = [whole.part(number, 3) for number in range(3)]
    assert [row for part in parts for row in part.targets.tolist()] == whole.targets.tolist()
    assert all(part.count == whole.count for part in parts)


def test_epochs_take_each_example_once_before_any_twice() -> None:
    lengths = np.random.default_rng(0).integers(1, 50, 67)
    epochs = Epochs(lengths, 5, seed=1)
    for epoch in range(3):
        taken = [n for step in range(13) for n in epochs.at(13 * epoch + step)]
        assert len(set(taken)) == 65
    assert epochs.at(0) != epochs.at(13)
    with pytest.raises(ValueError, match=r"training\.batch must be at most the 67 examples"):
        Epochs(lengths, 68, seed=1)


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe"])
def test_tokens_of_any_text_give_the_text_back(kind: str) -> None:
    text = "The cat <stop> sat,\n\tনমস্কার 안녕 👩‍🚀 <pad><mask> end"
    made = make_tokenizer(kind, [text], 300)
    ids = ids_of(made, text)
    assert min(ids) >= len(SPECIAL)
    assert made.decode(ids) == text
    assert [made.id_to_token(number) for number in range(len(SPECIAL))] == list(SPECIAL)


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe"])
def test_long_texts_are_read_as_short_ones_are(kind: str) -> None:
    text = "The cat <stop> sat,\n\tনমস্কার 안녕 👩‍🚀 <pad><mask> end\x7f\x80\xad\u0100"
    made = make_tokenizer(kind, [text], 300)
    for other in (text, text + "≠", "\r\n", "".join(map(chr, range(1, 0x3000)))):
        assert reader_of(kind, made)(other).tolist() == ids_of(made, other)


def _text(tmp_path: Path, content: str | bytes, **data: Any) -> Recipe:
    file = tmp_path / "text.txt"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return small("language-model", data={"text": str(file), **data})


def test_running_text_is_cut_where_validation_begins(tmp_path: Path) -> None:
    made = prepare(_text(tmp_path, TEXT), tmp_path / "run")
    store = Store(tmp_path / "run" / "data")
    whole = made.tokenizer.decode([*store["train"], *store["validation"]])
    assert whole == TEXT
    assert len(store["validation"]) == int(len(TEXT) * 0.1)
    batch = made.batch(2)
    assert batch.inputs["ids"][:, 1:].tolist() == batch.targets[:, :-1].tolist()
    assert all(made.tokenizer.decode(row) in TEXT for row in batch.inputs["ids"].tolist())
    rows = [row for each in made.validation() for row in each.inputs["ids"].tolist()]
    assert len(rows) == (len(store["validation"]) - 1) // 11


def test_several_files_stand_one_after_the_other_with_an_end_between_them(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for name in "ab":
        (tmp_path / "texts" / f"{name}.txt").write_text(name * 101)
    (tmp_path / "texts" / "c.bin").write_text("no text")
    recipe = small("language-model", data={"text": str(tmp_path / "texts")})
    made = prepare(recipe, tmp_path / "run")
    store = Store(tmp_path / "run" / "data")
    tokens = [*store["train"].tolist(), *store["validation"].tolist()]
    assert tokens.index(STOP) == 101
    assert len(tokens) == 203
    assert made.tokenizer.decode(tokens) == "a" * 101 + "b" * 101


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "must have a word in it; got an empty corpus"),
        (b"short", r"must have more than the 11 tokens of data\.length for"),
        (b"x" * 50, r"for validation; got 5\. Take a longer text"),
        (b"\xff" * 500, "must be text in UTF-8"),
    ],
)
def test_a_corpus_that_is_none_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        prepare(_text(tmp_path, content), tmp_path / "run")


def _pairs(tmp_path: Path, name: str, content: str, **data: Any) -> Recipe:
    (tmp_path / name).write_text(content, encoding="utf-8")
    described = {"pairs": str(tmp_path / name), "vocabulary": 280, "validation": 5, **data}
    made = {**small().content, "task": "translate", "data": described}
    return recipe_of(made)


def test_pairs_come_from_columns_or_from_json_lines(tmp_path: Path) -> None:
    rows = [(f"one {n}", f"uno {n}") for n in range(53)]
    tsv = "".join(f"{source}\t{target}\tnote\n" for source, target in rows)
    lines = "".join(f'{{"en": "{source}", "es": "{target}"}}\n' for source, target in rows)
    made = [
        prepare(_pairs(tmp_path, "a.tsv", tsv), tmp_path / "one"),
        prepare(_pairs(tmp_path, "a.jsonl", lines, source="en", target="es"), tmp_path / "two"),
    ]
    first, second = (task.batch(3) for task in made)
    assert first.inputs["source"].tolist() == second.inputs["source"].tolist()
    assert isinstance(made[0], PairTask)
    decode = made[0].tokenizer.decode
    aside = {decode(source) for source, _ in made[0].aside()}
    seen = {
        decode(row) for step in range(8) for row in made[0].batch(step).inputs["source"].tolist()
    }
    assert len(aside) == 5
    assert len(seen) == 48
    assert not aside & seen


def test_no_source_with_several_targets_is_on_both_sides(tmp_path: Path) -> None:
    tsv = "".join(f"one {n % 50}\tuno {n}\n" for n in range(101))
    made = prepare(_pairs(tmp_path, "a.tsv", tsv, validation=50), tmp_path / "run")
    assert isinstance(made, PairTask)
    decode = made.tokenizer.decode
    aside = [decode(source) for source, _ in made.aside()]
    seen = {decode(row) for n in range(16) for row in made.batch(n).inputs["source"].tolist()}
    assert len(aside) == len(set(aside)) == 10
    assert not set(aside) & seen


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", '{"1": "\\ud800", "2": "b"}\n', "line 1 of .* must be Unicode"),
        ("a.tsv", "one\tuno\n" * 30, "must have sources enough to learn from some"),
        ("a.tsv", "one\tuno\n\ntwo\n", r"line 3 of .*a\.tsv must have at least 2 columns.*one col"),
        ("a.jsonl", '{"1": "a", "2": "b"}\n[]\n', r"line 2 of .* must be a JSON object with '1'"),
        ("a.tsv", "", "must have a pair in it; got an empty corpus"),
        ("a.tsv", "one\tuno\n", "must have at least 20 pairs"),
    ],
)
def test_a_line_that_is_no_pair_is_named(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        prepare(_pairs(tmp_path, name, content), tmp_path / "run")


def _table(tmp_path: Path, content: str) -> Recipe:
    (tmp_path / "a.csv").write_text(content, encoding="utf-8")
    described = {"table": str(tmp_path / "a.csv"), "vocabulary": 280}
    return recipe_of({**small().content, "task": "classify", "data": described})


def test_texts_with_labels_come_from_a_table(tmp_path: Path) -> None:
    rows = [(f"text, {n}", "odd" if n % 2 else "even") for n in range(61)]
    content = "label,text\n" + "".join(f'{label},"{text}"\n' for text, label in rows)
    made = prepare(_table(tmp_path, content), tmp_path / "run")
    known = dict(rows)
    batch = made.batch(4)
    for row, label in zip(batch.inputs["ids"].tolist(), batch.targets.tolist(), strict=True):
        assert ["even", "odd"][label] == known[made.tokenizer.decode(row)]


def test_no_text_that_is_kept_aside_is_learned_from_however_often_it_is_there(
    tmp_path: Path,
) -> None:
    """Also not one that is cut off to the same, nor with another label."""
    rows = [(f"{n % 41} of {'very ' * 300}many, {n}", f"{n % 3}") for n in range(997)]
    content = "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows)
    made = prepare(_table(tmp_path, content), tmp_path / "run")
    decode = made.tokenizer.decode
    aside = [
        (decode(row), label)
        for batch in made.validation()
        for row, label in zip(batch.inputs["ids"].tolist(), batch.targets.tolist(), strict=True)
    ]
    learned = {decode(row) for n in range(150) for row in made.batch(n).inputs["ids"].tolist()}
    assert len(aside) == len(set(aside))
    assert len({text for text, _ in aside}) == 4
    assert len(learned) == 41 - 4
    assert not {text for text, _ in aside} & learned


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("text,kind\na,b\n", "must have a column 'label'; got text, kind"),
        ("text,label\na,b\n,c\n", "line 3 of .* must have a text and a label"),
        ("text,label\na,b\n", "must have at least 20 different texts with 2 labels; got 1 with 1"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        prepare(_table(tmp_path, content), tmp_path / "run")


def test_hidden_tokens_are_those_that_are_asked_for(tmp_path: Path) -> None:
    recipe = _text(tmp_path, TEXT)
    data = {**recipe.content["data"], "share": 0.3}
    made = prepare(recipe_of({**recipe.content, "task": "masked", "data": data}), tmp_path / "run")
    given, wanted, hidden = 0, 0, 0
    for step in range(53):
        batch = made.batch(step)
        asked = batch.targets != IGNORED
        assert bool((batch.inputs["ids"][asked] != MASK).any()) or step
        assert not bool((batch.inputs["ids"][~asked] == MASK).any())
        given += asked.numel()
        wanted += int(asked.sum())
        hidden += int((batch.inputs["ids"] == MASK).sum())
    assert abs(wanted / given - 0.3) < 0.04
    assert abs(hidden / wanted - 0.8) < 0.05
