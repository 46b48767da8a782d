"""Partial rotary embedding in one launch, in place on the last dimensions of every head.

With x1, x2 the two halves of the last rope_dim dimensions (neox), in f32:
x1' = fma(x1, cos, −f32(x2 · sin)), x2' = fma(x1, sin, f32(x2 · cos)), each rounded once to the
format of q and k. The other dimensions are not touched; nothing is summed over elements.

Baseline: WeLMv4's `WelmV4InplaceRotaryEmbedding` (`references/rope_yarn_partial.py`), whose
contraction into these two fma is written out here. `_yarn.yarn_cos_sin` makes its table.
"""

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim
from exactness.formats import bf16, f16, f32
from exactness.inputs import Inputs, Integers, Tensor

from ._host import check_tensor
from ._layout import VECTOR, check_alike, check_float_tensor, check_own_elements, warps

BY_POSITION = "position"
BY_TOKEN = "token"
"""What a row of the table is for."""

_QUERY = "query"
_SELECTED = "selected"
"""Where a row of q finds its position: in its own list, or in that of the token it belongs to."""


@triton.jit
def _table_row(position_ptr, index_ptr, token, k_tokens, BY: tl.constexpr):
    """The row of the table for a token; −1 if it belongs to no token."""
    if BY == "token":
        return token
    if BY == "position":
        return tl.load(position_ptr + token)
    if BY == "query":
        return tl.load(index_ptr + token)
    owner = tl.load(index_ptr + token)
    exists = (owner >= 0) & (owner < k_tokens)
    return tl.load(position_ptr + owner, mask=exists, other=-1)


@triton.jit
def _rotate(
    x_ptr,
    strides,
    n_heads,
    first,
    half,
    table_ptr,
    row,
    n_rows,
    stride_row,
    ALIGN: tl.constexpr,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
):
    """Rotate the heads of one token; NaN where the table has no such row."""
    head = tl.arange(0, HEADS)[:, None]
    pair = tl.arange(0, HALF)[None, :]
    inside = pair < tl.multiple_of(half, ALIGN)
    exists = inside & (row >= 0) & (row < n_rows)
    cos_at = tl.multiple_of(table_ptr + row * stride_row + pair, (1, ALIGN))
    sin_at = tl.multiple_of(table_ptr + row * stride_row + half + pair, (1, ALIGN))
    cos = tl.load(cos_at, mask=exists, other=float("nan"))
    sin = tl.load(sin_at, mask=exists, other=float("nan"))

    mask = inside & (head < n_heads)
    heads = x_ptr + head.to(tl.int64) * strides[1]
    x1_at = tl.multiple_of(heads + (first + pair).to(tl.int64) * strides[2], (1, ALIGN))
    x2_at = tl.multiple_of(heads + (first + half + pair).to(tl.int64) * strides[2], (1, ALIGN))
    x1 = tl.load(x1_at, mask=mask, other=0.0).to(tl.float32)
    x2 = tl.load(x2_at, mask=mask, other=0.0).to(tl.float32)
    # −1 · turns the sign of a zero; Triton's unary minus is 0 − and does not.
    rotated1 = tl.fma(x1, cos, -1.0 * (x2 * sin))
    rotated2 = tl.fma(x1, sin, x2 * cos)
    tl.store(x1_at, rotated1.to(x_ptr.dtype.element_ty), mask=mask)
    tl.store(x2_at, rotated2.to(x_ptr.dtype.element_ty), mask=mask)


@triton.jit(
    do_not_specialize=["n_rows", "stride_row", "k_tokens", "q_heads", "k_heads", "first", "half"],
    do_not_specialize_on_alignment=["q_ptr", "k_ptr", "position_ptr", "index_ptr", "table_ptr"],
)
def _rope_kernel(
    q_ptr,
    k_ptr,
    position_ptr,
    index_ptr,
    table_ptr,
    n_rows,
    stride_row,
    k_tokens,
    q_heads,
    k_heads,
    q_strides,
    k_strides,
    first,
    half,
    Q_BY: tl.constexpr,
    K_BY: tl.constexpr,
    ALIGN: tl.constexpr,
    Q_HEADS: tl.constexpr,
    K_HEADS: tl.constexpr,
    HALF: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    if token < k_tokens:
        row = _table_row(position_ptr, index_ptr, token, k_tokens, K_BY)
        x_ptr = k_ptr + token * k_strides[0]
        _rotate(
            x_ptr, k_strides, k_heads, first, half,
            table_ptr, row, n_rows, stride_row, ALIGN, K_HEADS, HALF,
        )  # fmt: skip
    else:
        token -= k_tokens
        row = _table_row(position_ptr, index_ptr, token, k_tokens, Q_BY)
        x_ptr = q_ptr + token * q_strides[0]
        _rotate(
            x_ptr, q_strides, q_heads, first, half,
            table_ptr, row, n_rows, stride_row, ALIGN, Q_HEADS, HALF,
        )  # fmt: skip


def rope_yarn_partial(
    q: torch.Tensor,
    k: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    *,
    head_dim: int | None = None,
    rows_by: str = BY_POSITION,
    query_positions: torch.Tensor | None = None,
    last_index: torch.Tensor | None = None,
) -> None:
    """Rotate the last rope_dim dimensions of every head of q and k in place.

    Args:
        q: bf16, f16 or f32 [tokens, heads, head_dim], or [tokens, heads·head_dim] if `head_dim`
            is given; any strides whose elements do not overlap, not those of k either.
        k: like `q`, with a number of heads of its own.
        positions: int64 [tokens], contiguous, the tokens of k. A position without a row in
            `cos_sin` gives NaN.
        cos_sin: f32 [rows, rope_dim], contiguous rows of cosines, then sines; rope_dim is even
            and at most head_dim.
        head_dim: needed to split two-dimensional q and k.
        rows_by: `BY_POSITION`: row p is for position p. `BY_TOKEN`: row t is for token t.
        query_positions: int64 [tokens of q], if q has rows of its own (contracted queries).
        last_index: int64 [tokens of q]: the token of k that a row of q belongs to, whose position
            it takes; a token that does not exist gives NaN.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong rank, layout, shape, device or combination of arguments.
    """
    check_float_tensor("q", q)
    check_float_tensor("k", k, (q.dtype,))
    q, k = _heads("q", q, head_dim), _heads("k", k, head_dim)
    check_tensor("cos_sin", cos_sin, torch.float32, 2)
    _check_table(cos_sin, k.shape[2])
    index = _check_tokens(q, k, positions, query_positions, last_index)
    _check_rows_by(rows_by, index, cos_sin, k.shape[0])
    for name, x in (("k", k), ("positions", positions), ("cos_sin", cos_sin), ("index", index)):
        if x is not None and x.device != q.device:
            raise ValueError(f"{name}: device {x.device} is not accepted; q is on {q.device}")
    if q.numel() or k.numel():
        q_by = rows_by if index is None else _QUERY if last_index is None else _SELECTED
        _launch(q, k, positions, cos_sin, index, q_by, rows_by)


def _launch(
    q: torch.Tensor,
    k: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    index: torch.Tensor | None,
    q_by: str,
    k_by: str,
) -> None:
    half = cos_sin.shape[1] // 2
    first = q.shape[2] - 2 * half
    q_heads, k_heads, pairs = (
        triton.next_power_of_2(max(size, 1)) for size in (q.shape[1], k.shape[1], half)
    )
    _rope_kernel[(q.shape[0] + k.shape[0],)](
        q,
        k,
        positions,
        index,
        cos_sin,
        cos_sin.shape[0],
        cos_sin.stride(0),
        k.shape[0],
        q.shape[1],
        k.shape[1],
        q.stride(),
        k.stride(),
        first,
        half,
        Q_BY=q_by,
        K_BY=k_by,
        ALIGN=VECTOR if _aligned(q, k, cos_sin, first, half) else 1,
        Q_HEADS=q_heads,
        K_HEADS=k_heads,
        HALF=pairs,
        num_warps=warps(max(q_heads, k_heads) * pairs),
        enable_fp_fusion=False,
    )
