"""Arguments made to show a given fault: values for which it counts, rows that few elements rule."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from exactness.bits import Bits, decode, encode, unsigned
from exactness.formats import Format, format_named
from exactness.inputs import Example
from exactness.inputs.draws import TensorDraw
from exactness.inputs.patterns import encode_rounded, generator, seed_of
from exactness.rounding import round_to

PLANTED = 0.75
"""Share of the elements that planted values, and zeros, take."""

_BINADES = 4
"""By at most so many powers of two a copied row is larger or smaller."""

_ULPS = 2
"""By about so many units in the last place its elements are off, at most."""

BLOCK = 8
"""Neighbours that dominate a row: what one thread loads at once of a 16-bit format."""


def fitting(values: Mapping[int, np.ndarray], fmt: Format) -> np.ndarray:
    """The patterns that a format can hold, in that format.

    Args:
        values: width of a pattern, 16 or 32 bits, to patterns, 1-D. Those of 32 bits are f32; those
            of 16 bits are in whatever format the kernel reads them.
        fmt: the format.
    """
    given = values.get(fmt.bits, np.zeros(0, unsigned(fmt))).astype(unsigned(fmt))
    if fmt.bits != 32 and 32 in values:
        wide = values[32].astype(np.uint32).view(np.float32)
        narrow = encode(round_to(wide, fmt), fmt)
        given = np.union1d(given, narrow[decode(narrow, fmt) == wide])
    return given


def with_values(example: Example, name: str, patterns: np.ndarray) -> dict[str, Any]:
    """The arguments of an example, patterns and zeros planted into one float tensor."""
    draw = example.tensors[name]
    assert isinstance(draw, TensorDraw)
    rng = generator(draw.seed)
    drawn = draw.patterns()
    pool = np.append(patterns, patterns.dtype.type(0))
    planted = np.where(rng.random(drawn.shape) < PLANTED, rng.choice(pool, drawn.shape), drawn)
    return {**example.arguments("cpu"), name: _tensor(planted, draw)}


def with_dominant_blocks(example: Example, seed: str) -> dict[str, Any]:
    """The arguments of an example, one or two blocks of each row far larger than the rest.

    The rest is small enough not to count in a sum of squares, and large enough to be seen. Every
    second row is near 1; the others are of any magnitude whose square is a number, or nearly so.
    """
    arguments = example.arguments("cpu")
    for name, draw in example.tensors.items():
        if isinstance(draw, TensorDraw) and len(draw.shape) > 1:
            rng = generator(seed_of(f"{seed}/{name}"))
            fmt = format_named(draw.format)
            small = 2.0 ** -min(20, fmt.max_exponent - 4)
            values = rng.standard_normal(draw.shape)
            values = np.where(_blocks(rng, draw.shape), values, values * small)
            values = np.ldexp(values, _row_exponents(rng, fmt, draw.shape))
            arguments[name] = _tensor(encode_rounded(values, fmt), draw)
    return arguments


def with_rows_like(
    arguments: Mapping[str, Any], batched: Collection[str], places: np.ndarray, seed: str
) -> dict[str, Any]:
    """Arguments whose rows are copies of some of their rows, most of them varied.

    Args:
        arguments: the arguments.
        batched: the tensors whose first dimension is the batch.
        places: where in the batch the rows are that are copied, from 0 to 1, 1-D. They may be
            wrong: every fourth copy is of any row.
        seed: seeds the choice.
    """
    made = dict(arguments)
    rng = generator(seed_of(seed))
    for name in batched:
        given = Bits.of(arguments[name])
        rows = _copied_rows(generator(seed_of(seed)), given.shape[0], places)
        patterns = given.patterns[rows]
        if isinstance(given.format, Format):
            patterns = _varied(rng, given.format, patterns)
        made[name] = Bits(np.ascontiguousarray(patterns), given.format).torch("cpu")
    return made


def _copied_rows(rng: np.random.Generator, count: int, places: np.ndarray) -> np.ndarray:
    """Which rows are copied, as many as there are."""
    chosen = (rng.choice(places, count) * count).astype(np.int64)
    return np.where(rng.random(count) < 0.25, np.arange(count), chosen)


def _varied(rng: np.random.Generator, fmt: Format, patterns: np.ndarray) -> np.ndarray:
    """Rows at other magnitudes, their elements a few ulp off, in half of them some exchanged."""
    values = decode(patterns, fmt).astype(np.float64)
    rows = (*values.shape[:1], *(1 for _ in values.shape[1:]))
    exchanged = rng.random(values.shape) < rng.random(rows) - 0.5
    values = np.where(exchanged, rng.permuted(values, axis=-1), values)
    ulps = np.where(rng.random(rows) < 0.75, rng.integers(-_ULPS, _ULPS + 1, values.shape), 0)
    values = values * (1 + np.ldexp(ulps.astype(np.float64), -fmt.fraction_bits))
    return encode_rounded(np.ldexp(values, rng.integers(-_BINADES, _BINADES + 1, rows)), fmt)


def _row_exponents(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Magnitudes of rows: 2^0, or one from where squares underflow to where they overflow."""
    rows = (*shape[:-1], 1)
    low = (fmt.min_exponent - fmt.fraction_bits) // 2
    anywhere = rng.integers(low, fmt.max_exponent // 2, rows)
    return np.where(rng.random(rows) < 0.5, 0, anywhere)


def _blocks(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Whether an element is in a dominant block of its row."""
    *rows, count = shape
    block = np.arange(count) // BLOCK
    chosen = rng.integers(0, -(-count // BLOCK) or 1, (2, *rows, 1))
    second = rng.random((*rows, 1)) < 0.5
    return (block == chosen[0]) | ((block == chosen[1]) & second)


def _tensor(patterns: np.ndarray, draw: TensorDraw) -> Any:
    fmt = format_named(draw.format)
    return Bits(np.ascontiguousarray(patterns).astype(unsigned(fmt)), fmt).torch("cpu")
