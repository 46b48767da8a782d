"""Rows of the four OE tables of WeLMv4, side by side.

Baseline: lucifer1004/sglang, commit 0c7175d, python/sglang/srt/models/welm_perf_opt.py:
`_welm_oe_lookup_concat_prehashed_4x512_kernel`; one launch. It reads ids as uint32; ids from 2^32
on, which the hash never gives, are rows of no rank here, as in that file's
`_lookup_local_embedding`.
"""

from __future__ import annotations

from collections.abc import Sequence

from exactness.arithmetic import Value, Word, concatenate, launch, words
from exactness.arrays import Array
from exactness.formats import INTEGERS

from ._oe import rows_of


@launch
def oe_lookup_concat(
    ids: Array | Word,
    table0: Value,
    table1: Value,
    table2: Value,
    table3: Value,
    starts: Sequence[int] = (0, 0, 0, 0),
) -> Value:
    """One row of each table a token, zeros where another rank has it.

    Args:
        ids: int32 or int64 [tokens, 4], or what the hash gives.
        table0: bf16 [rows0, width], the rows from starts[0] on.
        table1: bf16 [rows1, width].
        table2: bf16 [rows2, width].
        table3: bf16 [rows3, width].
        starts: the first row of each table that is here.

    Returns:
        bf16 [tokens, 4 · width].
    """
    row = words(INTEGERS["i64"], ids)[0]
    tables = (table0, table1, table2, table3)
    parts = [rows_of(table, row[:, b] - starts[b]) for b, table in enumerate(tables)]
    return concatenate(parts)
