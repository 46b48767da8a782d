"""Families of patterns: valid, the same everywhere, and good at what they are for."""

from __future__ import annotations

import zlib
from fractions import Fraction

import numpy as np
import pytest

from exactness import bits
from exactness.bits import decode
from exactness.formats import FORMATS, Format, bf16, e4m3fn, f32, f64
from exactness.inputs import patterns
from exactness.inputs.patterns import FAMILIES, generator, seed_of, special_patterns
from exactness.rounding import round_fraction, round_to

by_name = {"ids": lambda fmt: fmt.name}
every_format = pytest.mark.parametrize("fmt", FORMATS.values(), **by_name)
every_family = pytest.mark.parametrize("family", FAMILIES)


def drawn(family: str, fmt: Format, shape: tuple[int, ...] = (64, 65), seed: int = 1) -> np.ndarray:
    return np.asarray(FAMILIES[family](generator(seed), fmt, shape))


def values(family: str, fmt: Format, shape: tuple[int, ...] = (64, 65)) -> np.ndarray:
    return decode(drawn(family, fmt, shape), fmt)


@every_family
@every_format
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (7,), (2, 3, 5)])
def test_any_shape_gives_patterns_of_the_format(
    family: str, fmt: Format, shape: tuple[int, ...]
) -> None:
    found = drawn(family, fmt, shape)
    assert found.shape == shape
    assert found.dtype == bits.unsigned(fmt)
    assert not (found & found.dtype.type((1 << fmt.padding) - 1)).any()


@every_family
def test_a_seed_gives_the_same_patterns_and_another_gives_others(family: str) -> None:
    first = drawn(family, f32)
    assert np.array_equal(first, drawn(family, f32))
    assert not np.array_equal(first, drawn(family, f32, seed=2))


PINNED = {
    "normal": 0xEE08EE9E,
    "row_scaled": 0x96CE751F,
    "underflowing": 0x689E981E,
    "overflowing": 0x120AD441,
    "log_spaced": 0xE40D51C9,
    "ties": 0xF2DE35C7,
    "cancelling": 0xD5AFCC86,
    "any_finite": 0xF4F80FA7,
    "any_pattern": 0x583C39E8,
    "subnormal": 0xAF47498E,
    "specials": 0xD27C99A7,
    "one_special_row": 0xE51D39EE,
    "constant": 0x73FDB4FA,
    "few_values": 0x3CAFF377,
}
"""CRC-32 of what seed 1 draws over all formats; a changed family gets a new number here."""


@every_family
def test_the_patterns_of_a_seed_never_change(family: str) -> None:
    """Recorded examples name a seed. If NumPy changes what it draws, this must be noticed."""
    found = 0
    for fmt in FORMATS.values():
        found = zlib.crc32(drawn(family, fmt, (32, 33)).astype("<u8").tobytes(), found)
    assert f"0x{found:08X}" == f"0x{PINNED.get(family, 0):08X}"


def test_names_give_fixed_seeds() -> None:
    assert seed_of("kernels/qnorm.py::qnorm/x") == zlib.crc32(b"kernels/qnorm.py::qnorm/x")
    assert seed_of("a") == 0xE8B7BE43


@every_format
def test_special_patterns_hold_what_they_promise(fmt: Format) -> None:
    found = special_patterns(fmt)
    assert found.dtype == bits.unsigned(fmt)
    wanted = [0.0, 1.0, 1 + 2.0**-fmt.fraction_bits, 1 - 2.0**-fmt.precision, fmt.largest]
    wanted += [fmt.smallest_subnormal, 2 * fmt.smallest_subnormal, fmt.smallest_normal]
    wanted += [fmt.smallest_normal - fmt.smallest_subnormal]
    wanted += [fmt.smallest_normal + fmt.smallest_subnormal]
    encoded = [*bits.encode(np.array(wanted), fmt).tolist(), fmt.nan_pattern]
    encoded += [fmt.infinity_pattern] if fmt.infinities else []
    for pattern in encoded:
        assert pattern in found
        assert pattern | 1 << (fmt.bits - 1) in found


@every_format
def test_finite_families_are_finite(fmt: Format) -> None:
    infinite = {"any_pattern", "specials", "one_special_row", "few_values"}
    for family in FAMILIES.keys() - infinite:
        assert np.isfinite(values(family, fmt)).all(), family


@every_format
def test_any_pattern_holds_every_class(fmt: Format) -> None:
    found = drawn("any_pattern", fmt, (400, 400))
    assert (found >> (fmt.bits - 1)).mean() == pytest.approx(0.5, abs=0.02)
    if fmt.bits <= 16:
        assert np.unique(found).size > 0.9 * (1 << fmt.bits)
    exponents = np.unique(bits.magnitudes(found, fmt) >> (fmt.fraction_bits + fmt.padding))
    assert exponents.size > 0.95 * (1 << fmt.exponent_bits)


def test_any_finite_keeps_the_subnormals() -> None:
    found = drawn("any_finite", bf16, (400, 400))
    assert bits.is_subnormal(found, bf16).any()
    assert np.abs(decode(found, bf16)).max() > 1e30


@every_format
def test_subnormals_end_with_the_smallest_normals(fmt: Format) -> None:
    found = drawn("subnormal", fmt, (100, 100))
    magnitude = np.abs(decode(found, fmt))
    assert magnitude.max() < 2 * fmt.smallest_normal
    assert bits.is_subnormal(found, fmt).mean() > 0.3
    assert (magnitude >= fmt.smallest_normal).mean() > 0.3
    assert 0.3 < np.signbit(decode(found, fmt)).mean() < 0.7


def tie_rate(family: str, fmt: Format) -> float:
    """How often the product of two elements is a midpoint, by rationals."""
    x, y = values(family, fmt, (2, 300)).tolist()
    nudge = Fraction(1, 2**80)
    ties = 0
    for a, b in zip(x, y, strict=True):
        exact = Fraction(a) * Fraction(b)
        above, below = exact * (1 + nudge), exact * (1 - nudge)
        ties += round_fraction(above, fmt) != round_fraction(below, fmt)
    return ties / len(x)


@every_format
def test_products_of_ties_fall_on_midpoints(fmt: Format) -> None:
    assert tie_rate("ties", fmt) > 0.12
    if fmt.precision > 8:
        assert tie_rate("ties", fmt) > 10 * tie_rate("normal", fmt)


@every_format
def test_squares_of_extreme_rows_straddle_the_limits(fmt: Format) -> None:
    """Some rows within the range, some beyond, so that flushing and overflow show themselves."""
    squares = values("underflowing", fmt).astype(np.longdouble) ** 2
    assert 0.1 < (squares < fmt.smallest_normal).mean() < 0.99
    squares = values("overflowing", fmt).astype(np.longdouble) ** 2
    assert 0.01 < (squares > fmt.largest).mean() < 0.9


@every_format
def test_rows_are_scaled_one_by_one(fmt: Format) -> None:
    rows = np.abs(values("row_scaled", fmt).astype(np.float64)).max(-1)
    reach = min(16.0, fmt.max_exponent / 3)
    assert rows.max() / rows.min() > 2.0**reach
    assert rows.max() < 2.0 ** (reach / 2 + 4)


@pytest.mark.parametrize("fmt", [f32, bf16], **by_name)
def test_log_spaced_rows_are_sensitive_to_the_order(fmt: Format) -> None:
    x = values("log_spaced", fmt, (400, 64)).astype(np.float32)
    forward, backward = x[:, 0], x[:, -1]
    for i in range(1, 64):
        forward = round_to(forward + x[:, i], fmt)
        backward = round_to(backward + x[:, -1 - i], fmt)
    assert (forward != backward).mean() > 0.5


@every_format
def test_log_spaced_magnitudes_cover_many_binades(fmt: Format) -> None:
    exponents = np.frexp(np.abs(values("log_spaced", fmt).astype(np.float64)))[1]
    reach = min(12, fmt.max_exponent // 2)
    assert (exponents.min(), exponents.max()) in [(1 - reach, reach), (1 - reach, reach + 1)]
    if fmt is f64:
        found = drawn("log_spaced", f64) & np.uint64((1 << 52) - 1)
        assert np.unique(found).size == found.size, "significands use all bits"


@pytest.mark.parametrize("fmt", [f32, bf16, e4m3fn], **by_name)
def test_cancelling_rows_cancel(fmt: Format) -> None:
    """Every value has its negative, or the neighbour of it, somewhere in the row."""
    keys = bits.ordered_keys(drawn("cancelling", fmt, (200, 32)), fmt)
    for row in keys:
        ascending, mirrored = np.sort(row), np.sort(-row)
        gaps = np.abs(ascending - mirrored)
        assert gaps.max() <= 32
        assert np.abs(row[:, None] + row[None, :]).min(axis=1).max() <= 1
    sums = decode(drawn("cancelling", fmt, (200, 32)), fmt).astype(np.float64).sum(-1)
    others = values("log_spaced", fmt, (200, 32)).astype(np.float64).sum(-1)
    assert np.median(np.abs(sums)) < 0.1 * np.median(np.abs(others))


def test_cancelling_keeps_short_rows() -> None:
    assert drawn("cancelling", f32, (5, 1)).shape == (5, 1)
    assert np.isfinite(values("cancelling", f32, (5, 3))).all()


@every_format
def test_specials_are_sprinkled_over_normal_values(fmt: Format) -> None:
    found = drawn("specials", fmt, (200, 200))
    listed = special_patterns(fmt)
    assert set(listed.tolist()) <= set(found.ravel().tolist())
    share = np.isin(found, listed).mean()
    own = np.isin(drawn("normal", fmt, (200, 200)), listed).mean()
    assert 0.1 < share - own * 0.875 < 0.15


@every_format
def test_one_special_element_stands_alone(fmt: Format) -> None:
    for seed in range(30):
        plain = patterns.normal(generator(seed), fmt, (4, 9))
        assert (drawn("one_special_row", fmt, (4, 9), seed) != plain).sum() <= 1
    nans = [np.isnan(decode(drawn("one_special_row", fmt, (9,), s), fmt)).any() for s in range(60)]
    assert any(nans)
    assert not all(nans)


@every_format
def test_rows_of_few_values_are_full_of_ties(fmt: Format) -> None:
    """At most four values a row, one of them most of it; all extremes somewhere."""
    found = drawn("few_values", fmt, (300, 64))
    counts = [np.unique(row, return_counts=True)[1] for row in found]
    assert max(len(count) for count in counts) <= 4
    assert np.median([count.max() for count in counts]) > 40
    extremes = [0, 1 << (fmt.bits - 1), fmt.nan_pattern]
    extremes += [fmt.infinity_pattern] if fmt.infinities else []
    assert all((found == pattern).any() for pattern in extremes)
    assert np.unique(found).size > 50


@every_format
def test_a_constant_is_one_value_from_a_half_to_four(fmt: Format) -> None:
    found = values("constant", fmt)
    assert np.unique(found).size == 1
    assert 0.5 <= found.flat[0] <= 4.0


@every_format
def test_few_values_are_mostly_one_in_each_row(fmt: Format) -> None:
    found = drawn("few_values", fmt, (200, 64))
    counts = [np.unique(row, return_counts=True)[1] for row in found]
    assert max(len(count) for count in counts) == 4
    assert np.mean([count.max() / 64 for count in counts]) > 0.8
    rows = decode(found, fmt)
    assert 0 < (np.isnan(rows).mean(axis=1) > 0.9).sum() < 100
    assert np.unique(found[:, 0]).size > 20


def test_families_go_by_their_own_names() -> None:
    assert all(FAMILIES[name] is getattr(patterns, name) for name in FAMILIES)
