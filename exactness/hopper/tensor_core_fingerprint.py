"""A short proof that a kind of tensor-core product has the recorded bits, on any machine.

Each product is [64, 128] · [128, 64] + [64, 64] of one family of bit patterns for every operand, so
that subnormals, overflow, cancellation, zeros, infinities and NaN meet each other. The fingerprint
is the SHA-256 of all results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from exactness.bits import Bits
from exactness.formats import Format, f32, tf32
from exactness.hopper.tensor_core import Kind, canonical_nan
from exactness.inputs.patterns import FAMILIES, generator

ROWS, DEPTH, COLUMNS = 64, 128, 64


def operands(kind: Kind) -> Iterator[tuple[Bits, Bits, Bits]]:
    """a, b and the accumulator of every product; tf32 operands as f32 patterns."""
    names = list(FAMILIES)
    formats = (kind.a, kind.b, kind.accumulator)
    shapes = ((ROWS, DEPTH), (DEPTH, COLUMNS), (ROWS, COLUMNS))
    for number in range(4 * len(names)):
        turn = number // len(names)
        # Every family meets itself, then others, in each of the places.
        a, b, acc = (
            _drawn(names[number * (1 + place * turn) % len(names)], fmt, shape, 3 * number + place)
            for place, (fmt, shape) in enumerate(zip(formats, shapes, strict=True))
        )
        yield a, b, acc


def _drawn(family: str, fmt: Format, shape: tuple[int, int], seed: int) -> Bits:
    patterns = FAMILIES[family](generator(seed), fmt, shape)
    return Bits(patterns, f32 if fmt is tf32 else fmt)


def fingerprint(kind: Kind, product: Callable[[Bits, Bits, Bits], NDArray[np.float32]]) -> str:
    """SHA-256 of the results of `product`.

    Args:
        kind: whose operands are drawn.
        product: of `Bits`, [64, 128], [128, 64] and [64, 64], to f32 [64, 64].

    Returns:
        64 hexadecimal digits; results are hashed as little-endian f32, every NaN as 0x7fffffff.
    """
    digest = hashlib.sha256()
    for a, b, acc in operands(kind):
        results = canonical_nan(np.asarray(product(a, b, acc), np.float32))
        digest.update(np.ascontiguousarray(results, "<f4").tobytes())
    return digest.hexdigest()
