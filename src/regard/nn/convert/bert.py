"""BERT: an encoder with norms after its sublayers, learned positions, and kinds of text parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from regard.nn.convert.architecture import ACTIVATIONS, Architecture, Options, chosen, option
from regard.nn.convert.tables import Row, under
from regard.nn.models import EncoderModel, MaskedLanguageModel, SequenceClassifier
from regard.nn.position import Learned
from regard.nn.residual import PostNorm

_LAYER = (
    Row("attention.self.query.{part}", "attention.w_q.{part}"),
    Row("attention.self.key.{part}", "attention.w_k.{part}"),
    Row("attention.self.value.{part}", "attention.w_v.{part}"),
    Row("attention.output.dense.{part}", "attention.w_o.{part}"),
    Row("attention.output.LayerNorm.{part}", "norms.0.{part}"),
    Row("intermediate.dense.{part}", "feed_forward.w_in.{part}"),
    Row("output.dense.{part}", "feed_forward.w_out.{part}"),
    Row("output.LayerNorm.{part}", "norms.1.{part}"),
)

_BODY = (
    Row("embeddings.word_embeddings.weight", "embedding.tokens.weight"),
    Row("embeddings.token_type_embeddings.weight", "embedding.segments.weight"),
    Row("embeddings.position_embeddings.weight", "embedding.positions.weight"),
    Row("embeddings.LayerNorm.{part}", "embedding.norm.{part}"),
    *under("encoder.layer.{layer}.", "encoder.layers.{layer}.", _LAYER),
)

_FIELDS = {
    "vocabulary": option("vocab_size"),
    "width": option("hidden_size"),
    "heads": option("num_attention_heads"),
    "layers": option("num_hidden_layers"),
    "hidden": option("intermediate_size"),
    "activation": chosen("hidden_act", ACTIVATIONS, "gelu"),
    "norm_eps": option("layer_norm_eps", 1e-12),
    "position": option("max_position_embeddings", means=Learned),
    "segments": option("type_vocab_size", 2),
    "dropout": option("hidden_dropout_prob", 0.1),
    "attention_dropout": option("attention_probs_dropout_prob", 0.1),
}

BERT = Architecture(
    name="BertModel",
    model_type="bert",
    model=EncoderModel,
    rows=_BODY,
    fields=_FIELDS,
    fixed={
        "residual": PostNorm(),
        "embedding_norm": True,
        "final_norm": False,
        "hidden_dropout": 0.0,
    },
    must={
        "position_embedding_type": ("absolute",),
        "is_decoder": (False,),
        "is_causal": (False,),
    },
    # Heads that these have not, some of them of the first BERT alone.
    harmless="classifier_dropout tie_word_embeddings directionality pooler_fc_size pooler_type "
    "pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head",
    # The pooler is a head of its own, of no use for the vectors.
    unused=("pooler.dense.{part}", "embeddings.position_ids"),
    buffers={
        "position_ids": lambda _, count: torch.arange(count),
        "token_type_ids": lambda _, count: torch.zeros(count),
    },
)

BERT_MASKED = replace(
    BERT,
    name="BertForMaskedLM",
    model=MaskedLanguageModel,
    rows=(
        *under("bert.", "body.", _BODY),
        Row("cls.predictions.transform.dense.{part}", "transform.{part}"),
        Row("cls.predictions.transform.LayerNorm.{part}", "norm.{part}"),
        Row("cls.predictions.decoder.weight", "head.weight"),
        Row("cls.predictions.bias", "head.bias"),
        Row("cls.predictions.decoder.bias", "head.bias"),
    ),
    fields=_FIELDS | {"tied": option("tie_word_embeddings", True)},
    must=dict(BERT.must) | {"hidden_act": ("gelu",)},
    unused=("bert.embeddings.position_ids",),
    tied_only=("cls.predictions.bias",),
)


def _classes(options: Options) -> Any:
    """How many classes there are: as many as have a name."""
    named = options.get("id2label")
    return len(named) if named else option("num_labels", 2)(options)


BERT_CLASSIFIER = replace(
    BERT,
    name="BertForSequenceClassification",
    model=SequenceClassifier,
    rows=(
        *under("bert.", "body.", _BODY),
        Row("bert.pooler.dense.{part}", "pooler.{part}"),
        Row("classifier.{part}", "head.{part}"),
    ),
    fields=_FIELDS | {"classes": _classes},
    fixed=dict(BERT.fixed) | {"pooling": "first", "pooler": True},
    alike=(("hidden_dropout_prob", "classifier_dropout"),),
    unused=("bert.embeddings.position_ids",),
)
