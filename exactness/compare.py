"""Compare two tensors bit by bit: the data. `exactness.messages` puts it into words.

Every pair of elements belongs to exactly one of these classes:

* both NaN; a NaN against a number; +0 against −0;
* or one of the buckets of ulp distance, in the tensors' own format.

The tensors stream past in blocks, so memory-mapped files larger than memory can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from exactness.aliasing import same_memory
from exactness.bitdiff import BUCKETS, BitDiff, Element, LineCounts, Verdict
from exactness.bits import Bits, decode, is_torch, unsigned
from exactness.formats import Format
from exactness.tally import Extreme, Lines, Places, Tally, blocks, shape_2d
from exactness.ulp import number_line

__all__ = ["BUCKETS", "BitDiff", "Element", "LineCounts", "Verdict", "as_bits", "compare"]

QUANTILES = ((1, 2), (99, 100))
"""Median and p99, as fractions of the comparable elements."""


def compare(
    actual: Any, expected: Any, *, zero_signs: bool = True, nan_payloads: bool = False
) -> BitDiff:
    """Compare two tensors bit by bit.

    Args:
        actual: `Bits`, NumPy array or torch tensor (any device, any strides), any shape.
        expected: the same. Nothing is converted or broadcast: other shapes and formats differ.
        zero_signs: +0 and −0 are a mismatch.
        nan_payloads: NaN with different patterns are a mismatch; else a NaN is a NaN.

    Returns:
        The counts, extremes and places of the differences. Swapping the arguments swaps the
        values but changes no index, count or distance.

    Raises:
        TypeError: an argument is not a dense tensor of a known dtype.
        ValueError: tf32 patterns with padding bits set.
    """
    shared = same_memory(actual, expected)
    left, right = as_bits(actual, "actual"), as_bits(expected, "expected")
    kinds: dict[str, Any] = {
        "actual_format": left.format,
        "expected_format": right.format,
        "actual_shape": left.shape,
        "expected_shape": right.shape,
        "zero_signs": zero_signs,
        "nan_payloads": nan_payloads,
        "same_memory": shared,
    }
    if left.format != right.format or left.shape != right.shape or left.patterns.size == 0:
        return BitDiff(**kinds)
    return BitDiff(**kinds, **_measure(left, right, zero_signs, nan_payloads))


def as_bits(tensor: Any, name: str) -> Bits:
    """The bits of a tensor.

    Args:
        tensor: `Bits`, NumPy array or torch tensor.
        name: what to call it in an error.

    Raises:
        TypeError: not a dense tensor of a known dtype with data.
    """
    if is_torch(tensor):
        if tensor.is_meta or tensor.is_quantized or str(tensor.layout) != "torch.strided":
            raise TypeError(
                f"{name}: a {tensor.layout} tensor on {tensor.device} of {tensor.dtype} has no "
                "plain bit patterns; dense tensors with data are accepted"
            )
    elif isinstance(tensor, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array; choose what its masked elements are first")
    try:
        return Bits.of(tensor)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None


def _measure(left: Bits, right: Bits, zero_signs: bool, nan_payloads: bool) -> dict[str, Any]:
    """The fields of `BitDiff` that come from the elements."""
    tally = Tally(number_line(left.format), zero_signs, nan_payloads)
    rows, columns = shape_2d(left.shape)
    places = Places(rows, columns) if len(left.shape) > 1 else None
    for block, actual, expected in _pairs(left, right):
        mismatch = tally.add(block.start, actual, expected)
        if places is not None and mismatch is not None:
            places.add(block, mismatch)
    by_row, by_column = (None, None) if places is None else places.finish()

    def again() -> Iterator[np.ndarray]:
        for _, actual, expected in _pairs(left, right):
            if not np.array_equal(actual, expected):
                yield tally.distances(actual, expected)

    return {
        **_counts(tally, left.patterns.size),
        **_extremes(tally, left),
        **_quantiles(tally, again),
        "rows": _line_counts(by_row),
        "columns": _line_counts(by_column),
    }


def _pairs(left: Bits, right: Bits) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """The blocks of both tensors, as 1-D patterns in memory order of the shape."""
    padding = left.format.padding if isinstance(left.format, Format) else 0
    actual, expected = _flat(left.patterns), _flat(right.patterns)
    for block in blocks(*shape_2d(left.shape)):
        pair = actual[block.start : block.stop], expected[block.start : block.stop]
        if padding and ((pair[0] | pair[1]) & ((1 << padding) - 1)).any():
            raise ValueError(f"{left.format.name} patterns with the low {padding} bits set")
        yield block, *pair


def _flat(patterns: np.ndarray) -> Any:
    """Something to cut 1-D pieces from: a view if contiguous, else an iterator that copies."""
    plain = np.asarray(patterns)
    return plain.reshape(-1) if plain.flags.c_contiguous else plain.flat


def _counts(tally: Tally, elements: int) -> dict[str, Any]:
    inner = [tally.histogram.between(low, high) for _, low, high in BUCKETS if high is not None]
    inner[0] -= tally.zeros
    numbers = elements - tally.nan_pairs - tally.nan_mismatches - tally.zeros
    return {
        "elements": elements,
        "mismatches": tally.mismatches,
        "buckets": (*inner, numbers - sum(inner)),
        "nan_mismatches": tally.nan_mismatches,
        "nan_pairs": tally.nan_pairs,
        "payload_differences": tally.payloads,
        "zero_sign_differences": tally.zeros,
        "flushed": tally.flushed,
        "infinity_mismatches": tally.infinite,
        "nonfinite": tally.nonfinite,
        "magnitude": tally.magnitude(),
    }


def _extremes(tally: Tally, like: Bits) -> dict[str, Any]:
    difference = tally.difference if tally.line.is_float else tally.maximum
    found = {
        "first": tally.first,
        "first_nan": tally.first_nan,
        "maximum": tally.maximum,
        "maximum_unflushed": tally.unflushed,
        "largest_difference": difference,
    }
    return {name: _element(extreme, like) for name, extreme in found.items()}


def _element(extreme: Extreme, like: Bits) -> Element | None:
    if extreme.index < 0:
        return None
    pair = np.array([extreme.actual, extreme.expected], unsigned(like.format))
    actual, expected = decode(pair, like.format).tolist()
    ulps: int | None = int(number_line(like.format).distances(pair[:1], pair[1:])[0])
    difference: float | None = abs(actual - expected)
    if actual != actual or expected != expected:
        ulps = difference = None
    return Element(
        index=tuple(int(i) for i in np.unravel_index(extreme.index, like.shape)),
        actual_bits=extreme.actual,
        expected_bits=extreme.expected,
        actual=actual,
        expected=expected,
        ulps=ulps,
        difference=difference,
    )


def _quantiles(tally: Tally, again: Any) -> dict[str, int | None]:
    found = tally.histogram.quantiles(QUANTILES, again)
    median, p99 = (None, None) if found is None else found
    return {"median": median, "p99": p99}


def _line_counts(lines: Lines | None) -> LineCounts | None:
    if lines is None:
        return None
    return LineCounts(
        total=lines.total,
        differing=lines.differing,
        first=None if lines.first < 0 else lines.first,
        last=None if lines.last < 0 else lines.last,
        worst=tuple(lines.worst),
    )
