"""The native part of regard: tensors and options come as they are, and are read in place.

A function that returns bool returns False, with nothing done, if a tensor is not as it can read it:
dense, of the type and shape that is said here, on the CPU, its numbers in memory as it shows them,
and q, k, v and gradients with a contiguous last axis.
"""

from torch import Tensor

from regard._attention.native import Asked
from regard._attention.options import Options
from regard._attention.problem import Tile
from regard.observation import Observation

MOST: int  # queries, and keys, that can be counted

# q (B, H, Nq, D), k (B, Hkv, Nk, D), v (B, Hkv, Nk, Dv), options, scale, where query 0 stands, the
# chance of a weight to be dropped, and the seed of that, below 2⁶⁴. No size may be 0 but Dv. Mask
# and bias have four axes, each of full length or of 1. Bias and sinks are float32.
Call = tuple[Tensor, Tensor, Tensor, Options, float, int, float, int]

def version() -> str:
    """The version of the package that the native part was built for."""

def instruction_set() -> str:
    """What the processor has: "avx512", "avx2", "neon" or "portable"."""

def kernel() -> str:
    """The build of the kernel in use: "avx512", "avx2", "neon" or "portable"."""

def kernels() -> list[str]:
    """Those that this processor can run, the best first, which serves whoever does not ask."""

def use_kernel(name: str | None) -> None:
    """Use the kernel of this name from now on, None for the best; ValueError if it cannot run."""

def measure_peak(seconds: float) -> float:
    """Floating-point operations a second of one thread that only multiplies and adds."""

def attention(
    problem: Call, out: Tensor, seen: Observation | None, asked: Asked, threads: int
) -> bool:
    """Fill in out (B, H, Nq, Dv) and what was made room for in `seen`.

    `asked` are what that needs, each or None: the queries that count in map and received (B, Nq),
    bool; the labels of the keys (B or 1, Nk), int64, for spans; norms (B, H, Nk) in the place of
    those of the values, for contribution.
    """

def attention_backward(
    problem: Call,
    out: Tensor,
    lse: Tensor,
    grad: Tensor,
    dq: Tensor | None,
    dk: Tensor | None,
    dv: Tensor | None,
    threads: int,
) -> bool:
    """The gradients of q, k and v from what attention found, lse (B, H, Nq), and that of out.

    There may be no softcap, and Dv may not be 0.
    """

def weights(problem: Call, lse: Tensor, tile: Tile, out: Tensor, threads: int) -> bool:
    """The weights of a tile: out (B, H, rows, keys), from lse (B, H, Nq), both contiguous."""

def pooled(
    problem: Call, lse: Tensor, tile: Tile, out: Tensor, maximum: bool, threads: int
) -> bool:
    """A picture of a tile: out (B, H, ·, ·), the mean or maximum weight of each pixel."""

def kept(out: Tensor, first: int, tile: Tile, dropout: float, seed: int, threads: int) -> None:
    """What dropout multiplies weights by: out (B, H, rows, keys), 0 or 1/(1 − p).

    The first of its sequences is number `first` of the call.
    """

def linear(x: Tensor, maps: tuple[tuple[Tensor, Tensor | None, Tensor], ...], threads: int) -> bool:
    """y (…, outputs) = x (…, inputs) · weightᵀ + bias for each map (weight, bias, y).

    All are contiguous, of weight the last axis.
    """

def rms_norm(x: Tensor, weight: Tensor, eps: float, y: Tensor, threads: int) -> bool:
    """y = x / √(mean(x²) + eps) · weight over the last axis of x; all contiguous."""

def turn(x: Tensor, cosine: Tensor, sine: Tensor, halves: bool, y: Tensor, threads: int) -> bool:
    """y = x · cosine + partner(x) · sine; x, y (B, H, N, D), the others (1 or B, 1, N, turned).

    Numbers half of `turned` apart are partners, or else neighbours. Last axes are contiguous.
    """

def gated(gate: Tensor, hidden: Tensor, y: Tensor, threads: int) -> bool:
    """y = silu(gate) ⊙ hidden; all contiguous and of one shape."""

def layer(
    x: Tensor,
    norms: tuple[Tensor, float, Tensor, float],
    maps: tuple[tuple[Tensor, Tensor | None], ...],
    angles: tuple[Tensor, Tensor, bool] | None,
    cache: tuple[Tensor, Tensor, int, int],
    heads: int,
    scale: float,
    y: Tensor,
    threads: int,
) -> bool:
    """y (B, N, width): one layer of a decoder, of the kind that Llama has, for few new tokens.

    norms: weight and eps of each. maps: (weight, bias) of q, k, v, o, in, gate, out. angles: cosine
    and sine as in `turn`, and whether halves are partners. cache: keys and values
    (B, kv_heads, room, D); which key is the first, how many there are with the new ones, which are
    written.
    """

def multiply_floats(a: Tensor, b: Tensor, c: Tensor, threads: int) -> bool:
    """c (B, H, rows, columns) = a (B, H, rows, inner) · b (B, H, inner, columns), c contiguous."""

def multiply_doubles(a: Tensor, b: Tensor, c: Tensor, threads: int) -> bool:
    """The same in float64."""
