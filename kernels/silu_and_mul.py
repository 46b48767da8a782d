"""SiLU of one half of each row times the other half, in one launch: silu(x[:n]) · x[n:].

silu(g) = g / (1 + expf(−g)) in f32 with CUDA's accurate `expf` and IEEE division. Two contracts:
`silu_and_mul` rounds the activation to the format of x before the product (two roundings, torch
and vLLM), `silu_and_mul_once` multiplies in f32 and rounds once (a fused epilogue). For f32 they
are the same. Nothing is summed.

Baseline: torch's two launches `silu` and `mul` (`references/silu_and_mul.py`).
"""

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim, Exhaustive
from exactness.formats import bf16, f16, f32
from exactness.inputs import Inputs, Layout, Tensor
from exactness.launching import Launch, Part, launcher

from ._layout import WARPS, check_float_tensor, walk
from ._math import silu
from ._rows import place, pointers
from ._start import options, start

ONCE: tl.constexpr = tl.constexpr(1)
TWICE: tl.constexpr = tl.constexpr(2)
"""Roundings of a 16-bit result."""


@triton.jit(
    do_not_specialize=["rows", "middle", "cols"],
    do_not_specialize_on_alignment=["gate_ptr", "up_ptr", "out_ptr"],
)
def _silu_and_mul_kernel(
    gate_ptr,
    up_ptr,
    out_ptr,
    rows,
    middle,
    cols,
    gate_strides,
    up_strides,
    out_strides,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    SPLIT: tl.constexpr,
    FLAT: tl.constexpr,
    ROUNDINGS: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    row, col, mask = place(rows, cols, ROWS, BLOCK, SPLIT, ALIGN)
    gate_at = pointers(gate_ptr, row, col, middle, gate_strides, FLAT, UNIT[0], ALIGN)
    up_at = pointers(up_ptr, row, col, middle, up_strides, FLAT, UNIT[1], ALIGN)
    out_at = pointers(out_ptr, row, col, middle, out_strides, FLAT, UNIT[2], ALIGN)
    dtype: tl.constexpr = out_ptr.dtype.element_ty

    gate = tl.load(gate_at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_at, mask=mask, other=0.0).to(tl.float32)
    activated = silu(gate)
    if ROUNDINGS == TWICE:
        activated = activated.to(dtype).to(tl.float32)
    tl.store(out_at, (activated * up).to(dtype), mask=mask)


@launcher
def silu_and_mul(x: torch.Tensor) -> Launch[torch.Tensor]:
    """The product silu(x[…, :n]) · x[…, n:], the activation rounded before it.

    Args:
        x: bf16, f16 or f32 […, 2·n], strides that merge to three dimensions.

    Returns:
        like `x` but […, n], contiguous.

    Raises:
        TypeError: wrong dtype.
        ValueError: wrong layout, or an odd number of columns.
    """
    return _planned(x, TWICE.value)


@launcher
def silu_and_mul_once(x: torch.Tensor) -> Launch[torch.Tensor]:
    """The same with one rounding: the product is taken in f32.

    Args:
        x: bf16, f16 or f32 […, 2·n], strides that merge to three dimensions.

    Returns:
        like `x` but […, n], contiguous.

    Raises:
        TypeError: wrong dtype.
        ValueError: wrong layout, or an odd number of columns.
    """
    return _planned(x, ONCE.value)


def _planned(x: torch.Tensor, roundings: int) -> Launch[torch.Tensor]:
    check_float_tensor("x", x)
    if x.ndim == 0 or x.shape[-1] % 2:
        raise ValueError(f"x: shape {tuple(x.shape)} is not accepted; an even number of columns is")
    n = x.shape[-1] // 2
    out = torch.empty((*x.shape[:-1], n), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return Launch(out)
    gate, up = x[..., :n], x[..., n:]
    way = walk(x=gate, up=up, out=out)
    return Launch(
        out,
        _silu_and_mul_kernel,
        (way.programs,),
        Part(x, gate),
        Part(x, up),
        out,
        way.rows,
        way.middle,
        way.cols,
        *way.strides,
        ROUNDINGS=roundings,
        **way.constants,
        **options(way.programs, x, WARPS),
    )


_INPUTS = Inputs(
    {"rows": (0, 300), "n": (1, 4096)},
    {"x": Tensor("format", ("rows", "2*n"), layouts=tuple(Layout))},
    formats={"format": (bf16, f16, f32)},
)
_CASES = [
    {"rows": 7, "n": 128},
    {"rows": 3, "n": 257, "format": "f16"},
    {"rows": 3, "n": 100, "format": "f32"},
]
_EXHAUSTIVE = [
    Exhaustive(argument="x", sizes={"rows": 32, "n": 1024}),
    Exhaustive(argument="x", sizes={"rows": 32, "n": 1024, "format": "f16"}),
]
_SHARED = {"rows": "tokens", "n": 128}
"""The shared expert's width."""

CLAIM = Claim(
    kernel=silu_and_mul,
    allows=("fma", "fma.rm", "fma.sat", "ex2.approx.ftz"),  # the accurate expf
    reference="silu_and_mul:silu_and_mul",
    golden=("silu_and_mul", "silu_and_mul_f32"),
    baseline="_torch_chains:silu_and_mul",
    inputs=_INPUTS,
    cases=_CASES,
    exhaustive=_EXHAUSTIVE,
    bench=[
        Bench(
            name="silu_and_mul",
            sizes=_SHARED,
            bytes="3*2*rows*n",
            against={
                "chain": "_torch_chains:silu_and_mul",
                "liger": "_torch_chains:silu_and_mul_liger",
            },
        )
    ],
)

ONCE_CLAIM = Claim(
    kernel=silu_and_mul_once,
    allows=("fma", "fma.rm", "fma.sat", "ex2.approx.ftz"),  # the accurate expf
    reference="silu_and_mul:silu_and_mul_once",
    golden="silu_and_mul_once",
    baseline="_torch_chains:silu_and_mul_once",
    inputs=_INPUTS,
    cases=_CASES,
    exhaustive=_EXHAUSTIVE,
    bench=[
        Bench(
            name="silu_and_mul_once",
            sizes=_SHARED,
            bytes="3*2*rows*n",
            against={"chain": "_torch_chains:silu_and_mul_once"},
        )
    ],
)
