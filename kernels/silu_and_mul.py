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

from ._layout import VECTOR, block_of, check_float_tensor, walk, warps
from ._math import silu
from ._rows import inside, place, pointers

ONCE: tl.constexpr = tl.constexpr(1)
TWICE: tl.constexpr = tl.constexpr(2)
"""Roundings of a 16-bit result."""


@triton.jit(
    do_not_specialize=["middle", "cols"],
    do_not_specialize_on_alignment=["gate_ptr", "up_ptr", "out_ptr"],
)
def _silu_and_mul_kernel(
    gate_ptr,
    up_ptr,
    out_ptr,
    middle,
    cols,
    gate_strides,
    up_strides,
    out_strides,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK: tl.constexpr,
    ROUNDINGS: tl.constexpr,
):
    outer, mid, start = place(middle, cols, BLOCK)
    lane = tl.arange(0, BLOCK)
    mask = inside(cols, start, lane, ALIGN)
    gate_at = pointers(gate_ptr, outer, mid, start, lane, gate_strides, UNIT[0], ALIGN)
    up_at = pointers(up_ptr, outer, mid, start, lane, up_strides, UNIT[1], ALIGN)
    out_at = pointers(out_ptr, outer, mid, start, lane, out_strides, UNIT[2], ALIGN)
    dtype: tl.constexpr = out_ptr.dtype.element_ty

    activated = silu(tl.load(gate_at, mask=mask, other=0.0).to(tl.float32))
    if ROUNDINGS == TWICE:
        activated = activated.to(dtype).to(tl.float32)
    up = tl.load(up_at, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_at, (activated * up).to(dtype), mask=mask)


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    """The product silu(x[…, :n]) · x[…, n:], the activation rounded before it.

    Args:
        x: bf16, f16 or f32 […, 2·n], strides that merge to three dimensions.

    Returns:
        like `x` but […, n], contiguous.

    Raises:
        TypeError: wrong dtype.
        ValueError: wrong layout, or an odd number of columns.
    """
    return _launch(x, TWICE.value)


def silu_and_mul_once(x: torch.Tensor) -> torch.Tensor:
    """The same with one rounding: the product is taken in f32.

    Args:
        x: bf16, f16 or f32 […, 2·n], strides that merge to three dimensions.

    Returns:
        like `x` but […, n], contiguous.

    Raises:
        TypeError: wrong dtype.
        ValueError: wrong layout, or an odd number of columns.
    """
    return _launch(x, ONCE.value)


def _launch(x: torch.Tensor, roundings: int) -> torch.Tensor:
    check_float_tensor("x", x)
    if x.ndim == 0 or x.shape[-1] % 2:
        raise ValueError(f"x: shape {tuple(x.shape)} is not accepted; an even number of columns is")
    n = x.shape[-1] // 2
    out = torch.empty((*x.shape[:-1], n), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    gate, up = x[..., :n], x[..., n:]
    way = walk(x=gate, up=up, out=out)
    block = block_of(way.cols)
    _silu_and_mul_kernel[(way.outer * way.middle * triton.cdiv(way.cols, block),)](
        gate,
        up,
        out,
        way.middle,
        way.cols,
        *way.strides,
        UNIT=way.unit,
        ALIGN=VECTOR if way.aligned else 1,
        BLOCK=block,
        ROUNDINGS=roundings,
        num_warps=warps(block),
        enable_fp_fusion=False,
    )
    return out


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
_BYTES = 3 * 512 * 128 * 2

CLAIM = Claim(
    kernel=silu_and_mul,
    allows=("fma", "fma.rm", "fma.sat", "ex2.approx.ftz"),  # the accurate expf
    reference="silu_and_mul:silu_and_mul",
    golden=("silu_and_mul", "silu_and_mul_f32"),
    inputs=_INPUTS,
    cases=_CASES,
    exhaustive=_EXHAUSTIVE,
    bench=[Bench(name="silu_and_mul", sizes={"rows": 512, "n": 128}, bytes=_BYTES)],
)

ONCE_CLAIM = Claim(
    kernel=silu_and_mul_once,
    allows=("fma", "fma.rm", "fma.sat", "ex2.approx.ftz"),  # the accurate expf
    reference="silu_and_mul:silu_and_mul_once",
    inputs=_INPUTS,
    cases=_CASES,
    exhaustive=_EXHAUSTIVE,
    bench=[Bench(name="silu_and_mul_once", sizes={"rows": 512, "n": 128}, bytes=_BYTES)],
)
