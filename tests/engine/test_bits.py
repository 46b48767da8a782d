"""Bit patterns against the definition of a format, NumPy, ml_dtypes and torch."""

from __future__ import annotations

import itertools
import subprocess
import sys
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness import bits
from exactness.bits import Bits, as_payload, decode, encode, format_of, from_payload, unsigned
from exactness.formats import (
    FORMATS,
    INTEGERS,
    Format,
    NaNRule,
    bf16,
    e4m3fn,
    e5m2,
    f16,
    f32,
    f64,
    tf32,
)

SMALL = [bf16, f16, e5m2, e4m3fn]
DTYPES = {bf16: ml_dtypes.bfloat16, f16: np.float16} | {
    e5m2: ml_dtypes.float8_e5m2,
    e4m3fn: ml_dtypes.float8_e4m3fn,
}
IDS = {"ids": lambda fmt: getattr(fmt, "name", None)}


def every_pattern(fmt: Format) -> np.ndarray:
    return np.arange(1 << fmt.bits).astype(unsigned(fmt))


def value_by_definition(pattern: int, fmt: Format) -> Fraction | str:
    """IEEE 754-2019, section 3.4, read aloud; "inf" and "nan" for what is no number."""
    sign = -1 if pattern >> (fmt.bits - 1) else 1
    exponent = pattern >> (fmt.fraction_bits + fmt.padding) & ((1 << fmt.exponent_bits) - 1)
    fraction = pattern >> fmt.padding & ((1 << fmt.fraction_bits) - 1)
    if exponent == (1 << fmt.exponent_bits) - 1:
        if fmt.nan is NaNRule.IEEE:
            return "nan" if fraction else "inf"
        if fraction == (1 << fmt.fraction_bits) - 1:
            return "nan"
    if exponent == 0:
        return sign * Fraction(fraction, 1 << fmt.fraction_bits) * Fraction(2) ** (1 - fmt.bias)
    significand = 1 + Fraction(fraction, 1 << fmt.fraction_bits)
    return sign * significand * Fraction(2) ** (exponent - fmt.bias)


def patterns_of(fmt: Format) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << (fmt.bits - fmt.padding)) - 1).map(lambda p: p << fmt.padding)


@pytest.mark.parametrize("fmt", SMALL, **IDS)
def test_every_small_pattern_has_the_value_of_its_dtype(fmt: Format) -> None:
    patterns = every_pattern(fmt)
    values = decode(patterns, fmt)
    expected = patterns.view(DTYPES[fmt]).astype(np.float32)
    assert values.dtype == np.float32
    assert np.array_equal(np.isnan(values), np.isnan(expected))
    numbers = ~np.isnan(values)
    assert np.array_equal(values[numbers].view(np.uint32), expected[numbers].view(np.uint32))


@pytest.mark.parametrize("fmt", FORMATS.values(), **IDS)
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_a_pattern_has_the_value_of_the_definition(fmt: Format, data: st.DataObject) -> None:
    pattern = data.draw(patterns_of(fmt))
    value = decode(np.array([pattern], unsigned(fmt)), fmt)[0]
    expected = value_by_definition(pattern, fmt)
    if isinstance(expected, str):
        assert np.isnan(value) if expected == "nan" else np.isinf(value)
    else:
        assert Fraction(float(value)) == expected
    assert np.isnan(value) or bool(np.signbit(value)) == bool(pattern >> (fmt.bits - 1))


@pytest.mark.parametrize("fmt", FORMATS.values(), **IDS)
@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_encode_is_the_inverse_of_decode(fmt: Format, data: st.DataObject) -> None:
    pattern = data.draw(patterns_of(fmt))
    values = decode(np.array([pattern], unsigned(fmt)), fmt)
    found = encode(values, fmt)
    assert found.dtype == unsigned(fmt)
    if np.isnan(values[0]):
        assert bits.is_nan(found, fmt).all()
        assert int(found[0]) & ((1 << fmt.padding) - 1) == 0
    else:
        assert int(found[0]) == pattern
        assert np.array_equal(encode(values.astype(np.float64), fmt), found)


@pytest.mark.parametrize("fmt", SMALL, **IDS)
def test_encode_is_the_inverse_on_every_small_pattern(fmt: Format) -> None:
    patterns = every_pattern(fmt)
    found = encode(decode(patterns, fmt), fmt)
    number = ~bits.is_nan(patterns, fmt)
    assert np.array_equal(found[number], patterns[number])
    assert bits.is_nan(found[~number], fmt).all()


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS.values() if fmt is not f64], **IDS)
def test_encode_refuses_what_must_be_rounded_first(fmt: Format) -> None:
    ulp = 2.0**-fmt.fraction_bits
    between = [1 + ulp / 2, -(2 - ulp / 4), fmt.largest * 1.25, fmt.smallest_subnormal / 2]
    for value in between:
        with pytest.raises(ValueError, match=rf"is not a value of {fmt.name}; round it first"):
            encode(np.array([0.0, value, 1.0]), fmt)
    if fmt.name not in ("f32", "f64"):
        with pytest.raises(ValueError, match="round it first"):
            encode(np.float32([1 + ulp / 2]), fmt)


def test_encode_refuses_infinity_where_there_is_none() -> None:
    with pytest.raises(ValueError, match=r"inf.* is not a value of e4m3fn"):
        encode(np.array([np.inf]), e4m3fn)


@pytest.mark.parametrize(
    ("name", "value"),
    [("u8", 300), ("u8", -1), ("i8", 128), ("i32", 1.5), ("i64", float("nan")), ("i16", 1e9)],
)
def test_encode_refuses_integers_that_would_wrap(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"is not a value of {name}"):
        encode(np.array([value]), INTEGERS[name])


@pytest.mark.parametrize("integer", INTEGERS.values(), **IDS)
def test_integers_keep_their_bits(integer: Any) -> None:
    top = (1 << integer.bits) - 1
    patterns = np.array([0, 1, top >> 1, (top >> 1) + 1, top], unsigned(integer))
    values = decode(patterns, integer)
    assert values.dtype.kind == ("i" if integer.signed else "u")
    assert int(values[-1]) == (-1 if integer.signed else top)
    assert np.array_equal(encode(values, integer), patterns)


def test_decode_refuses_patterns_of_another_width() -> None:
    with pytest.raises(TypeError, match="dtype int64 does not hold f32; uint32 is accepted"):
        decode([1, 2, 3], f32)
    with pytest.raises(TypeError, match="does not hold bf16"):
        decode(np.zeros(3, np.uint32), bf16)


def test_zero_dimensions_stay_arrays() -> None:
    for fmt in FORMATS.values():
        one = decode(np.array(0, unsigned(fmt)), fmt)
        assert isinstance(one, np.ndarray)
        assert isinstance(encode(one, fmt), np.ndarray)
        assert one.shape == encode(one, fmt).shape == ()


TORCH = {fmt.name: getattr(torch, name) for name, fmt in bits._NUMPY_FORMATS.items()}


def some_patterns(fmt: Any) -> np.ndarray:
    """Every pattern where that is few; NaN payloads among them. C45, C46."""
    if fmt.name == "bool":
        return np.array([0, 1, 1, 0] * 15, np.uint8)
    if fmt.bits <= 16:
        return every_pattern(fmt)
    drawn = np.random.default_rng(1).integers(0, 1 << fmt.bits, 1020, np.uint64)
    nans = [0x7F800001, 0x7FFFFFFF, 0xFF800001, 0x7FF0000000000001]
    return np.append(drawn, np.array(nans, np.uint64)).astype(unsigned(fmt))


@pytest.mark.parametrize("name", TORCH)
def test_torch_round_trip_keeps_every_bit(name: str) -> None:
    """C45, C46: signalling and negative NaN, too, go to torch and back as they are."""
    fmt = FORMATS.get(name) or INTEGERS[name]
    patterns = some_patterns(fmt).reshape(2, -1)
    tensor = Bits(patterns, fmt).torch()
    assert tensor.dtype is TORCH[name]
    assert format_of(tensor) is fmt
    assert np.array_equal(Bits.of(tensor).patterns, patterns)
    assert Bits.of(tensor).format is fmt
    tensor.zero_()
    assert patterns.any(), "the tensor must be a copy"


@pytest.mark.parametrize("name", TORCH)
def test_views_of_torch_are_read_in_their_layout(name: str) -> None:
    fmt = FORMATS.get(name) or INTEGERS[name]
    patterns = some_patterns(fmt)[:60].reshape(3, 4, 5)
    tensor = Bits(patterns, fmt).torch()
    assert np.array_equal(Bits.of(tensor.transpose(0, 2)).patterns, patterns.transpose(2, 1, 0))
    assert np.array_equal(Bits.of(tensor[:, ::2, 1:]).patterns, patterns[:, ::2, 1:])
    assert np.array_equal(Bits.of(tensor[:1].expand(4, 4, 5)).patterns, patterns[[0] * 4])
    assert Bits.of(tensor[1, 2, 3]).patterns == patterns[1, 2, 3]
    assert Bits.of(tensor[:, :0]).shape == (3, 0, 5)


def test_torch_with_gradient_or_a_lazy_sign() -> None:
    x = torch.tensor([1.5, -2.0], requires_grad=True)
    assert Bits.of(x).patterns.tolist() == [0x3FC00000, 0xC0000000]
    lazy = torch.tensor([1 + 2j]).conj().imag
    assert lazy.is_neg()
    assert Bits.of(lazy).patterns.tolist() == [0xC0000000]


@pytest.mark.parametrize("fmt", SMALL, **IDS)
def test_numpy_and_ml_dtypes_views(fmt: Format) -> None:
    patterns = every_pattern(fmt)[:60].reshape(6, 10)
    array = patterns.view(DTYPES[fmt])
    assert Bits.of(array).format is fmt
    assert np.array_equal(Bits.of(array[::-1, ::3].T).patterns, patterns[::-1, ::3].T)
    assert int(Bits.of(array[3, 4]).patterns) == int(patterns[3, 4])
    reversed_bits = Bits(patterns[::-1], fmt)
    assert np.array_equal(Bits.of(reversed_bits.torch()).patterns, patterns[::-1])


def test_bits_share_memory_with_a_cpu_tensor() -> None:
    tensor = torch.zeros(3)
    shared = Bits.of(tensor)
    tensor[1] = 1.0
    assert shared.patterns.tolist() == [0, 0x3F800000, 0]
    assert Bits.of(shared) is shared


def test_tf32_has_no_torch_dtype() -> None:
    with pytest.raises(TypeError, match="tf32 has no torch dtype; use f32"):
        Bits(np.zeros(1, np.uint32), tf32).torch()


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ([1.0], "got list"),
        (1.0, "got float"),
        (None, "got NoneType"),
        (np.zeros(1, np.complex64), "complex64 has no format"),
        (np.array(["a"], object), "object has no format"),
        (np.zeros(1, ">f4"), "has no format"),
        (torch.zeros(1, dtype=torch.complex64), "complex64 has no format"),
    ],
)
def test_what_has_no_format(tensor: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        format_of(tensor)


def test_bits_refuse_another_width() -> None:
    with pytest.raises(TypeError, match="dtype uint32 does not hold bf16; uint16 is accepted"):
        Bits(np.zeros(1, np.uint32), bf16)
    with pytest.raises(TypeError, match="dtype int16 does not hold bf16"):
        Bits(np.zeros(1, np.int16), bf16)


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS.values() if fmt is not tf32], **IDS)
def test_payloads_are_values_in_the_carrier_and_go_back(fmt: Format) -> None:
    patterns = some_patterns(fmt)
    for tensor in (Bits(patterns, fmt), Bits(patterns, fmt).torch()):
        payload, found = as_payload(tensor)
        assert found is fmt
        assert payload.dtype == (np.float64 if fmt is f64 else np.float32)
        number = ~bits.is_nan(patterns, fmt)
        assert np.array_equal(from_payload(payload, fmt).patterns[number], patterns[number])
    assert np.array_equal(
        from_payload(torch.from_numpy(payload.copy()), fmt).patterns[number], patterns[number]
    )


@pytest.mark.parametrize("tensor", [np.zeros(1, np.int32), torch.zeros(1, dtype=torch.bool)])
def test_integers_have_no_payload(tensor: Any) -> None:
    with pytest.raises(TypeError, match="has no float payload; floats are accepted"):
        as_payload(tensor)


def check_classes(patterns: np.ndarray, fmt: Format) -> None:
    values = decode(patterns, fmt)
    magnitude = np.abs(values)
    nan, small = np.isnan(values), magnitude < fmt.smallest_normal
    assert np.array_equal(bits.is_nan(patterns, fmt), nan)
    assert np.array_equal(bits.is_infinity(patterns, fmt), np.isinf(values))
    assert np.array_equal(bits.is_zero(patterns, fmt), values == 0)
    assert np.array_equal(bits.is_subnormal(patterns, fmt), small & (values != 0))
    absolute = bits.magnitudes(patterns, fmt)
    assert absolute.dtype == patterns.dtype
    assert np.array_equal(decode(absolute, fmt)[~nan], magnitude[~nan])
    assert not np.signbit(decode(absolute, fmt)[~nan]).any()


@pytest.mark.parametrize("fmt", SMALL, **IDS)
def test_classes_of_every_small_pattern(fmt: Format) -> None:
    check_classes(every_pattern(fmt), fmt)


@pytest.mark.parametrize("fmt", [f32, tf32, f64], **IDS)
@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_classes_of_wide_patterns(fmt: Format, data: st.DataObject) -> None:
    edges = [0, 1 << fmt.padding, fmt.infinity_pattern, fmt.nan_pattern]
    edges += [(1 << (fmt.fraction_bits + fmt.padding)) - (1 << fmt.padding)]
    edges += [1 << (fmt.fraction_bits + fmt.padding), fmt.infinity_pattern + (1 << fmt.padding)]
    signed = edges + [edge | 1 << (fmt.bits - 1) for edge in edges]
    drawn = data.draw(st.lists(st.one_of(patterns_of(fmt), st.sampled_from(signed)), min_size=1))
    check_classes(np.array(drawn, unsigned(fmt)), fmt)


@pytest.mark.parametrize("fmt", [f32, f64], **IDS)
@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_keys_of_neighbours_differ_by_one(fmt: Format, data: st.DataObject) -> None:
    """C74, C75: one step is one, across zero and across powers of two as well."""
    carrier = decode(np.zeros(1, unsigned(fmt)), fmt).dtype.type
    near = st.sampled_from([0.0, -0.0, 1.0, 2.0, -2.0, fmt.smallest_normal, -fmt.largest])
    value = carrier(data.draw(st.one_of(near, st.floats(width=fmt.bits, allow_nan=False))))
    with np.errstate(over="ignore"):
        pair = np.array([value, np.nextafter(value, carrier(np.inf))])
    below, above = bits.ordered_keys(pair.view(unsigned(fmt)), fmt).tolist()
    assert above - below == (0 if np.isposinf(value) else 1)
    assert (below > 0) == (value > 0)


def test_keys_of_named_pairs() -> None:
    """C74, C75: bf16 −66 and −65.5 are neighbours; ±1e-45 are two apart; zeros share a key."""

    def keys(fmt: Format, *values: float) -> list[int]:
        return bits.ordered_keys(encode(np.array(values), fmt), fmt).tolist()

    assert np.diff(keys(bf16, -66.0, -65.5)).tolist() == [1]
    assert np.diff(keys(f32, -(2.0**-149), 2.0**-149)).tolist() == [2]
    assert keys(f32, 0.0, -0.0) == [0, 0]
    assert np.diff(keys(tf32, 1.0, 1 + 2.0**-10)).tolist() == [1]
    assert keys(f64, np.inf, -np.inf) == [0x7FF0000000000000, -0x7FF0000000000000]
    assert keys(e4m3fn, 448.0)[0] + 1 == bits.ordered_keys(np.array([0x7F], np.uint8), e4m3fn)[0]


@pytest.mark.parametrize("name", ["u64", "i64", "u8", "i8", "bool"])
def test_integer_keys_keep_the_order(name: str) -> None:
    integer = INTEGERS[name]
    top = (1 << integer.bits) - 1
    edges = [0, 1, top >> 1, (top >> 1) + 1, top]
    values = decode(np.array(edges, unsigned(integer)), integer)
    ascending = np.sort(values)
    keys = bits.ordered_keys(encode(ascending, integer), integer).tolist()
    # Positions differ as the values do; 2^64 values need the difference as Python's integer.
    gaps = [int(b) - int(a) for a, b in itertools.pairwise(ascending)]
    assert [b - a for a, b in itertools.pairwise(keys)] == gaps


def test_the_engine_imports_neither_torch_nor_triton() -> None:
    modules = "bits rounding arrays blocks claim environment arithmetic inputs"
    code = "import sys, numpy as np\n"
    code += "".join(f"import exactness.{name}\n" for name in modules.split())
    code += "assert exactness.bits.is_torch(np.zeros(1)) is False\n"
    code += "assert not {'torch', 'triton', 'hypothesis'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
