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
from exactness.rounding import Rounding, add_to_odd, round_to

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
# CUDART_NAN of CUDA's math_constants.h.
F64_NAN = np.uint64(0xFFF8000000000000)
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


def canonical(bits: Array, fmt: Format) -> Array:
    """NaN patterns become the one that arithmetic gives."""
    nan: Any = {16: HALF_NAN, 32: F32_NAN, 64: F64_NAN}[fmt.bits]
    infinity = nan.dtype.type(fmt.infinity_pattern)
    return np.where(magnitude(bits) > infinity, nan, bits)


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
    # A rounded result above the smallest normal number cannot come from the subnormal range, and
    # an f64 sum is zero only if it is exact.
    doubtful = on_midpoint | ((np.abs(result) <= _SMALLEST_NORMAL) & (total != 0))
    if doubtful.any():
        terms = (np.broadcast_to(term, total.shape)[doubtful] for term in (product, c))
        first, second = (term.astype(np.float64) for term in terms)
        result[doubtful] = add_to_odd(first, second).astype(np.float32)
    return result


_LOW29 = np.uint64((1 << 29) - 1)
_MIDPOINT = np.uint64(1 << 28)
_SMALLEST_NORMAL = np.float32(2.0**-126)


def split_halves(bits: Array) -> Array:
    """u32 registers to u16 pairs along a new last axis, low half first."""
    return np.ascontiguousarray(bits)[..., None].view(np.uint16)


def join_halves(halves: Array) -> Array:
    """The inverse of `split_halves`."""
    return np.ascontiguousarray(halves).view(np.uint32)[..., 0]
