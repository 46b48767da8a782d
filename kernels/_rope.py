"""The rotary embedding: the rotation of a pair, of a token in place, and what is accepted."""

import torch
import triton
import triton.language as tl

from ._host import check_tensor
from ._layout import VECTOR, check_own_elements

BY_POSITION = "position"
BY_TOKEN = "token"
"""What a row of the table is for."""


@triton.jit
def rotated(x1, x2, cos, sin):
    """A pair turned by an angle, in f32; the first product of each sum is contracted."""
    # −1 · turns the sign of a zero; Triton's unary minus is 0 − and does not.
    return tl.fma(x1, cos, -1.0 * (x2 * sin)), tl.fma(x1, sin, x2 * cos)


@triton.jit
def rotate_in_place(
    x_ptr,
    strides,
    n_heads,
    block,
    first,
    half,
    table_ptr,
    row,
    n_rows,
    stride_row,
    HALF: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Rotate a block of one token's pairs, which are numbered head by head.

    Where the table has no such row the result is NaN. Rows of the table and halves of heads start
    at `ALIGN` bytes.
    """
    size = HALF if HALF > 0 else half
    number = block * BLOCK + tl.arange(0, BLOCK)
    head = number // size
    pair = number % size
    mask = head < n_heads
    exists = mask & (row >= 0) & (row < n_rows)
    table_row = table_ptr + row * stride_row
    cos_at = tl.multiple_of(table_row + pair, (ALIGN,))
    sin_at = tl.multiple_of(table_row + (size + pair), (ALIGN,))
    cos = tl.load(cos_at, mask=exists, other=float("nan"))
    sin = tl.load(sin_at, mask=exists, other=float("nan"))

    offset1 = head.to(tl.int64) * strides[1] + (first + pair).to(tl.int64) * strides[2]
    offset2 = head.to(tl.int64) * strides[1] + (first + size + pair).to(tl.int64) * strides[2]
    x1_at = tl.multiple_of(x_ptr + offset1, (ALIGN,))
    x2_at = tl.multiple_of(x_ptr + offset2, (ALIGN,))
    x1 = tl.load(x1_at, mask=mask, other=0.0).to(tl.float32)
    x2 = tl.load(x2_at, mask=mask, other=0.0).to(tl.float32)
    rotated1, rotated2 = rotated(x1, x2, cos, sin)
    tl.store(x1_at, rotated1.to(x_ptr.dtype.element_ty), mask=mask)
    tl.store(x2_at, rotated2.to(x_ptr.dtype.element_ty), mask=mask)


def halves_aligned(cos_sin: torch.Tensor, *tensors: torch.Tensor) -> bool:
    """Whether halves of heads and rows of the table start at 16 bytes, and divisions are shifts.

    Args:
        cos_sin: the table, [rows, rope_dim].
        *tensors: [tokens, heads, head_dim].
    """
    half = cos_sin.shape[1] // 2
    first = tensors[0].shape[2] - 2 * half
    if half & (half - 1) or half % VECTOR or first % VECTOR:
        return False
    starts = [cos_sin.data_ptr(), cos_sin.stride(0) * cos_sin.element_size()]
    for x in tensors:
        starts += [x.data_ptr(), *(step * x.element_size() for step in x.stride()[:2])]
    unit = all(x.stride(2) == 1 for x in tensors)
    return unit and all(start % VECTOR == 0 for start in starts)


def heads_of(name: str, x: torch.Tensor, head_dim: int | None) -> torch.Tensor:
    """`x` as [tokens, heads, head_dim], a view."""
    if head_dim is not None and (isinstance(head_dim, bool) or not isinstance(head_dim, int)):
        raise TypeError(f"head_dim: got {type(head_dim).__name__}; an int or None is accepted")
    if x.ndim == 2 and head_dim is not None and head_dim > 0 and x.shape[1] % head_dim == 0:
        x = x.unflatten(1, (x.shape[1] // head_dim, head_dim))
    if x.ndim != 3 or head_dim not in (None, x.shape[2]):
        raise ValueError(
            f"{name}: shape {tuple(x.shape)} with head_dim={head_dim} is not accepted; "
            "[tokens, heads, head_dim] is, or [tokens, heads·head_dim] with head_dim"
        )
    if x.numel():
        check_own_elements(name, x)
    return x


def check_table(cos_sin: torch.Tensor, head_dim: int) -> None:
    """Refuse a table that does not fit the heads, or whose rows are not contiguous."""
    rope_dim = cos_sin.shape[1]
    if rope_dim % 2 or not 0 < rope_dim <= head_dim:
        raise ValueError(
            f"cos_sin: shape {tuple(cos_sin.shape)} is not accepted; [rows, rope_dim] with an even "
            f"rope_dim from 2 to head_dim={head_dim} is"
        )
    if cos_sin.numel() and cos_sin.stride(1) != 1:
        raise ValueError(
            f"cos_sin: strides {cos_sin.stride()} are not accepted; contiguous rows are"
        )


def check_tokens(
    q: torch.Tensor,
    k: torch.Tensor,
    positions: torch.Tensor,
    query_positions: torch.Tensor | None,
    last_index: torch.Tensor | None,
) -> torch.Tensor | None:
    """The list that q takes its positions from, if it has one of its own."""
    if q.shape[2] != k.shape[2]:
        raise ValueError(f"k: head_dim {k.shape[2]} is not accepted; q has {q.shape[2]}")
    if q.numel() and q.data_ptr() == k.data_ptr():
        raise ValueError("k: the memory of q is not accepted; both are written in place")
    _check_list("positions", positions, k.shape[0], "token of k")
    if query_positions is not None and last_index is not None:
        raise ValueError("last_index: not accepted beside query_positions; one of both is")
    index = query_positions if last_index is None else last_index
    if index is not None:
        name = "query_positions" if last_index is None else "last_index"
        _check_list(name, index, q.shape[0], "token of q")
    elif q.shape[0] != k.shape[0]:
        raise ValueError(
            f"q: {q.shape[0]} tokens are not accepted; k has {k.shape[0]}, and neither "
            "query_positions nor last_index says where those of q are"
        )
    return index


def _check_list(name: str, x: torch.Tensor, length: int, of: str) -> None:
    check_tensor(name, x, torch.int64, 1)
    if x.shape[0] != length or (length > 1 and x.stride(0) != 1):
        raise ValueError(
            f"{name}: shape {tuple(x.shape)} with stride {x.stride(0)} is not accepted; one "
            f"element for each {of}, {length}, contiguous, is"
        )


def check_rows_by(
    rows_by: str, index: torch.Tensor | None, cos_sin: torch.Tensor, tokens: int
) -> None:
    """Refuse what does not say which row of the table a token has."""
    if rows_by not in (BY_POSITION, BY_TOKEN):
        raise ValueError(
            f"rows_by: {rows_by!r} is not accepted; {BY_POSITION!r} and {BY_TOKEN!r} are"
        )
    if rows_by == BY_TOKEN and (index is not None or cos_sin.shape[0] < tokens):
        raise ValueError(
            f"rows_by: {BY_TOKEN!r} is not accepted with {cos_sin.shape[0]} rows for {tokens} "
            "tokens or with queries of their own; a row for each token is"
        )
