"""What PyTorch's modules call their tensors, and what they are called here."""

from __future__ import annotations

from regard.nn.convert.rows import THIRDS, Row, under

__all__ = ["ATTENTION", "DECODER", "DECODER_LAYER", "ENCODER", "ENCODER_LAYER", "WIDE_ATTENTION"]

_ENDS = (
    Row("in_proj_bias", ("w_q.bias", "w_k.bias", "w_v.bias"), THIRDS),
    Row("out_proj.{part}", "w_o.{part}"),
)

ATTENTION = (
    Row("in_proj_weight", ("w_q.weight", "w_k.weight", "w_v.weight"), THIRDS),
    *_ENDS,
)

# With a context of another width the three matrices differ in shape, and are not packed.
WIDE_ATTENTION = (
    Row("q_proj_weight", "w_q.weight"),
    Row("k_proj_weight", "w_k.weight"),
    Row("v_proj_weight", "w_v.weight"),
    *_ENDS,
)

_FEED_FORWARD = (
    Row("linear1.{part}", "feed_forward.w_in.{part}"),
    Row("linear2.{part}", "feed_forward.w_out.{part}"),
)

ENCODER_LAYER = (
    *under("self_attn.", "attention.", ATTENTION),
    *_FEED_FORWARD,
    Row("norm1.{part}", "norms.0.{part}"),
    Row("norm2.{part}", "norms.1.{part}"),
)

DECODER_LAYER = (
    *under("self_attn.", "attention.", ATTENTION),
    *under("multihead_attn.", "cross.", ATTENTION),
    *_FEED_FORWARD,
    Row("norm1.{part}", "norms.0.{part}"),
    Row("norm2.{part}", "norms.1.{part}"),
    Row("norm3.{part}", "norms.2.{part}"),
)

_LAST_NORM = Row("norm.{part}", "norm.{part}")

ENCODER = (*under("layers.{layer}.", "layers.{layer}.", ENCODER_LAYER), _LAST_NORM)
DECODER = (*under("layers.{layer}.", "layers.{layer}.", DECODER_LAYER), _LAST_NORM)
