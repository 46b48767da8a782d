"""Rounding against a second implementation over rationals, NumPy and ml_dtypes."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from exactness import bits
from exactness.blocks import BLOCK
from exactness.formats import FORMATS, Format, bf16, e4m3fn, e5m2, f16, f32, f64, tf32
from exactness.rounding import Rounding, host_constant, round_fraction, round_to

CARRIERS = {"float32": f32, "float64": f64}
NARROW = [tf32, bf16, f16, e5m2, e4m3fn]
TARGETS = [(name, fmt) for name in CARRIERS for fmt in NARROW] + [("float64", f32)]
NEAREST = (Rounding.NEAREST_EVEN, Rounding.NEAREST_AWAY)


def by_definition(value: Fraction, fmt: Format, mode: Rounding) -> float:
    """The value in units of its last place, rounded by Python's own integer functions."""
    magnitude, exponent = abs(value), fmt.min_exponent
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - fmt.fraction_bits)
    units = value / unit
    whole = {
        Rounding.NEAREST_EVEN: round(units),
        Rounding.NEAREST_AWAY: math.floor(abs(units) + Fraction(1, 2)) * (1 if units > 0 else -1),
        Rounding.TOWARD_ZERO: math.trunc(units),
        Rounding.UP: math.ceil(units),
        Rounding.DOWN: math.floor(units),
        Rounding.TO_ODD: math.floor(units) if math.floor(units) % 2 else math.ceil(units),
    }[mode]
    sign = -1.0 if value < 0 else 1.0
    if abs(whole * unit) <= Fraction(fmt.largest):
        return math.copysign(float(whole * unit), sign)
    stays = (value < 0 and mode is Rounding.UP) or (value > 0 and mode is Rounding.DOWN)
    if stays or mode in (Rounding.TOWARD_ZERO, Rounding.TO_ODD):
        return math.copysign(fmt.largest, sign)
    return math.copysign(math.inf, sign) if fmt.infinities else math.nan


@st.composite
def values_near(draw: st.DrawFn, carrier: str, fmt: Format) -> float:
    """Any pattern of the carrier, or a value a few of its ulps from a midpoint of the target."""
    wide, dtype = CARRIERS[carrier], np.dtype(carrier).type
    if draw(st.booleans()):
        pattern = np.array([draw(st.integers(0, (1 << wide.bits) - 1))], bits.unsigned(wide))
        return dtype(pattern.view(dtype)[0])
    pattern = draw(st.integers(0, (1 << (fmt.bits - 1)) - 2)) >> fmt.padding << fmt.padding
    pair = np.array([pattern, pattern + (1 << fmt.padding)], bits.unsigned(fmt))
    low, high = map(float, bits.decode(pair, fmt))
    part = draw(st.sampled_from([0.0, 0.25, 0.5, 0.75]))
    value = dtype(low + (high - low) * part) if np.isfinite(high - low) else dtype(fmt.largest)
    for _ in range(draw(st.integers(0, 2))):
        value = np.nextafter(value, dtype(draw(st.sampled_from([-np.inf, np.inf]))))
    return -value if draw(st.booleans()) else value


def same(actual: float, expected: float) -> bool:
    """Equal, the sign of zero included; any NaN equals any NaN."""
    if math.isnan(expected):
        return math.isnan(actual)
    return actual == expected and math.copysign(1, actual) == math.copysign(1, expected)


@pytest.mark.parametrize(("carrier", "fmt"), TARGETS, ids=lambda x: getattr(x, "name", x))
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_arrays_round_as_rationals_do(carrier: str, fmt: Format, data: st.DataObject) -> None:
    values = data.draw(st.lists(values_near(carrier, fmt), min_size=1, max_size=6))
    array = np.array(values, carrier)
    for mode in Rounding:
        rounded = round_to(array, fmt, mode)
        assert rounded.dtype == array.dtype
        assert rounded.shape == array.shape
        bits.encode(rounded, fmt)
        for value, found in zip(array.tolist(), rounded.tolist(), strict=True):
            if math.isfinite(value):
                exact = Fraction(value)
                expected = by_definition(exact, fmt, mode) if value else value
                assert same(found, expected), (value, found, expected, mode)
                assert not value or same(round_fraction(exact, fmt, mode), expected)
            else:
                assert same(found, value if fmt.infinities else math.nan)


@settings(deadline=None, max_examples=200)
@given(
    numerator=st.integers(-(2**80), 2**80),
    denominator=st.integers(1, 2**160),
    fmt=st.sampled_from(list(FORMATS.values())),
    mode=st.sampled_from(Rounding),
)
def test_any_rational_rounds_by_the_definition(
    numerator: int, denominator: int, fmt: Format, mode: Rounding
) -> None:
    """Thirds and sevenths, too, which no array holds: the ground of host constants and fma."""
    assume(numerator)
    value = Fraction(numerator, denominator)
    assert same(round_fraction(value, fmt, mode), by_definition(value, fmt, mode))


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("mode", Rounding)
def test_overflow_follows_the_mode(fmt: Format, mode: Rounding) -> None:
    """At the largest number, around the tie above it, and far beyond, on both sides of zero."""
    ulp = Fraction(2) ** (fmt.max_exponent - fmt.fraction_bits)
    largest = Fraction(fmt.largest)
    steps = [Fraction(0), ulp / 4, ulp / 2, ulp / 2 + ulp / 8, ulp, largest]
    for magnitude in [largest + step for step in steps]:
        for value in (magnitude, -magnitude):
            expected = by_definition(value, fmt, mode)
            assert same(round_fraction(value, fmt, mode), expected)
            if fmt is not f64:
                assert same(float(round_to(np.array([float(value)]), fmt, mode)[0]), expected)


@pytest.mark.parametrize("fmt", [bf16, e5m2, e4m3fn], ids=lambda fmt: fmt.name)
def test_a_million_f32_round_as_ml_dtypes_does(fmt: Format) -> None:
    dtype = {bf16: ml_dtypes.bfloat16, e5m2: ml_dtypes.float8_e5m2}.get(fmt)
    dtype = dtype or ml_dtypes.float8_e4m3fn
    x = np.random.default_rng(7).integers(0, 1 << 32, 1 << 18, np.uint64).astype(np.uint32)
    x[: 1 << 16] = np.arange(1 << 16) << 16 | 0x8000  # every midpoint of bf16
    values = x.view(np.float32)
    with np.errstate(all="ignore"):
        expected = values.astype(dtype).astype(np.float32)
    rounded = round_to(values, fmt)
    number = ~np.isnan(expected)
    assert np.array_equal(np.isnan(rounded), ~number)
    assert np.array_equal(rounded[number].view(np.uint32), expected[number].view(np.uint32))


def test_f64_to_f16_and_f32_as_numpy_does() -> None:
    x = np.random.default_rng(8).integers(0, 1 << 63, 1 << 17, np.uint64).view(np.float64)
    x = np.append(x, np.random.default_rng(9).standard_normal(1 << 17) * 2.0**-16)
    with np.errstate(all="ignore"):
        half, single = x.astype(np.float16), x.astype(np.float32)
    assert np.array_equal(round_to(x, f16), half.astype(np.float64), equal_nan=True)
    assert np.array_equal(round_to(x, f32), single.astype(np.float64), equal_nan=True)


def test_c13_one_rounding_from_f64() -> None:
    """C13: by way of f32 the tie goes down; numpy's f64 to f16 agrees with the one rounding."""
    for value, fmt, right in [
        (1 + 2**-8 + 2**-40, bf16, 1.0078125),
        (1 + 2**-11 + 2**-40, f16, 1.0009765625),
    ]:
        assert round_to(np.array([value]), fmt).tolist() == [right]
        assert host_constant(value, fmt) == right
        assert round_to(np.array([value], np.float32), fmt).tolist() == [1.0]


@pytest.mark.parametrize("number", [16842753, np.int64(16842753), 16842753.0])
def test_c14_integers_round_once(number: float) -> None:
    """C14: 16842753 is 0x4b81 in bf16; through f32 it would be 0x4b80."""
    assert bits.encode(np.array([host_constant(number, bf16)]), bf16).tolist() == [0x4B81]
    through_f32 = round_to(np.array([number], np.float32), bf16)
    assert bits.encode(through_f32, bf16).tolist() == [0x4B80]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_c15_ties_and_overflow_to_bf16(carrier: str) -> None:
    """C15: ties to even, above a tie up, 3.4e38 to infinity."""
    values = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 3.4e38, -3.4e38], carrier)
    patterns = bits.encode(round_to(values, bf16), bf16)
    assert patterns.tolist() == [0x3F80, 0x3F82, 0x3F81, 0x7F80, 0xFF80]


def test_c18_e4m3fn_beyond_its_largest_number() -> None:
    """C18: the pinned table is ml_dtypes': 464 is a tie to 448, from 465 up NaN."""
    values = np.array([448, 464, 465, 1000, -1000, np.inf, np.nan], np.float32)
    expected = np.array([448, 448] + [np.nan] * 5, np.float32)
    assert np.array_equal(round_to(values, e4m3fn), expected, equal_nan=True)
    with np.errstate(all="ignore"):
        theirs = values.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert np.array_equal(theirs, expected, equal_nan=True)


@pytest.mark.parametrize("fmt", NARROW, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("mode", Rounding)
def test_c46_nan_with_low_bits_only_stays_nan(fmt: Format, mode: Rounding) -> None:
    """C46: adding 0x7fff would turn these into infinity, −0 and −infinity."""
    nans = np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF], np.uint32)
    assert np.isnan(round_to(nans.view(np.float32), fmt, mode)).all()
    wide = np.array([0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF], np.uint64).view(np.float64)
    assert np.isnan(round_to(wide, fmt, mode)).all()


@pytest.mark.parametrize("kind", [int, np.int64, np.uint64])
def test_c14_integers_do_not_pass_through_f64(kind: type) -> None:
    """2^60 + 2^52 is a tie of bf16; the 1 above it is lost in f64, and with it the rounding up."""
    number = kind(2**60 + 2**52 + 1)
    assert host_constant(number, bf16) == 2.0**60 + 2.0**53
    assert host_constant(float(number), bf16) == 2.0**60


def test_c79_the_largest_f32_is_infinite_as_a_bf16_constant() -> None:
    """C79: −FLT_MAX, a favourite mask value, is −inf once a bf16 kernel receives it."""
    assert host_constant(-f32.largest, bf16) == -math.inf
    assert host_constant(-bf16.largest, bf16) == -bf16.largest


def test_host_constants_of_other_numbers() -> None:
    assert host_constant(0.1, f32) == float(np.float32(0.1))
    assert host_constant(0.1, f64) == 0.1
    assert host_constant(np.float32(0.1), f64) == float(np.float32(0.1))
    assert host_constant(2**53 + 1, f64) == 2.0**53
    assert host_constant(10**400, f32) == math.inf
    assert host_constant(-(10**400), f64) == -math.inf
    assert same(host_constant(0, bf16), 0.0)
    assert same(host_constant(-0.0, bf16), -0.0)
    assert host_constant(math.inf, f16) == math.inf
    assert math.isnan(host_constant(math.inf, e4m3fn))
    assert math.isnan(host_constant(math.nan, bf16))
    assert host_constant(True, f16) == 1.0


def test_what_needs_no_rounding_comes_back() -> None:
    x, y = np.array([0.1, np.nan]), np.array([0.1], np.float32)
    assert round_to(x, f64) is x
    assert round_to(y, f32, Rounding.UP) is y
    assert round_to(y, f64) is y


@pytest.mark.parametrize("x", [np.arange(3), np.zeros(2, np.float16), torch.zeros(2).bfloat16()])
def test_other_dtypes_are_refused(x: np.ndarray) -> None:
    with pytest.raises(TypeError, match=r"x: dtype \w+ cannot be rounded; float32 or float64"):
        round_to(x, bf16)


@pytest.mark.parametrize("fmt", NARROW, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("carrier", CARRIERS)
def test_shapes_layouts_and_blocks_do_not_matter(carrier: str, fmt: Format) -> None:
    x = np.random.default_rng(3).standard_normal((3, BLOCK + 5)).astype(carrier)
    whole = round_to(x, fmt)
    assert np.array_equal(round_to(np.asfortranarray(x), fmt), whole)
    assert np.array_equal(round_to(x[::-1, ::3], fmt), whole[::-1, ::3])
    for i in (0, BLOCK - 1, BLOCK, BLOCK + 4):
        assert np.array_equal(round_to(x[1, i], fmt), whole[1, i])
    assert round_to(x[:0], fmt).shape == (0, BLOCK + 5)
    assert round_to(x[0, 0].reshape(()), fmt).shape == ()


@pytest.mark.parametrize("fmt", [*NARROW, f32], ids=lambda fmt: fmt.name)
def test_no_floating_point_error_is_raised(fmt: Format) -> None:
    """A caller that makes NumPy raise must not be surprised by NaN, overflow or subnormals."""
    patterns = np.array([0x7F800001, 0x7F7FFFFF, 1, 0xFF800000], np.uint32).view(np.float32)
    with np.errstate(all="raise"):
        for mode in Rounding:
            round_to(patterns, fmt, mode)
            round_to(np.array([1e308, np.inf, np.nan, 5e-324]), fmt, mode)


@pytest.mark.parametrize("mode", Rounding)
@pytest.mark.parametrize(("carrier", "fmt"), TARGETS, ids=lambda x: getattr(x, "name", x))
def test_torch_gives_the_same_bits(carrier: str, fmt: Format, mode: Rounding) -> None:
    """The code that runs on CUDA tensors, on CPU tensors: all of its steps are exact there."""
    wide = CARRIERS[carrier]
    rng = np.random.default_rng(11)
    x = rng.integers(0, 1 << wide.bits, 4000, np.uint64).astype(bits.unsigned(wide)).view(carrier)
    x[:2000] = rng.standard_normal(2000) * np.exp2(rng.integers(-20, 12, 2000))
    x[1000:1500] = round_to(x[1000:1500], fmt) * (1 + 2.0**-fmt.precision)  # midpoints
    expected = round_to(x, fmt, mode)
    found = round_to(torch.from_numpy(x.copy()), fmt, mode)
    assert found.dtype is getattr(torch, carrier)
    assert np.array_equal(bits.encode(found.numpy(), fmt), bits.encode(expected, fmt))
    strided = torch.from_numpy(x.reshape(40, 100).copy()).T
    assert np.array_equal(
        round_to(strided, fmt, mode).numpy(), expected.reshape(40, 100).T, equal_nan=True
    )


@pytest.mark.parametrize("mode", NEAREST)
def test_the_drawn_values_reach_ties(mode: Rounding) -> None:
    """A control of this file: the two nearest modes differ on what `values_near` draws."""
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8, 2**-134, 2**-134 * 3], np.float64)
    even = [1.0, 1 + 2**-6, 0.0, 2.0**-132]
    away = [1 + 2**-7, 1 + 2**-6, 2.0**-133, 2.0**-132]
    expected = even if mode is Rounding.NEAREST_EVEN else away
    assert round_to(ties, bf16, mode).tolist() == expected
