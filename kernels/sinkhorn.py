"""Sinkhorn normalization of small square matrices in one launch, f32 throughout.

First softmax of the rows plus eps, then columns divided by (their sum + eps); then iterations − 1
times: rows divided by (their sum + eps), columns by (their sum + eps). `expf` is CUDA's accurate
one, divisions are IEEE.

Order of summation: candle's `fast_sum`: next_pow2(h) slots, the missing ones +0, then
slot[t] += slot[t + s] for s = slots/2 … 1; for h = 4 that is (a0 + a2) + (a1 + a3), along rows and
columns alike. Written out below by additions of two operands, never by a `tl.sum`. No value is −0,
so candle's 0 + a is a.

Baseline: about 6 · iterations launches of candle's CUDA backend (`references/sinkhorn.py`).
"""

import math

import numpy as np
import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim, Equivalent
from exactness.formats import f32
from exactness.inputs import Inputs, Layout, Tensor
from exactness.launching import Launch, launcher

from . import _reasons as reasons
from ._host import check_number, check_tensor
from ._layout import f32_constant
from ._math import add, expf, maximum
from ._start import options, start

MAX_SIZE = 16
"""Largest matrix: a tile holds whole matrices in registers."""

_TILE, _WARPS = 2048, 4
"""Elements of a tile for many matrices: each lies in one thread, which needs no other."""
_SMALL_TILE = 32
"""For few: an element a thread of one warp, for the shortest chain of operations."""
_FEW = 4096
"""Matrices up to which that is quicker."""


@triton.jit
def _along_row(x, H: tl.constexpr, LOG: tl.constexpr, B: tl.constexpr, MAX: tl.constexpr):
    """Halve axis 1 until one column is left: [H, 1, B]."""
    for level in tl.static_range(LOG):
        x = tl.reduce(tl.reshape(x, [H, 2, H >> (level + 1), B]), 1, maximum if MAX else add)
    return tl.reshape(x, [H, 1, B])


@triton.jit
def _along_column(x, H: tl.constexpr, LOG: tl.constexpr, B: tl.constexpr):
    """Halve axis 0 until one row is left: [1, H, B]."""
    for level in tl.static_range(LOG):
        x = tl.reduce(tl.reshape(x, [2, H >> (level + 1), H, B]), 0, add)
    return tl.reshape(x, [1, H, B])


@triton.jit
def _exists(x, mask, FULL: tl.constexpr):
    """Zero where the matrix has no element, so that sums see the slots of candle."""
    return x if FULL else tl.where(mask, x, 0.0)


@triton.jit(do_not_specialize=["n", "h", "iterations", "stride_n", "stride_h", "stride_w", "eps"])
def _sinkhorn_kernel(
    x_ptr,
    out_ptr,
    n,
    h,
    iterations,
    stride_n,
    stride_h,
    stride_w,
    eps,
    H: tl.constexpr,
    LOG: tl.constexpr,
    B: tl.constexpr,
    FULL: tl.constexpr,
    CONTIGUOUS: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    size = H if FULL else h
    matrix = (tl.program_id(0).to(tl.int64) * B + tl.arange(0, B))[None, None, :]
    row = tl.arange(0, H)[:, None, None]
    col = tl.arange(0, H)[None, :, None]
    inner = (row < size) & (col < size)
    mask = inner & (matrix < n)
    at = matrix * (size * size) + (row * size + col)
    if CONTIGUOUS:
        x_at = at
    else:
        x_at = matrix * stride_n + row.to(tl.int64) * stride_h + col.to(tl.int64) * stride_w

    # Absent matrices are zeros: of −inf they would become NaN, which divisions are slow with.
    x = tl.load(x_ptr + x_at, mask=mask, other=tl.where(inner, 0.0, float("-inf")))
    x = _exists(expf(x - _along_row(x, H, LOG, B, MAX=True)), inner, FULL)
    x = tl.div_rn(x, _along_row(x, H, LOG, B, MAX=False))
    x = _exists(x + eps, inner, FULL)
    x = _exists(tl.div_rn(x, _along_column(x, H, LOG, B) + eps), inner, FULL)
    for _ in range(iterations - 1):
        x = _exists(tl.div_rn(x, _along_row(x, H, LOG, B, MAX=False) + eps), inner, FULL)
        x = _exists(tl.div_rn(x, _along_column(x, H, LOG, B) + eps), inner, FULL)
    tl.store(out_ptr + at, x, mask=mask)


@launcher
def sinkhorn(x: torch.Tensor, iterations: int = 20, eps: float = 1e-6) -> Launch[torch.Tensor]:
    """Make the rows and columns of each matrix sum to about one, with candle's bits.

    Args:
        x: f32 [n, h, h], any strides, h from 1 to 16; n = 0 gives an empty one.
        iterations: from 1 up.
        eps: finite, from 0 up; rounded from f64 to f32.

    Returns:
        f32 [n, h, h], contiguous.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong rank, layout, size, number of iterations or eps.
    """
    check_tensor("x", x, torch.float32, 3)
    n, h, width = x.shape
    if h != width or not 1 <= h <= MAX_SIZE:
        raise ValueError(
            f"x: shape {tuple(x.shape)} is not accepted; [n, h, h] with h from 1 to {MAX_SIZE} is"
        )
    _check_iterations(iterations)
    check_number("eps", eps)
    if not 0 <= eps < math.inf:
        raise ValueError(f"eps: {eps!r} is not accepted; a finite number from 0 up is")
    out = torch.empty((n, h, h), dtype=x.dtype, device=x.device)
    if n == 0:
        return Launch(out)
    slots = triton.next_power_of_2(h)
    tile, num_warps = (_SMALL_TILE, 1) if n <= _FEW else (_TILE, _WARPS)
    matrices = max(tile // slots**2, 1)
    programs = triton.cdiv(n, matrices)
    return Launch(
        out,
        _sinkhorn_kernel,
        (programs,),
        x,
        out,
        n,
        h,
        iterations,
        *x.stride(),
        f32_constant(eps),
        H=slots,
        LOG=slots.bit_length() - 1,
        B=matrices,
        FULL=slots == h,
        CONTIGUOUS=x.is_contiguous(),
        **options(programs, x, num_warps),
    )


def _check_iterations(iterations: object) -> None:
    if isinstance(iterations, bool) or not isinstance(iterations, int):
        raise TypeError(f"iterations: got {type(iterations).__name__}; an int is accepted")
    if iterations < 1:
        raise ValueError(f"iterations: {iterations} is not accepted; 1 or more is")


def _no_sum_is_subnormal() -> bool:
    """Divide adversarial matrices in f64 and look at every sum.

    A row of the softmax has an element of at least 1/h, dividing columns (sums of at most h) leaves
    it 1/h², and so on for each division: sums stay above 1/h³ where eps does not dominate.
    """
    smallest = 2.0**-126
    rng = np.random.Generator(np.random.Philox(0))
    for h in range(1, MAX_SIZE + 1):
        logits = rng.uniform(-104.0, 0.0, (200, h, h))
        for eps in (0.0, 1e-45, 1e-6, 0.3):
            x = np.exp(logits - logits.max(2, keepdims=True))
            x = x / x.sum(2, keepdims=True) + eps
            x = x / (x.sum(1, keepdims=True) + eps)
            for axis in (2, 1, 2, 1):
                total = x.sum(axis, keepdims=True)
                if total.min() < smallest:
                    return False
                x = x / (total + eps)
    return True


CLAIM = Claim(
    kernel=sinkhorn,
    reference="sinkhorn:sinkhorn",
    golden="sinkhorn",
    case_pattern=r"_it(?P<iterations>\d+)",
    parameters={"eps": 1e-6},
    inputs=Inputs(
        {"n": (0, 100_000), "h": (1, MAX_SIZE)},
        {"x": Tensor(f32, ("n", "h", "h"), layouts=tuple(Layout))},
        {"iterations": (2, 1, 3, 5, 20, 50), "eps": (1e-6, 0.0, 1e-3, 0.3)},
    ),
    cases=[
        {"n": 64, "h": 4, "iterations": 3},
        {"n": 33, "h": 7, "eps": 0.0},
        {"n": 5, "h": 16},
        {"n": 2100, "h": 4, "iterations": 1},
        {"n": _FEW + 1, "h": 3, "iterations": 2},
        {"n": 5 * _FEW + 1, "h": 1, "iterations": 2},
    ],
    equivalent={
        "fast_max:max(largest) nan_kept": Equivalent(
            "a NaN makes the sum of its row NaN, and so the row, whatever the maximum",
            reasons.nan_spreads_over_a_softmax,
        ),
        "broadcast_sub:sub(below) flush_subnormals": Equivalent(
            "a difference below 2^-100 has the exponential 1, a larger one absorbs subnormals",
            reasons.expf_of_tiny_is_one,
        ),
        **{
            f"affine:{operation}({axis} > divisor) flush_subnormals": Equivalent(
                "once columns were divided, no sum is subnormal", _no_sum_is_subnormal
            )
            for operation in ("mul", "add")
            for axis in ("rows", "columns")
        },
        "kernel: contraction switched on": Equivalent(
            "only the scaling by a power of two in expf is contracted, which is exact unless it is "
            "subnormal; the sum of a row absorbs that",
            reasons.scaling_of_expf_is_absorbed,
        ),
    },
    allows=("fma", "fma.rm", "fma.sat", "ex2.approx.ftz"),  # the accurate expf
    bench=[
        Bench(
            name="sinkhorn",
            sizes={"n": "tokens", "h": 4, "iterations": 20},
            tokens=(1,),
            bytes="2*4*n*h*h",
            against={"chain": "_torch_chains:sinkhorn"},
        )
    ],
)
