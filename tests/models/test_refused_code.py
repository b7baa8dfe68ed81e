"""A model folder is data, never code: what would run, or choose what runs, is refused."""

from __future__ import annotations

import json
import os
import pickle
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.model_folders import (
    edit_json,
    refused,
    small_bert,
    write_index,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from transformers import BertModel, PreTrainedModel

from regard.models import CheckpointError, load


class Evil:
    """A pickle of this creates a file when it is opened."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.pt", "weights.pkl", "a.PTH", "b.ckpt"]
)
def test_a_pickle_is_never_opened(folder: Path, name: str) -> None:
    trace = folder.parent / "opened"
    content = pickle.dumps(Evil(trace))
    (folder / name).write_bytes(content)
    load(folder)  # beside safetensors it does no harm, as nobody looks at it
    (folder / "model.safetensors").unlink()
    refused(folder, name, "safetensors", "save_pretrained")
    assert not trace.exists()
    pickle.loads(content)
    assert trace.exists()  # it would have


def test_a_pickle_under_a_safe_name_is_never_opened(folder: Path) -> None:
    trace = folder.parent / "opened"
    for name in ("model.safetensors", "tokenizer.json"):
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(pickle.dumps(Evil(trace)))
        refused(folder, name)
        (folder / name).write_bytes(before)
    torch.save({"w": Evil(trace)}, folder / "model.safetensors")
    refused(folder, "model.safetensors")
    assert not trace.exists()


def test_an_index_that_names_a_pickle_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "a.bin").write_bytes(pickle.dumps(Evil(folder.parent / "opened")))
    write_index(folder, {"w": "a.bin"})
    refused(folder, "a.bin", "bare names of .safetensors")
    assert not (folder.parent / "opened").exists()


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("key", ["auto_map", "trust_remote_code"])
def test_a_config_that_asks_for_code_is_refused_at_any_depth(
    folder: Path, file: str, key: str
) -> None:
    module = folder / "evil.py"
    module.write_text(f"import os\nos.mkdir({str(folder.parent / 'ran')!r})\n")
    value = {"AutoModel": "evil.Model", "AutoTokenizer": ["evil.T", None]}
    changes: list[dict[str, Any]] = [{key: value}, {"sub_config": {"deep": [{key: value}]}}]
    before = (folder / file).read_text()
    for change in changes:
        (folder / file).write_text(before)
        edit_json(folder / file, **change)
        assert key in refused(folder, file).found
    assert not (folder.parent / "ran").exists()


def test_the_choice_of_an_implementation_is_ignored_with_a_note(folder: Path) -> None:
    choices = {"_attn_implementation": "someone/kernels", "attn_implementation": "eager"}
    internal = {"_attn_implementation_internal": "someone/kernels"}
    edit_json(folder / "config.json", **choices, **internal)
    with pytest.warns(UserWarning, match="someone/kernels.*ignored") as caught:
        loaded = load(folder)
    assert caught[0].filename == __file__
    assert loaded.model.config._attn_implementation == "sdpa"
    assert "ignored" in loaded.notes[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, ("quantization_config", "float32")),
        ({"transformers_weights": "../other.safetensors"}, ("transformers_weights",)),
        ({"fusion_config": {"patch_embeddings": True}}, ("fusion_config",)),
        ({"model_type": None}, ("model_type", "None")),
        ({"model_type": ["bert"]}, ("model_type",)),
        ({"model_type": "no_such"}, ("no_such", "transformers")),
        ({"model_type": "gpt2"}, ("architecture", "BertModel")),
        ({"architectures": ["pipeline"]}, ("architecture", "pipeline")),
        ({"architectures": ["LlamaForCausalLM"]}, ("LlamaForCausalLM",)),
        ({"architectures": "BertModel"}, ("architecture",)),
        ({"architectures": [["BertModel"]]}, ("architecture",)),
        ({"hidden_size": "large"}, ("hidden_size",)),
        ({"hidden_size": 0}, ("config",)),
        ({"hidden_size": -12}, ("config",)),
        ({"hidden_act": "no_such"}, ("no_such",)),
        ({"num_attention_heads": 5}, ("12", "5")),
        ({"num_hidden_layers": 10**8}, ("num_hidden_layers", "1,000", "100000000")),
        ({"sub_config": {"stage_sizes": [[10**9]]}}, ("stage_sizes", "1000000000")),
        ({"num_labels": 2**31 - 1}, ("num_labels", "1,000,000")),
        ({"sub_config": [{"num_experts": 10**9}]}, ("num_experts",)),
        ({"vocab_size": 2**40}, ("vocab_size",)),
        ({"vocab_size": 2**30}, ("numbers that the folder holds",)),
        ({"max_position_embeddings": 2**31 - 1}, ("numbers that the folder holds",)),
        ({"to_dict": 3}, ("config.json",)),
    ],
)
def test_a_config_that_describes_no_model_of_this_folder_is_refused(
    folder: Path, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    edit_json(folder / "config.json", **changes)
    refused(folder, "config.json", *words)


SMALL = {
    "funnel": {"d_model": 7, "n_head": 1, "d_head": 7, "d_inner": 7},
    "distilbert": {"dim": 2, "n_heads": 1, "n_layers": 1, "hidden_dim": 2},
    "xlm": {"emb_dim": 2, "n_heads": 1, "n_layers": 1, "n_words": 5},
    "flaubert": {"emb_dim": 2, "n_heads": 1, "n_layers": 1, "n_words": 5},
    "marian": {"d_model": 2, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 2,
               "decoder_ffn_dim": 2, "encoder_attention_heads": 1, "decoder_attention_heads": 1},
    "roformer": {"hidden_size": 2, "num_hidden_layers": 1, "num_attention_heads": 1,
                 "intermediate_size": 2},
    "bert": {"hidden_size": 2, "num_attention_heads": 1, "intermediate_size": 2},
    "albert": {"hidden_size": 2, "num_attention_heads": 1, "intermediate_size": 2,
               "embedding_size": 2, "num_hidden_layers": 1},
    "gpt_neo": {"hidden_size": 2, "num_heads": 1, "num_layers": 1},
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "architecture", "changes", "words"),
    [
        ("funnel", "FunnelModel", {"block_sizes": [10**7]}, ("block_sizes", "10,000")),
        ("funnel", "FunnelModel", {"block_sizes": [9973] * 9973}, ("2 tensors",)),
        (
            "distilbert",
            "DistilBertModel",
            {"sinusoidal_pos_embds": True, "max_position_embeddings": 2 * 10**7},
            ("a table of positions", "20,000,000 × 2"),
        ),
        (
            "xlm",
            "XLMModel",
            {"sinusoidal_embeddings": True, "max_position_embeddings": 2 * 10**7},
            ("a table of positions",),
        ),
        (
            "flaubert",
            "FlaubertModel",
            {"sinusoidal_embeddings": True, "max_position_embeddings": 2**20, "emb_dim": 2**10},
            ("a table of positions",),
        ),
        ("marian", "MarianModel", {"max_position_embeddings": 2 * 10**7}, ("a table",)),
        ("roformer", "RoFormerModel", {"max_position_embeddings": 2 * 10**7}, ("a table",)),
        ("bert", "BertModel", {"num_hidden_layers": 10_000}, ("num_hidden_layers", "1,000")),
        ("bert", "BertModel", {"num_hidden_layers": 997}, ("2 tensors",)),
        ("albert", "AlbertModel", {"num_hidden_groups": 997, "inner_group_num": 997}, ("2 tens",)),
        ("gpt_neo", "GPTNeoModel", {"attention_types": [[["global"], 10**9]]}, ("types",)),
    ],
)
def test_a_config_cannot_keep_this_machine_busy(
    tmp_path: Path, kind: str, architecture: str, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    about = {"model_type": kind, "architectures": [architecture], "vocab_size": 5}
    (tmp_path / "config.json").write_text(json.dumps({**about, **SMALL[kind], **changes}))
    save_file({"a": torch.zeros(2), "b": torch.zeros(3)}, tmp_path / "model.safetensors")
    before = time.process_time()
    refused(tmp_path, "config.json", *words)
    assert time.process_time() - before < 10  # seconds; the work itself would take minutes


def test_the_names_of_classes_are_not_taken_for_sizes(folder: Path) -> None:
    names = {f"class {n}": n for n in range(1009)} | {"layer cake": 1009}
    id2label = {str(n): name for name, n in names.items()}
    edit_json(folder / "config.json", label2id=names, id2label=id2label)
    assert load(folder).model.config.label2id == names


@pytest.mark.parametrize("error", [MemoryError, TimeoutError])
def test_what_this_machine_lacks_is_not_said_to_be_wrong_with_the_config(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error("no room")

    monkeypatch.setattr(BertModel, "__init__", fail)
    with pytest.raises(error, match="no room"):
        load(folder)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ("JSON object",)),
        (b"[]", ("JSON object", "an array")),
        (b"null", ("JSON object", "null")),
        (b"3", ("JSON object", "a number")),
        (b"\xff\xfe{}", ("UTF-8",)),
        (b'{"model_type": "bert", "model_type": "gpt2"}', ("'model_type' twice",)),
        (b'{"a": ' * 100_000, ("JSON object",)),
        (b'{"a": ' + b"9" * 5000 + b"}", ("JSON object",)),
        (b'{"a": "' + b"x" * 10_000_000 + b'"}', ("at most 10,000,000 bytes", "more")),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_config_that_is_no_sane_json_object_is_refused(
    folder: Path, content: bytes, words: tuple[str, ...]
) -> None:
    (folder / "config.json").write_bytes(content)
    refused(folder, "config.json", *words)


def test_a_chat_template_is_not_read(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ ''.__class__ }}")
    edit_json(folder / "tokenizer_config.json", chat_template="{{ ''.__class__ }}")
    loaded = load(folder)
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.chat_template is None


def test_an_adapter_in_the_folder_leads_nowhere(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/else"}')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(folder)


KEYS = [*small_bert().to_dict(), "rope_scaling", "per_layer_config", "num_labels", "__class__"]
VALUES = st.sampled_from([None, True, 0, 1, -1, 3, 2**31, 1e300, "", "gpt2", [], [1], {}, {"a": 1}])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3))
def test_any_change_of_a_config_is_refused_in_words_or_does_no_harm(
    folder: Path, changes: dict[str, Any]
) -> None:
    before = (folder / "config.json").read_text()
    try:
        edit_json(folder / "config.json", **changes)
        loaded = load(folder)
    except CheckpointError as error:
        assert str(error).startswith("load(): ")  # noqa: PT017
    else:
        assert isinstance(loaded.model, PreTrainedModel)
    finally:
        (folder / "config.json").write_text(before)
