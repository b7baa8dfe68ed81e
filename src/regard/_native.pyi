"""The native part of regard: tensors and options come as they are, and are read in place.

A function that returns bool returns False, with nothing done, if a tensor is not as it can read it:
dense, of the type and shape that is said here, on the CPU, its numbers in memory as it shows them,
and q, k, v and gradients with a contiguous last axis.
"""

from torch import Tensor

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
    """The build of the kernel in use: "avx2", "neon" or "portable"."""

def use_kernel(name: str | None) -> None:
    """Use the kernel of this name from now on, None for the best; ValueError if it cannot run."""

def measure_peak(seconds: float) -> float:
    """Floating-point operations a second of one thread that only multiplies and adds."""

def attention(
    problem: Call, out: Tensor, seen: Observation | None, queries: Tensor | None, threads: int
) -> bool:
    """Fill in out (B, H, Nq, Dv) and what was made room for in `seen`.

    `queries` (B, Nq), bool, are those that count in its map and received.
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

def linear(x: Tensor, weight: Tensor, bias: Tensor | None, y: Tensor, threads: int) -> bool:
    """y (…, outputs) = x (…, inputs) · weightᵀ + bias; all contiguous, of weight the last axis."""

def multiply_floats(a: Tensor, b: Tensor, c: Tensor, threads: int) -> bool:
    """c (B, H, rows, columns) = a (B, H, rows, inner) · b (B, H, inner, columns), c contiguous."""

def multiply_doubles(a: Tensor, b: Tensor, c: Tensor, threads: int) -> bool:
    """The same in float64."""
