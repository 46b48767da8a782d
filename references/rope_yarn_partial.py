"""Partial rotary embedding of WeLMv4, in place on the last dimensions of every head.

Baseline: LinyuanLi0046/sglang, commit 4ca5bcf, python/sglang/srt/layers/welmv4_op.py:
`WelmV4InplaceRotaryEmbedding.forward_cuda`; one launch. The compiler contracts the first product of
each sum, not the second: the recorded f32 rows show it.
"""

from __future__ import annotations

import math

from exactness.arithmetic import Value, cast, concatenate, fma, launch, take, where, words
from exactness.arrays import Array
from exactness.formats import INTEGERS, f32


@launch
def rope_yarn_partial(
    q: Value,
    k: Value,
    positions: Array,
    cos_sin: Value,
    head_dim: int | None = None,
    rows_by: str = "position",
    query_positions: Array | None = None,
    last_index: Array | None = None,
) -> tuple[Value, Value]:
    """Rotate the last rope_dim dimensions of each head, neox halves.

    Args:
        q: bf16, f16 or f32 [tokens, heads, head_dim], or [tokens, heads·head_dim].
        k: like `q`, with a number of heads of its own.
        positions: int64 [tokens], of the tokens of k. One without a row in `cos_sin` gives NaN.
        cos_sin: f32 [rows, rope_dim], cosines, then sines.
        head_dim: of two-dimensional q and k.
        rows_by: "position": row p of `cos_sin` is for position p; "token": row t is for token t.
        query_positions: int64 [tokens of q], if q has rows of its own.
        last_index: int64 [tokens of q]: the token of k whose position a row of q takes; NaN if
            there is no such token.

    Returns:
        q and k, which they replace.
    """
    k_rows = _at(cos_sin, positions) if rows_by == "position" else cos_sin[: k.shape[0]]
    q_rows = k_rows
    if query_positions is not None:
        q_rows = _at(cos_sin, query_positions)
    elif last_index is not None:
        q_rows = _at(k_rows, last_index)
    return rotate(q, q_rows, head_dim), rotate(k, k_rows, head_dim)


def _at(rows: Value, index: Array) -> Value:
    """The rows numbered `index`, [tokens, rope_dim]; NaN where there is no such row.

    Our rule: no recording has such an index.
    """
    number = words(INTEGERS["i64"], index)[0]
    exists = (number >= 0) & (number < rows.shape[0])
    return where(exists[:, None], take(rows, number, mask=exists), math.nan)


def rotate(x: Value, cos_sin: Value, head_dim: int | None) -> Value:
    """One tensor; `cos_sin` has a row a token."""
    heads = x if head_dim is None else x.reshape(x.shape[0], x.shape[1] // head_dim, head_dim)
    half = cos_sin.shape[1] // 2
    first, second = heads.shape[2] - 2 * half, heads.shape[2] - half
    plain = heads[..., :first]
    x1 = cast(heads[..., first:second], f32)
    x2 = cast(heads[..., second:], f32)
    cos = cos_sin[:, None, :half]
    sin = cos_sin[:, None, half:]
    by_sin = x2 * sin
    rotated1 = fma(x1, cos, -by_sin)
    by_cos = x2 * cos
    rotated2 = fma(x1, sin, by_cos)
    rotated = [cast(rotated1, x.format), cast(rotated2, x.format)]
    return concatenate([plain, *rotated]).reshape(*x.shape)
