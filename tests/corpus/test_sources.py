"""Whatever texts stand in, each is read once, and what cannot be read has its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.small_corpus import made, model_folder, sentences
from hypothesis import given
from hypothesis import strategies as st

from regard.corpus import load_corpus
from regard.corpus.reading import Cut, some_texts, texts_of
from regard.corpus.sources import Source, find_sources

TEXTS = sentences(13, seed=7)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sources")
    model_folder(place)
    return place


def found_in(
    place: Path, out: str, texts: list[Path], **options: object
) -> list[dict[str, object]]:
    return load_corpus(made(place, out, texts=texts, **options)).texts.to_table().to_pylist()


def test_files_lines_tables_and_datasets_give_the_same_texts(place: Path) -> None:
    folder = place / "same"
    (folder / "files" / "below").mkdir(parents=True)
    for n, text in enumerate(TEXTS):
        (folder / "files" / ("below" if n > 9 else ".") / f"{n:02}.txt").write_text(text)
    (folder / "files" / ".hidden.txt").write_text("i love")
    (folder / "lines.txt").write_text("\n".join(TEXTS) + "\n\n \n")
    (folder / "paragraphs.txt").write_text("\n \n\n" + "\n\t\n\n".join(TEXTS))
    records = [json.dumps({"id": n, "words": text}) for n, text in enumerate(TEXTS)]
    (folder / "records.jsonl").write_text("\n".join(records))
    table = pa.table({"words": TEXTS, "id": list(range(len(TEXTS)))})
    pq.write_table(table, folder / "table.parquet", row_group_size=3)
    dataset = folder / "dataset"
    (dataset / "train").mkdir(parents=True)
    (dataset / "dataset_dict.json").write_text('{"splits": ["train"]}')
    files = [{"filename": f"data-0000{n}-of-00002.arrow"} for n in range(2)]
    state = {"_data_files": files, "_split": "train", "_format_type": None}
    (dataset / "train" / "state.json").write_text(json.dumps(state))
    (dataset / "train" / "dataset_info.json").write_text("{}")
    for part, each in zip((table.slice(0, 7), table.slice(7)), files, strict=True):
        with (
            pa.OSFile(str(dataset / "train" / each["filename"]), "wb") as file,
            pa.ipc.new_stream(file, part.schema) as writer,
        ):
            writer.write_table(part, max_chunksize=2)
    for name, by, positions in (
        ("files", "file", [1] * 13),
        ("lines.txt", "line", [*range(1, 14)]),
        ("paragraphs.txt", "paragraph", [*range(4, 41, 3)]),
        ("records.jsonl", "file", [*range(1, 14)]),
        ("table.parquet", "file", [*range(13)]),
        ("dataset", "file", [*range(7), *range(6)]),
    ):
        rows = found_in(place, f"of-{name}", [folder / name], by=by, field="words")
        assert [row["beginning"] for row in rows] == TEXTS, name
        assert [row["text"] for row in rows] == [*range(13)]
        assert [row["position"] for row in rows] == positions
        assert all(row["reason"] is None for row in rows)


def test_a_poisoned_text_is_recorded_with_its_reason_and_stops_nothing(place: Path) -> None:
    folder = place / "poisoned"
    folder.mkdir()
    (folder / "a-empty.txt").write_text(" \n\n ")
    (folder / "b-good.txt").write_text("i love apple phones")
    (folder / "c-latin.txt").write_bytes("i love caf\u00e9".encode("latin-1"))
    (folder / "d-long.txt").write_text("apple " * 12)
    (folder / "e-gone.txt").symlink_to(folder / "nowhere.txt")
    lines = [
        '{"text": "i love"}',
        '{"text": 7}',
        '{"other": 1}',
        "{nonsense",
        "[1]",
        '{"text": null}',
    ]
    lines += ['{"text": "\\ud800"}', "", '{"text": ""}']
    (folder / "f.jsonl").write_text("\n".join(lines))
    pq.write_table(pa.table({"text": ["love", None]}), folder / "g.parquet")
    rows = found_in(place, "of-poisoned", [folder], by="file")
    assert [row["reason"] for row in rows] == [
        "empty",
        None,
        "not UTF-8: byte 11 is 0xe9",
        "too long: 14 tokens, and the model takes 13",
        "cannot be read: No such file or directory",
        None,
        "no text: text is a number",
        "no text: there is no text",
        "broken JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "broken JSON: the line is no object",
        "no text: text is null",
        "not UTF-8: byte 1 is 0xed",
        "empty",
        None,
        "no text: the field is null",
    ]
    assert [row["position"] for row in rows[5:13]] == [1, 2, 3, 4, 5, 6, 7, 9]
    corpus = load_corpus(place / "of-poisoned")
    assert (corpus.about["texts"], corpus.about["read"]) == (15, 3)
    assert corpus.reasons()["no text"] == 4
    assert set(corpus.heads.to_table()["text"].to_pylist()) == {1, 5, 13}
    rows = found_in(place, "of-first", [folder / "d-long.txt"], by="file", first=7)
    assert [(row["tokens"], row["reason"]) for row in rows] == [(7, None)]


@pytest.mark.parametrize("is_midway", [False, True])
def test_a_text_that_the_model_refuses_has_its_reason_and_its_batch_is_read_without_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, is_midway: bool
) -> None:
    """Midway: when its first layer has been seen already."""
    from regard.corpus.unit import Worker

    folder = place / f"refused-{is_midway}"
    folder.mkdir()
    (folder / "texts.txt").write_text("\n".join(["i love", "love pears", "apple ."]))
    watched = Worker._watched

    def fail(*_: object) -> None:
        raise RuntimeError("no apples")

    def refuse(worker: Worker, inputs: dict[str, Any]) -> None:
        if not (inputs["input_ids"] == 6).any():
            return watched(worker, inputs)
        if not is_midway:
            fail()
        modules = dict(worker.loaded.model.named_modules())
        second = next(module for name, module in modules.items() if name.endswith("layer.1"))
        handle = second.register_forward_pre_hook(fail)
        try:
            return watched(worker, inputs)
        finally:
            handle.remove()

    monkeypatch.setattr(Worker, "_watched", refuse)
    out = f"of-refused-{is_midway}"
    rows = found_in(place, out, [folder / "texts.txt"], by="line")
    assert [row["reason"] for row in rows] == [None, None, "refused by the model: no apples"]
    heads = load_corpus(place / out).heads.to_table().to_pylist()
    assert [(row["text"], row["layer"]) for row in heads if row["head"] == 0] == [
        *((0, 0), (0, 1), (1, 0), (1, 1))
    ]


def test_what_is_no_source_is_named_before_any_work(place: Path) -> None:
    folder = place / "wrong"
    folder.mkdir()
    pq.write_table(pa.table({"words": ["a"], "n": [1]}), folder / "table.parquet")
    for field, said in (
        ("text", r"got words \(string\), n \(int64\)"),
        ("n", "a column n of texts"),
    ):
        with pytest.raises(ValueError, match=said):
            made(place, "of-wrong", texts=[folder / "table.parquet"], field=field)
    (folder / "broken.parquet").write_bytes(b"PAR1 no table")
    with pytest.raises(ValueError, match="must be a whole file of Parquet"):
        made(place, "of-wrong", texts=[folder / "broken.parquet"])
    (folder / "blank.txt").write_text("\n \n")
    with pytest.raises(ValueError, match="must have at least one text"):
        made(place, "of-blank", texts=[folder / "blank.txt"])
    for state, said in (
        ({"_data_files": [{"filename": "../../secret.arrow"}]}, "list names under _data_files"),
        ({"_data_files": [{"filename": "gone.arrow"}]}, "must be there"),
        ({"_data_files": [], "_indices_files": [{}]}, "which rows are meant"),
    ):
        (folder / "state.json").write_text(json.dumps(state))
        with pytest.raises(ValueError, match=said):
            find_sources([folder], place / "out", print)


def test_a_file_named_twice_is_read_once_and_what_is_written_is_no_text(place: Path) -> None:
    folder = place / "twice"
    (folder / "out").mkdir(parents=True)
    (folder / "one.txt").write_text("i love")
    (folder / "out" / "two.txt").write_text("apple")
    notes: list[str] = []
    found = find_sources([folder / "one.txt", folder], folder / "out", notes.append)
    assert [source.path.name for source in found] == ["one.txt"]
    assert len(notes) == 1
    assert "named twice" in notes[0]


@given(st.binary(max_size=200).map(lambda x: x.replace(b"7", b"\n").replace(b"\xff", b"\n\n")))
def test_reading_may_begin_at_any_text_of_any_bytes(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bytes.txt")
        path.write_bytes(content)
        source = Source("bytes", path, "text")
        for cut in (Cut("line"), Cut("paragraph")):
            whole = list(texts_of(source, cut))
            for n, raw in enumerate(whole):
                rest = some_texts(source, cut, raw.offset, raw.position, len(whole) - n)
                assert list(rest) == whole[n:]
            lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
            kept = b"".join(line for line in lines if line.strip())
            found = b"".join(raw.content.replace(b"\n", b"") for raw in whole if raw.content)
            assert found.replace(b"\r", b"") == kept.replace(b"\r", b"")
