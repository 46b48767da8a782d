"""RMS norm of every key head in one launch: x · rsqrt(mean(x²) + eps) · weight.

All in f32, x as it is, rounded once. Order of summation: that of Triton's `tl.sum` over a tile
[heads, head_dim] on 4 warps (`_squares.py`); the mean is fma(sum, 1/head_dim, eps), the root
rsqrt.approx.ftz.

Baseline: WeLM's Triton kernel as compiled with fusion on (`references/k_rms_norm.py`).
"""

import math

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim, Equivalent
from exactness.formats import bf16, f16, f32
from exactness.inputs import Inputs, Tensor

from ._host import check_number
from ._layout import f32_constant
from ._norm import (
    LANES,
    THREADS,
    VECTOR,
    WARPS,
    are_aligned,
    check_beside,
    check_rows,
    columns,
    place,
    pointers,
    row_strides,
    unit,
)
from ._squares import inverse_rms

HEADS = (1, 8)
HEAD_DIMS = (16, 32, 64, 128, 256, 512)


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
):
    row, token, head = place(heads, ROWS)
    col = tl.arange(0, HEAD_DIM)
    mask = (row < n_rows)[:, None]
    weight = tl.load(columns(weight_ptr, col, weight_stride, UNIT, ALIGN)).to(tl.float32)
    x_at = pointers(x_ptr, token, head, col, x_strides, UNIT, ALIGN)
    x = tl.load(x_at, mask=mask, other=0.0).to(tl.float32)
    normal = x * inverse_rms(x, 1.0 / HEAD_DIM, eps, SIZE, LANES, WARPS)
    out = normal * weight[None, :]
    out_at = out_ptr + row[:, None] * HEAD_DIM + col[None, :]
    tl.store(out_at, out.to(out_ptr.dtype.element_ty), mask=mask)


def k_rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
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
    return _launch(x, weight, eps)


def k_rms_norm_unrounded(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """`k_rms_norm` before its last rounding, f32."""
    return _launch(x, weight, eps, torch.float32)


def _launch(
    x: torch.Tensor, weight: torch.Tensor, eps: float, out_dtype: torch.dtype | None = None
) -> torch.Tensor:
    heads, head_dim = _checked(x, weight)
    check_number("eps", eps)
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    elements = triton.next_power_of_2(heads) * head_dim
    size = min(max(elements // THREADS, 1), VECTOR // x.element_size())
    lanes = min(LANES, head_dim // size)
    rows = 1024 // head_dim
    n_rows = x.shape[0] * heads
    _k_rms_norm_kernel[(triton.cdiv(n_rows, rows),)](
        x,
        weight,
        out,
        n_rows,
        f32_constant(eps),
        heads,
        row_strides(x),
        weight.stride(0),
        UNIT=unit(x) and unit(weight),
        ALIGN=VECTOR if are_aligned(x, weight) else 1,
        ROWS=rows,
        HEAD_DIM=head_dim,
        SIZE=size,
        LANES=lanes,
        WARPS=min(WARPS, head_dim // (size * lanes)),
        num_warps=WARPS,
        enable_fp_fusion=False,
    )
    return out


def _checked(x: torch.Tensor, weight: torch.Tensor) -> tuple[int, int]:
    """Heads and head_dim, all tensors being accepted."""
    _, heads, head_dim = check_rows("x", x, (3,)).shape
    if not HEADS[0] <= heads <= HEADS[1]:
        raise ValueError(f"x: {heads} heads are not accepted; {HEADS[0]} to {HEADS[1]} are")
    if head_dim not in HEAD_DIMS:
        accepted = ", ".join(map(str, HEAD_DIMS))
        raise ValueError(f"x: head_dim {head_dim} is not accepted; {accepted} are")
    check_beside("weight", check_rows("weight", weight, (1,)), x, (head_dim,))
    return heads, head_dim


_SIZES = {"tokens": (0, 40), "heads": HEADS, "log_dim": (4, 9)}
_EPS = (1e-5, 1e-6, 0.0, 1.0 + 2**-24 + 2**-50)


def _subnormal_means_do_not_show() -> bool:
    """Every divisor is a power of two, and eps is 0 or has no bit that a subnormal can reach."""
    exact = all(math.frexp(head_dim)[0] == 0.5 for head_dim in HEAD_DIMS)
    return exact and all(eps == 0 or eps > 2.0**-126 * 2**25 for eps in _EPS)


CLAIM = Claim(
    kernel=k_rms_norm,
    reference="k_rms_norm:k_rms_norm",
    golden=("k_rms_norm", "k_rms_norm_f32"),
    inputs=Inputs(
        _SIZES,
        {
            "x": Tensor("format", ("tokens", "heads", "2**log_dim")),
            "weight": Tensor("weight_format", ("2**log_dim",)),
        },
        {"eps": _EPS},
        {"format": (f32, bf16, f16), "weight_format": (bf16, f32, f16)},
    ),
    unrounded=k_rms_norm_unrounded,
    cases=[
        {"tokens": 20, "heads": 1, "log_dim": 7},
        {"tokens": 9, "heads": 3, "log_dim": 5},
        {"tokens": 5, "heads": 8, "log_dim": 9},
        {"tokens": 20, "heads": 1, "log_dim": 8, "format": "bf16"},
    ],
    parameters={"eps": 1e-5},
    allows=("fma", "rsqrt.approx.ftz"),
    equivalent={
        "inverse_rms:mean_eps=fma(normal) uncontracted": Equivalent(
            "1 / head_dim is a power of two, so that the product is exact or subnormal; an eps of "
            "the claim absorbs a subnormal, and the root flushes it where eps is 0",
            _subnormal_means_do_not_show,
        )
    },
    bench=[
        Bench(
            name="k_rms_norm",
            sizes={"tokens": 512, "heads": 1, "log_dim": 8},
            bytes=2 * 512 * 256 * 2 + 256 * 2,
        )
    ],
)
