"""What a comparison counts while two tensors stream past in blocks.

Blocks are small enough for a core's cache, so the cost of a comparison does not depend on how
large the tensors are, nor does its memory (but for one counter a column).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from exactness.bits import decode
from exactness.histogram import Histogram
from exactness.ulp import Classes, NumberLine, classify

BLOCK = 1 << 15
"""Elements a block: with its temporaries it fits a core's second-level cache."""

WORST = 5
"""How many of the worst rows and columns are kept."""


@dataclass(frozen=True, slots=True)
class Block:
    """A rectangle of consecutive elements: whole rows, or a piece of one row."""

    start: int
    row: int
    rows: int
    column: int
    columns: int

    @property
    def stop(self) -> int:
        """One past the last flat index."""
        return self.start + self.rows * self.columns


def blocks(rows: int, columns: int) -> Iterator[Block]:
    """The blocks of a [rows, columns] array in memory order."""
    if columns == 0:
        return
    height = max(1, BLOCK // columns)
    for row in range(0, rows, height):
        for column in range(0, columns, BLOCK if height == 1 else columns):
            width = min(BLOCK, columns - column) if height == 1 else columns
            yield Block(row * columns + column, row, min(height, rows - row), column, width)


@dataclass(slots=True)
class Extreme:
    """The largest of a quantity and the first pair of patterns that reached it."""

    value: Any = 0
    index: int = -1
    actual: int = 0
    expected: int = 0

    def offer(self, value: Any, index: int, actual: Any, expected: Any) -> None:
        """Keep the pair if it is larger; ties keep the first, whatever the argument order."""
        if value > self.value:
            self.value, self.index = value, index
            self.actual, self.expected = int(actual), int(expected)


@dataclass(slots=True)
class Lines:
    """How many mismatches each row (or column) holds, as far as a report needs it."""

    total: int
    differing: int = 0
    first: int = -1
    last: int = -1
    worst: list[tuple[int, int]] = field(default_factory=list)

    def add(self, start: int, counts: np.ndarray) -> None:
        """Add the counts of consecutive lines from `start` on; each line comes once."""
        (hit,) = np.nonzero(counts)
        if hit.size == 0:
            return
        self.differing += hit.size
        self.first = start + int(hit[0]) if self.first < 0 else self.first
        self.last = start + int(hit[-1])
        if len(self.worst) == WORST:
            hit = hit[counts[hit] > self.worst[-1][1]]
        hit = hit[np.argsort(-counts[hit].astype(np.int64), kind="stable")[:WORST]]
        candidates = self.worst + [(start + int(i), int(counts[i])) for i in hit]
        self.worst = sorted(candidates, key=lambda line: (-line[1], line[0]))[:WORST]


class Places:
    """Mismatches by row and by column of a [rows, columns] array."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows = Lines(rows)
        self._row = 0
        self._row_count = 0
        # No column holds more mismatches than there are rows.
        self._columns = np.zeros(columns, np.min_scalar_type(rows))

    def add(self, block: Block, mismatch: np.ndarray) -> None:
        """Add the mismatches of a block."""
        grid = mismatch.view(np.uint8).reshape(block.rows, block.columns)
        piece = self._columns[block.column : block.column + block.columns]
        piece += np.add.reduce(grid, axis=0, dtype=np.uint32).astype(piece.dtype)
        counts = np.add.reduce(grid, axis=1, dtype=np.uint32)
        if block.columns == self._columns.size:
            self.rows.add(block.row, counts)
        else:
            self._add_piece(block.row, int(counts[0]))

    def _add_piece(self, row: int, count: int) -> None:
        if row != self._row:
            self._end_row()
            self._row = row
        self._row_count += count

    def _end_row(self) -> None:
        self.rows.add(self._row, np.array([self._row_count]))
        self._row_count = 0

    def finish(self) -> tuple[Lines, Lines]:
        """Rows and columns, once all blocks are in."""
        self._end_row()
        columns = Lines(self._columns.size)
        for start in range(0, columns.total, BLOCK):
            columns.add(start, self._columns[start : start + BLOCK])
        return self.rows, columns


class Tally:
    """Counts and extremes over all blocks; the attributes are those of `BitDiff`."""

    def __init__(self, line: NumberLine, zero_signs: bool, nan_payloads: bool) -> None:
        self.line = line
        self.zero_signs = zero_signs
        self.nan_payloads = nan_payloads
        self.mismatches = self.nan_mismatches = self.nan_pairs = self.payloads = 0
        self.zeros = self.flushed = self.infinite = self.nonfinite = 0
        self.top = 0
        self.histogram = Histogram(line.format.bits)
        self.first, self.first_nan = Extreme(), Extreme()
        self.maximum, self.unflushed, self.difference = Extreme(), Extreme(), Extreme()

    def add(self, start: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray | None:
        """Count a block of patterns from flat index `start`; the mismatches, None if none."""
        if np.array_equal(actual, expected):
            self._add_equal(actual)
            return None
        classes = classify(self.line, actual, expected)
        self._count(classes)
        mismatch = self._mismatches(classes)
        self._offer(start, actual, expected, classes, mismatch)
        return mismatch if mismatch.any() else None

    def _add_equal(self, patterns: np.ndarray) -> None:
        if not self.line.is_float:
            self.histogram.add_zeros(patterns.size)
            return
        magnitude = patterns & self.line.magnitude
        top, nans = magnitude.max(), 0
        if top > self.line.largest_finite:
            self.nonfinite += int(np.count_nonzero(magnitude > self.line.largest_finite))
            nans = int(np.count_nonzero(magnitude > self.line.largest_number))
            top = _largest_finite(magnitude, self.line)
        self.nan_pairs += nans
        self.top = max(self.top, int(top))
        self.histogram.add_zeros(patterns.size - nans)

    def _count(self, classes: Classes) -> None:
        one_nan, both_nan = _size(classes.one_nan), _size(classes.both_nan)
        zeros = _size(classes.zeros)
        self.nan_mismatches += one_nan
        self.nan_pairs += both_nan
        self.zeros += zeros
        self.flushed += _size(classes.flushed)
        self.infinite += _size(classes.infinite)
        self.nonfinite += _size(classes.nonfinite)
        if classes.both_nan is not None:
            self.payloads += _size(classes.both_nan & classes.differ)
        self.histogram.add(
            classes.distances, int(classes.distances.max()), excluded=one_nan + both_nan
        )

    def _mismatches(self, classes: Classes) -> np.ndarray:
        mismatch = classes.differ
        if classes.both_nan is not None and not self.nan_payloads:
            mismatch = mismatch & ~classes.both_nan
        if classes.zeros is not None and not self.zero_signs:
            mismatch = mismatch & ~classes.zeros
        self.mismatches += int(np.count_nonzero(mismatch))
        return mismatch

    def _offer(
        self,
        start: int,
        actual: np.ndarray,
        expected: np.ndarray,
        classes: Classes,
        mismatch: np.ndarray,
    ) -> None:
        def offer(extreme: Extreme, values: np.ndarray, value: Any) -> None:
            # argmax only when the block beats what was seen: rarely, after the first few.
            if value > extreme.value:
                i = int(values.argmax())
                extreme.offer(value, start + i, actual[i], expected[i])

        distances = classes.distances
        offer(self.first, mismatch, int(mismatch.any()))
        if classes.one_nan is not None:
            offer(self.first_nan, classes.one_nan, 1)
        offer(self.maximum, distances, int(distances.max()))
        if classes.flushed is not None:
            distances = np.where(classes.flushed, 0, distances)
        offer(self.unflushed, distances, int(distances.max()))
        if self.line.is_float:
            self._offer_difference(start, actual, expected)
            self._add_magnitudes(actual, expected, classes.top)

    def _offer_difference(self, start: int, actual: np.ndarray, expected: np.ndarray) -> None:
        """Offer the largest |actual − expected|.

        Rounding is monotonic, so only pairs whose difference is largest in the carrier (f32 for
        most formats) can have the largest difference; those few are subtracted again in f64.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            left, right = decode(actual, self.line.format), decode(expected, self.line.format)
            rough = np.abs(left - right)
            # fmax passes over NaN: a NaN on either side, or equal infinities.
            largest = np.fmax.reduce(rough)
            if not largest > 0 or largest < rough.dtype.type(self.difference.value):
                return
            (hits,) = np.nonzero(rough == largest)
            exact = np.abs(left[hits].astype(np.float64) - right[hits].astype(np.float64))
        best = int(exact.argmax())
        i = int(hits[best])
        self.difference.offer(float(exact[best]), start + i, actual[i], expected[i])

    def _add_magnitudes(self, actual: np.ndarray, expected: np.ndarray, top: Any) -> None:
        if top > self.line.largest_finite and self.top < self.line.largest_finite:
            magnitudes = (actual & self.line.magnitude, expected & self.line.magnitude)
            top = max(_largest_finite(each, self.line) for each in magnitudes)
        self.top = max(self.top, min(int(top), int(self.line.largest_finite)))

    def distances(self, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
        """The distances of a block as they were counted: 0 where a NaN is involved."""
        return classify(self.line, actual, expected).distances

    def magnitude(self) -> float | None:
        """The largest finite magnitude in either tensor; None for integers."""
        if not self.line.is_float:
            return None
        word = type(self.line.magnitude)
        return float(decode(np.array([self.top], word), self.line.format)[0])


def _size(mask: np.ndarray | None) -> int:
    return 0 if mask is None else int(np.count_nonzero(mask))


def _largest_finite(magnitude: np.ndarray, line: NumberLine) -> Any:
    return np.where(magnitude > line.largest_finite, 0, magnitude).max()


def shape_2d(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows (all leading dimensions) and columns (the last one) of a shape."""
    return math.prod(shape[:-1]), shape[-1] if shape else 1
