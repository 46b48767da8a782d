"""fma, its ingredients and its definition, against rationals and the C library."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness import bits
from exactness.blocks import BLOCK
from exactness.formats import Format, bf16, e4m3fn, f16, f32, f64, tf32
from exactness.rounding import (
    Rounding,
    add_to_odd,
    fma,
    fma_fraction,
    round_fraction,
    round_to,
)

TARGETS = [f32, tf32, bf16, f16]
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


def single(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@st.composite
def operands(draw: st.DrawFn) -> tuple[float, float, float]:
    """Any finite f32, or an addend that nearly cancels the product or barely tips a tie."""
    a, b = draw(FINITE), draw(FINITE)
    choice = draw(st.sampled_from(["any", "cancel", "tip", "zero"]))
    if choice == "any":
        return a, b, draw(FINITE)
    if choice == "zero":
        zeros = st.sampled_from([0.0, -0.0])
        return draw(st.one_of(zeros, FINITE)), draw(zeros), draw(zeros)
    with np.errstate(all="ignore"):
        c = np.float32(-a * b) if choice == "cancel" else np.float32(a * b * 2.0**-24)
        for _ in range(draw(st.integers(0, 2))):
            c = np.nextafter(c, np.float32(draw(st.sampled_from([-np.inf, np.inf]))))
    return a, b, float(c) if np.isfinite(c) else 0.0


def same(actual: float, expected: float) -> bool:
    if math.isnan(expected):
        return math.isnan(actual)
    return actual == expected and math.copysign(1, actual) == math.copysign(1, expected)


def by_definition(a: float, b: float, c: float, fmt: Format, mode: Rounding) -> float:
    """IEEE 754-2019, sections 4.3 and 6.3, without asking the code under test for a sign."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact != 0:
        return round_fraction(exact, fmt, mode)
    product_sign = math.copysign(1, a) * math.copysign(1, b)
    both_zero = a == 0 or b == 0
    if both_zero and product_sign == math.copysign(1, c):
        return math.copysign(0.0, c)
    return -0.0 if mode is Rounding.DOWN else 0.0


@settings(deadline=None, max_examples=250)
@given(triples=st.lists(operands(), min_size=1, max_size=4), fmt=st.sampled_from(TARGETS))
def test_fma_rounds_the_exact_value_once(
    triples: list[tuple[float, float, float]], fmt: Format
) -> None:
    columns = [single(*column) for column in zip(*triples, strict=True)]
    for mode in Rounding:
        found = fma(*columns, fmt, mode)
        assert found.dtype == np.float32
        for triple, result in zip(triples, found.tolist(), strict=True):
            expected = by_definition(*triple, fmt, mode)
            assert same(result, expected), (triple, result, expected, mode)
            assert same(fma_fraction(*triple, fmt, mode), expected)


def test_fma_is_that_of_the_c_library() -> None:
    """A million-element second opinion, infinities and NaN among the operands."""
    library = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
    library.fmaf.restype = ctypes.c_float
    library.fmaf.argtypes = [ctypes.c_float] * 3
    rng = np.random.default_rng(5)
    a, b, c = rng.integers(0, 1 << 32, (3, 60_000), np.uint64).astype(np.uint32).view(np.float32)
    b[::3] = rng.standard_normal(b[::3].size)
    with np.errstate(all="ignore"):
        c[::2] = -a[::2] * b[::2]
    expected = single(*map(library.fmaf, a, b, c))
    found = fma(a, b, c)
    number = ~np.isnan(expected)
    assert number.sum() > 40_000
    assert np.array_equal(np.isnan(found), ~number)
    assert np.array_equal(found[number].view(np.uint32), expected[number].view(np.uint32))


def test_c17_fused_and_not_fused() -> None:
    """C17: both inputs tell a fused multiply-add from a rounded product."""
    assert fma(single(4097), single(4097), single(2**-30)).tolist() == [16785410.0]
    a, b = single(1.4142135), single(1.7320508)
    assert fma(a, b, -(a * b)).tolist() == [float(np.float32(6.339208e-08))]
    assert (a * b - a * b).tolist() == [0.0]


def test_rounding_through_f64_alone_is_not_enough() -> None:
    """C17: the first repair of Triton's interpreter. The f64 sum loses what breaks the tie."""
    a, b, c = 1 + 2.0**-15, 64 * (1 - 2.0**-15), 2.0**30 + 2.0**7
    # c + 64 is a midpoint of f32; the product lies 2^-24 below 64, which f64 cannot hold beside c.
    assert fma(single(a), single(b), single(c)).tolist() == [c]
    assert np.float32(a * b + c) == c + 2.0**7


def test_bf16_fma_is_not_an_f32_fma_rounded_again() -> None:
    """CONTRACTS, section 1: the innocuous double rounding ends at fma."""
    rng = np.random.default_rng(2)
    a = round_to(rng.standard_normal(200_000).astype(np.float32), bf16)
    b = round_to(rng.standard_normal(200_000).astype(np.float32), bf16)
    c = round_to((rng.standard_normal(200_000) * 2.0**-20).astype(np.float32), bf16)
    once, twice = fma(a, b, c, bf16), round_to(fma(a, b, c), bf16)
    differ = np.flatnonzero(once != twice)
    assert differ.size > 0
    for i in differ[:20]:
        expected = by_definition(float(a[i]), float(b[i]), float(c[i]), bf16, Rounding.NEAREST_EVEN)
        assert once[i] == expected


@pytest.mark.parametrize("mode", Rounding)
def test_an_exact_zero_takes_its_sign_from_the_mode(mode: Rounding) -> None:
    """IEEE 754-2019, section 6.3: unlike zeros and cancellation give −0 when rounding down."""
    a, b, c = single(1, 0, 0, -0.0, -0.0), single(2, 1, 1, 1, 1), single(-2, 0, -0.0, 0, -0.0)
    down = mode is Rounding.DOWN
    expected = [down, False, down, down, True]
    assert fma(a, b, c, f32, mode).tolist() == [0.0] * 5
    assert np.signbit(fma(a, b, c, f32, mode)).tolist() == expected
    triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    signs = [math.copysign(1, fma_fraction(*triple, f32, mode)) < 0 for triple in triples]
    assert signs == expected


@pytest.mark.parametrize("mode", Rounding)
def test_specials(mode: Rounding) -> None:
    inf, nan = np.inf, np.nan
    a = single(inf, inf, inf, nan, 1, 1, inf)
    b = single(0, 1, -2, 1, nan, 1, 1)
    c = single(1, -inf, 5, 1, 1, nan, inf)
    expected = single(nan, nan, -inf, nan, nan, nan, inf)
    assert np.array_equal(fma(a, b, c, f32, mode), expected, equal_nan=True)


def test_overflow_follows_the_mode() -> None:
    big, two, zero = single(2.0**127), single(2), single(0)
    largest = np.float32(f32.largest)
    assert fma(big, two, zero).tolist() == [np.inf]
    assert fma(big, two, zero, f32, Rounding.TOWARD_ZERO).tolist() == [largest]
    assert fma(-big, two, zero, f32, Rounding.UP).tolist() == [-largest]
    assert fma(-big, two, zero, f32, Rounding.DOWN).tolist() == [-np.inf]
    assert np.isnan(fma(single(448), two, zero, e4m3fn)).all()


def test_f64_is_refused() -> None:
    one = single(1)
    with pytest.raises(ValueError, match="f64 is too wide for this fma; f32 or narrower"):
        fma(one, one, one, f64)


@pytest.mark.parametrize("fmt", [f32, bf16], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("mode", [Rounding.NEAREST_EVEN, Rounding.DOWN])
def test_shapes_broadcast_and_blocks_do_not_matter(fmt: Format, mode: Rounding) -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal((3, BLOCK + 7)).astype(np.float32)
    b = rng.standard_normal((3, 1)).astype(np.float32)
    c = np.float32(-0.75)
    whole = fma(a, b, c, fmt, mode)
    assert whole.shape == a.shape
    rows = [fma(row, b[i], single(c), fmt, mode) for i, row in enumerate(a[:, : BLOCK - 1])]
    assert np.array_equal(whole[:, : BLOCK - 1], np.stack(rows))
    tail = fma(a[:, BLOCK - 1 :], b, c, fmt, mode)
    assert np.array_equal(whole[:, BLOCK - 1 :], tail)
    assert fma(a[:0], b[:0], c, fmt, mode).shape == (0, BLOCK + 7)


@pytest.mark.parametrize("fmt", TARGETS, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("mode", Rounding)
def test_torch_gives_the_same_bits(fmt: Format, mode: Rounding) -> None:
    """The code that runs on CUDA tensors, on CPU tensors: all of its steps are exact there."""
    rng = np.random.default_rng(13)
    a, b, c = rng.integers(0, 1 << 32, (3, 6000), np.uint64).astype(np.uint32).view(np.float32)
    a[:4000], b[:4000] = rng.standard_normal((2, 4000))
    c[:2000] = -(a[:2000] * b[:2000])
    c[:500], a[:250] = 0, 0
    expected = fma(a, b, c, fmt, mode)
    found = fma(*(torch.from_numpy(x.copy()) for x in (a, b, c)), fmt, mode)
    assert found.dtype is torch.float32
    number = ~np.isnan(expected)
    assert np.array_equal(found.isnan().numpy(), ~number)
    same_bits = found.numpy().view(np.uint32)[number] == expected.view(np.uint32)[number]
    assert same_bits.all()


@settings(deadline=None, max_examples=400)
@given(
    x=st.floats(allow_nan=False, allow_infinity=False),
    exponent=st.integers(-120, 120),
    y=st.floats(1.0, 2.0),
    negative=st.booleans(),
)
def test_sums_are_rounded_to_odd(x: float, exponent: int, y: float, negative: bool) -> None:
    x = math.copysign(min(max(abs(x), 1e-250), 1e250), x)
    y = math.ldexp(y, math.frexp(x)[1] + exponent) * (-1 if negative else 1)
    exact = Fraction(x) + Fraction(y)
    found = float(add_to_odd(np.array([x]), np.array([y]))[0])
    assert found == (round_fraction(exact, f64, Rounding.TO_ODD) if exact else 0.0)
    on_torch = add_to_odd(*torch.tensor([[x], [y]], dtype=torch.float64))
    assert float(on_torch[0]) == found


def test_odd_sums_beyond_the_numbers() -> None:
    x = np.array([np.inf, np.inf, np.nan, 0.0, -0.0, 1.0])
    y = np.array([1.0, -np.inf, 1.0, -0.0, -0.0, -1.0])
    with np.errstate(all="ignore"):
        found = add_to_odd(x, y)
    assert np.array_equal(found, np.array([np.inf, np.nan, np.nan, 0, 0, 0]), equal_nan=True)
    assert np.signbit(found[3:]).tolist() == [False, True, False]


def test_no_floating_point_error_is_raised() -> None:
    x = np.array([0x7F800001, 0x7F7FFFFF, 1, 0xFF800000], np.uint32).view(np.float32)
    with np.errstate(all="raise"):
        for fmt in TARGETS:
            for mode in Rounding:
                fma(x, x[::-1].copy(), x, fmt, mode)


def test_operands_of_a_narrow_format_travel_in_f32() -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16)
    values = bits.decode(patterns, bf16)
    found = fma(values, single(1), single(-0.0), bf16)
    number = ~np.isnan(values)
    assert np.array_equal(bits.encode(found, bf16)[number], patterns[number])
