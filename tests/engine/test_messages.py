"""The words of a report: each fault is named, and nothing is said that is not so."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from exactness.bits import Bits
from exactness.compare import compare
from exactness.formats import bf16
from exactness.hints import hints
from exactness.jsonable import jsonable
from exactness.messages import report, summary


def grid() -> np.ndarray:
    """[7, 96] bf16 patterns of numbers from 1 to 2, either sign."""
    steps = np.arange(7 * 96).reshape(7, 96)
    return (0x3F80 + steps % 128 + ((steps % 3 == 0) << 15)).astype(np.uint16)


def planted(where: Any = (), pattern: int | None = None) -> str:
    actual = grid()
    if pattern is not None:
        actual[where] = pattern
    return report(compare(Bits(actual, bf16), Bits(grid(), bf16)), name="out")


def test_a_whole_report() -> None:
    """One ulp in one element, read as a person would."""
    assert planted((3, 17), int(grid()[3, 17]) + 1) == "\n".join(
        [
            "out: 1 of 672 elements differ, largest 1 ulp, first at [3, 17]: bf16 [7, 96]",
            "  ulp         0  1  2  3-10  11-100  >100",
            "  elements  671  1  0     0       0     0",
            "  apart     no NaN, zero sign, flush or infinity",
            "  first     [3, 17]: actual 0x3fb2 (1.390625), expected 0x3fb1 (1.3828125), 1 ulp, "
            "|difference| 0.0078125",
            "  maximum   [3, 17], as above",
            "  abs       [3, 17], as above",
            "  rows      1 of 7 hold mismatches: 3 (1)",
            "  columns   1 of 96 hold mismatches: 17 (1)",
            "  overall   median 0 ulp, p99 0 ulp, largest finite magnitude 1.9921875",
        ]
    )


def test_an_equal_pair_still_shows_its_counts() -> None:
    text = planted()
    assert text.startswith("out: all 672 elements equal, largest 0 ulp: bf16 [7, 96]")
    assert "672  0  0" in text
    assert "hint" not in text


@pytest.mark.parametrize(
    ("where", "pattern", "words"),
    [
        (np.s_[1, 1], 0x7FC0, "hint: NaN against a number in 1 element: never small"),
        (np.s_[1, 1], 0x7F80, "hint: infinity against another number in 1 element: overflow?"),
        (np.s_[2], 0, "hint: one row: all mismatches are in row 2 of 7"),
        (np.s_[6], 0, "hint: the tail row: all mismatches are in row 6 of 7"),
        (np.s_[5:7], 0, "hint: tail rows: all mismatches are in rows 5 to 6"),
        (np.s_[:, 5], 0, "hint: one column: all mismatches are in column 5 of 96"),
        (
            np.s_[:, 64:96],
            0,
            "hint: tail columns: all mismatches are in columns 64 to 95",
        ),
        (np.s_[2, 3], 0, "hint: near zero, ulps mislead: the largest distance is a zero against"),
        (
            np.s_[0, 1],
            int(grid()[0, 1]) ^ 0x8000,
            "hint: opposite signs of equal magnitude at the maximum",
        ),
    ],
)
def test_each_fault_is_named(where: Any, pattern: int, words: str) -> None:
    assert words in planted(where, pattern)


def test_columns_in_the_middle_are_no_tail() -> None:
    text = planted(np.s_[:, 30:40], 0)
    assert "10 of 96 hold mismatches" in text
    assert "tail" not in text
    assert "one" not in text


def of(actual: list[float], expected: list[float], **options: bool) -> str:
    pair = np.array(actual, np.float32), np.array(expected, np.float32)
    return report(compare(*pair, **options))


def test_sign_of_zero() -> None:
    text = of([0.0, 1.0], [-0.0, 1.0])
    assert text.startswith("actual: 1 of 2 elements differ, largest 0 ulp (sign of zero)")
    assert "hint: sign of zero: every mismatch is a −0 against +0" in text
    assert "sign of zero: every" not in of([0.0, 1.0], [-0.0, 1.0], zero_signs=False)
    assert "sign of zero: 1 mismatches" in of([0.0, 1.0], [-0.0, 2.0])


def test_flushed_subnormals() -> None:
    text = of([0.0, 1.0], [1e-40, 1.0])
    assert "subnormal flushed 1" in text
    assert "apart from these the largest distance is 0 ulp" in text


def test_cancellation_shows_values_difference_and_magnitude() -> None:
    """0 against 1e-3 is 14,979 bf16 ulps, and less than one ulp of the values around it."""
    actual = Bits(np.array([0x0000, 0x4080], np.uint16), bf16)
    expected = Bits(np.array([0x3A83, 0x4080], np.uint16), bf16)
    text = report(compare(actual, expected))
    assert "hint: cancellation: near zero, ulps mislead" in text
    for part in ("0x3a83", "14979 ulp", "|difference| 0.000999450684", "magnitude 4.0"):
        assert part in text


def test_a_few_ulps_near_zero_are_no_cancellation() -> None:
    assert "near zero" not in of([1e-30, 1.0], [np.nextafter(np.float32(1e-30), 1), 1.0])


def test_all_nan_and_vacuous_say_so() -> None:
    assert "hint: all NaN" in of([np.nan], [np.nan])
    assert "vacuous, no elements to compare" in of([], [])
    array = np.ones(3, np.float32)
    assert "vacuous, actual and expected share memory" in report(compare(array, array))
    overlapping = np.arange(4.0)
    assert "overlap in memory" in report(compare(overlapping[1:], overlapping[:-1]))


def test_infinities_leave_no_nan_in_the_words() -> None:
    text = of([-np.inf, 1.0], [np.inf, 1.0])
    assert "|difference| inf" in text
    assert "nan" not in text


def test_nan_patterns_count_when_asked() -> None:
    pair = [Bits(np.array([p], np.uint16), bf16) for p in (0x7FC0, 0x7FFF)]
    text = report(compare(*pair, nan_payloads=True))
    assert "largest 0 ulp (NaN pattern)" in text
    assert "both NaN" in text
    assert "hint: NaN patterns differ in 1 element" in text


def test_shape_and_format_in_one_line() -> None:
    assert of([1.0], [1.0, 2.0]) == "actual: shape [1], expected [2]"
    diff = compare(np.zeros(2, np.float32), np.zeros(2, np.int32))
    assert summary(diff) == "actual: format f32, expected i32"


def test_rows_of_a_deeper_tensor_have_an_index() -> None:
    actual, expected = np.zeros((2, 3, 4)), np.zeros((2, 3, 4))
    actual[1, 2, :2] = 1
    assert "1 of 6 hold mismatches: [1, 2] (2)" in report(compare(actual, expected))


def test_many_rows_are_cut_short() -> None:
    text = report(compare(np.ones((9, 2)), np.zeros((9, 2))))
    assert "9 of 9 hold mismatches: 0 (2), 1 (2), 2 (2), 3 (2), 4 (2), …" in text


def test_the_record_is_strict_json_with_hex_patterns() -> None:
    actual = np.array([np.inf, np.nan, 1.0], np.float32)
    diff = compare(actual, np.array([-np.inf, 1.0, 1.0], np.float32))
    record = json.loads(json.dumps(jsonable(diff), allow_nan=False))
    assert record["verdict"] == "different"
    assert record["max_ulps"] == "inf"
    assert record["actual_format"] == "f32"
    assert record["buckets"][">100"] == 1
    assert record["maximum"]["actual_bits"] == "0x7f800000"
    assert record["first_nan"]["ulps"] is None
    assert hints(diff)
