"""Rounding an exact value to a format, once, in every mode; exact fma; host constants.

Arrays travel in a carrier, f32 or f64, that holds every value of the target format exactly. All
steps are integer operations on the carrier's bits or error-free f64 arithmetic, so the result is
the same on NumPy arrays and on CUDA tensors. NaN becomes the carrier's quiet NaN.

Sources: IEEE 754-2019, sections 4.3 and 5.4.1; Boldo and Melquiond, "Emulation of a FMA and
correctly rounded sums: proved algorithms using rounding to odd" (2008) for `fma`.
"""

from __future__ import annotations

import enum
import math
from fractions import Fraction

import numpy as np

from exactness import arrays
from exactness.arrays import Array
from exactness.blocks import in_blocks
from exactness.formats import Format, NaNRule, bf16, f32, f64


class Rounding(enum.Enum):
    """How a value between two neighbours is rounded."""

    NEAREST_EVEN = "rn"
    NEAREST_AWAY = "rna"
    TOWARD_ZERO = "rz"
    UP = "rp"
    DOWN = "rm"
    TO_ODD = "odd"


RNE = Rounding.NEAREST_EVEN

_CARRIERS = {
    # dtype: (integer view, bits, explicit fraction bits, bias)
    "float32": ("int32", 32, 23, 127),
    "float64": ("int64", 64, 52, 1023),
}


def round_to(x: Array, fmt: Format, mode: Rounding = RNE) -> Array:
    """Round every element of `x` to `fmt`, once.

    Args:
        x: f32 or f64 values, any shape; a NumPy array or a CUDA tensor.
        fmt: the target format.
        mode: the rounding mode. Overflow follows it: to infinity (NaN where the format has
            none) when rounding to nearest or away from zero, else to the largest finite number.

    Returns:
        Values of `fmt` in the dtype of `x`, except that f64 values rounded to f64 and f32 values
        rounded to a wider format come back as they are.

    Raises:
        TypeError: `x` is neither f32 nor f64.
    """
    carrier = arrays.dtype_name(x)
    if carrier not in _CARRIERS:
        raise TypeError(f"x: dtype {carrier} cannot be rounded; float32 or float64 is accepted")
    if fmt is f64 or (fmt is f32 and carrier == "float32"):
        return x
    if mode is RNE and fmt is bf16 and carrier == "float32":
        return _bf16_nearest_even(x)
    if mode is RNE and fmt is f32:
        return arrays.astype(_narrow_to_f32(x), carrier)
    with np.errstate(over="ignore", invalid="ignore"):
        return _round_bits(x, carrier=carrier, fmt=fmt, mode=mode)


def _bf16_nearest_even(x: Array) -> Array:
    """The common case in a few integer operations."""
    bits = arrays.view(x, "int32")
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) & -0x10000
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return arrays.view(arrays.where(is_nan, 0x7FC00000, rounded), "float32")


def _narrow_to_f32(x: Array) -> Array:
    """The conversion instruction; correctly rounded, subnormals included."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return arrays.astype(x, "float32")


@in_blocks
def _round_bits(x: Array, *, carrier: str, fmt: Format, mode: Rounding) -> Array:
    """Shift the significand to the target's quantum and let the remainder decide."""
    integer, width, fraction_bits, bias = _CARRIERS[carrier]
    bits = arrays.astype(arrays.view(x, integer), "int64")
    negative = bits < 0
    magnitude = bits & ((1 << (width - 1)) - 1)
    biased = magnitude >> fraction_bits
    normal = biased > 0
    significand = (magnitude & ((1 << fraction_bits) - 1)) | (
        arrays.astype(normal, "int64") << fraction_bits
    )
    # Exponent of the last place: of the carrier, then of the target at this magnitude.
    last = arrays.where(normal, biased, 1) - (bias + fraction_bits)
    target_last = last + (fraction_bits - fmt.fraction_bits)
    target_last = arrays.where(
        target_last < fmt.quantum_exponent, fmt.quantum_exponent, target_last
    )
    shift = target_last - last
    shift = arrays.where(shift > fraction_bits + 2, fraction_bits + 2, shift)
    kept = significand >> shift
    rest = significand - (kept << shift)
    kept = kept + arrays.astype(_rounds_up(mode, kept, rest, shift, negative), "int64")
    value = _overflow(_scale(kept, target_last), fmt, mode, negative)
    value = arrays.where(negative, -value, value)
    special = biased == (1 << (width - 1 - fraction_bits)) - 1
    return arrays.astype(arrays.where(special, _special(x, fmt), value), carrier)


def _rounds_up(mode: Rounding, kept: Array, rest: Array, shift: Array, negative: Array) -> Array:
    """Whether the magnitude `kept` + `rest` / 2^shift goes to its upper neighbour."""
    inexact = rest != 0
    odd = (kept & 1) == 1
    match mode:
        case Rounding.TOWARD_ZERO:
            return inexact & False
        case Rounding.UP:
            return inexact & ~negative
        case Rounding.DOWN:
            return inexact & negative
        case Rounding.TO_ODD:
            return inexact & ~odd
    # Twice the rest against a whole step, both below 2^56.
    tie, above = rest * 2 == 1 << shift, rest * 2 > 1 << shift
    return above | (tie & inexact & (odd | (mode is Rounding.NEAREST_AWAY)))


def _scale(significand: Array, exponent: Array) -> Array:
    """Give significand · 2^exponent in f64, exactly: −149 ≤ exponent ≤ 1022."""
    power = arrays.view((exponent + 1023) << 52, "float64")
    return arrays.astype(significand, "float64") * power


def _overflow(magnitude: Array, fmt: Format, mode: Rounding, negative: Array) -> Array:
    """What stands for a rounded magnitude beyond the largest finite number."""
    too_large = magnitude > fmt.largest
    beyond = math.inf if fmt.infinities else math.nan
    match mode:
        case Rounding.NEAREST_EVEN | Rounding.NEAREST_AWAY:
            return arrays.where(too_large, beyond, magnitude)
        case Rounding.UP:
            saturates = too_large & negative
        case Rounding.DOWN:
            saturates = too_large & ~negative
        case _:
            saturates = too_large
    magnitude = arrays.where(too_large, beyond, magnitude)
    return arrays.where(saturates, fmt.largest, magnitude)


def _special(x: Array, fmt: Format) -> Array:
    """Infinities and NaN of the carrier in the target format."""
    wide = arrays.astype(x, "float64")
    infinite = (wide == wide) & fmt.infinities
    return arrays.where(infinite, wide, math.nan)


def fma(a: Array, b: Array, c: Array, fmt: Format = f32, mode: Rounding = RNE) -> Array:
    """The product a · b plus c, rounded to `fmt` once.

    Args:
        a: factor, f32 values (narrower formats in their f32 carrier), any broadcastable shape.
        b: factor, likewise.
        c: addend, likewise.
        fmt: the format of the result, f32 or narrower.
        mode: the rounding mode.

    Returns:
        Values of `fmt` in an f32 array.

    Raises:
        ValueError: `fmt` is f64; use `fma_fraction`.

    The product of two f32 is exact in f64; the sum is formed in f64 rounded to odd, whose 53
    bits are at least 24 + 2, so the second rounding is the only one that shows. An exact zero
    takes the sign of IEEE 754-2019, section 6.3: −0 from unlike terms when rounding down.
    """
    if fmt is f64:
        raise ValueError("fmt: f64 is too wide for this fma; f32 or narrower is accepted")
    return _fma(a, b, c, fmt=fmt, mode=mode)


@in_blocks
def _fma(a: Array, b: Array, c: Array, *, fmt: Format, mode: Rounding) -> Array:
    if mode is Rounding.DOWN:
        # Mirrored, because the f64 addition gives unlike zeros the sign +.
        return -_fma(-a, b, -c, fmt=fmt, mode=Rounding.UP)
    with np.errstate(all="ignore"):
        wide = add_to_odd(
            arrays.astype(a, "float64") * arrays.astype(b, "float64"),
            arrays.astype(c, "float64"),
        )
        return _narrow_to_f32(round_to(wide, fmt, mode))


def add_to_odd(x: Array, y: Array) -> Array:
    """Sum of two f64 arrays, rounded to odd (exact sums stay exact)."""
    total = x + y
    # Knuth's two-sum: the rounding error of `total`, exactly.
    virtual = total - x
    error = (x - (total - virtual)) + (y - virtual)
    bits = arrays.view(total, "int64")
    adjust = (error != 0) & ((bits & 1) == 0) & (error == error) & (abs(total) <= f64.largest)
    outward = (error > 0) == (total > 0)
    return arrays.view(arrays.where(adjust, bits + arrays.where(outward, 1, -1), bits), "float64")


def round_fraction(value: Fraction, fmt: Format, mode: Rounding = RNE) -> float:
    """Round an exact rational to `fmt`, once; the definition the array code is tested against.

    Args:
        value: the exact value (zero gives +0).
        fmt: the target format.
        mode: the rounding mode.

    Returns:
        The rounded value, exact in f64.
    """
    if value == 0:
        return 0.0
    negative, magnitude = value < 0, abs(value)
    quantum = Fraction(2) ** max(_exponent(magnitude) - fmt.fraction_bits, fmt.quantum_exponent)
    kept, rest = divmod(magnitude, quantum)
    if _fraction_rounds_up(mode, kept, rest / quantum, negative):
        kept += 1
    rounded = kept * quantum
    if rounded > Fraction(fmt.largest):
        return _fraction_overflow(fmt, mode, negative)
    result = float(rounded)
    return -result if negative else result


def _exponent(magnitude: Fraction) -> int:
    """floor(log2(magnitude)) of a positive rational."""
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if magnitude >= Fraction(2) ** guess else guess - 1


def _fraction_rounds_up(mode: Rounding, kept: int, rest: Fraction, negative: bool) -> bool:
    half = Fraction(1, 2)
    return {
        Rounding.NEAREST_EVEN: rest > half or (rest == half and kept % 2 == 1),
        Rounding.NEAREST_AWAY: rest >= half,
        Rounding.TOWARD_ZERO: False,
        Rounding.UP: rest > 0 and not negative,
        Rounding.DOWN: rest > 0 and negative,
        Rounding.TO_ODD: rest > 0 and kept % 2 == 0,
    }[mode]


def _fraction_overflow(fmt: Format, mode: Rounding, negative: bool) -> float:
    finite = mode in (Rounding.TOWARD_ZERO, Rounding.TO_ODD) or mode is (
        Rounding.UP if negative else Rounding.DOWN
    )
    beyond = math.inf if fmt.nan is NaNRule.IEEE else math.nan
    return math.copysign(fmt.largest if finite else beyond, -1.0 if negative else 1.0)


def host_constant(value: float, fmt: Format) -> float:
    """A Python number as the host passes it to a kernel: f64 to `fmt` in one rounding.

    `1 + 2^-8 + 2^-40` becomes 1.0078125 in bf16; by way of f32 it would become 1.0.

    Args:
        value: any Python float or int.
        fmt: the format of the kernel's scalar.

    Returns:
        The rounded value; infinities and NaN are kept where the format has them.
    """
    if isinstance(value, (int, np.integer)):
        return round_fraction(Fraction(int(value)), fmt)
    return float(round_to(np.asarray(value, np.float64), fmt))


def fma_fraction(a: float, b: float, c: float, fmt: Format, mode: Rounding = RNE) -> float:
    """The product a · b plus c of finite numbers, rounded once, by rational arithmetic.

    An exact zero takes the sign of IEEE 754-2019, section 6.3.
    """
    product, addend = Fraction(a) * Fraction(b), Fraction(c)
    if product + addend == 0:
        if product == 0 and math.copysign(1.0, a * b) == math.copysign(1.0, c):
            return c
        return -0.0 if mode is Rounding.DOWN else 0.0
    return round_fraction(product + addend, fmt, mode)
