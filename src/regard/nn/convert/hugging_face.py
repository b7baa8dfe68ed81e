"""Models of Hugging Face's transformers, to ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.convert.architecture import Architecture, options_of
from regard.nn.convert.bert import BERT, BERT_CLASSIFIER, BERT_MASKED
from regard.nn.convert.engine import fill, to_ours
from regard.nn.convert.gpt2 import GPT2
from regard.nn.convert.llama import LLAMA
from regard.nn.convert.marian import MARIAN
from regard.nn.models import EncoderModel, LanguageModel, MaskedLanguageModel, SequenceClassifier
from regard.nn.transformer import Transformer

__all__ = ["ARCHITECTURES", "from_hugging_face"]

ARCHITECTURES = {
    each.name: each for each in (BERT, BERT_MASKED, BERT_CLASSIFIER, GPT2, LLAMA, MARIAN)
}

Model = EncoderModel | MaskedLanguageModel | SequenceClassifier | LanguageModel | Transformer


def from_hugging_face(source: Any) -> Model:
    """The model of `regard.nn` that computes what a model of transformers computes.

    | theirs | ours |
    |---|---|
    | `BertModel` | `EncoderModel`; its pooler is left out |
    | `BertForMaskedLM` | `MaskedLanguageModel` |
    | `BertForSequenceClassification` | `SequenceClassifier` |
    | `GPT2LMHeadModel`, `LlamaForCausalLM` | `LanguageModel` |
    | `MarianMTModel` | `Transformer` |

    `source` is such a model, or the two things that files hold of one: its configuration as a dict,
    which names its class under "architectures", and a dict of its tensors by name. The weights are
    copies, bit for bit, of the same dtype, on the same device, frozen if theirs are; dropout and
    training or evaluation are as there (of two dicts: nothing frozen, evaluation). Raises
    ValueError or TypeError, and names all options that we have no counterpart of, or all tensors
    that do not fit.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> small = GPT2Config(vocab_size=11, n_embd=6, n_layer=1, n_head=3, n_positions=7,
    ...                    bos_token_id=0, eos_token_id=0)
    >>> theirs = GPT2LMHeadModel(small).eval()
    >>> ours = from_hugging_face(theirs)
    >>> ids = torch.tensor([[1, 2, 3, 5, 7]])
    >>> torch.allclose(ours(ids), theirs(ids).logits, atol=1e-6)
    True
    >>> from_hugging_face(({"architectures": ["T5Model"]}, {}))
    Traceback (most recent call last):
    ValueError: from_hugging_face(): the architecture must be one of BertModel, BertForMaskedLM,
    BertForSequenceClassification, GPT2LMHeadModel, LlamaForCausalLM, MarianMTModel; got T5Model.
    """
    name, options, tensors, training = _taken_apart(source)
    architecture = ARCHITECTURES.get(name)
    if architecture is None:
        raise ValueError(
            f"from_hugging_face(): the architecture must be one of {', '.join(ARCHITECTURES)}; "
            f"got {name}."
        )
    values = options_of(architecture, options)
    if values["layers"] > len(tensors):
        raise ValueError(
            f"from_hugging_face(): there must be tensors for all {values['layers']} layers; got "
            f"{len(tensors)} tensors. The description and the weights must come from one model."
        )
    with torch.device("meta"):
        model = architecture.model(architecture.config(**values))
    _check_computed(architecture, model, tensors)
    rows, unused = architecture.table(options)
    whose = f"a {name} of {values['layers']} layers"
    fill(model, to_ours("from_hugging_face", whose, rows, tensors, model, unused=unused))
    return model.train(training)  # pyright: ignore[reportReturnType]


def _taken_apart(source: Any) -> tuple[str, Mapping[str, Any], Mapping[str, Tensor], bool]:
    """The name of the architecture, its options, its tensors, and is it in training."""
    if not isinstance(source, nn.Module) and isinstance(getattr(source, "model", None), nn.Module):
        source = source.model  # what regard.models.load gives
    if isinstance(source, nn.Module) and hasattr(getattr(source, "config", None), "to_dict"):
        config: Any = source.config
        state = source.state_dict(keep_vars=True)
        return type(source).__name__, config.to_dict(), state, source.training
    if (
        not isinstance(source, tuple)
        or len(source) != 2
        or not all(isinstance(part, Mapping) for part in source)
    ):
        raise TypeError(
            "from_hugging_face(): source must be a model of transformers, or a tuple of two dicts, "
            f"its configuration and its tensors; got {type(source).__name__}."
        )
    options, tensors = source
    names = options.get("architectures")
    if not isinstance(names, list | tuple) or len(names) != 1:
        raise ValueError(
            "from_hugging_face(): the configuration must name one class under architectures; "
            f"got {names!r}."
        )
    wrong = [str(name) for name, tensor in tensors.items() if not isinstance(tensor, Tensor)]
    if wrong:
        raise TypeError(
            f"from_hugging_face(): all weights must be tensors; got others: {', '.join(wrong)}."
        )
    trained = {
        name: tensor.detach().requires_grad_(tensor.is_floating_point())
        for name, tensor in tensors.items()
    }
    return str(names[0]), options, trained, False


def _check_computed(
    architecture: Architecture, model: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Raise ValueError if a tensor that is computed here has other numbers there."""
    for name, compute in architecture.computed.items():
        found = tensors.get(name)
        if found is None:
            continue
        expected = compute(model, len(found))
        near = max(1e-6, torch.finfo(found.dtype).eps)
        if found.shape != expected.shape or not torch.allclose(
            found.detach().to("cpu", torch.float64), expected, rtol=0.0, atol=near
        ):
            raise ValueError(
                f"from_hugging_face(): {name} must be what {architecture.name} computes, sines "
                "and then cosines; got other numbers. regard.nn computes them, and has no table."
            )
