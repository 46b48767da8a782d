import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.hopper.division import div_full
from exactness.hopper.special import rcp_approx

inf = math.inf
FTZ = pytest.mark.parametrize("ftz", [True, False], ids=lambda ftz: f"ftz={ftz}")
patterns = st.lists(st.integers(0, 2**32 - 1), min_size=32, max_size=32)


def f32(*values):
    return np.array(values, np.float32)


def from_patterns(values):
    return np.array(values, np.uint32).view(np.float32)


def assert_same_bits(actual, expected):
    assert actual.dtype == expected.dtype == np.float32
    different = actual.view(np.int32) != expected.view(np.int32)
    different &= ~(np.isnan(actual) & np.isnan(expected))
    assert not different.any(), f"{actual[different][:4]} are not {expected[different][:4]}"


@FTZ
def test_is_not_ieee_division(ftz):
    quotient = div_full(f32(4.6875), f32(0.9375), ftz=ftz)
    assert quotient.view(np.uint32).tolist() == [0x40A00001]  # As printed by a GPU; exact: 5.


@FTZ
@settings(deadline=None, max_examples=100)
@given(a=patterns, b=patterns)
def test_middle_range_is_a_product_with_the_reciprocal(ftz, a, b):
    a, b = from_patterns(a), from_patterns(b)
    exponent = np.array(b.view(np.int32) >> 23 & 0xFF)
    middle = (exponent >= 1) & (exponent < 253)
    with np.errstate(all="ignore"):
        product = a.astype(np.float64)[middle] * rcp_approx(b[middle], ftz=True).astype(np.float64)
        expected = product.astype(np.float32)
    normal = (np.abs(a[middle]) >= 2.0**-126) & (np.abs(product) >= 2.0**-126)
    assert_same_bits(div_full(a, b, ftz=ftz)[middle][normal], expected[normal])


@FTZ
@settings(deadline=None, max_examples=100)
@given(a=patterns, b=patterns)
def test_huge_divisors_are_scaled_down(ftz, a, b):
    a, b = from_patterns(a), from_patterns(b)
    b = ((b.view(np.int32) & 0x807FFFFF - (1 << 32)) | (253 << 23)).view(np.float32)
    b = np.where(np.abs(b) == 2.0**126, f32(2.0**127), b)
    a = np.where(np.abs(a) < 2.0**-124, f32(1.0), a)
    with np.errstate(all="ignore"):
        expected = div_full(a / f32(4.0), b / f32(4.0), ftz=ftz)
    assert_same_bits(div_full(a, b, ftz=ftz), expected)


@settings(deadline=None, max_examples=100)
@given(a=patterns, b=st.lists(st.integers(-(2**23) + 1, 2**23 - 1), min_size=32, max_size=32))
def test_subnormal_divisors_are_scaled_up(a, b):
    a, b = from_patterns(a), np.array(b, np.float64) * 2.0**-149
    up = f32(2.0**24)
    with np.errstate(all="ignore"):
        b = b.astype(np.float32)
        expected = div_full(a * up, b * up, ftz=False)
    assert_same_bits(div_full(a, b, ftz=False), expected)


@FTZ
@settings(deadline=None, max_examples=100)
@given(a=patterns, b=patterns)
def test_error_is_at_most_2_ulp(ftz, a, b):
    a, b = from_patterns(a), from_patterns(b)
    with np.errstate(all="ignore"):
        exact = a.astype(np.float64) / b.astype(np.float64)
    bounded = np.isfinite(exact) & (np.abs(exact) >= 2.0**-120) & (np.abs(exact) < 2.0**127)
    bounded &= (np.abs(b) >= 2.0**-126) & (np.abs(a) >= 2.0**-124)
    actual = div_full(a, b, ftz=ftz)[bounded].astype(np.float64)
    ulp = 2.0 ** (np.floor(np.log2(np.abs(exact[bounded]))) - 23)
    assert np.all(np.abs(actual - exact[bounded]) <= 2 * ulp)


@FTZ
def test_zeros_infinities_and_nan_divide_as_in_ieee(ftz):
    values = f32(0.0, -0.0, inf, -inf, math.nan, 1.0, -3.0, 2.0**126, -(2.0**127))
    a, b = values[:, None], values[:5]
    with np.errstate(all="ignore"):
        assert_same_bits(div_full(a, b, ftz=ftz), a / b)
        assert_same_bits(div_full(b, a, ftz=ftz)[:5], (b / a)[:5])


def test_ftz_flushes_operands_and_results():
    a = f32(1e-40, -1e-40, 1.0, 1.0, 2.0**-126, 2.0**-125, -(2.0**-126))
    b = f32(1e-40, 2.0**-126, 1e-40, -1e-40, 2.0, 2.0, 2.0**127)
    expected = f32(math.nan, -0.0, inf, -inf, 0.0, 2.0**-126, -0.0)
    assert_same_bits(div_full(a, b, ftz=True), expected)


def test_without_ftz_subnormals_are_kept():
    a = f32(2.0**-149, -(2.0**-127), 1.0, 2.0**-126, 2.0**-149)
    b = f32(2.0**-149, 2.0**-126, 2.0**127, 8.0, 4.0)
    expected = f32(1.0, -0.5, 2.0**-127, 2.0**-129, 0.0)
    assert_same_bits(div_full(a, b, ftz=False), expected)


@FTZ
def test_tensors_give_the_same_bits(ftz):
    torch = pytest.importorskip("torch")
    bits = np.random.default_rng(7).integers(0, 2**32, (2, 4096), np.uint32)
    a, b = bits.view(np.float32)
    actual = div_full(torch.from_numpy(a.copy()), torch.from_numpy(b.copy()), ftz=ftz)
    assert_same_bits(actual.numpy(), div_full(a, b, ftz=ftz))


@FTZ
def test_shapes_broadcast(ftz):
    a, b = np.ones((3, 1), np.float32), np.full((1, 4), 2.0, np.float32)
    assert_same_bits(div_full(a, b, ftz=ftz), np.full((3, 4), 0.5, np.float32))
    assert div_full(a[:0], b, ftz=ftz).shape == (0, 4)
    assert np.shape(div_full(f32(1.0)[0], f32(2.0)[0], ftz=ftz)) == ()


def test_other_dtypes_are_refused():
    with pytest.raises(TypeError, match="b: dtype float64; float32 is accepted"):
        div_full(np.ones(2, np.float32), np.ones(2), ftz=True)


@FTZ
def test_floating_point_traps_do_not_fire(ftz):
    bits = np.random.default_rng(11).integers(0, 2**32, (2, 4096), np.uint32)
    with np.errstate(all="raise"):
        div_full(*bits.view(np.float32), ftz=ftz)
