"""What the products with a weight share: `F.linear` in bf16 as cuBLAS computes it.

Baseline: torch 2.11 on CUDA, `torch.nn.functional.linear` (aten/src/ATen/native/Linear.cpp), which
calls cuBLAS 13. cuBLAS has no public source: these programs are what recordings of inputs that
cancel leave possible (`scripts/record_projections.py`); the trees that `exactness reveal` finds
agree.
"""

from __future__ import annotations

import numpy as np

from exactness.arithmetic import Order, Value, cast, concatenate, dot, launch, sum_
from exactness.arithmetic.orders import columns, from_nested, sequential
from exactness.formats import Format, f32

_WARPS, _PAIRS = 8, 128
"""Of the product without tensor cores: 8 warps take 128 pairs of columns each."""


@launch
def product(x: Value, weight: Value) -> Value:
    """One chain of instructions over all of K, rounded to the format of `x`."""
    total = dot(x, weight.swapaxes(0, 1), accumulator=f32)
    return cast(total, x.format)


def partial_products(x: Value, weight: Value, width: int) -> list[Value]:
    """The products of each `width` columns, every one a chain from zero: f32 [1, rows, columns]."""
    parts = []
    for start in range(0, x.shape[-1], width):
        part = slice(start, start + width)
        total = dot(x[:, part], weight[:, part].swapaxes(0, 1), accumulator=f32)
        parts.append(total.reshape(1, *total.shape))
    return parts


def added(parts: Value, fmt: Format) -> Value:
    """The parts added one after the other in f32, rounded to `fmt`."""
    total = sum_(parts, order=sequential(parts.shape[0]), axis=0)
    return cast(total[0], fmt)


@launch
def in_parts(x: Value, weight: Value, width: int) -> Value:
    """K split into parts of `width` columns, the last one what remains; f32 until the end."""
    parts = concatenate(partial_products(x, weight, width), axis=0)
    return added(parts, x.format)


@launch
def rounded_parts(x: Value, weight: Value, width: int) -> Value:
    """The first launch of a split whose parts go through memory in the format of `x`."""
    parts = concatenate(partial_products(x, weight, width), axis=0)
    return cast(parts, x.format)


@launch
def sum_of_parts(parts: Value) -> Value:
    """The second launch."""
    wide = cast(parts, f32)
    return added(wide, parts.format)


def in_rounded_parts(x: Value, weight: Value, width: int) -> Value:
    """K split into parts of `width` columns, each rounded to the format of `x`."""
    parts = rounded_parts(x, weight, width)
    return sum_of_parts(parts)


def row_order() -> Order:
    """How a single row is multiplied, without tensor cores: 2048 products, added two at a time.

    Neighbours first; then a butterfly over the 128 pairs of a warp, the largest distance first;
    then warps 4 apart, and what these four give one after the other.
    """
    n = _WARPS * _PAIRS
    order = columns(np.arange(2 * n).reshape(n, 2), 2 * n, "pairs")
    width = _PAIRS
    while width > 1:
        slots = np.arange(_WARPS * width).reshape(_WARPS, 2, width // 2)
        members = slots.transpose(0, 2, 1).reshape(-1, 2)
        order = order.then(columns(members, _WARPS * width, "butterfly"))
        width //= 2
    return order.then(from_nested(((((0, 4), (1, 5)), (2, 6)), (3, 7)), _WARPS), "cuBLAS, one row")


@launch
def single_row(x: Value, weight: Value) -> Value:
    """A product [1, 2048] · [columns, 2048]ᵀ in f32; products of bf16 are exact there."""
    products = cast(x, f32) * cast(weight, f32)
    total = sum_(products, order=row_order())
    return cast(total, x.format).reshape(1, weight.shape[0])
