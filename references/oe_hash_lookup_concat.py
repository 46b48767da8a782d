"""The n-gram hash of WeLMv4's OE embedding and the lookup behind it.

Baseline: the launches of `oe_hash` and `oe_lookup_concat`, in this order; two.
"""

from __future__ import annotations

from collections.abc import Sequence

from exactness.arithmetic import Value
from exactness.arrays import Array

from .oe_hash import oe_hash
from .oe_lookup_concat import oe_lookup_concat


def oe_hash_lookup_concat(
    ids: Array,
    g2: Array,
    g3: Array,
    table0: Value,
    table1: Value,
    table2: Value,
    table3: Value,
    token_vocabulary: int,
    vocabularies: Sequence[int],
    starts: Sequence[int] = (0, 0, 0, 0),
) -> Value:
    """The rows of each token's n-grams, zeros where another rank has them.

    Args:
        ids: int32 or int64 [tokens].
        g2: the token before each.
        g3: the token before that.
        table0: bf16 [rows0, width], the rows from starts[0] on.
        table1: bf16 [rows1, width].
        table2: bf16 [rows2, width].
        table3: bf16 [rows3, width].
        token_vocabulary: the base of an n-gram's number, below 2^32.
        vocabularies: the rows of the whole tables.
        starts: the first row of each table that is here.

    Returns:
        bf16 [tokens, 4 · width].
    """
    buckets = oe_hash(ids, g2, g3, token_vocabulary, vocabularies)
    return oe_lookup_concat(buckets, table0, table1, table2, table3, starts)
