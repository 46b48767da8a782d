"""f32 arithmetic in every rounding mode, and with results flushed to zero.

Source: IEEE 754-2019, sections 4.3 and 6.3; PTX ISA 9.0, section 9.7.3.
"""

from __future__ import annotations

import numpy as np

from exactness.formats import f32
from exactness.rounding import Rounding, add_to_odd, fma, round_to
from exactness.virtual.floats import Array


def mul_flushed(a: Array, b: Array, mode: Rounding) -> Array:
    """`mul.ftz`: operands flushed; a result that is tiny after rounding becomes zero."""
    return _round_flushed(np.multiply(a, b, dtype=np.float64), mode)


def fma_flushed(a: Array, b: Array, c: Array, mode: Rounding) -> Array:
    """`fma.ftz`: as `mul_flushed`."""
    product = np.multiply(a, b, dtype=np.float64)
    exact = add_to_odd(product, np.broadcast_to(c, np.broadcast_shapes(product.shape, c.shape)))
    result = _round_flushed(exact, mode)
    return _signed_zero(result, product, c, mode)


def _round_flushed(exact: Array, mode: Rounding) -> Array:
    """Round to f32 and flush what is below the normal range with an unbounded exponent.

    A value that only the subnormal quantum lifts to the smallest normal number is flushed, one
    that 24 bits would lift there is not (measured on an H200, see `exactness.hopper.flush`).
    """
    wide = np.asarray(round_to(exact, f32, mode)).astype(np.float32)
    small = np.abs(exact) < f32.smallest_normal
    if not small.any():
        return wide
    scaled = np.asarray(round_to(exact * 2.0**64, f32, mode))
    tiny = small & (np.abs(scaled) < f32.smallest_normal * 2.0**64)
    return np.where(tiny, np.copysign(np.float32(0), exact.astype(np.float32)), wide)


def fma_directed(a: Array, b: Array, c: Array, mode: Rounding) -> Array:
    """The fused a · b + c in f32 in any rounding mode, with the sign of an exact zero."""
    result = np.asarray(fma(a, b, c, f32, mode))
    return _signed_zero(result, np.multiply(a, b, dtype=np.float64), c, mode)


def _signed_zero(result: Array, product: Array, addend: Array, mode: Rounding) -> Array:
    """An exact zero sum is −0 when rounding down, unless both terms are positive zeros."""
    if mode is not Rounding.DOWN:
        return result
    exact_zero = (product + addend == 0) & (result == 0)
    positive = ~np.signbit(product) & ~np.signbit(addend)
    return np.where(exact_zero, np.where(positive, np.float32(0), np.float32(-0.0)), result)


def add_directed(a: Array, b: Array, mode: Rounding) -> Array:
    """The sum a + b in f32 in any rounding mode."""
    return fma_directed(a, np.ones((1, 1), np.float32), b, mode)


def mul_directed(a: Array, b: Array, mode: Rounding) -> Array:
    """The product a · b in f32 in any rounding mode."""
    return np.asarray(round_to(np.multiply(a, b, dtype=np.float64), f32, mode)).astype(np.float32)


def div_directed(a: Array, b: Array, mode: Rounding) -> Array:
    """The quotient a / b in f32 in any rounding mode.

    The quotient is cut to 28 bits; times b it is exact in f64, so the remainder tells whether
    the cut was exact, and a sticky bit below the cut carries that to the one rounding.
    """
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    quotient = wide_a / wide_b
    cut = _cut(quotient, 53 - 28)
    remainder = wide_a - cut * wide_b
    # A cut that rounded up past the quotient leaves a remainder of the other sign; step back.
    overshot = (
        np.isfinite(remainder) & (remainder != 0) & (np.signbit(remainder) != (np.signbit(wide_a)))
    )
    cut = np.where(overshot, _step_down(cut, 53 - 28), cut)
    sticky = np.isfinite(quotient) & (overshot | (remainder != 0)) & np.isfinite(remainder)
    return _round_sticky(np.where(np.isfinite(quotient), cut, quotient), sticky, mode)


def sqrt_directed(a: Array, mode: Rounding) -> Array:
    """sqrt(a) in f32 in any rounding mode; the root is cut to 26 bits, whose square is exact."""
    wide = a.astype(np.float64)
    root = np.sqrt(wide)
    cut = _cut(root, 53 - 26)
    overshot = cut * cut > wide
    kept: Array = np.where(overshot, _step_down(cut, 53 - 26), cut)
    sticky = np.isfinite(root) & (kept * kept != wide)
    return _round_sticky(np.where(np.isfinite(root), kept, root), sticky, mode)


def _cut(values: Array, low_bits: int) -> Array:
    """Clear low bits of f64 significands."""
    return (values.view(np.uint64) & np.uint64(~((1 << low_bits) - 1) & (1 << 64) - 1)).view(
        np.float64
    )


def _step_down(values: Array, low_bits: int) -> Array:
    """One unit of the last kept place toward zero."""
    return (values.view(np.uint64) - np.uint64(1 << low_bits)).view(np.float64)


def _round_sticky(values: Array, sticky: Array, mode: Rounding) -> Array:
    """Round to f32 once; a sticky bit stands for what was cut off below."""
    bits = values.view(np.uint64) | sticky.astype(np.uint64)
    return np.asarray(round_to(bits.view(np.float64), f32, mode)).astype(np.float32)
