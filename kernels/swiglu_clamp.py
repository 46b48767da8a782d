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
from exactness.launching import Launch, launcher

from ._layout import (
    WARPS,
    check_alike,
    check_float_tensor,
    check_positive,
    f32_constant,
    walk,
)
from ._math import maximum, minimum, silu
from ._rows import place, pointers
from ._start import options, start


@triton.jit(
    do_not_specialize=["rows", "middle", "cols", "lower", "upper"],
    do_not_specialize_on_alignment=["gate_ptr", "up_ptr", "out_ptr"],
)
def _swiglu_clamp_kernel(
    gate_ptr,
    up_ptr,
    out_ptr,
    rows,
    middle,
    cols,
    gate_strides,
    up_strides,
    out_strides,
    lower,
    upper,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    SPLIT: tl.constexpr,
    FLAT: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    row, col, mask = place(rows, cols, ROWS, BLOCK, SPLIT, ALIGN)
    gate_at = pointers(gate_ptr, row, col, middle, gate_strides, FLAT, UNIT[0], ALIGN)
    up_at = pointers(up_ptr, row, col, middle, up_strides, FLAT, UNIT[1], ALIGN)
    out_at = pointers(out_ptr, row, col, middle, out_strides, FLAT, UNIT[2], ALIGN)

    gate = minimum(tl.load(gate_at, mask=mask, other=0.0).to(tl.float32), upper)
    up = tl.load(up_at, mask=mask, other=0.0).to(tl.float32)
    up = minimum(maximum(up, lower), upper)
    out = silu(gate) * up
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=mask)


@launcher
def swiglu_clamp(gate: torch.Tensor, up: torch.Tensor, limit: float) -> Launch[torch.Tensor]:
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
        return Launch(out)
    way = walk(gate=gate, up=up, out=out)
    return Launch(
        out,
        _swiglu_clamp_kernel,
        (way.programs,),
        gate,
        up,
        out,
        way.rows,
        way.middle,
        way.cols,
        *way.strides,
        -bound,
        bound,
        **way.constants,
        **options(way.programs, gate, WARPS),
    )


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
    bench=[
        Bench(
            name="swiglu_clamp",
            sizes={"rows": "tokens", "n": 2048},
            bytes="3*2*rows*n",
            against={"chain": "_torch_chains:swiglu_clamp"},
        )
    ],
)
