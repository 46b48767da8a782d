"""RMS norm of rows in one launch, with and without a residual, under several contracts.

Order of summation: that of Triton's `tl.sum` on 4 warps (`_squares.py`); the mean is
fma(sum, f32(1/n), eps), the root rsqrt.approx.ftz.
"""

import enum
from typing import Any

import torch
import triton
import triton.language as tl

from exactness.launching import Launch

from ._host import check_number
from ._layout import f32_constant
from ._norm import (
    COLUMNS,
    LANES,
    THREADS,
    VECTOR,
    WARPS,
    add_f32,
    are_aligned,
    are_flat,
    check_beside,
    check_rows,
    mul_f32,
    padded,
    place,
    pointers,
    row_strides,
    unit,
)
from ._squares import inverse_rms
from ._start import options, start

MAX_COLUMNS = 8192


class Contract(enum.Enum):
    """Which arithmetic; a row h = x + residual is f32 until it is rounded."""

    WELM = "hidden as weight"
    """h is rounded to the weight's format before it is squared."""
    RESIDUAL_ROUNDED = "hidden as residual"
    """h is rounded to the residual's format (of x where there is none)."""
    PREVIOUS_PRECISION = "hidden f32"
    """h stays f32; the new residual takes the format of x."""
    CAST_FIRST = "cast, then weight"
    """h stays f32; the normalised row is rounded to the format of x before the weight."""
    WEIGHT_OFFSET = "1 + weight"
    """h stays f32; the factor is 1 + weight, formed in f32."""


@triton.jit
def _rounded(h, residual_ptr, weight, CONTRACT: tl.constexpr):
    if CONTRACT == "hidden as weight":
        return h.to(weight.dtype).to(tl.float32)
    elif CONTRACT == "hidden as residual" and residual_ptr is not None:
        return h.to(residual_ptr.dtype.element_ty).to(tl.float32)
    else:
        return h


@triton.jit
def _weighted(normal, weight, dtype: tl.constexpr, CONTRACT: tl.constexpr):
    weight = weight.to(tl.float32)
    if CONTRACT == "cast, then weight":
        return mul_f32(normal.to(dtype).to(tl.float32), weight)
    elif CONTRACT == "1 + weight":
        return normal * (1.0 + weight)
    else:
        return normal * weight


@triton.jit(
    do_not_specialize=[
        "n_rows",
        "n_cols",
        "half",
        "inv_n",
        "eps",
        "heads",
        "x_strides",
        "residual_strides",
        "weight_stride",
    ],
    do_not_specialize_on_alignment=[
        "x_ptr",
        "residual_ptr",
        "weight_ptr",
        "out_ptr",
        "residual_out_ptr",
        "out_f32_ptr",
    ],
)
def _rms_norm_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    out_ptr,
    residual_out_ptr,
    out_f32_ptr,
    n_rows,
    n_cols,
    half,
    inv_n,
    eps,
    heads,
    x_strides,
    residual_strides,
    weight_stride,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    SIZE: tl.constexpr,
    LANES: tl.constexpr,
    WARPS: tl.constexpr,
    CONTRACT: tl.constexpr,
    RESIDUAL_AFTER: tl.constexpr,
    FLAT: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    row, token, head = place(heads, ROWS, FLAT)
    slot = tl.arange(0, BLOCK)
    if BLOCK == 32:
        # Up to 32 columns share one warp: the upper half of the row starts at lane 16.
        col = slot // 16 * half + slot % 16
        inside = (slot % 16 < half) & (col < n_cols)
    else:
        col = slot
        # Says that whole vectors are inside or outside, where ALIGN promises them.
        inside = slot < (n_cols // COLUMNS * COLUMNS if ALIGN > 1 else n_cols)
    mask = (row < n_rows)[:, None] & inside[None, :]
    x_at = pointers(x_ptr, token, head, col, x_strides, UNIT, ALIGN)
    h = tl.load(x_at, mask=mask, other=0.0).to(tl.float32)
    # A row for each of x, so that a thread loads what it needs.
    weight_at = pointers(weight_ptr, token, head, col, (0, 0, weight_stride), UNIT, ALIGN)
    weight = tl.load(weight_at, mask=mask, other=0.0)
    if residual_ptr is not None:
        residual_at = pointers(residual_ptr, token, head, col, residual_strides, UNIT, ALIGN)
        h = add_f32(h, tl.load(residual_at, mask=mask, other=0.0).to(tl.float32))
    new = (n_cols, 0, 1)
    if residual_out_ptr is not None and not RESIDUAL_AFTER:
        stored = h.to(residual_ptr.dtype.element_ty).to(residual_out_ptr.dtype.element_ty)
        tl.store(pointers(residual_out_ptr, row, head, col, new, True, ALIGN), stored, mask=mask)

    h = _rounded(h, residual_ptr, weight, CONTRACT)
    normal = h * inverse_rms(h, inv_n, eps, SIZE, LANES, WARPS)
    out = _weighted(normal, weight, x_ptr.dtype.element_ty, CONTRACT)
    if out_f32_ptr is not None:
        tl.store(pointers(out_f32_ptr, row, head, col, new, True, ALIGN), out, mask=mask)
    out = out.to(out_ptr.dtype.element_ty)
    tl.store(pointers(out_ptr, row, head, col, new, True, ALIGN), out, mask=mask)
    if RESIDUAL_AFTER:
        tl.store(pointers(residual_out_ptr, row, head, col, new, True, ALIGN), out, mask=mask)


def planned(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    eps: float,
    contract: Contract,
    residual_after: bool,
    f32_copy: bool,
    out_dtype: torch.dtype | None = None,
) -> Launch[Any]:
    """The launch that returns the result (as `x` if `out_dtype` is None), alone or in a tuple.

    In the tuple the new residual and the f32 copy follow, if there are any.
    """
    n = _checked(x, weight, eps, contract)
    out = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    out_f32 = torch.empty(x.shape, dtype=torch.float32, device=x.device) if f32_copy else None
    residual_out = None
    if residual is not None:
        as_x = residual_after or contract is Contract.PREVIOUS_PRECISION
        dtype = x.dtype if as_x else residual.dtype
        residual_out = torch.empty(x.shape, dtype=dtype, device=x.device)
    results = [each for each in (out, residual_out, out_f32) if each is not None]
    returns = tuple(results) if len(results) > 1 else out
    if out.numel() == 0:
        return Launch(returns)
    given = [x, weight] if residual is None else [x, weight, residual]
    block = padded(n)
    rows = max(1, 512 // block)
    n_rows = x.numel() // n
    programs = triton.cdiv(n_rows, rows)
    flat = are_flat(x) if residual is None else are_flat(x, residual)
    return Launch(
        returns,
        _rms_norm_kernel,
        (programs,),
        x,
        residual,
        weight,
        out,
        residual_out,
        out_f32,
        n_rows,
        n,
        triton.next_power_of_2(n) // 2,
        1.0 / n,
        f32_constant(eps),
        1 if x.ndim == 2 else x.shape[1],
        row_strides(x, flat),
        (0, 0, 0) if residual is None else row_strides(residual, flat),
        weight.stride(0),
        UNIT=all(map(unit, given)),
        ALIGN=VECTOR if block > 32 and are_aligned(*given) else 1,
        ROWS=rows,
        BLOCK=block,
        SIZE=min(max(block // THREADS, 1), _vector_elements(weight, [x, residual_out], given)),
        LANES=min(LANES, block),
        WARPS=min(WARPS, max(block // LANES, 1)),
        CONTRACT=contract.value,
        RESIDUAL_AFTER=residual is not None and residual_after,
        FLAT=flat,
        **options(programs, x, WARPS),
    )


def _checked(x: torch.Tensor, weight: torch.Tensor, eps: float, contract: Contract) -> int:
    """The number of columns, all arguments being accepted."""
    check_rows("x", x, (2, 3))
    check_number("eps", eps)
    if not isinstance(contract, Contract):
        raise TypeError(f"contract: got {type(contract).__name__}; a Contract is accepted")
    n = x.shape[-1]
    check_beside("weight", check_rows("weight", weight, (1,)), x, (n,))
    if n > MAX_COLUMNS:
        raise ValueError(f"x: {n} columns are not accepted; 1 to {MAX_COLUMNS} are")
    return n


def _vector_elements(
    weight: torch.Tensor, stored: list[torch.Tensor | None], loaded: list[torch.Tensor]
) -> int:
    """Neighbouring elements that a thread of the baseline holds in a long row: 8 or 4.

    They follow from its widest vector access of 16 bytes: loads of the weight, stores of rows that
    start at 16 bytes, and loads of rows whose stride Triton knows to be a multiple of 16.
    """
    n = weight.shape[0]
    wide = weight.element_size() == 2
    wide |= n % 8 == 0 and any(x is not None and x.element_size() == 2 for x in stored)
    wide |= n % 16 == 0 and any(x.element_size() == 2 for x in loaded)
    return 8 if wide else 4
