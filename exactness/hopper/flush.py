"""Flush to zero, the `.ftz` of PTX: subnormal operands and results become zeros of their sign.

Source: PTX ISA 9.0, "Floating-point instructions".
"""

from __future__ import annotations

import numpy as np

from exactness import arrays
from exactness.arrays import Array
from exactness.formats import f32
from exactness.rounding import add_to_odd

_TINY_RESULT = f32.smallest_normal * (1 - 2.0**-25)
"""Exact results below it are flushed. Those that round up to the smallest normal number with an
unbounded exponent are not: tininess is detected after rounding (measured on an H200, see
`scripts/measure_special_functions.py`)."""


def flush_operand(x: Array) -> Array:
    """Replace subnormal f32 by zeros of their sign.

    Args:
        x: f32, any shape; a NumPy array or a CUDA tensor.

    Returns:
        f32 of the shape of `x`.
    """
    with np.errstate(invalid="ignore"):
        return arrays.where(abs(x) < f32.smallest_normal, x * 0.0, x)


def round_flushed(exact: Array) -> Array:
    """Round exact results to f32 (RNE) the way an `.ftz` instruction does.

    Args:
        exact: f64 of any shape: exact values, or values rounded to odd.

    Returns:
        f32 of the same shape; tiny results are zeros of their sign.
    """
    with np.errstate(all="ignore"):
        return arrays.astype(arrays.where(abs(exact) < _TINY_RESULT, exact * 0.0, exact), "float32")


def mul_ftz(a: Array, b: Array) -> Array:
    """`mul.rn.ftz.f32`.

    Args:
        a: f32, any shape.
        b: f32, a shape that broadcasts with it.

    Returns:
        f32 of the broadcast shape.
    """
    with np.errstate(all="ignore"):
        a64, b64 = (arrays.astype(flush_operand(x), "float64") for x in (a, b))
        return round_flushed(a64 * b64)


def fma_ftz(a: Array, b: Array, c: Array) -> Array:
    """`fma.rn.ftz.f32`.

    Args:
        a: factor, f32, any shape.
        b: factor, f32, a shape that broadcasts with it.
        c: addend, f32, likewise.

    Returns:
        f32 of the broadcast shape.
    """
    with np.errstate(all="ignore"):
        a64, b64, c64 = (arrays.astype(flush_operand(x), "float64") for x in (a, b, c))
        return round_flushed(add_to_odd(a64 * b64, c64))
