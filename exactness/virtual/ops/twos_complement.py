"""Integer arithmetic on unsigned arrays read as two's complement or not."""

from __future__ import annotations

from typing import Any

import numpy as np

from exactness.virtual.operation import UNSIGNED
from exactness.virtual.state import Bits

_SIGNED: dict[int, Any] = {n: np.dtype(f"i{n // 8}") for n in (8, 16, 32, 64)}


def signed(bits: Bits) -> Bits:
    """The patterns read as two's complement."""
    return bits.view(_SIGNED[8 * bits.itemsize])


def unsigned(values: Bits) -> Bits:
    """The patterns of two's complement values."""
    return values.view(UNSIGNED[8 * values.itemsize])


def is_signed_type(name: str) -> bool:
    """Whether a PTX integer type is signed."""
    return name.startswith("s")


def product_high(x: Bits, y: Bits, is_signed: bool) -> Bits:
    """The upper half of the full product."""
    bits = 8 * x.itemsize
    if bits < 64:
        kind = np.int64 if is_signed else np.uint64
        if is_signed:
            x, y = signed(x), signed(y)
        return (x.astype(kind) * y.astype(kind) >> kind(bits)).astype(UNSIGNED[bits])
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    other = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> half) + (other >> half)
    if is_signed:
        # Two's complement: a negative factor counts 2^64 too much of the other one.
        zero = np.uint64(0)
        high = high - np.where(signed(x) < 0, y, zero) - np.where(signed(y) < 0, x, zero)
    return high


def product_wide(x: Bits, y: Bits, is_signed: bool) -> Bits:
    """The full product, twice as wide."""
    wide = 16 * x.itemsize
    if is_signed:
        kind = _SIGNED[wide]
        return unsigned(np.asarray(signed(x).astype(kind) * signed(y).astype(kind)))
    kind = UNSIGNED[wide]
    return np.asarray(x.astype(kind) * y.astype(kind))


def divide(x: Bits, y: Bits, is_signed: bool) -> tuple[Bits, Bits]:
    """Quotient toward zero and remainder; what a divisor of zero gives is undefined."""
    safe = np.where(y == 0, y.dtype.type(1), y)
    if not is_signed:
        quotient = x // safe
        return quotient, x - quotient * safe
    negative_x, negative_y = signed(x) < 0, signed(safe) < 0
    quotient = np.where(negative_x, -x, x) // np.where(negative_y, -safe, safe)
    quotient = np.where(negative_x != negative_y, -quotient, quotient)
    return quotient, x - quotient * safe
