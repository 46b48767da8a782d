"""Float operations on bit patterns with the H200's rules for NaN, subnormals and saturation.

Every function takes and gives NumPy arrays. f32 and f64 arithmetic is NumPy's, which is correctly
rounded; narrower formats are computed in f32 and rounded once more, which is harmless for + − ×
because 24 ≥ 2·11 + 2.

Source: PTX ISA 9.0, sections 9.7.3 to 9.7.5: an arithmetic NaN is 0x7fffffff (f32), 0x7fff (f16
and bf16); `.ftz` flushes subnormal inputs and results to zero of the same sign.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from exactness.formats import Format, bf16, f16, f32, f64
from exactness.rounding import Rounding, add_to_odd, fma, round_to

Array: TypeAlias = Any
"""A NumPy array."""

FORMATS: dict[str, Format] = {"f16": f16, "bf16": bf16, "f32": f32, "f64": f64}
"""PTX type name to format."""

ROUNDINGS: dict[str, Rounding] = {
    "rn": Rounding.NEAREST_EVEN,
    "rz": Rounding.TOWARD_ZERO,
    "rm": Rounding.DOWN,
    "rp": Rounding.UP,
    "rna": Rounding.NEAREST_AWAY,
}
"""PTX rounding modifier to mode."""

F32_NAN = np.uint32(0x7FFFFFFF)
F64_NAN = np.uint64(0x7FF8000000000000)
HALF_NAN = np.uint16(0x7FFF)


def load_f32(bits: Array) -> Array:
    """f32 patterns to values."""
    return bits.view(np.float32)


def load_f64(bits: Array) -> Array:
    """f64 patterns to values."""
    return bits.view(np.float64)


def load_f16(bits: Array) -> Array:
    """f16 patterns to f32 values."""
    return _f16_table().take(bits)


@cache
def _f16_table() -> Array:
    # NumPy's own conversion is a scalar loop, six times slower than the table.
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def load_bf16(bits: Array) -> Array:
    """bf16 patterns to f32 values."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def store_f32(values: Array) -> Array:
    """f32 results to patterns, NaN as the hardware writes it."""
    bits = values.view(np.uint32)
    # One pass tells whether there is any NaN at all: max propagates it.
    if values.size and np.isnan(values.max()):
        return np.where(np.isnan(values), F32_NAN, bits)
    return bits


def store_f64(values: Array) -> Array:
    """f64 results to patterns."""
    return np.where(np.isnan(values), F64_NAN, values.view(np.uint64))


def store_f16(values: Array) -> Array:
    """f32 (or f64) results to f16 patterns, rounded to nearest even."""
    bits = round_to(values, f16).astype(np.float16).view(np.uint16)
    return np.where(np.isnan(values), HALF_NAN, bits)


def store_bf16(values: Array) -> Array:
    """f32 results to bf16 patterns, rounded to nearest even (f64 results in one rounding)."""
    if values.dtype == np.float64:
        values = round_to(values, bf16).astype(np.float32)
    bits = values.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + (odd + np.uint32(0x7FFF))) >> np.uint32(16)).astype(np.uint16)
    if values.size and np.isnan(values.max()):
        return np.where(np.isnan(values), HALF_NAN, rounded)
    return rounded


LOAD: dict[str, Callable[[Array], Array]] = {
    "f16": load_f16,
    "bf16": load_bf16,
    "f32": load_f32,
    "f64": load_f64,
}
STORE: dict[str, Callable[[Array], Array]] = {
    "f16": store_f16,
    "bf16": store_bf16,
    "f32": store_f32,
    "f64": store_f64,
}

_SIGN: dict[int, Any] = {16: np.uint16(1 << 15), 32: np.uint32(1 << 31), 64: np.uint64(1 << 63)}


def check_host() -> None:
    """Raise if this thread's arithmetic flushes subnormals.

    Raises:
        RuntimeError: `torch.set_flush_denormal(True)` or a library compiled with fast math has
            set the processor's flush-to-zero mode.
    """
    if not np.multiply(np.float32(2.0**-126), np.float32(0.5)) > 0:
        raise RuntimeError(
            "the processor flushes subnormals to zero in this thread "
            "(torch.set_flush_denormal?); turn that off, f32 results would be wrong"
        )


def flush(bits: Array, fmt: Format) -> Array:
    """Subnormal patterns become zero of their sign."""
    sign = _SIGN[fmt.bits]
    magnitude = bits & ~sign
    subnormal = magnitude < sign.dtype.type(1 << fmt.fraction_bits)
    return np.where(subnormal, bits & sign, bits)


def negate(bits: Array) -> Array:
    """Flip the sign bit."""
    return bits ^ _SIGN[8 * bits.itemsize]


def magnitude(bits: Array) -> Array:
    """Clear the sign bit."""
    return bits & ~_SIGN[8 * bits.itemsize]


def sign_of(bits: Array) -> Array:
    """Only the sign bit."""
    return bits & _SIGN[8 * bits.itemsize]


def saturate(values: Array) -> Array:
    """Clamp to [0, 1]; NaN and -0 become +0."""
    return np.where(values > 0, np.minimum(values, values.dtype.type(1)), values.dtype.type(0))


def relu(values: Array) -> Array:
    """Negative values and -0 become +0; NaN stays."""
    return np.where(values <= 0, values.dtype.type(0), values)


def fma_f32(a: Array, b: Array, c: Array) -> Array:
    """The fused a · b + c in f32, rounded once to nearest even.

    The f64 product is exact. The f64 sum, rounded to f32, is right unless it lies on a midpoint
    of f32 or below its normal range; there the sum is formed again, rounded to odd.
    """
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    result = total.astype(np.float32)
    on_midpoint = (total.view(np.uint64) & _LOW29) == _MIDPOINT
    # A rounded result above the smallest normal number cannot come from the subnormal range.
    doubtful = on_midpoint | (np.abs(result) <= _SMALLEST_NORMAL)
    if doubtful.any():
        exact = add_to_odd(product, np.broadcast_to(c, total.shape).astype(np.float64))
        result = np.where(doubtful, exact.astype(np.float32), result)
    return result


_LOW29 = np.uint64((1 << 29) - 1)
_MIDPOINT = np.uint64(1 << 28)
_SMALLEST_NORMAL = np.float32(2.0**-126)


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
    overshot = np.isfinite(remainder) & (remainder != 0) & (
        np.signbit(remainder) != (np.signbit(wide_a))
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


def split_halves(bits: Array) -> Array:
    """u32 registers to u16 pairs along a new last axis, low half first."""
    return np.ascontiguousarray(bits)[..., None].view(np.uint16)


def join_halves(halves: Array) -> Array:
    """The inverse of `split_halves`."""
    return np.ascontiguousarray(halves).view(np.uint32)[..., 0]
