"""RMS norm of every key head in one launch: x · rsqrt(mean(x²) + eps) · weight.

All in f32, x as it is, rounded once. Order of summation: that of Triton's `tl.sum` over a tile
[heads, head_dim] on 4 warps (`_squares.py`); the mean is fma(sum, 1/head_dim, eps), the root
rsqrt.approx.ftz.

Baseline: WeLM's Triton kernel as compiled with fusion on (`references/k_rms_norm.py`).
"""

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim
from exactness.formats import bf16, f16, f32
from exactness.inputs import Inputs, Layout, Tensor
from exactness.launching import Launch, launcher

from ._heads import EPS, HEADS, UNCONTRACTED_MEAN, check_heads, head_and_weight, tile
from ._host import check_number
from ._layout import f32_constant
from ._norm import VECTOR, WARPS, are_aligned, are_flat, place, row_strides, unit
from ._squares import inverse_rms
from ._start import options, start


@triton.jit(
    do_not_specialize=["n_rows", "eps", "heads", "x_strides", "weight_stride"],
    do_not_specialize_on_alignment=["x_ptr", "weight_ptr"],
)
def _k_rms_norm_kernel(
    x_ptr,
    weight_ptr,
    out_ptr,
    n_rows,
    eps,
    heads,
    x_strides,
    weight_stride,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    SIZE: tl.constexpr,
    LANES: tl.constexpr,
    WARPS: tl.constexpr,
    FLAT: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    row, token, head = place(heads, ROWS, FLAT)
    col = tl.arange(0, HEAD_DIM)
    mask = (row < n_rows)[:, None]
    x, weight = head_and_weight(
        x_ptr, weight_ptr, token, head, col, mask, x_strides, weight_stride, UNIT, ALIGN
    )
    normal = x * inverse_rms(x, 1.0 / HEAD_DIM, eps, SIZE, LANES, WARPS)
    out = normal * weight
    out_at = out_ptr + row[:, None] * HEAD_DIM + col[None, :]
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=mask)


@launcher
def k_rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> Launch[torch.Tensor]:
    """Normalise each head by its root mean square and scale it by the weight.

    Args:
        x: bf16, f16 or f32 [tokens, heads, head_dim], any strides; 1 to 8 heads, head_dim a power
            of two from 16 to 512.
        weight: bf16, f16 or f32 [head_dim], any stride.
        eps: added to the mean; rounded from f64 to f32.

    Returns:
        Like `x`, contiguous.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong rank, layout, shape or device.
    """
    return _planned(x, weight, eps)


@launcher
def k_rms_norm_unrounded(
    x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5
) -> Launch[torch.Tensor]:
    """`k_rms_norm` before its last rounding, f32."""
    return _planned(x, weight, eps, torch.float32)


def _planned(
    x: torch.Tensor, weight: torch.Tensor, eps: float, out_dtype: torch.dtype | None = None
) -> Launch[torch.Tensor]:
    check_heads("x", x, weight)
    check_number("eps", eps)
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if out.numel() == 0:
        return Launch(out)
    constants = tile(x, WARPS)
    n_rows = x.shape[0] * x.shape[1]
    programs = triton.cdiv(n_rows, constants["ROWS"])
    flat = are_flat(x)
    return Launch(
        out,
        _k_rms_norm_kernel,
        (programs,),
        x,
        weight,
        out,
        n_rows,
        f32_constant(eps),
        x.shape[1],
        row_strides(x, flat),
        weight.stride(0),
        UNIT=unit(x) and unit(weight),
        ALIGN=VECTOR if are_aligned(x, weight) else 1,
        FLAT=flat,
        **constants,
        **options(programs, x, WARPS),
    )


_SIZES = {"tokens": (0, 40), "heads": HEADS, "log_dim": (4, 9)}

CLAIM = Claim(
    kernel=k_rms_norm,
    reference="k_rms_norm:k_rms_norm",
    golden=("k_rms_norm", "k_rms_norm_f32"),
    inputs=Inputs(
        _SIZES,
        {
            "x": Tensor("format", ("tokens", "heads", "2**log_dim"), layouts=tuple(Layout)),
            "weight": Tensor("weight_format", ("2**log_dim",), layouts=tuple(Layout)),
        },
        {"eps": EPS},
        {"format": (f32, bf16, f16), "weight_format": (bf16, f32, f16)},
    ),
    unrounded=k_rms_norm_unrounded,
    cases=[
        {"tokens": 9, "heads": 3, "log_dim": 5},
        {"tokens": 20, "heads": 1, "log_dim": 7},
        {"tokens": 5, "heads": 8, "log_dim": 9},
        {"tokens": 20, "heads": 1, "log_dim": 8, "format": "bf16"},
    ],
    parameters={"eps": 1e-5},
    allows=("fma", "rsqrt.approx.ftz"),
    equivalent={"inverse_rms:mean_eps=fma(normal) uncontracted": UNCONTRACTED_MEAN},
    bench=[
        Bench(
            name="k_rms_norm",
            sizes={"tokens": "tokens", "heads": 1, "log_dim": 8, "format": "bf16"},
            bytes="2*2*tokens*heads*2**log_dim+2*2**log_dim",
            against={
                "chain": "_torch_chains:k_rms_norm",
                "torch": "_torch_chains:rms_norm_fused",
                "liger": "_torch_chains:rms_norm_liger",
            },
        )
    ],
)
