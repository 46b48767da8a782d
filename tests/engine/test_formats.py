"""The format table against NumPy's and ml_dtypes' own tables, and against its definition."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

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
    format_named,
    tf32,
)

DTYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3fn": ml_dtypes.float8_e4m3fn,
}
"""tf32 has no dtype anywhere: its facts are written out below."""


def pattern_of(value: float, name: str) -> int:
    scalar = np.array(value, DTYPES[name])
    return int(scalar.view(f"u{scalar.itemsize}"))


@pytest.mark.parametrize("name", DTYPES)
def test_limits_are_those_of_the_dtype(name: str) -> None:
    fmt, limits = FORMATS[name], ml_dtypes.finfo(DTYPES[name])
    assert fmt.bits == limits.bits
    assert fmt.fraction_bits == limits.nmant
    assert fmt.precision == limits.nmant + 1
    assert fmt.largest == float(limits.max)
    assert fmt.smallest_normal == float(limits.smallest_normal)
    assert fmt.smallest_subnormal == float(limits.smallest_subnormal)
    assert fmt.padding == 0


@pytest.mark.parametrize("name", DTYPES)
def test_special_patterns_are_those_of_the_dtype(name: str) -> None:
    fmt = FORMATS[name]
    sign = (1 << (fmt.bits - 1)) - 1
    assert fmt.nan_pattern == pattern_of(np.nan, name) & sign
    assert fmt.nan_pattern <= sign
    if fmt.infinities:
        assert fmt.infinity_pattern == pattern_of(np.inf, name)
    assert pattern_of(1.0, name) == fmt.bias << fmt.fraction_bits


def test_tf32_is_f32_without_the_low_13_bits() -> None:
    assert (tf32.bits, tf32.padding, tf32.precision) == (32, 13, 11)
    assert tf32.largest == float(np.array(0x7F7FE000, np.uint32).view(np.float32))
    assert tf32.smallest_normal == f32.smallest_normal
    assert tf32.smallest_subnormal == float(np.array(1 << 13, np.uint32).view(np.float32))
    assert tf32.infinity_pattern == f32.infinity_pattern
    assert tf32.nan_pattern == 0x7FC00000


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
def test_fields_fill_the_storage_and_exponents_agree(fmt: Format) -> None:
    assert 1 + fmt.exponent_bits + fmt.fraction_bits + fmt.padding == fmt.bits
    assert fmt.min_exponent == 1 - fmt.bias
    assert Fraction(fmt.smallest_normal) == Fraction(2) ** fmt.min_exponent
    assert Fraction(fmt.smallest_subnormal) == Fraction(2) ** fmt.quantum_exponent
    ulp = Fraction(2) ** (fmt.max_exponent - fmt.fraction_bits)
    beyond = Fraction(fmt.largest) + ulp
    top = Fraction(2) ** (fmt.max_exponent + 1)
    # e4m3fn spends the last significand of its top binade on NaN.
    assert beyond == (top if fmt.infinities else top - ulp)


def test_e4m3fn_has_no_infinity_and_one_nan() -> None:
    assert (e4m3fn.largest, e4m3fn.nan_pattern, e4m3fn.max_exponent) == (448.0, 0x7F, 8)
    assert e4m3fn.nan is NaNRule.ALL_ONES
    with pytest.raises(ValueError, match="e4m3fn has no infinity"):
        _ = e4m3fn.infinity_pattern


def test_the_table_names_every_format_once() -> None:
    assert list(FORMATS.values()) == [f64, f32, tf32, bf16, f16, e5m2, e4m3fn]
    assert all(name == fmt.name and format_named(name) is fmt for name, fmt in FORMATS.items())


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(ValueError, match=r"'fp8' is unknown; known are f64, f32, .*e4m3fn"):
        format_named("fp8")


def test_a_layout_must_fit_its_storage() -> None:
    with pytest.raises(ValueError, match="wide: fields are wider than 16 bits"):
        Format("wide", 16, 8, 8)
    assert Format("narrow", 16, 8, 6).padding == 1


def test_formats_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        f32.bits = 64  # type: ignore[misc]
    with pytest.raises(TypeError):
        FORMATS["f32"] = f64  # type: ignore[index]


@pytest.mark.parametrize("name", [name for name in INTEGERS if name != "bool"])
def test_integers_are_those_of_numpy(name: str) -> None:
    integer = INTEGERS[name]
    limits = np.iinfo(name[0].replace("i", "int").replace("u", "uint") + name[1:])
    assert (integer.name, integer.bits, integer.signed) == (name, limits.bits, limits.min < 0)


def test_bool_is_a_byte() -> None:
    assert (INTEGERS["bool"].bits, INTEGERS["bool"].signed) == (8, False)
