"""GPT-2: a decoder with norms before its sublayers and learned positions; matrices transposed."""

from __future__ import annotations

from regard.nn.convert.architecture import ACTIVATIONS, Architecture, chosen, option
from regard.nn.convert.tables import TRANSPOSED, TRANSPOSED_THIRDS, Row, under
from regard.nn.models import LanguageModel
from regard.nn.position import Learned
from regard.nn.residual import PreNorm

_LAYER = (
    Row("ln_1.{part}", "norms.0.{part}"),
    Row(
        "attn.c_attn.{part}",
        ("attention.w_q.{part}", "attention.w_k.{part}", "attention.w_v.{part}"),
        TRANSPOSED_THIRDS,
    ),
    Row("attn.c_proj.{part}", "attention.w_o.{part}", TRANSPOSED),
    Row("ln_2.{part}", "norms.1.{part}"),
    Row("mlp.c_fc.{part}", "feed_forward.w_in.{part}", TRANSPOSED),
    Row("mlp.c_proj.{part}", "feed_forward.w_out.{part}", TRANSPOSED),
)

GPT2 = Architecture(
    name="GPT2LMHeadModel",
    model_type="gpt2",
    model=LanguageModel,
    rows=(
        Row("transformer.wte.weight", "embedding.tokens.weight"),
        Row("transformer.wpe.weight", "embedding.positions.weight"),
        *under("transformer.h.{layer}.", "decoder.layers.{layer}.", _LAYER),
        Row("transformer.ln_f.{part}", "decoder.norm.{part}"),
        Row("lm_head.weight", "head.weight"),
    ),
    fields={
        "vocabulary": option("vocab_size"),
        "width": option("n_embd"),
        "heads": option("n_head"),
        "layers": option("n_layer"),
        "hidden": option("n_inner", 0),
        "activation": chosen("activation_function", ACTIVATIONS, "gelu_new"),
        "norm_eps": option("layer_norm_epsilon", 1e-5),
        "position": option("n_positions", means=Learned),
        "dropout": option("resid_pdrop", 0.1),
        "attention_dropout": option("attn_pdrop", 0.1),
        "tied": option("tie_word_embeddings", True),
        "causal": option("is_causal", True),
    },
    fixed={"residual": PreNorm(), "hidden_dropout": 0.0},
    must={"scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,)},
    alike=(
        ("resid_pdrop", "embd_pdrop"),
        ("n_embd", "hidden_size"),
        ("n_head", "num_attention_heads"),
        ("n_layer", "num_hidden_layers"),
        ("n_positions", "max_position_embeddings"),
    ),
    # A head that GPT2LMHeadModel has not; how the product is rounded; the length of a mask; what
    # it always is.
    harmless="summary_activation summary_first_dropout summary_proj_to_labels summary_type "
    "summary_use_proj reorder_and_upcast_attn n_ctx is_decoder",
    # Masks that older files hold.
    unused=("transformer.h.{layer}.attn.bias", "transformer.h.{layer}.attn.masked_bias"),
)
