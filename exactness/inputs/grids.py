"""Grids: tensors that go through all patterns of a format, for proofs over a whole domain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from exactness import bits
from exactness.formats import Format
from exactness.inputs.patterns import Family, any_finite, special_patterns


def domain(fmt: Format) -> int:
    """The number of patterns of a format.

    Raises:
        ValueError: a format of more than 16 bits, whose grid would not fit.
    """
    if fmt.bits > 16:
        raise ValueError(
            f"grid: {fmt.name} has 2^{fmt.bits} patterns; 16 bits at most are accepted"
        )
    return 1 << fmt.bits


def every_pattern(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """All patterns in ascending order, again and again."""
    flat = np.arange(math.prod(shape)) % domain(fmt)
    return flat.astype(bits.unsigned(fmt)).reshape(shape)


def held_pattern(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """One pattern for a whole round of `every_pattern`, then the next: specials, then others."""
    rounds = -(-math.prod(shape) // domain(fmt))
    others = any_finite(rng, fmt, (max(rounds, 1),))
    chosen = np.concatenate([special_patterns(fmt), others])[: max(rounds, 1)]
    flat = np.repeat(chosen, domain(fmt))[: math.prod(shape)]
    return flat.astype(bits.unsigned(fmt)).reshape(shape)


GRIDS: Mapping[str, Family] = MappingProxyType(
    {family.__name__: family for family in (every_pattern, held_pattern)}
)
