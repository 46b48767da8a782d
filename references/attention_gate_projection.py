"""The attention gate's projection 2048 → 6: `F.linear` in bf16, for which cuBLAS splits K.

How depends on the number of rows, as recorded on an H200 with torch 2.11 and cuBLAS 13. A single
row is multiplied without tensor cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from exactness.arithmetic import Value

from ._projections import in_parts, in_rounded_parts, single_row

IN_F32: Mapping[int, Sequence[int]] = MappingProxyType(
    {
        64: (2, 3, 4, 5, 6, 7, 8, 9, 12, 16),
        128: (257, 384, 513, 768, 1024),
        256: (2048,),
        512: (4096,),
    }
)
"""Columns of a part to the numbers of rows for which parts stay in f32 until they are added."""

ROUNDED: Mapping[int, Sequence[int]] = MappingProxyType(
    {
        192: (17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129),
        128: (192, 255, 256, 511, 512),
    }
)
"""The same where each part is rounded to bf16."""

PROGRAMS: Mapping[int, Callable[[Value, Value], Value]] = MappingProxyType(
    {1: single_row}
    | {rows: partial(in_parts, width=width) for width, found in IN_F32.items() for rows in found}
    | {
        rows: partial(in_rounded_parts, width=width)
        for width, found in ROUNDED.items()
        for rows in found
    }
)
"""By the number of rows, all that were recorded. Nothing is known of others."""


def attention_gate_projection(x: Value, weight: Value) -> Value:
    """The product x · weightᵀ.

    Args:
        x: bf16 [rows, 2048], rows one of `PROGRAMS`.
        weight: bf16 [6, 2048].

    Returns:
        bf16 [rows, 6].

    Raises:
        ValueError: another number of rows or another weight.
    """
    if weight.shape != (6, 2048):
        raise ValueError(f"weight: shape {weight.shape} is not accepted; (6, 2048) was recorded")
    rows = x.shape[0]
    if rows not in PROGRAMS:
        raise ValueError(f"x: {rows} rows are not accepted; recorded were {sorted(PROGRAMS)}")
    return PROGRAMS[rows](x, weight)
