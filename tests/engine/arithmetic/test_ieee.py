"""Correctly rounded operations against rationals, ml_dtypes and tables worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness import bits
from exactness.arithmetic import IEEE, Operation, Value, cast, fma, max_, maximum, minimum, orders
from exactness.arithmetic import sqrt as square_root
from exactness.arithmetic import sum_ as sum_in_order
from exactness.bits import Bits
from exactness.formats import FORMATS, Format, bf16, e4m3fn, e5m2, f16, f32, f64, tf32
from exactness.rounding import Rounding, fma_fraction, round_fraction, round_to

UP_TO_F32 = [fmt for fmt in FORMATS.values() if fmt is not f64]
by_name = {"ids": lambda fmt: getattr(fmt, "name", None)}


def value(patterns: list[int], fmt: Format, arithmetic: IEEE | None = None) -> Value:
    """The values of bit patterns."""
    return (arithmetic or IEEE()).value(Bits(np.array(patterns, bits.unsigned(fmt)), fmt))


def of(*numbers: float, fmt: Format = f32) -> Value:
    return value(bits.encode(np.array(numbers, np.float64), fmt).tolist(), fmt)


def same(actual: float, expected: float) -> bool:
    if math.isnan(expected):
        return math.isnan(actual)
    return actual == expected and math.copysign(1, actual) == math.copysign(1, expected)


@st.composite
def pairs(draw: st.DrawFn, fmt: Format) -> list[int]:
    """Two patterns: any, or neighbours of each other, or around the subnormals."""
    last = 1 << fmt.padding
    every = st.integers(0, (1 << (fmt.bits - fmt.padding)) - 1).map(lambda p: p * last)
    first = draw(every)
    near = st.integers(-2, 2).map(lambda k: (first + k * last) % (1 << fmt.bits))
    tiny = st.integers(0, 2 << fmt.fraction_bits).map(lambda p: p * last)
    return [draw(st.one_of(st.just(first), tiny)), draw(st.one_of(every, near, tiny))]


def root(x: Fraction) -> Fraction:
    """The square root cut below any format's last place, with a sticky bit: enough to round."""
    shift = 1200
    scaled = x * 2**shift
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    exact = Fraction(whole) ** 2 == scaled
    return Fraction(2 * whole + (not exact), 2 ** (shift // 2 + 1))


EXACT: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
}
NUMPY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


def expected_of(name: str, x: float, y: float, fmt: Format) -> float:
    """The operation by its definition; specials and signs of zero by Python's own f64."""
    with np.errstate(all="ignore"):
        double = float(NUMPY[name](np.float64(x), np.float64(y)))
    if not (math.isfinite(x) and math.isfinite(y)) or (name == "div" and y == 0):
        return double if fmt.infinities or not math.isinf(double) else math.nan
    exact = EXACT[name](Fraction(x), Fraction(y))
    return round_fraction(exact, fmt) if exact else double


@pytest.mark.parametrize("fmt", FORMATS.values(), **by_name)
@settings(deadline=None, max_examples=120)
@given(data=st.data())
def test_operations_are_rounded_once(fmt: Format, data: st.DataObject) -> None:
    patterns = data.draw(st.lists(pairs(fmt), min_size=1, max_size=4))
    columns = [list(column) for column in zip(*patterns, strict=True)]
    x, y = value(columns[0], fmt), value(columns[1], fmt)
    results = {"add": x + y, "sub": x - y, "mul": x * y, "div": x / y}
    for name, result in results.items():
        assert result.format is fmt
        operands = zip(x.payload.tolist(), y.payload.tolist(), result.payload, strict=True)
        for a, b, found in operands:
            expected = expected_of(name, a, b, fmt)
            assert same(float(found), expected), (name, a, b, float(found), expected)
    for a, found in zip(x.payload.tolist(), square_root(x).payload.tolist(), strict=True):
        if a > 0 and math.isfinite(a):
            assert same(found, round_fraction(root(Fraction(a)), fmt))
        else:
            assert same(found, a if a == 0 or a > 0 else math.nan)


@pytest.mark.parametrize("fmt", UP_TO_F32, **by_name)
@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_fma_is_rounded_once_in_every_format(fmt: Format, data: st.DataObject) -> None:
    x, y = value(data.draw(pairs(fmt)), fmt), value(data.draw(pairs(fmt)), fmt)
    result = fma(x, y, x)
    operands = zip(x.payload.tolist(), y.payload.tolist(), result.payload.tolist(), strict=True)
    for a, b, found in operands:
        if all(map(math.isfinite, (a, b))):
            assert same(found, fma_fraction(a, b, a, fmt))


def test_a_bf16_fma_is_not_an_f32_fma_rounded_again() -> None:
    """The product is a tie of bf16; what f32 cannot hold beside it says: down."""
    x, y, tiny = of(1 + 2**-7, fmt=bf16), of(1.5, fmt=bf16), of(-(2.0**-30), fmt=bf16)
    assert fma(x, y, tiny).payload.tolist() == [1.5 + 2**-7]
    twice = cast(fma(cast(x, f32), cast(y, f32), cast(tiny, f32)), bf16)
    assert twice.payload.tolist() == [1.5 + 2**-6]


@pytest.mark.parametrize(
    ("fmt", "dtype"),
    [(e5m2, ml_dtypes.float8_e5m2), (e4m3fn, ml_dtypes.float8_e4m3fn)],
    **by_name,
)
@pytest.mark.parametrize("name", NUMPY)
def test_all_pairs_of_fp8_as_ml_dtypes_does(fmt: Format, dtype: Any, name: str) -> None:
    patterns = np.arange(256, dtype=np.uint8)
    x, y = patterns.view(dtype)[:, None], patterns.view(dtype)[None, :]
    with np.errstate(all="ignore"):
        expected = Bits.of(NUMPY[name](x, y)).values()
    arithmetic = IEEE()
    a, b = arithmetic.value(x), arithmetic.value(y)
    found = {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b}[name].payload
    number = ~np.isnan(expected)
    assert np.array_equal(np.isnan(found), ~number)
    assert np.array_equal(found[number], expected[number])
    assert np.array_equal(np.signbit(found[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("name", ["mul", "div"])
def test_bf16_needs_no_more_than_f32_even_among_subnormals(name: str) -> None:
    """CONTRACTS, section 1, where f32 itself has few bits: f64 is the second opinion."""
    tiny = bits.decode(np.arange(0, 1 << 15, dtype=np.uint16), bf16)[1:0x7F80]
    others = np.random.default_rng(1).choice(tiny, 120)[:, None]
    x, y = Value(IEEE(), tiny, bf16), Value(IEEE(), others, bf16)
    found = (x * y if name == "mul" else x / y).payload
    wide = tiny.astype(np.float64), others.astype(np.float64)
    exact = wide[0] * wide[1] if name == "mul" else wide[0] / wide[1]
    assert np.array_equal(found, round_to(exact, bf16).astype(np.float32))
    assert (found < bf16.smallest_normal).mean() > 0.1


def test_tf32_needs_more_than_f32_among_subnormals() -> None:
    """A product of 22 bits does not fit f32's subnormals: rounded there first, it would be 0."""
    x, y = of(1046 * 2.0**-70, fmt=tf32), of(2005 * 2.0**-88, fmt=tf32)
    exact = Fraction(1046 * 2005) * Fraction(2) ** -158
    assert exact > Fraction(2) ** -137
    assert (x * y).payload.tolist() == [2.0**-136] == [round_fraction(exact, tf32)]
    assert (x * y).payload.dtype == np.float32
    f32_first = round_to(x.payload * y.payload, tf32)
    assert f32_first.tolist() == [0.0]


def test_subnormals_are_kept() -> None:
    for fmt in FORMATS.values():
        smallest = of(fmt.smallest_subnormal, -fmt.smallest_subnormal, fmt=fmt)
        assert (smallest * 1.0).payload.tolist() == smallest.payload.tolist()
        assert (of(fmt.smallest_normal, fmt=fmt) * 0.5).payload[0] == fmt.smallest_normal / 2


INF, NAN = math.inf, math.nan
EXTREMES = [
    # x, y, minimum, maximum; the table of fminf and fmaxf with ordered zeros
    (NAN, 1.0, 1.0, 1.0),
    (1.0, NAN, 1.0, 1.0),
    (NAN, NAN, NAN, NAN),
    (-0.0, 0.0, -0.0, 0.0),
    (0.0, -0.0, -0.0, 0.0),
    (-0.0, -0.0, -0.0, -0.0),
    (0.0, 0.0, 0.0, 0.0),
    (-1.0, 2.0, -1.0, 2.0),
    (2.0, -1.0, -1.0, 2.0),
    (INF, -INF, -INF, INF),
    (NAN, -INF, -INF, -INF),
    (INF, NAN, INF, INF),
]


@pytest.mark.parametrize("fmt", [f32, bf16, f64], **by_name)
@pytest.mark.parametrize(("x", "y", "low", "high"), EXTREMES)
def test_c43_minimum_and_maximum(fmt: Format, x: float, y: float, low: float, high: float) -> None:
    """C43: a NaN gives way in both orders of the arguments, zeros are ordered."""
    assert same(float(minimum(of(x, fmt=fmt), of(y, fmt=fmt)).payload[0]), low)
    assert same(float(maximum(of(x, fmt=fmt), of(y, fmt=fmt)).payload[0]), high)


def test_c43_a_relu_written_with_maximum() -> None:
    """C43: NaN becomes the bound, as on the GPU; torch on a CPU would keep it."""
    clamped = maximum(of(NAN, -0.0, 0.0, -1.0, INF, -INF), 0.0).payload
    assert clamped.tolist() == [0, 0, 0, 0, INF, 0]
    assert not np.signbit(clamped).any()


def test_signs_are_bits() -> None:
    x = of(0.0, -0.0, 1.5, -INF, NAN)
    assert np.signbit((-x).payload).tolist() == [True, False, True, False, True]
    assert np.signbit(abs(-x).payload).tolist() == [False] * 5


def test_casts_round_once_in_the_given_mode() -> None:
    """C13: f64 goes to bf16 directly; widening is exact."""
    x = of(1 + 2**-8 + 2**-40, fmt=f64)
    assert cast(x, bf16).payload.tolist() == [1.0078125]
    assert cast(cast(x, f32), bf16).payload.tolist() == [1.0]
    assert cast(x, bf16, Rounding.DOWN).payload.tolist() == [1.0]
    assert cast(x, bf16).payload.dtype == np.float32
    widened = cast(of(0.75, fmt=f16), f64)
    assert (widened.payload.dtype, widened.format, widened.payload[0]) == (np.float64, f64, 0.75)
    assert cast(of(1 + 2**-23), f32).payload.tolist() == [1 + 2**-23]


def test_a_payload_may_be_wider_than_its_format() -> None:
    """A left-out rounding: the next operation rounds what is really there."""
    unrounded = Value(IEEE(), np.float32([1 + 2**-9]), bf16)
    assert cast(unrounded, f32).payload.tolist() == [1 + 2**-9]
    assert (unrounded + unrounded).payload.tolist() == [2.0]
    assert (unrounded * 4.0 + 0.0).payload.tolist() == [4.0]


def test_the_payload_before_the_last_rounding_is_kept() -> None:
    """What a kernel would store without its final cast; exact operations have none."""
    x, y = of(1 + 2**-7, fmt=bf16), of(1 + 2**-6, fmt=bf16)
    product = x * y
    assert product.unrounded is not None
    assert product.unrounded.tolist() == [(1 + 2**-7) * (1 + 2**-6)]
    assert product.payload.tolist() == [1 + 3 * 2**-7]
    narrow = cast(of(1 + 2**-20), bf16)
    assert narrow.unrounded is not None
    assert [narrow.unrounded.tolist(), narrow.payload.tolist()] == [[1 + 2**-20], [1.0]]
    assert (-x).unrounded is None
    assert minimum(x, y).unrounded is None


def test_an_operation_it_does_not_have() -> None:
    with pytest.raises(NotImplementedError, match="'ieee' has no operation 'expf'"):
        IEEE().perform(Operation("expf", (of(1.0),), f32))
    with pytest.raises(ValueError, match="f64 is too wide for this fma"):
        fma(of(1.0, fmt=f64), 1.0, 1.0)


def test_no_floating_point_error_is_raised() -> None:
    x = value([0x7F800001, 0x7F7FFFFF, 1, 0xFF800000, 0], f32)
    with np.errstate(all="raise"):
        square_root(x)
        cast(cast(x, f64), e4m3fn)
        for y in (x, -x, x * 1e-30, x * 1e30):
            fma(x / y, x * y, x + y) - y


@pytest.mark.parametrize("fmt", [f32, bf16, f16, tf32], **by_name)
def test_torch_payloads_give_the_same_bits(fmt: Format) -> None:
    """The code that runs on CUDA tensors; torch's + − × and selections are exact on a CPU too."""
    rng = np.random.default_rng(8)
    numbers = rng.standard_normal((2, 6, 40)) * np.exp2(rng.integers(-30, 30, (2, 6, 40)))
    x, y = round_to(numbers.astype(np.float32), fmt)
    x[0, :6], y[0, :6] = [NAN, 0, -0.0, INF, 1, -1], [1, -0.0, 0, -INF, NAN, 1]

    def results(a: Value, b: Value) -> list[Value]:
        order = orders.strided(40, 16).then(orders.halving(16))
        plain = [a + b, a - b, a * b, a * 0.1 + 3, -a, abs(a), minimum(a, b), maximum(a, b)]
        plain += [fma(a, b, a), fma(a, 0.1, 1), cast(a, bf16), cast(cast(a, f64), f16)]
        return [*plain, sum_in_order(a, order=order), max_(a, order=order)]

    arithmetic = IEEE()
    expected = results(Value(arithmetic, x, fmt), Value(arithmetic, y, fmt))
    on_torch = [Value(arithmetic, torch.from_numpy(part.copy()), fmt) for part in (x, y)]
    for found, want in zip(results(*on_torch), expected, strict=True):
        assert isinstance(found.payload, torch.Tensor)
        assert found.format is want.format
        assert np.array_equal(found.payload.numpy(), want.payload, equal_nan=True)
        number = ~np.isnan(want.payload)
        signs = np.signbit(found.payload.numpy()) == np.signbit(want.payload)
        assert signs[number].all()
