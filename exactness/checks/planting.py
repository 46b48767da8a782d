"""Arguments made to show a given fault: values for which it counts, rows that few elements rule."""

from __future__ import annotations

from collections.abc import Mapping
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

    The rest is small enough not to count in a sum of squares, and large enough to be seen.
    """
    arguments = example.arguments("cpu")
    for name, draw in example.tensors.items():
        if isinstance(draw, TensorDraw) and len(draw.shape) > 1:
            rng = generator(seed_of(f"{seed}/{name}"))
            fmt = format_named(draw.format)
            small = 2.0 ** -min(20, fmt.max_exponent - 4)
            values = rng.standard_normal(draw.shape)
            values = np.where(_blocks(rng, draw.shape), values, values * small)
            arguments[name] = _tensor(encode_rounded(values, fmt), draw)
    return arguments


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
