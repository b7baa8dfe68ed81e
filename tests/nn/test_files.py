"""Models in folders: what is saved comes back to the bit, and is saved whole or not at all."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.saved_models import MODELS, content, models, output
from safetensors.torch import load_file
from torch import nn

from regard.models import CheckpointError
from regard.nn import (
    EncoderModel,
    LanguageModel,
    LanguageModelConfig,
    Model,
    NoPosition,
    RelativeBias,
    SequenceClassifier,
    load,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A language model in a folder, to be spoilt."""
    MODELS["language"].save(tmp_path / "model")
    return tmp_path / "model"


# ── what is saved comes back ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", MODELS)
def test_what_was_saved_computes_the_same_to_the_bit(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    model = models()[name].to(dtype).eval()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is type(model)
    assert again.config == model.config
    assert not again.training
    assert {tensor.dtype for tensor in again.parameters()} == {dtype}
    assert all(parameter.requires_grad for parameter in again.parameters())
    assert list(again.state_dict()) == list(model.state_dict())
    assert torch.equal(output(again), output(model))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", MODELS)
def test_weights_that_are_not_finite_are_saved_and_come_back_if_asked_for(
    name: str, value: float, tmp_path: Path
) -> None:
    model = models()[name]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.view(-1)[-1:] = value
    model.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="allow_not_finite=True"):
        load(tmp_path / "model")
    for again in (
        load(tmp_path / "model", allow_not_finite=True),
        type(model).load(tmp_path / "model", allow_not_finite=True),
    ):
        for key, tensor in model.state_dict().items():
            assert torch.equal(again.state_dict()[key].nan_to_num(7.0), tensor.nan_to_num(7.0))


@pytest.mark.parametrize(
    "options",
    [{"window": 2**31}, {"window": 2**70}, {"position": RelativeBias(8, 2**40)}],
    ids=str,
)
def test_windows_and_distances_of_any_length_come_back(
    options: dict[str, Any], tmp_path: Path
) -> None:
    model = LanguageModel(LanguageModelConfig(vocabulary=11, width=6, heads=3, **options)).eval()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.config == model.config
    assert torch.equal(output(again), output(model))


def test_a_folder_that_says_no_position_has_none(tmp_path: Path) -> None:
    config = LanguageModelConfig(vocabulary=11, width=6, heads=3, position=NoPosition())
    model = LanguageModel(config).eval()
    model.save(tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    said = json.loads(file.read_text())
    del said["config"]["position"]
    file.write_text(json.dumps(said))
    again = load(tmp_path / "model")
    assert again.config == config
    assert torch.equal(output(again), output(model))


def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    model = LanguageModel(LanguageModelConfig(vocabulary=11, width=6, heads=3, window=2**1001))
    with pytest.raises(CheckpointError, match=r"save\(\): .* as window; got "):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(ValueError, match=r"distance must be at most 2\*\*1000"):
        RelativeBias(8, 2**1001)


def test_tied_weights_are_stored_once_and_stay_tied(tmp_path: Path) -> None:
    for name, tied in (
        ("language", ["embedding.tokens.weight", "head.weight"]),
        ("masked", ["body.embedding.tokens.weight", "head.weight"]),
        (
            "transformer",
            ["embedding.tokens.weight", "target_embedding.tokens.weight", "head.weight"],
        ),
        ("two vocabularies", ["target_embedding.tokens.weight", "head.weight"]),
    ):
        MODELS[name].save(tmp_path / name)
        stored = load_file(tmp_path / name / "model.safetensors")
        assert [each for each in tied if each in stored] == tied[:1]
        again = load(tmp_path / name)
        first, *others = (again.get_parameter(each) for each in tied)
        assert all(other is first for other in others)
        with torch.no_grad():
            first.zero_()
        assert output(again).count_nonzero() == 0  # each head reads the table, and has no bias


def test_mixed_dtypes_are_kept(tmp_path: Path) -> None:
    model = models()["language"]
    model.get_submodule("decoder.norm").to(torch.float64)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    found = {name: tensor.dtype for name, tensor in again.named_parameters()}
    assert found == {name: tensor.dtype for name, tensor in model.named_parameters()}
    assert set(found.values()) == {torch.float32, torch.float64}


def test_loading_takes_no_random_numbers_and_copies_what_it_reads(folder: Path) -> None:
    torch.manual_seed(5)
    wanted = torch.randn(7)
    torch.manual_seed(5)
    again = load(folder)
    assert torch.equal(torch.randn(7), wanted)
    before = output(again)
    (folder / "model.safetensors").write_bytes(b"gone")
    assert torch.equal(output(again), before)


def test_weights_that_lie_in_memory_in_any_way_are_saved(tmp_path: Path) -> None:
    model = models()["untied"]
    assert isinstance(model, LanguageModel)
    with torch.no_grad():
        turned = model.decoder.layers[0].get_parameter("feed_forward.w_in.weight")
        turned.data = turned.detach().t().contiguous().t()
        model.head.weight.data = model.embedding.tokens.weight.data  # alike, though not tied
    assert not turned.is_contiguous()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model").state_dict()
    assert all(torch.equal(again[name], tensor) for name, tensor in model.state_dict().items())


def test_a_class_loads_its_own_kind_and_refuses_another_by_name(tmp_path: Path) -> None:
    class Mine(LanguageModel):
        pass

    MODELS["language"].save(tmp_path / "one")
    assert type(LanguageModel.load(tmp_path / "one")) is LanguageModel
    assert type(Mine.load(tmp_path / "one")) is Mine
    assert type(Model.load(tmp_path / "one")) is LanguageModel
    with pytest.raises(CheckpointError, match="must hold a EncoderModel; got a LanguageModel"):
        EncoderModel.load(tmp_path / "one")
    MODELS["masked"].save(tmp_path / "two")
    with pytest.raises(CheckpointError, match=r"got a MaskedLanguageModel\. regard\.nn\.load"):
        EncoderModel.load(tmp_path / "two")


# ── saving: whole or not at all ───────────────────────────────────────────────────────────────


def test_a_model_takes_the_place_of_another_and_leaves_nothing_beside(tmp_path: Path) -> None:
    MODELS["language"].save(tmp_path / "model")
    MODELS["classifier"].save(tmp_path / "model")
    assert isinstance(load(tmp_path / "model"), SequenceClassifier)
    assert [each.name for each in tmp_path.iterdir()] == ["model"]
    names = sorted(each.name for each in (tmp_path / "model").iterdir())
    assert names == ["config.json", "model.safetensors"]
    modes = {each.stat().st_mode for each in (tmp_path / "model").iterdir()}
    assert len(modes) == 1


def test_a_save_that_fails_leaves_the_old_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(folder.parent)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(OSError, match="No space"):
        MODELS["encoder"].save(folder)
    assert content(folder.parent) == before


@pytest.mark.parametrize("renames", [1, 2])
def test_a_save_whose_rename_fails_leaves_the_old_model(
    folder: Path, renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, rename, count = content(folder.parent), Path.rename, 0

    def fails(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count == renames:
            raise OSError("broken")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="broken"):
        MODELS["encoder"].save(folder)
    assert content(folder.parent) == before


def test_a_crash_between_the_renames_is_told_and_cleared_by_the_next_save(folder: Path) -> None:
    old = folder.with_name(".model.regard-old")
    folder.rename(old)
    dead = folder.with_name(".model.regard-00ff.tmp")
    dead.mkdir()
    with pytest.raises(CheckpointError, match=r"interrupted save .*\.model\.regard-old"):
        load(folder)
    assert isinstance(load(old), LanguageModel)
    MODELS["encoder"].save(folder)
    assert [each.name for each in folder.parent.iterdir()] == ["model"]


def test_nothing_but_a_model_is_overwritten(tmp_path: Path) -> None:
    def kept(words: str) -> None:
        before = content(tmp_path)
        with pytest.raises(CheckpointError, match=rf"^save\(\): .* must .*{words}"):
            MODELS["language"].save(tmp_path / "model")
        assert content(tmp_path) == before

    (tmp_path / "model").write_text("a file")
    kept("a file")
    (tmp_path / "model").unlink()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.txt").write_text("years of work")
    kept("thesis.txt")
    (tmp_path / "model" / "thesis.txt").rename(tmp_path / "model" / "config.json")
    kept("another kind")
    (tmp_path / "model" / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model" / "model.safetensors").write_bytes(b"of bert")
    kept("another kind")
    (tmp_path / "model" / "config.json").unlink()
    kept("another kind")
    (tmp_path / "model" / "model.safetensors").unlink()
    MODELS["language"].save(tmp_path / "model")  # an empty folder
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    kept("tokenizer.json")


def test_a_model_that_its_config_does_not_describe_is_not_saved(tmp_path: Path) -> None:
    def not_saved(change: Callable[[LanguageModel], object], *words: str) -> None:
        model = models()["language"]
        assert isinstance(model, LanguageModel)
        change(model)
        with pytest.raises(CheckpointError, match=r"save\(\): LanguageModel must have") as caught:
            model.save(tmp_path / "model")
        for word in words:
            assert word in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    more = nn.Parameter(torch.zeros(3))
    not_saved(lambda m: m.register_parameter("more", more), "left over: more")
    not_saved(lambda m: m.register_buffer("more", torch.zeros(3)), "left over: more")
    not_saved(lambda m: m.decoder.layers.pop(1), "missing: decoder.layers.1.attention.w_k.bias")
    not_saved(lambda m: setattr(m, "head", nn.Linear(12, 11, bias=False)), "left over: head.weight")
    not_saved(lambda m: m.to("meta"), "no weights in floating point", "on meta")
    wide = nn.Embedding(13, 12)
    wide.weight = nn.Parameter(torch.zeros(13, 12))

    def widen(model: LanguageModel) -> None:
        model.embedding.tokens = wide
        model.head.weight = wide.weight

    not_saved(widen, "embedding.tokens.weight [13, 12] instead of [11, 12]")


def test_without_safetensors_it_is_said_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(folder.parent)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    words = 'safetensors must be installed; it is not. pip install "regard\\[models\\]"'
    with pytest.raises(ImportError, match=r"load\(\): " + words):
        load(folder)
    with pytest.raises(ImportError, match=r"save\(\): " + words):
        MODELS["encoder"].save(folder)
    assert content(folder.parent) == before


def test_the_folder_that_a_process_works_in_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    model = LanguageModel(LanguageModelConfig(vocabulary=11, width=6, heads=3))
    with pytest.raises(ValueError, match="must not be the one that this process works in"):
        model.save(".")
    assert Path.cwd() == tmp_path / "inner"
