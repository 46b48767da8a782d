"""Distances in units of the last place, by integer arithmetic on bit patterns.

A pattern's *key* is its position on the number line of its format: neighbours differ by one and
±0 share a position. Keys are kept in the unsigned word of the patterns, where they always fit;
`bits.ordered_keys` gives the same positions around zero as int64. A distance is the difference of
two keys, so it is exact, symmetric, the same on both sides of a power of two, and cannot wrap:
−3e38 and 3e38 are 4 274 217 932 apart in f32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from exactness.bits import AnyFormat, Bits, unsigned
from exactness.formats import Format, NaNRule


@dataclass(frozen=True, slots=True)
class NumberLine:
    """A format's landmarks, as scalars of its word, so that no operation widens an array.

    Attributes:
        format: the format.
        sign: the pattern with only the sign bit set; 0 for unsigned integers.
        magnitude: the mask of all bits below the sign.
        largest_finite: the largest magnitude that is a finite number.
        largest_number: the largest magnitude that is not NaN.
        largest_subnormal: the largest magnitude below the normal numbers; 0 for integers.
    """

    format: AnyFormat
    sign: Any
    magnitude: Any
    largest_finite: Any
    largest_number: Any
    largest_subnormal: Any

    @property
    def is_float(self) -> bool:
        """Whether the format has signed zeros, subnormals and NaN."""
        return isinstance(self.format, Format)

    def keys(self, patterns: np.ndarray) -> np.ndarray:
        """Positions of `patterns` (unsigned, at least 1-D) on the number line, same dtype."""
        if not isinstance(self.format, Format):
            position: np.ndarray = patterns ^ self.sign
            return position
        word = patterns.dtype.type
        magnitude = (patterns & self.magnitude) >> word(self.format.padding)
        negative = np.negative(patterns >> word(self.format.bits - 1))
        signed: np.ndarray = (magnitude ^ negative) - negative
        position = signed ^ self.sign
        return position

    def distances(self, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """Keys apart, element by element, as if every pattern were a number; same dtype."""
        left, right = self.keys(actual), self.keys(expected)
        apart: np.ndarray = np.maximum(left, right) - np.minimum(left, right)
        return apart


@cache
def number_line(fmt: AnyFormat) -> NumberLine:
    """The number line of a float or integer format."""
    word = unsigned(fmt).type
    if not isinstance(fmt, Format):
        sign = 1 << (fmt.bits - 1) if fmt.signed else 0
        every = word((1 << fmt.bits) - 1)
        return NumberLine(fmt, word(sign), every, every, every, word(0))
    infinity = fmt.infinity_pattern if fmt.infinities else fmt.nan_pattern
    number = fmt.nan_pattern - 1 if fmt.nan is NaNRule.ALL_ONES else infinity
    return NumberLine(
        format=fmt,
        sign=word(1 << (fmt.bits - 1)),
        magnitude=word((1 << (fmt.bits - 1)) - 1),
        largest_finite=word(infinity - (1 << fmt.padding)),
        largest_number=word(number),
        largest_subnormal=word((1 << (fmt.fraction_bits + fmt.padding)) - 1),
    )


@dataclass(frozen=True, slots=True)
class Classes:
    """What kind of pair each element of two unequal 1-D blocks is.

    A mask is None when no element of the block is of that kind, which is the usual case and
    saves the passes over it.

    Attributes:
        differ: the patterns differ.
        distances: ulps apart, in the word of the format; 0 where a NaN is involved.
        top: the largest magnitude in either block, NaN included.
        both_nan: both are NaN.
        one_nan: a NaN against a number.
        zeros: +0 against −0.
        flushed: a zero against a subnormal number.
        infinite: different numbers, at least one an infinity.
        nonfinite: at least one is an infinity or NaN.
    """

    differ: np.ndarray
    distances: np.ndarray
    top: Any
    both_nan: np.ndarray | None = None
    one_nan: np.ndarray | None = None
    zeros: np.ndarray | None = None
    flushed: np.ndarray | None = None
    infinite: np.ndarray | None = None
    nonfinite: np.ndarray | None = None


def classify(line: NumberLine, actual: np.ndarray, expected: np.ndarray) -> Classes:
    """Sort the pairs of two 1-D blocks of patterns (same length, not empty) into classes."""
    differ = actual != expected
    distances = line.distances(actual, expected)
    if not line.is_float:
        return Classes(differ, distances, line.magnitude)
    left, right = actual & line.magnitude, expected & line.magnitude
    low, high = np.minimum(left, right), np.maximum(left, right)
    top = high.max()
    both_nan = one_nan = infinite = nonfinite = None
    if top > line.largest_finite:
        nonfinite = high > line.largest_finite
        nan_low, nan_high = low > line.largest_number, high > line.largest_number
        distances[nan_high] = 0
        both_nan, one_nan = _any(nan_low), _any(nan_high & ~nan_low)
        infinite = _any(nonfinite & ~nan_high & (distances > 0))
    zeros = flushed = None
    if low.min() == 0:
        zero = low == 0
        zeros = _any(differ & (high == 0))
        flushed = _any(zero & (high > 0) & (high <= line.largest_subnormal))
    return Classes(differ, distances, top, both_nan, one_nan, zeros, flushed, infinite, nonfinite)


def _any(mask: np.ndarray) -> np.ndarray | None:
    return mask if mask.any() else None


def ulp_distance(actual: Any, expected: Any) -> np.ndarray:
    """Ulps apart, element by element.

    Args:
        actual: `Bits`, NumPy array or torch tensor, any shape.
        expected: the same, of equal shape and format.

    Returns:
        Unsigned array of that shape, in the word of the format. +0 and −0 are 0 apart, and so
        are two NaN; a NaN against a number has the largest value of the word, which no pair of
        numbers reaches. For integers it is the absolute difference.

    Raises:
        TypeError: the formats differ, or an argument is no tensor of a known dtype.
        ValueError: the shapes differ.
    """
    left, right = Bits.of(actual), Bits.of(expected)
    if left.format != right.format:
        raise TypeError(
            f"actual is {left.format.name}, expected is {right.format.name}; "
            "a distance exists within one format"
        )
    if left.shape != right.shape:
        raise ValueError(f"actual has shape {left.shape}, expected {right.shape}; same accepted")
    if left.patterns.size == 0:
        return np.zeros(left.shape, left.patterns.dtype)
    line = number_line(left.format)
    classes = classify(line, left.patterns.reshape(-1), right.patterns.reshape(-1))
    distances = classes.distances
    if classes.one_nan is not None:
        distances[classes.one_nan] = np.iinfo(distances.dtype).max
    return distances.reshape(left.shape)


def spacing(magnitude: float, fmt: Format) -> float:
    """One ulp of `fmt` at a finite `magnitude`: from it to the next larger number."""
    exponent = math.frexp(magnitude)[1] - 1 if magnitude else fmt.min_exponent
    return math.ldexp(1.0, max(exponent, fmt.min_exponent) - fmt.fraction_bits)
