import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.formats import f32
from exactness.hopper.flush import flush_operand, fma_ftz, mul_ftz
from exactness.rounding import round_fraction

TINY = Fraction(2) ** -126 * (1 - Fraction(2) ** -25)
patterns = st.integers(0, 2**32 - 1)
moderate = st.floats(-(2.0**-60), 2.0**-60, width=32)  # Products reach both sides of 2^-126.


def single(value):
    return np.float32(value).reshape(1)


def flushed(x):
    x = float(x)
    return math.copysign(0.0, x) if 0 < abs(x) < 2.0**-126 else x


def same(actual, expected):
    actual, expected = float(actual[0]), float(expected)
    if math.isnan(expected):
        return math.isnan(actual)
    return actual == expected and math.copysign(1, actual) == math.copysign(1, expected)


def exact_then_flushed(a, b, c=-0.0):
    """Rational arithmetic for finite operands; IEEE's own rules for zeros and specials."""
    a, b, c = flushed(a), flushed(b), flushed(c)
    plain = float(np.float64(a) * np.float64(b) + np.float64(c))
    if not all(map(math.isfinite, (a, b, c))):
        return plain
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return plain
    if abs(exact) < TINY:
        return math.copysign(0.0, exact)
    return round_fraction(exact, f32)


@settings(deadline=None, max_examples=300)
@given(a=patterns | moderate, b=patterns | moderate)
def test_mul_is_the_flushed_exact_product(a, b):
    a, b = (np.uint32(x).view(np.float32) if isinstance(x, int) else np.float32(x) for x in (a, b))
    with np.errstate(all="ignore"):
        expected = exact_then_flushed(a, b)
    assert same(mul_ftz(single(a), single(b)), expected)


@settings(deadline=None, max_examples=300)
@given(a=moderate, b=moderate, c=st.sampled_from([0.0, -0.0, 2.0**-125, -(2.0**-126), 1e-40]))
def test_fma_is_the_flushed_exact_result(a, b, c):
    expected = exact_then_flushed(a, b, np.float32(c))
    assert same(fma_ftz(single(a), single(b), single(c)), expected)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_products_just_below_the_smallest_normal_are_flushed(sign):
    below = mul_ftz(single(sign * (1 - 2.0**-24)), single(2.0**-126))
    assert same(below, math.copysign(0.0, sign))
    assert same(mul_ftz(single(sign), single(2.0**-126)), sign * 2.0**-126)


def test_operands():
    x = np.array([1e-40, -1e-40, 0.0, -0.0, 2.0**-126, math.inf, -1.5], np.float32)
    expected = np.array([0.0, -0.0, 0.0, -0.0, 2.0**-126, math.inf, -1.5], np.float32)
    assert flush_operand(x).tobytes() == expected.tobytes()
    assert math.isnan(flush_operand(np.full(1, math.nan, np.float32))[0])
