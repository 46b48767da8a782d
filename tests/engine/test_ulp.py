"""Ulp distances against an implementation over rationals that never looks at a bit pattern."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.bits import Bits, decode, ordered_keys, unsigned
from exactness.formats import FORMATS, INTEGERS, Format, bf16, e4m3fn, e5m2, f16, f32, f64
from exactness.ulp import number_line, spacing, ulp_distance

FLOATS = [fmt for fmt in FORMATS.values() if fmt.name != "tf32"]


def position(value: Fraction | float, fmt: Format) -> int:
    """How many numbers of the format lie in (0, value], counted with rationals; odd."""
    if value in (float("inf"), float("-inf")):
        beyond = position(Fraction(fmt.largest), fmt) + 1
        return beyond if value > 0 else -beyond
    value = Fraction(value)
    if value < 0:
        return -position(-value, fmt)
    exponent = fmt.min_exponent
    below = 0
    while value >= Fraction(2) ** (exponent + 1):
        # The first binade comes with the subnormal numbers, which are as many.
        below += (1 if exponent > fmt.min_exponent else 2) << fmt.fraction_bits
        exponent += 1
    start = Fraction(2) ** exponent if exponent > fmt.min_exponent else Fraction(0)
    steps = (value - start) / Fraction(2) ** (exponent - fmt.fraction_bits)
    assert steps.denominator == 1
    return below + int(steps)


def bits(*patterns: int, fmt: Format) -> Bits:
    return Bits(np.array(patterns, unsigned(fmt)), fmt)


@st.composite
def pattern_pairs(draw: st.DrawFn, fmt: Format) -> tuple[int, int]:
    every = st.integers(0, (1 << fmt.bits) - 1)
    first = draw(every)
    near = st.integers(-3, 3).map(lambda step: (first + step) % (1 << fmt.bits))
    flipped = st.just(first ^ (1 << (fmt.bits - 1)))
    return first, draw(st.one_of(every, near, flipped))


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda fmt: fmt.name)
@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_distance_is_that_of_the_rational_number_line(fmt: Format, data: st.DataObject) -> None:
    left, right = data.draw(pattern_pairs(fmt))
    found = int(ulp_distance(bits(left, fmt=fmt), bits(right, fmt=fmt))[0])
    assert found == int(ulp_distance(bits(right, fmt=fmt), bits(left, fmt=fmt))[0])
    x, y = decode(bits(left, right, fmt=fmt).patterns, fmt).tolist()
    if x != x or y != y:
        assert found == (0 if x != x and y != y else (1 << fmt.bits) - 1)
    else:
        assert found == abs(position(x, fmt) - position(y, fmt))


@pytest.mark.parametrize("fmt", [bf16, f16, e5m2, e4m3fn], ids=lambda fmt: fmt.name)
def test_sorted_numbers_are_one_apart(fmt: Format) -> None:
    """Every number of the small formats, in the order NumPy sorts their values."""
    patterns = np.arange(1 << fmt.bits).astype(unsigned(fmt))
    values = decode(patterns, fmt)
    numbers = patterns[~np.isnan(values) & (patterns != 1 << (fmt.bits - 1))]
    ascending = numbers[np.argsort(decode(numbers, fmt))]
    steps = ulp_distance(Bits(ascending[1:], fmt), Bits(ascending[:-1], fmt))
    assert (steps == 1).all()
    assert int(ulp_distance(Bits(ascending[:1], fmt), Bits(ascending[-1:], fmt))[0]) == (
        ascending.size - 1
    )


@pytest.mark.parametrize(
    ("fmt", "actual", "expected", "distance"),
    [
        (f32, -3e38, 3e38, 4_274_217_932),
        (f32, 1e-45, -1e-45, 2),
        (f32, 0.0, -0.0, 0),
        (f32, float("inf"), 3.4028234663852886e38, 1),
        (f32, float("inf"), float("-inf"), 2 * 0x7F800000),
        (bf16, -66.0, -65.5, 1),
        (bf16, 0.0, 0.00099945068359375, 14_979),
        (bf16, 1.9921875, 2.0, 1),
        (bf16, 2.0, 2.015625, 1),
        (f64, -1.7976931348623157e308, 1.7976931348623157e308, 2 * 0x7FEFFFFFFFFFFFFF),
    ],
)
def test_distances_worked_out_by_hand(
    fmt: Format, actual: float, expected: float, distance: int
) -> None:
    carrier = np.float64 if fmt is f64 else np.float32
    pair = np.array([actual, expected], carrier)
    patterns = (pair.view(np.uint32) >> 16).astype(np.uint16) if fmt is bf16 else pair
    both = Bits(patterns, fmt) if fmt is bf16 else Bits.of(patterns)
    left, right = Bits(both.patterns[:1], fmt), Bits(both.patterns[1:], fmt)
    assert int(ulp_distance(left, right)[0]) == distance


def test_bf16_across_zero() -> None:
    """1e-38 against −1e-38 in bf16 is 218 apart: 109 subnormal steps on either side."""
    assert int(ulp_distance(bits(0x006D, fmt=bf16), bits(0x806D, fmt=bf16))[0]) == 218


@pytest.mark.parametrize("fmt", INTEGERS.values(), ids=lambda fmt: fmt.name)
def test_integers_are_as_far_apart_as_their_values(fmt: Format) -> None:
    rng = np.random.default_rng(3)
    patterns = rng.integers(0, 1 << fmt.bits, (2, 200), dtype=np.uint64).astype(unsigned(fmt))
    patterns[:, :2] = [[0, (1 << fmt.bits) - 1], [(1 << (fmt.bits - 1)), 0]]
    values = decode(patterns, fmt).tolist()
    found = ulp_distance(Bits(patterns[0], fmt), Bits(patterns[1], fmt)).tolist()
    assert found == [abs(a - b) for a, b in zip(*values, strict=True)]


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
def test_keys_are_the_ordered_keys_of_bits(fmt: Format) -> None:
    rng = np.random.default_rng(5)
    patterns = rng.integers(0, 1 << fmt.bits, 500, dtype=np.uint64).astype(unsigned(fmt))
    patterns &= unsigned(fmt).type(((1 << fmt.bits) - 1) ^ ((1 << fmt.padding) - 1))
    keys = number_line(fmt).keys(patterns).tolist()
    middle = 1 << (fmt.bits - 1)
    assert [key - middle for key in keys] == ordered_keys(patterns, fmt).tolist()


def test_spacing_is_the_step_to_the_next_number() -> None:
    for value in (np.float32(1.0), np.float32(1.9999999), np.float32(1e-40), np.float32(7e30)):
        assert spacing(float(value), f32) == float(np.spacing(value))
    assert spacing(0.0, bf16) == bf16.smallest_subnormal


def test_shapes_and_formats_must_agree() -> None:
    with pytest.raises(TypeError, match="actual is f32, expected is f64"):
        ulp_distance(np.zeros(2, np.float32), np.zeros(2))
    with pytest.raises(ValueError, match=r"actual has shape \(2,\), expected \(3,\)"):
        ulp_distance(np.zeros(2), np.zeros(3))
    assert ulp_distance(np.zeros((0, 3)), np.zeros((0, 3))).shape == (0, 3)
