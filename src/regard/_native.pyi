"""The native part of regard. Arguments are trusted: `regard._attention` checks them.

Tensors come as an address and their steps in elements, so that a call costs little. Shapes are
those of q (B, H, Nq, D), k (B, Hkv, Nk, D) and v (B, Hkv, Nk, Dv), whose last axis is contiguous.
"""

from collections.abc import Sequence

Steps = Sequence[int]
Cells = tuple[int, Steps]  # an address, and four steps that may be 0

def version() -> str:
    """The version of the package that the native part was built for."""

def instruction_set() -> str:
    """What the processor has: "avx512", "avx2", "neon" or "portable"."""

def kernel() -> str:
    """The build of the kernel in use: "avx2" or "portable"."""

def use_kernel(name: str | None) -> None:
    """Use the kernel of this name from now on, None for the best; ValueError if it cannot run."""

def measure_peak(seconds: float) -> float:
    """Floating-point operations a second of one thread that only multiplies and adds."""

def attention(
    q: int,
    q_shape: Sequence[int],
    q_steps: Steps,
    k: int,
    k_shape: Sequence[int],
    k_steps: Steps,
    v: int,
    v_shape: Sequence[int],
    v_steps: Steps,
    out: int,
    out_steps: Steps,
    scale: float,
    causal: bool,
    threads: int,
) -> None:
    """Attention without options, queries at the end of the keys: out (B, H, Nq, Dv)."""

def attention_with(
    q: int,
    q_shape: Sequence[int],
    q_steps: Steps,
    k: int,
    k_shape: Sequence[int],
    k_steps: Steps,
    v: int,
    v_shape: Sequence[int],
    v_steps: Steps,
    out: int,
    out_steps: Steps,
    scale: float,
    causal: bool,
    threads: int,
    *,
    position: int,
    window: tuple[int, int] = (-1, -1),  # -1: unbounded
    mask: Cells | None = None,  # of bool
    bias: Cells | None = None,  # of float32
    lengths: int = 0,  # address of int64 (B,); 0: none
    softcap: float = 0.0,  # 0: none
    sinks: int = 0,  # address of float32 (H,); 0: none
    dropout: float = 0.0,  # the chance of a weight to be dropped
    seed: int = 0,  # below 2⁶⁴
    lse: int = 0,  # addresses of what is to be made, contiguous; 0: not wanted
    entropy: int = 0,
    distance: int = 0,
    top: tuple[int, int, int] | None = None,  # count, address of keys int64, of weights
    map: tuple[int, int, int] | None = None,  # rows, columns, address
    received: int = 0,
    counted: tuple[int, Steps] | None = None,  # of bool (B, Nq): which queries count
) -> None:
    """Attention with every option, and what is to be seen of it."""

def attention_backward(
    q: int,
    q_shape: Sequence[int],
    q_steps: Steps,
    k: int,
    k_shape: Sequence[int],
    k_steps: Steps,
    v: int,
    v_shape: Sequence[int],
    v_steps: Steps,
    out: int,
    out_steps: Steps,
    lse: int,
    grad: int,
    grad_steps: Steps,
    dq: int,  # addresses of what is to be made; 0: not wanted
    dq_steps: Steps,
    dk: int,
    dk_steps: Steps,
    dv: int,
    dv_steps: Steps,
    scale: float,
    causal: bool,
    threads: int,
    *,
    position: int,
    window: tuple[int, int] = (-1, -1),
    mask: Cells | None = None,
    bias: Cells | None = None,
    lengths: int = 0,
    sinks: int = 0,
    dropout: float = 0.0,
    seed: int = 0,
) -> None:
    """The gradients of q, k and v from what attention found, lse (B, H, Nq), and that of out."""

def weights(
    q: int,
    q_shape: Sequence[int],
    q_steps: Steps,
    k: int,
    k_shape: Sequence[int],
    k_steps: Steps,
    lse: int,
    out: int,
    scale: float,
    causal: bool,
    threads: int,
    *,
    rectangle: tuple[int, int, int, int],  # first row, rows, first key, keys
    position: int,
    window: tuple[int, int] = (-1, -1),
    mask: Cells | None = None,
    bias: Cells | None = None,
    lengths: int = 0,
    softcap: float = 0.0,
) -> None:
    """The weights of a rectangle: out (B, H, rows, keys), from lse (B, H, Nq), both contiguous."""

def kept(
    out: int,
    b: int,
    heads: int,
    rectangle: tuple[int, int, int, int],
    dropout: float,
    seed: int,
    threads: int,
) -> None:
    """What dropout multiplies weights of sequence b by: out (H, rows, keys), 0 or 1/(1 − p)."""

def pooled(
    q: int,
    q_shape: Sequence[int],
    q_steps: Steps,
    k: int,
    k_shape: Sequence[int],
    k_steps: Steps,
    lse: int,
    out: int,
    scale: float,
    causal: bool,
    threads: int,
    *,
    rectangle: tuple[int, int, int, int],
    shape: tuple[int, int],
    maximum: bool,
    position: int,
    window: tuple[int, int] = (-1, -1),
    mask: Cells | None = None,
    bias: Cells | None = None,
    lengths: int = 0,
    softcap: float = 0.0,
) -> None:
    """A picture of a rectangle: out (B, H, *shape), the mean or maximum weight of each pixel."""

def linear(
    x: int,
    x_step: int,  # from row to row, in elements
    weight: int,
    weight_step: int,
    bias: int,  # 0: none
    y: int,
    rows: int,
    inputs: int,
    outputs: int,
    threads: int,
) -> None:
    """y (rows, outputs) = x (rows, inputs) · weightᵀ + bias, y contiguous."""

def multiply_floats(
    a: int,
    a_shape: Sequence[int],  # (B, H, rows, inner)
    a_steps: Steps,  # any, in elements
    b: int,
    b_shape: Sequence[int],  # (B, H, inner, columns)
    b_steps: Steps,
    c: int,
    threads: int,
) -> None:
    """c = a · b in float32 for pairs of matrices, (B, H, rows, columns), c contiguous."""

def multiply_doubles(
    a: int,
    a_shape: Sequence[int],  # (B, H, rows, inner)
    a_steps: Steps,  # any, in elements
    b: int,
    b_shape: Sequence[int],  # (B, H, inner, columns)
    b_steps: Steps,
    c: int,
    threads: int,
) -> None:
    """c = a · b in float64 for pairs of matrices, (B, H, rows, columns), c contiguous."""
