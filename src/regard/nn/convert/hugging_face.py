"""Models of Hugging Face's transformers, to ours."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn._parameters import fill
from regard.nn.convert.architecture import Architecture, options_of
from regard.nn.convert.bert import BERT, BERT_CLASSIFIER, BERT_MASKED
from regard.nn.convert.gpt2 import GPT2
from regard.nn.convert.llama import LLAMA
from regard.nn.convert.marian import MARIAN
from regard.nn.convert.tables import to_ours
from regard.nn.convert.unchanged import check_unchanged
from regard.nn.models import EncoderModel, LanguageModel, MaskedLanguageModel, SequenceClassifier
from regard.nn.transformer import Transformer

ARCHITECTURES = {
    each.name: each for each in (BERT, BERT_MASKED, BERT_CLASSIFIER, GPT2, LLAMA, MARIAN)
}

# Ways to compute the same.
_ATTENTIONS = ("eager", "sdpa", "flash_attention", "flex_attention")

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
    ValueError or TypeError, and names all options that we have no counterpart of, all tensors that
    do not fit, or what was changed on the model since its class made it: hooks, other parts.

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
    name, options, tensors, whole = _taken_apart(source)
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
        kind: Any = architecture.model
        model = kind(kind.config_class(**values))
    if whole is not None:
        _check_whole(whole)
    _check_computed(architecture, model, tensors, whole)
    rows, unused = architecture.table(options)
    whose = f"a {name} of {values['layers']} layers"
    fill(model, to_ours("from_hugging_face()", whose, rows, tensors, model, unused=unused))
    return model.train(whole is not None and whole.training)


def _taken_apart(
    source: Any,
) -> tuple[str, Mapping[str, Any], Mapping[str, Tensor], nn.Module | None]:
    """The name of the architecture, its options, its tensors, and the model if there is one."""
    if not isinstance(source, nn.Module) and isinstance(getattr(source, "model", None), nn.Module):
        source = source.model  # what regard.models.load gives
    if isinstance(source, nn.Module) and hasattr(getattr(source, "config", None), "to_dict"):
        config: Any = source.config
        state = source.state_dict(keep_vars=True)
        return type(source).__name__, config.to_dict(), state, source
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
    return str(names[0]), options, trained, None


def _check_whole(whole: nn.Module) -> None:
    """Raise ValueError or TypeError for what was changed on a model since its class made it."""
    config: Any = whole.config
    if type(whole).__module__.partition(".")[0] != "transformers":
        raise TypeError(
            f"from_hugging_face(): {type(whole).__name__} must be the class of transformers; got "
            f"one of {type(whole).__module__}, which may compute something else."
        )
    found = getattr(config, "_attn_implementation", None)
    if found is not None and not found.startswith(_ATTENTIONS):
        raise ValueError(
            f"from_hugging_face(): attn_implementation must be one of {', '.join(_ATTENTIONS)}; "
            f"got {found!r}, which may compute something else."
        )
    with torch.device("meta"):
        twin = type(whole)(deepcopy(config))
    check_unchanged("from_hugging_face()", whole, twin)


def _check_computed(
    architecture: Architecture,
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    whole: nn.Module | None,
) -> None:
    """Raise ValueError if what is computed here has other numbers in a file, or in a buffer."""

    def check(name: str, found: Tensor, expected: Tensor | None, rtol: float, atol: float) -> None:
        if found.is_floating_point():
            rounding = torch.finfo(found.dtype).eps
            rtol, atol = rtol and max(rtol, rounding), atol and max(atol, rounding)
        numbers = found.detach().to("cpu", torch.float64)
        if (
            expected is None
            or numbers.shape != expected.shape
            or not torch.allclose(numbers, expected.double(), rtol, atol)
        ):
            raise ValueError(
                f"from_hugging_face(): {name} must be what {architecture.name} makes it; got other "
                "numbers. regard.nn computes them, and has no such tensor."
            )

    for name, compute in architecture.computed.items():
        if name in tensors:
            check(name, tensors[name], compute(model, len(tensors[name])), rtol=0.0, atol=1e-6)
    for path, buffer in () if whole is None else whole.named_buffers():
        if path not in tensors:
            compute = architecture.buffers.get(path.rpartition(".")[2])
            expected = None if compute is None else compute(model, buffer.shape[-1])
            expected = None if expected is None else expected.expand(buffer.shape)
            check(path, buffer, expected, rtol=1e-5, atol=0.0)
