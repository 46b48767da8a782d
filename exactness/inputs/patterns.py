"""Families of bit patterns: what a tensor is filled with, chosen to make arithmetic show itself.

Every family maps a NumPy generator, a format and a shape to patterns. They are deterministic:
the same seed gives the same bits on every machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from exactness import bits
from exactness.formats import Format
from exactness.rounding import round_to

Family: TypeAlias = Callable[[np.random.Generator, Format, tuple[int, ...]], np.ndarray]


def seed_of(text: str) -> int:
    """A seed from a name, such as a test's node id; the same on every machine."""
    return zlib.crc32(text.encode())


def generator(seed: int) -> np.random.Generator:
    """The generator behind every drawn tensor.

    NumPy fixes the stream of Philox, not what is drawn from it: a test pins every family.
    """
    return np.random.Generator(np.random.Philox(seed))


def encode_rounded(values: np.ndarray, fmt: Format) -> np.ndarray:
    """Patterns of f64 values rounded once to `fmt`."""
    return bits.encode(round_to(np.asarray(values, np.float64), fmt), fmt)


def special_patterns(fmt: Format) -> np.ndarray:
    """±0, ±1, neighbours of 1, smallest and largest of each kind, ±inf and NaN."""
    one = fmt.bias << (fmt.fraction_bits + fmt.padding)
    unit = 1 << fmt.padding
    smallest_normal = 1 << (fmt.fraction_bits + fmt.padding)
    magnitudes = [0, unit, 2 * unit, smallest_normal - unit, smallest_normal]
    magnitudes += [smallest_normal + unit, one - unit, one, one + unit, 2 * one - one // 2]
    top = fmt.infinity_pattern if fmt.infinities else fmt.nan_pattern
    magnitudes += [top - unit, top, fmt.nan_pattern]
    sign = 1 << (fmt.bits - 1)
    return np.array([m | s for m in magnitudes for s in (0, sign)], bits.unsigned(fmt))


def normal(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal values."""
    return encode_rounded(rng.standard_normal(shape), fmt)


def row_scaled(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values, each row at a magnitude of its own: some meet an epsilon, some dwarf it."""
    reach = min(16.0, fmt.max_exponent / 3)
    return _scaled_rows(rng, fmt, shape, -reach, reach / 2)


def underflowing(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values, each row at a magnitude whose square is near the smallest normal number."""
    middle = fmt.min_exponent / 2
    return _scaled_rows(rng, fmt, shape, middle - fmt.fraction_bits / 2 - 2, middle + 2)


def overflowing(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values, each row at a magnitude whose square is near the largest number."""
    middle = fmt.max_exponent / 2
    return _scaled_rows(rng, fmt, shape, middle - 8, middle + 1)


def _scaled_rows(
    rng: np.random.Generator, fmt: Format, shape: tuple[int, ...], low: float, high: float
) -> np.ndarray:
    rows = (*shape[:-1], 1)[: len(shape)]
    exponents = rng.uniform(low, high, rows)
    whole = np.floor(exponents)
    # Near 2^exponent, without exp2, whose last bit depends on the processor.
    scale = np.ldexp(1.0 + (exponents - whole), whole.astype(np.int64))
    return encode_rounded(rng.standard_normal(shape) * scale, fmt)


def log_spaced(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Magnitudes over many binades, so that the order of a sum matters."""
    reach = min(12, fmt.max_exponent // 2)
    exponents = rng.integers(-reach, reach, shape)
    return encode_rounded(_signs(rng, shape) * np.ldexp(1.0 + rng.random(shape), exponents), fmt)


def ties(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Few significant bits near powers of two: sums and products fall on rounding ties."""
    odd = 2 * rng.integers(0, 1 << (fmt.fraction_bits // 2 + 1), shape) + 1
    exponents = rng.integers(-fmt.fraction_bits // 2 - 2, 2, shape)
    return encode_rounded(_signs(rng, shape) * np.ldexp(odd.astype(np.float64), exponents), fmt)


def cancelling(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Each value beside its negative or its neighbour's negative, shuffled along the row."""
    patterns = log_spaced(rng, fmt, shape)
    if shape and shape[-1] > 1:
        half = shape[-1] // 2
        sign = bits.unsigned(fmt).type(1 << (fmt.bits - 1))
        step = bits.unsigned(fmt).type(1 << fmt.padding) * rng.integers(
            0, 2, (*shape[:-1], half), bits.unsigned(fmt)
        )
        patterns[..., half : 2 * half] = (patterns[..., :half] ^ sign) ^ step
        patterns = rng.permuted(patterns, axis=-1)
    return patterns


def any_finite(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform finite bit patterns: every magnitude, subnormals among them."""
    patterns = any_pattern(rng, fmt, shape)
    finite = ~(bits.is_nan(patterns, fmt) | bits.is_infinity(patterns, fmt))
    return np.where(finite, patterns, normal(rng, fmt, shape))


def any_pattern(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform bit patterns, infinities and NaN included."""
    unsigned = bits.unsigned(fmt)
    patterns = rng.integers(0, np.iinfo(unsigned).max, shape, unsigned, endpoint=True)
    return patterns & ~unsigned.type((1 << fmt.padding) - 1)


def subnormal(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Subnormals and the smallest normals."""
    limit = 1 << (fmt.fraction_bits + 1)
    patterns = rng.integers(0, limit, shape, np.int64) << fmt.padding
    sign = rng.integers(0, 2, shape, np.int64) << (fmt.bits - 1)
    return (patterns | sign).astype(bits.unsigned(fmt))


def specials(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values with one element in eight replaced by a special pattern."""
    patterns = normal(rng, fmt, shape)
    chosen = rng.choice(special_patterns(fmt), shape)
    return np.where(rng.random(shape) < 0.125, chosen, patterns)


def one_special_row(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values with a single special element, so that the rest of a row shows its effect."""
    patterns = normal(rng, fmt, shape)
    if patterns.size:
        patterns.flat[rng.integers(patterns.size)] = rng.choice(special_patterns(fmt))
    return patterns


def constant(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """One value everywhere: what padding and a wrong count distort most visibly."""
    return np.full(shape, encode_rounded(rng.uniform(0.5, 4.0, ()), fmt))


def few_values(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of one value but for a few elements, of its negative and two others: ties everywhere.

    Most values are zeros, infinities and NaN, so that some rows have hardly a number in them.
    """
    rows = (*shape[:-1], 1)[: len(shape)]
    extremes = special_patterns(fmt)[[0, 1, -4, -3, -2]]
    numbers = normal(rng, fmt, (4, *rows))
    palette = np.where(rng.random((4, *rows)) < 0.6, rng.choice(extremes, (4, *rows)), numbers)
    palette[1] = palette[0] ^ bits.unsigned(fmt).type(1 << (fmt.bits - 1))
    share = rng.choice(np.array([0.03125, 0.25]), rows)
    index = np.where(rng.random(shape) < share, rng.integers(1, 4, shape), 0)
    spread = np.broadcast_to(palette, (4, *shape))
    return np.asarray(np.take_along_axis(spread, index[np.newaxis], 0)[0])


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return np.where(rng.integers(0, 2, shape) == 1, -1.0, 1.0)


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        family.__name__: family
        for family in (
            normal,
            row_scaled,
            underflowing,
            overflowing,
            log_spaced,
            ties,
            cancelling,
            any_finite,
            any_pattern,
            subnormal,
            specials,
            one_special_row,
            constant,
            few_values,
        )
    }
)
