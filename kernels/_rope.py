"""The rotary embedding: the rotation of a pair, of a token in place, and what is accepted."""

import torch
import triton
import triton.language as tl

from ._host import check_tensor
from ._layout import VECTOR, check_own_elements
from ._memory import check_apart

BY_POSITION = "position"
BY_TOKEN = "token"
"""What a row of the table is for."""


@triton.jit
def rotated(x1, x2, cos, sin):
    """A pair turned by an angle, in f32; the first product of each sum is contracted."""
    # −1 · turns the sign of a zero; Triton's unary minus is 0 − and does not.
    return tl.fma(x1, cos, -1.0 * (x2 * sin)), tl.fma(x1, sin, x2 * cos)


@triton.jit
def pairs(
    q_ptr,
    k_ptr,
    q_strides,
    k_strides,
    q_heads,
    begin,
    end,
    block,
    first,
    half,
    HALF: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A block of one token's pairs: where both elements lie, which pair of a head, which exist.

    Heads are numbered, those of k after those of q; pairs head by head, from the head `begin` up
    to `end`. Halves of heads start at `ALIGN` bytes.
    """
    size = HALF if HALF > 0 else half
    number = block * BLOCK + tl.arange(0, BLOCK)
    head = begin + number // size
    pair = number % size
    of_q = head < q_heads
    q_row = q_ptr + head.to(tl.int64) * q_strides[1]
    k_row = k_ptr + (head - q_heads).to(tl.int64) * k_strides[1]
    col1 = (first + pair).to(tl.int64)
    col2 = (first + size + pair).to(tl.int64)
    x1_at = tl.where(of_q, q_row + col1 * q_strides[2], k_row + col1 * k_strides[2])
    x2_at = tl.where(of_q, q_row + col2 * q_strides[2], k_row + col2 * k_strides[2])
    return tl.multiple_of(x1_at, (ALIGN,)), tl.multiple_of(x2_at, (ALIGN,)), pair, head < end


@triton.jit
def turned(
    x1, x2, pair, mask, row, half, table_ptr, n_rows, stride_row,
    HALF: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """Pairs turned by a row of the table; NaN where there is none. Rows start at `ALIGN` bytes."""
    size = HALF if HALF > 0 else half
    exists = mask & (row >= 0) & (row < n_rows)
    table_row = table_ptr + row * stride_row
    cos = tl.load(tl.multiple_of(table_row + pair, (ALIGN,)), mask=exists, other=float("nan"))
    sin_at = tl.multiple_of(table_row + (size + pair), (ALIGN,))
    sin = tl.load(sin_at, mask=exists, other=float("nan"))
    return rotated(x1.to(tl.float32), x2.to(tl.float32), cos, sin)


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
    check_apart("k", k, "q", q)
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
