"""What a bitwise comparison finds: plain data, computed by `exactness.compare`."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from exactness.bits import AnyFormat

BUCKETS: tuple[tuple[str, int, int | None], ...] = (
    ("0", 0, 0),
    ("1", 1, 1),
    ("2", 2, 2),
    ("3-10", 3, 10),
    ("11-100", 11, 100),
    (">100", 101, None),
)
"""Label, smallest and largest ulp distance of each bucket."""


class Verdict(enum.Enum):
    """The outcome of a comparison."""

    EQUAL = "equal"
    DIFFERENT = "different"
    VACUOUS = "vacuous"
    """Nothing was shown: no elements, or a tensor against its own memory."""


@dataclass(frozen=True, slots=True)
class Element:
    """One pair of elements.

    Attributes:
        index: position in the tensor; () for a scalar.
        actual_bits: the pattern of the actual element.
        expected_bits: the pattern of the expected one.
        actual: its value, exact as a Python float (or int).
        expected: its value.
        ulps: their distance; None where a NaN is involved.
        difference: |actual − expected|, in f64 for floats; None where a NaN is involved.
    """

    index: tuple[int, ...]
    actual_bits: int
    expected_bits: int
    actual: float
    expected: float
    ulps: int | None
    difference: float | None


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Mismatches by row (all leading dimensions) or by column (the last one).

    Attributes:
        total: how many rows or columns there are.
        differing: how many hold a mismatch.
        first: the first that does; None if none.
        last: the last that does.
        worst: up to five (line, mismatches), most mismatches first.
    """

    total: int
    differing: int
    first: int | None
    last: int | None
    worst: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BitDiff:
    """What a bitwise comparison found.

    `elements`, the buckets and all counts are 0 when shapes or formats differ: then no element
    has a counterpart.

    Attributes:
        actual_format: format of the actual tensor.
        expected_format: format of the expected one.
        actual_shape: shape of the actual tensor.
        expected_shape: shape of the expected one.
        zero_signs: whether +0 against −0 is a mismatch.
        nan_payloads: whether NaN with different patterns are a mismatch.
        same_memory: the two share memory, so that equality shows nothing.
        elements: pairs compared.
        mismatches: pairs that differ, under the two options.
        buckets: pairs in each of `BUCKETS`.
        nan_mismatches: pairs of a NaN and a number; always mismatches.
        nan_pairs: pairs of two NaN.
        payload_differences: pairs of two NaN with different patterns.
        zero_sign_differences: pairs of +0 and −0.
        flushed: pairs of a zero and a subnormal (also in the buckets).
        infinity_mismatches: different numbers, one of them infinite (also in the buckets).
        nonfinite: pairs with an infinity or a NaN.
        first: the first mismatch in memory order.
        first_nan: the first NaN against a number.
        maximum: the largest ulp distance between numbers, first of its kind; None when 0.
        maximum_unflushed: the same without the flushed pairs.
        largest_difference: the largest |actual − expected| between numbers; None when 0.
        median: median ulp distance over all pairs of numbers; None when there are none.
        p99: 99th percentile of the same. Both are distances that occur, never interpolated.
        magnitude: the largest finite |value| in either tensor; None for integers.
        rows: mismatches by row; None for tensors of fewer than two dimensions.
        columns: mismatches by column; None likewise.
    """

    actual_format: AnyFormat
    expected_format: AnyFormat
    actual_shape: tuple[int, ...]
    expected_shape: tuple[int, ...]
    zero_signs: bool = True
    nan_payloads: bool = False
    same_memory: bool = False
    elements: int = 0
    mismatches: int = 0
    buckets: tuple[int, ...] = (0,) * len(BUCKETS)
    nan_mismatches: int = 0
    nan_pairs: int = 0
    payload_differences: int = 0
    zero_sign_differences: int = 0
    flushed: int = 0
    infinity_mismatches: int = 0
    nonfinite: int = 0
    first: Element | None = None
    first_nan: Element | None = None
    maximum: Element | None = None
    maximum_unflushed: Element | None = None
    largest_difference: Element | None = None
    median: int | None = None
    p99: int | None = None
    magnitude: float | None = None
    rows: LineCounts | None = None
    columns: LineCounts | None = None

    @property
    def format_differs(self) -> bool:
        """Whether the formats differ."""
        return self.actual_format != self.expected_format

    @property
    def shape_differs(self) -> bool:
        """Whether the shapes differ; nothing is broadcast."""
        return self.actual_shape != self.expected_shape

    @property
    def verdict(self) -> Verdict:
        """Equal, different, or nothing shown."""
        if self.format_differs or self.shape_differs or self.mismatches:
            return Verdict.DIFFERENT
        if self.elements == 0 or self.same_memory:
            return Verdict.VACUOUS
        return Verdict.EQUAL

    @property
    def max_ulps(self) -> float:
        """The largest ulp distance; infinite when a NaN stands against a number."""
        if self.nan_mismatches:
            return math.inf
        return 0 if self.maximum is None or self.maximum.ulps is None else self.maximum.ulps

    @property
    def all_nan(self) -> bool:
        """Whether every pair is two NaN: equal, but hardly what was meant to be shown."""
        return 0 < self.elements == self.nan_pairs

    @property
    def all_finite(self) -> bool:
        """Whether every element compared is a finite number."""
        return self.nonfinite == 0
