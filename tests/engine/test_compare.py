"""Comparison against a slow one over Python numbers, field by field."""

from __future__ import annotations

import math
from collections import Counter
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness import tally
from exactness.bits import Bits, decode, unsigned
from exactness.compare import BUCKETS, BitDiff, LineCounts, Verdict, compare
from exactness.formats import FORMATS, INTEGERS, Format, tf32

FLOATS = [fmt for fmt in FORMATS.values() if fmt is not tf32]
INTS = [INTEGERS[name] for name in ("bool", "i8", "u16", "i32", "i64")]


def ulps(left: int, right: int, fmt: Format) -> int:
    """Sign and magnitude as Python integers; checked against rationals in test_ulp.py."""
    sign = 1 << (fmt.bits - 1)
    x, y = (-(p - sign) if p >= sign else p for p in (left, right))
    return abs(x - y)


def slow(actual: Bits, expected: Bits) -> dict[str, object]:
    """The fields of a BitDiff, element by element."""
    fmt, found, distances, mismatches = actual.format, Counter(), [], []
    values = zip(
        actual.patterns.ravel().tolist(),
        expected.patterns.ravel().tolist(),
        decode(actual.patterns, fmt).ravel().tolist(),
        decode(expected.patterns, fmt).ravel().tolist(),
        strict=True,
    )
    floating = isinstance(fmt, Format)
    finite, largest, difference = [0.0], (0, 0), (0.0, 0)
    for i, (p, q, x, y) in enumerate(values):
        if p != q and not (x != x and y != y):
            mismatches.append(i)
        finite += [abs(v) for v in (x, y) if math.isfinite(v)]
        found["nonfinite"] += not (math.isfinite(x) and math.isfinite(y))
        if x != x or y != y:
            both = x != x and y != y
            found["nan_pairs" if both else "nan_mismatches"] += 1
            found["payload_differences"] += both and p != q
            continue
        distance = ulps(p, q, fmt) if floating else abs(x - y)
        distances.append(distance)
        largest = max(largest, (distance, -i))
        difference = max(difference, (0.0 if x == y else abs(x - y), -i))
        if floating and distance == 0 and p != q:
            found["zero_sign_differences"] += 1
            continue
        found[next(k for k, _, high in BUCKETS if high is None or distance <= high)] += 1
        if floating:
            low, high = sorted((abs(x), abs(y)))
            found["flushed"] += low == 0 and 0 < high < fmt.smallest_normal
            found["infinity_mismatches"] += x != y and math.isinf(high)
    distances.sort()
    rank = {"median": -(-len(distances) // 2), "p99": -(-len(distances) * 99 // 100)}
    counted = (
        "nan_pairs",
        "nan_mismatches",
        "payload_differences",
        "zero_sign_differences",
        "flushed",
        "infinity_mismatches",
        "nonfinite",
    )
    return {
        "elements": actual.patterns.size,
        "mismatches": len(mismatches),
        "buckets": tuple(found[label] for label, _, _ in BUCKETS),
        **{name: found[name] for name in counted},
        **{name: distances[r - 1] if distances else None for name, r in rank.items()},
        "magnitude": max(finite) if floating else None,
        "extremes": {"maximum": largest, "largest_difference": difference},
        "where": mismatches,
    }


def check(diff: BitDiff, expected: dict[str, object]) -> None:
    for name, value in expected.items():
        if hasattr(diff, name):
            assert getattr(diff, name) == value, name
    for name, (value, negated) in expected["extremes"].items():
        element = getattr(diff, name)
        assert (element is None) == (value == 0), name
        if element is not None:
            assert value == (element.ulps if name == "maximum" else element.difference)
            assert element.index == np.unravel_index(-negated, diff.actual_shape)
    where = [np.unravel_index(i, diff.actual_shape) for i in expected["where"]]
    assert (diff.first and diff.first.index) == (where[0] if where else None)
    assert (diff.verdict is Verdict.DIFFERENT) == bool(where)
    if len(diff.actual_shape) == 2 and diff.elements:
        for axis, lines in enumerate((diff.rows, diff.columns)):
            check_lines(lines, Counter(int(index[axis]) for index in where))


def check_lines(lines: LineCounts, counts: Counter[int]) -> None:
    assert lines.differing == len(counts)
    assert lines.first == min(counts, default=None)
    assert lines.last == max(counts, default=None)
    ordered = sorted(counts.items(), key=lambda line: (-line[1], line[0]))
    assert list(lines.worst) == ordered[:5]


@st.composite
def pairs(draw: st.DrawFn, fmt: Format) -> tuple[Bits, Bits]:
    shape = draw(st.sampled_from([(), (1,), (13,), (1, 9), (9, 1), (5, 7), (30, 2), (2, 3, 4)]))
    size = math.prod(shape)
    top = 1 << fmt.bits
    special = [0, top // 2, 1, top // 2 + 1, top - 1]
    if isinstance(fmt, Format):
        magnitudes = [fmt.nan_pattern, fmt.nan_pattern - 1, 1 << fmt.fraction_bits]
        magnitudes += [fmt.infinity_pattern] if fmt.infinities else []
        special += [m + sign for m in magnitudes for sign in (0, top // 2)]
    one = st.one_of(st.integers(0, top - 1), st.sampled_from(special))
    expected = draw(st.lists(one, min_size=size, max_size=size))
    change = st.one_of(st.just(0), st.just(0), st.just(0), st.sampled_from([1, 2, 15, top // 2]))
    actual = [
        draw(one) if step == 15 else (pattern + step) % top
        for pattern, step in zip(
            expected, draw(st.lists(change, min_size=size, max_size=size)), strict=True
        )
    ]
    word = unsigned(fmt)
    return tuple(Bits(np.array(p, word).reshape(shape), fmt) for p in (actual, expected))


@pytest.mark.parametrize("fmt", FLOATS + INTS, ids=lambda fmt: fmt.name)
@settings(deadline=None, max_examples=40)
@given(data=st.data(), block=st.sampled_from([1, 4, 1 << 15]))
def test_every_field_is_that_of_the_slow_comparison(
    fmt: Format, data: st.DataObject, block: int
) -> None:
    """Whatever the block size: blocks of whole rows, of parts of rows and of everything."""
    actual, expected = data.draw(pairs(fmt))
    with mock.patch.object(tally, "BLOCK", block):
        diff, swapped = compare(actual, expected), compare(expected, actual)
    check(diff, slow(actual, expected))
    for name in ("first", "maximum", "largest_difference", "first_nan"):
        one, other = getattr(diff, name), getattr(swapped, name)
        assert (one and (one.index, one.ulps, one.difference)) == (
            other and (other.index, other.ulps, other.difference)
        )
