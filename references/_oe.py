"""What the references of WeLM's OE embedding share: integers that wrap, rows of a split table."""

from __future__ import annotations

from exactness import arrays
from exactness.arithmetic import Value, where
from exactness.arrays import Array

MULTIPLIER = 2654435761


def wrapped(x: Array) -> Array:
    """An int64 array modulo 2^32, as uint32 arithmetic gives it."""
    return x & 0xFFFFFFFF


def rows_of(table: Value, local: Array) -> Value:
    """The rows numbered `local`, [tokens, width]; +0 where the table has no such row."""
    rows, width = table.shape
    zeros = table.arithmetic.constant(0.0, table.format, table.payload)
    zeros = zeros.broadcast_to(local.shape[0], width)
    if not rows:
        return zeros
    here = (local >= 0) & (local < rows)
    return where(here[:, None], table[arrays.where(here, local, 0)], zeros)
