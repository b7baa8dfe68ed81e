"""Tensors that do not fit the model, or hold no numbers, are refused: all at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.model_folders import (
    WEIGHT,
    edit_json,
    edit_weights,
    file_of,
    refused,
    save_llama,
    save_masked,
)
from safetensors.torch import load_file
from torch import Tensor

from regard.models import load


def drop(*names: str) -> Callable[[dict[str, Tensor]], object]:
    return lambda tensors: [tensors.pop(name) for name in names]


def put(name: str, *shape: int) -> Callable[[dict[str, Tensor]], object]:
    return lambda tensors: tensors.update({name: torch.ones(shape)})


def test_all_that_does_not_fit_is_listed_at_once(folder: Path) -> None:
    edit_weights(folder, drop("embeddings.LayerNorm.bias", "pooler.dense.bias"))
    edit_weights(folder, put("of.no.use", 3))
    edit_weights(folder, put("of.no.use.either", 3))
    edit_weights(folder, put(WEIGHT, 12, 8))
    edit_weights(folder, put("embeddings.word_embeddings.weight", 11, 13))
    refused(
        folder,
        "missing: embeddings.LayerNorm.bias, pooler.dense.bias",
        "left over: of.no.use, of.no.use.either",
        "embeddings.word_embeddings.weight [11, 13] instead of [11, 12]",
        f"{WEIGHT} [12, 8] instead of [12, 7]",
        "BertModel",
    )


def test_a_transposed_weight_is_not_taken(folder: Path) -> None:
    edit_weights(folder, lambda all_: all_.update({WEIGHT: all_[WEIGHT].T.contiguous()}))
    refused(folder, f"{WEIGHT} [7, 12] instead of [12, 7]")


def test_a_folder_without_any_tensor_is_refused(folder: Path) -> None:
    edit_weights(folder, lambda all_: all_.clear())
    refused(folder, "missing: ", WEIGHT)


def test_a_head_that_the_architecture_lacks_is_left_over(tmp_path: Path) -> None:
    save_masked(tmp_path)
    edit_json(tmp_path / "config.json", architectures=["BertModel"])
    refused(tmp_path, "left over", "cls.predictions.bias")


def test_untied_weights_may_not_be_missing(tmp_path: Path) -> None:
    save_llama(tmp_path)
    edit_json(tmp_path / "config.json", tie_word_embeddings=False)
    refused(tmp_path, "missing: lm_head.weight")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_refused_unless_asked_for(
    folder: Path, value: float, dtype: torch.dtype
) -> None:
    def spoil(tensors: dict[str, Tensor]) -> None:
        tensors[WEIGHT] = tensors[WEIGHT].to(dtype)
        tensors[WEIGHT][3, 5] = value

    edit_weights(folder, spoil)
    error = refused(folder, WEIGHT, "finite", "allow_not_finite=True")
    assert error.tensor == WEIGHT
    loaded = load(folder, allow_not_finite=True)
    found = loaded.model.state_dict()[WEIGHT]
    assert torch.equal(found[3, 5].isnan(), torch.tensor(value != value))
    assert not found.isfinite().all()


def test_all_tensors_that_are_not_finite_are_named(folder: Path) -> None:
    names = ["pooler.dense.bias", WEIGHT]
    edit_weights(folder, lambda all_: [all_[name].fill_(float("nan")) for name in names])
    refused(folder, *names)


def test_a_number_too_large_for_float32_is_not_finite(folder: Path) -> None:
    edit_weights(folder, lambda all_: all_.update({WEIGHT: all_[WEIGHT].double() + 1e300}))
    refused(folder, WEIGHT, "finite weights in float32")


def test_a_truncated_file_is_refused_wherever_it_ends(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for length in [0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 4, len(whole) - 1]:
        path.write_bytes(whole[:length])
        refused(folder, "model.safetensors")
    path.write_bytes(whole + b"\0")
    refused(folder, "model.safetensors")
    path.write_bytes(whole)
    load(folder)


def test_two_tensors_in_one_place_are_refused(folder: Path) -> None:
    place = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    (folder / "model.safetensors").write_bytes(file_of({"a": place, "b": place}, bytes(4)))
    refused(folder, "tensor b in", "model.safetensors", "overlap")


def test_names_from_a_file_cannot_write_to_the_terminal(folder: Path) -> None:
    edit_weights(folder, put("\x1b[2J\x1b[31mgone\u202e", 3))
    said = str(refused(folder, "gone"))
    assert said.isprintable()


def test_a_refused_folder_is_left_as_it_was(folder: Path) -> None:
    edit_weights(folder, put("of.no.use", 3))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused(folder, "of.no.use")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert "of.no.use" in load_file(folder / "model.safetensors")
