"""SwiGLU with clamps in one launch: silu(min(gate, L)) · max(min(up, L), −L).

The gate is clamped only from above, up on both sides, both before the activation; a NaN gate
becomes L, a NaN up −L. All in f32, silu(g) = g / (1 + expf(−g)) with CUDA's accurate `expf` and
IEEE division, the product rounded to the format of the inputs once. Nothing is summed.

Baseline: the eight launches of candle's CUDA backend (`references/swiglu_clamp.py`).
"""

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim, Exhaustive
from exactness.formats import bf16, f16, f32
from exactness.inputs import Inputs, Layout, Tensor

from ._layout import (
    VECTOR,
    block_of,
    check_alike,
    check_float_tensor,
    check_positive,
    f32_constant,
    walk,
    warps,
)
from ._math import maximum, minimum, silu
from ._rows import inside, place, pointers


@triton.jit(
    do_not_specialize=["middle", "cols", "lower", "upper"],
    do_not_specialize_on_alignment=["gate_ptr", "up_ptr", "out_ptr"],
)
def _swiglu_clamp_kernel(
    gate_ptr,
    up_ptr,
    out_ptr,
    middle,
    cols,
    gate_strides,
    up_strides,
    out_strides,
    lower,
    upper,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    outer, mid, start = place(middle, cols, BLOCK)
    lane = tl.arange(0, BLOCK)
    mask = inside(cols, start, lane, ALIGN)
    gate_at = pointers(gate_ptr, outer, mid, start, lane, gate_strides, UNIT[0], ALIGN)
    up_at = pointers(up_ptr, outer, mid, start, lane, up_strides, UNIT[1], ALIGN)
    out_at = pointers(out_ptr, outer, mid, start, lane, out_strides, UNIT[2], ALIGN)

    gate = minimum(tl.load(gate_at, mask=mask, other=0.0).to(tl.float32), upper)
    up = tl.load(up_at, mask=mask, other=0.0).to(tl.float32)
    up = minimum(maximum(up, lower), upper)
    out = silu(gate) * up
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=mask)


def swiglu_clamp(gate: torch.Tensor, up: torch.Tensor, limit: float) -> torch.Tensor:
    """SwiGLU of clamped inputs, with candle's bits.

    Args:
        gate: bf16, f16 or f32, any shape; strides that merge to three dimensions, any alignment.
        up: like `gate` in dtype, shape and device, its own strides.
        limit: above zero, rounded from f64 to f32.

    Returns:
        like `gate`, contiguous.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong layout, shape, device or limit.
    """
    check_float_tensor("gate", gate)
    check_alike("up", check_float_tensor("up", up), "gate", gate)
    bound = f32_constant(check_positive("limit", limit))
    out = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    if out.numel() == 0:
        return out
    way = walk(gate=gate, up=up, out=out)
    block = block_of(way.cols)
    _swiglu_clamp_kernel[(way.outer * way.middle * triton.cdiv(way.cols, block),)](
        gate,
        up,
        out,
        way.middle,
        way.cols,
        *way.strides,
        -bound,
        bound,
        UNIT=way.unit,
        ALIGN=VECTOR if way.aligned else 1,
        BLOCK=block,
        num_warps=warps(block),
        enable_fp_fusion=False,
    )
    return out


CLAIM = Claim(
    kernel=swiglu_clamp,
    reference="swiglu_clamp:swiglu_clamp",
    golden="swiglu_clamp",
    case_pattern=r"_L(?P<limit>\d+)",
    inputs=Inputs(
        {"rows": (0, 300), "n": (1, 4096)},
        {
            "gate": Tensor("format", ("rows", "n"), layouts=tuple(Layout)),
            "up": Tensor("format", ("rows", "n"), layouts=tuple(Layout)),
        },
        {"limit": (10.0, 7.0, 0.3, 1e-3, 88.5, 1e-60)},
        {"format": (bf16, f16, f32)},
    ),
    cases=[
        {"rows": 7, "n": 512},
        {"rows": 3, "n": 257, "format": "f16"},
        {"rows": 3, "n": 1000, "format": "f32", "limit": 7.0},
    ],
    exhaustive=[
        Exhaustive(argument="gate", sizes={"rows": 16, "n": 4096}),
        Exhaustive(argument="up", sizes={"rows": 16, "n": 4096}),
        Exhaustive(argument="gate", sizes={"rows": 16, "n": 4096, "format": "f16"}),
    ],
    allows=("fma", "fma.rm", "fma.sat", "ex2.approx.ftz"),  # the accurate expf
    bench=[Bench(name="swiglu_clamp", sizes={"rows": 64, "n": 2048}, bytes=3 * 64 * 2048 * 2)],
)
