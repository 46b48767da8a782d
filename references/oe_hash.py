"""The n-gram hash in front of the OE tables of WeLMv4.

Baseline: lucifer1004/sglang, commit 2f907a6, python/sglang/jit_kernel/csrc/welm/oe_decode_hash.cuh:
`welm_oe_hash_decode_from_prefixes_kernel` with grams (2, 2, 3, 3), all in uint32; one launch.
"""

from __future__ import annotations

from collections.abc import Sequence

from exactness.arithmetic import Word, launch, side_by_side, words
from exactness.arrays import Array
from exactness.formats import INTEGERS

from ._oe import MULTIPLIER


@launch
def oe_hash(
    ids: Array, g2: Array, g3: Array, token_vocabulary: int, vocabularies: Sequence[int]
) -> Word:
    """The bucket of each token in each table: the n-gram as a number, times a constant, modulo.

    Args:
        ids: int32 or int64 [tokens]; 32 bits of each token count.
        g2: the token before each.
        g3: the token before that.
        token_vocabulary: the base of the number, below 2^32.
        vocabularies: the rows of the four tables, each below 2^32.

    Returns:
        u32 [tokens, 4]; columns 0 and 1 by two tokens, 2 and 3 by three.
    """
    first, second, third = words(INTEGERS["u32"], ids, g2, g3)
    square = token_vocabulary * token_vocabulary % 2**32
    r2 = first + second * token_vocabulary
    r3 = r2 + third * square
    h2 = r2 * MULTIPLIER
    h3 = r3 * MULTIPLIER
    hashes = (h2, h2, h3, h3)
    return side_by_side([h % v for h, v in zip(hashes, vocabularies, strict=True)])
