"""The chain of `tensor_core.matmul` on tensors: the same f64 arithmetic, one step at a time.

Sums of aligned terms are exact, so the order in which a GPU adds them does not show.
"""

from __future__ import annotations

from exactness import arrays
from exactness.arrays import Array
from exactness.formats import Format
from exactness.hopper.tensor_core import Kind, canonical_nan, exponents, power_of_two
from exactness.rounding import Rounding, round_to

_ZERO = -4096
"""Exponent of a zero operand: with any other operand's, below every accumulator's."""

_PRODUCTS = 1 << 24
"""Products held at once: 128 MiB an f64 temporary."""


def chain(a: Array, b: Array, out: Array, kind: Kind) -> None:
    """Add a · b to `out`, in place.

    Args:
        a: f32 values of `kind.a`, [B, M, K].
        b: f32 values of `kind.b`, [B, K, N].
        out: f32 values of `kind.accumulator`, [B, M, N].
        kind: the instructions.
    """
    rows = max(_PRODUCTS // (kind.step * b.shape[2]), 1)
    for i in range(a.shape[0]):
        for m in range(0, a.shape[1], rows):
            part = out[i, m : m + rows]
            for k in range(0, a.shape[2], kind.step):
                left, right = a[i, m : m + rows, k : k + kind.step], b[i, k : k + kind.step]
                part[...] = _step(left, right, part, kind)


def _step(a: Array, b: Array, acc: Array, kind: Kind) -> Array:
    """One instruction: [M, K] · [K, N] + [M, N]."""
    sums = _operand_exponents(a, kind.a)[:, :, None] + _operand_exponents(b, kind.b)[None]
    start = arrays.where(acc == 0, kind.zero_exponent, exponents(acc, kind.accumulator))
    top = arrays.namespace(a).maximum(arrays.namespace(a).amax(sums, 1), start)
    scale = power_of_two(kind.fraction_bits - top)
    products = arrays.astype(a, "float64")[:, :, None] * arrays.astype(b, "float64")[None]
    terms = _integral(products * scale[:, None], kind.alignment)
    total = terms.sum(1) + _integral(arrays.astype(acc, "float64") * scale, kind.alignment)
    return _rounded(total * power_of_two(top - kind.fraction_bits), kind)


def _operand_exponents(x: Array, fmt: Format) -> Array:
    """int64 exponents, zeros far below the rest."""
    return arrays.where(x == 0, _ZERO, exponents(x, fmt))


def _integral(x: Array, mode: Rounding) -> Array:
    """The integer next to `x`, toward zero or nearest even."""
    functions = arrays.namespace(x)
    return functions.trunc(x) if mode is Rounding.TOWARD_ZERO else functions.round(x)


def _rounded(x: Array, kind: Kind) -> Array:
    """An exact f64 sum in the result's format."""
    limit = kind.result.largest
    rounded = arrays.astype(round_to(x, kind.result, kind.rounding), "float32")
    # Rounding toward zero stops at the largest number; the hardware's overflow does not.
    over = abs(x) >= 2.0 * 2.0**kind.result.max_exponent
    infinite = arrays.namespace(x).copysign(arrays.full(x, (), float("inf"), "float32"), rounded)
    return canonical_nan(arrays.where(over | (abs(rounded) > limit), infinite, rounded + 0.0))
