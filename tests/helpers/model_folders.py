"""Model folders for the tests: small honest ones, ways to spoil them, and what must follow."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

from regard.models import CheckpointError, load

WEIGHT = "encoder.layer.1.output.dense.weight"  # of the small BERT: (12, 7)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "i", "love", "apple", "phones", "."]


def small_bert(**changes: Any) -> BertConfig:
    sizes: dict[str, Any] = {
        "vocab_size": 11,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 7,
        "max_position_embeddings": 13,
    }
    return BertConfig(**(sizes | changes))


def small_llama(**changes: Any) -> LlamaConfig:
    sizes: dict[str, Any] = {
        "vocab_size": 11,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "intermediate_size": 7,
        "max_position_embeddings": 13,
        "tie_word_embeddings": True,
    }
    return LlamaConfig(**(sizes | changes))


def save_tokenizer(folder: Path) -> None:
    """A tokenizer that pads and truncates to 5, as that of MiniLM does to 128."""
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_padding(length=5)
    tokenizer.enable_truncation(5)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"pad_token": "[PAD]", "cls_token": {"content": "[CLS]"}, "eos_token": "<no>"})
    )


def save(model: PreTrainedModel, folder: Path, **how: Any) -> PreTrainedModel:
    model.eval().save_pretrained(folder, **how)
    save_tokenizer(folder)
    return model


def save_bert(folder: Path, **how: Any) -> PreTrainedModel:
    torch.manual_seed(3)
    return save(BertModel(small_bert()), folder, **how)


def save_masked(folder: Path, **how: Any) -> PreTrainedModel:
    torch.manual_seed(4)
    return save(BertForMaskedLM(small_bert()), folder, **how)


def save_llama(folder: Path, **how: Any) -> PreTrainedModel:
    torch.manual_seed(5)
    return save(LlamaForCausalLM(small_llama()), folder, **how)


def edit_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def file_of(header: object, numbers: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with that header (bytes as they are, else as JSON)."""
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(content) if length is None else length) + content + numbers


def write_index(folder: Path, places: object, **more: object) -> None:
    content = json.dumps({"weight_map": places, **more})
    (folder / "model.safetensors.index.json").write_text(content)


def refused(folder: Path, *words: str, **how: Any) -> CheckpointError:
    """Loading must fail with CheckpointError that says all of this, in the usual form."""
    with pytest.raises(CheckpointError) as caught:
        load(folder, **how)
    said = str(caught.value)
    assert re.match(r"load\(\): .+ must .+; got .+\. .+[.?]$", said, re.DOTALL), said
    for word in words:
        assert word in said
    return caught.value
