"""What the references of WeLM's OE embedding share: the multiplier, rows of a split table."""

from __future__ import annotations

from exactness.arithmetic import Value, Word, take

MULTIPLIER = 2654435761


def rows_of(table: Value, local: Word) -> Value:
    """The rows numbered `local`, [tokens, width]; +0 where the table has no such row."""
    here = (local >= 0) & (local < table.shape[0])
    return take(table, local, mask=here)
