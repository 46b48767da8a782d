"""The chain of `tensor_core.matmul` on NumPy arrays, compiled by numba.

Everything is exact in f64 but the two roundings of the model: a product has at most 22 significant
bits, scaling is by powers of two, aligned terms are integers below 2^27 and their sum is below
2^53. Infinities and NaN pass through unharmed, since the scale is never one of them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from exactness.formats import Format
from exactness.hopper.tensor_core import Kind
from exactness.rounding import Rounding

_ZERO = -4096
"""Exponent of a zero operand: with any other operand's, below every accumulator's."""

_PRODUCTS = 1 << 23
"""Products a thread is started for: a few milliseconds."""

_COLUMNS = 64
"""Columns a block, so that a row of its temporaries stays in the first-level cache."""


def chain(a: np.ndarray, b: np.ndarray, out: np.ndarray, kind: Kind) -> None:
    """Add a · b to `out`, in place; large products on every core that this process may use.

    Args:
        a: f32 values of `kind.a`, [B, M, K].
        b: f32 values of `kind.b`, [B, K, N].
        out: f32 values of `kind.accumulator`, [B, M, N], contiguous.
        kind: the instructions.
    """
    padding = -a.shape[2] % kind.step  # Products of zeros do not show.
    a = np.pad(a, ((0, 0), (0, 0), (0, padding)))
    b = np.pad(b, ((0, 0), (0, padding), (0, 0)))
    left, left_exponent = a.astype(np.float64), _exponents(a, kind.a)
    right, right_exponent = b.astype(np.float64), _exponents(b, kind.b)
    constants = _constants(kind)

    def compute(batch: slice, rows: slice) -> None:
        part = (left[batch, rows], left_exponent[batch, rows], right[batch], right_exponent[batch])
        _chain(*part, out[batch, rows], *constants)

    parts = list(_parts(out.shape, out.size * a.shape[2]))
    if len(parts) == 1:
        compute(*parts[0])
    else:
        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(lambda part: compute(*part), parts))


def _parts(shape: tuple[int, ...], products: int) -> Iterator[tuple[slice, slice]]:
    """Batches and rows of each thread: rows of a single product, else whole products."""
    single = shape[0] == 1
    size = shape[1] if single else shape[0]
    threads = min(len(os.sched_getaffinity(0)), size, max(products // _PRODUCTS, 1))
    bounds = [size * i // threads for i in range(threads + 1)]
    for part in itertools.starmap(slice, itertools.pairwise(bounds)):
        yield (slice(None), part) if single else (part, slice(None))


def _constants(kind: Kind) -> tuple[Any, ...]:
    """What the compiled loop needs to know."""
    return (
        kind.step,
        kind.fraction_bits,
        kind.accumulator.min_exponent,
        kind.zero_exponent,
        kind.result.fraction_bits,
        kind.result.min_exponent,
        kind.result.largest,
        kind.rounding is Rounding.NEAREST_EVEN,
        kind.alignment is Rounding.NEAREST_EVEN,
    )


def _exponents(x: np.ndarray, fmt: Format) -> np.ndarray:
    """int16 exponents; subnormals of `fmt` have its least."""
    bits = x.view(np.int32)
    exponent = np.maximum((bits >> 23 & 0xFF) - 127, fmt.min_exponent)
    return np.where(x == 0, _ZERO, exponent).astype(np.int16)


def _llvm_unary(name: str) -> Any:
    """An LLVM intrinsic on f64. NumPy's function would be a call, and keep loops scalar."""

    def typed(context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            function = builder.module.declare_intrinsic(name, [ir.DoubleType()])
            return builder.call(function, arguments)

        return types.float64(types.float64), generate

    return intrinsic(typed)


_truncate = _llvm_unary("llvm.trunc")
_nearest = _llvm_unary("llvm.rint")


_inlined = njit(error_model="numpy", inline="always")

# Loops run from 0 over small arrays of their own. Indices of unknown sign and views of the
# operands' rows would keep them scalar: five times slower.


@_inlined
def _top_of_accumulator(
    top: np.ndarray, bits: np.ndarray, width: int, least: int, zero_exponent: int
) -> None:
    for n in range(width):
        exponent = max((bits[n] >> 23 & 0xFF) - 127, least)
        top[n] = zero_exponent if bits[n] & 0x7FFFFFFF == 0 else exponent


@_inlined
def _raise(top: np.ndarray, a: np.ndarray, b: np.ndarray, step: int, width: int) -> None:
    """Raise the largest exponents to those of the products."""
    for k in range(0, step, 4):
        a0, a1, a2, a3 = a[k], a[k + 1], a[k + 2], a[k + 3]
        for n in range(width):
            x = max(top[n], np.int16(a0 + b[k, n]))
            x = max(x, np.int16(a1 + b[k + 1, n]))
            x = max(x, np.int16(a2 + b[k + 2, n]))
            top[n] = max(x, np.int16(a3 + b[k + 3, n]))


@_inlined
def _start(
    total: np.ndarray,
    power: np.ndarray,
    power_bits: np.ndarray,
    top: np.ndarray,
    acc: np.ndarray,
    width: int,
    fraction_bits: int,
    to_nearest: bool,
) -> None:
    """The scale of every column, and the aligned accumulator as the first term."""
    for n in range(width):
        power_bits[n] = np.int64(1023 + fraction_bits - top[n]) << 52
        x = acc[n] * power[n]
        total[n] = _nearest(x) if to_nearest else _truncate(x)


@_inlined
def _add(
    total: np.ndarray,
    power: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    step: int,
    width: int,
    to_nearest: bool,
) -> None:
    """Add the aligned products."""
    for k in range(0, step, 4):
        a0, a1, a2, a3 = a[k], a[k + 1], a[k + 2], a[k + 3]
        for n in range(width):
            p0 = a0 * b[k, n] * power[n]
            p1 = a1 * b[k + 1, n] * power[n]
            p2 = a2 * b[k + 2, n] * power[n]
            p3 = a3 * b[k + 3, n] * power[n]
            if to_nearest:
                total[n] += _nearest(p0) + _nearest(p1) + _nearest(p2) + _nearest(p3)
            else:
                total[n] += _truncate(p0) + _truncate(p1) + _truncate(p2) + _truncate(p3)


@_inlined
def _round(
    total: np.ndarray,
    total_bits: np.ndarray,
    power: np.ndarray,
    power_bits: np.ndarray,
    top: np.ndarray,
    width: int,
    fraction_bits: int,
    result_fraction: int,
    result_least: int,
    to_nearest: bool,
) -> None:
    """From integers to values, exactly, and from those to the result's significand."""
    for n in range(width):
        power_bits[n] = np.int64(1023 - fraction_bits + top[n]) << 52
        total[n] *= power[n]
    for n in range(width):
        top[n] = max((total_bits[n] >> 52 & 0x7FF) - 1023, result_least) - result_fraction
        power_bits[n] = np.int64(1023 - top[n]) << 52
    for n in range(width):
        x = total[n] * power[n]
        total[n] = _nearest(x) if to_nearest else _truncate(x)
        power_bits[n] = np.int64(1023 + top[n]) << 52
    for n in range(width):
        total[n] *= power[n]


@_inlined
def _store(
    acc: np.ndarray, bits: np.ndarray, total: np.ndarray, width: int, largest: float
) -> None:
    for n in range(width):
        x = total[n]
        x = np.inf if x > largest else x
        x = -np.inf if x < -largest else x
        acc[n] = x + 0.0  # −0 becomes +0.
    for n in range(width):
        bits[n] = 0x7FFFFFFF if acc[n] != acc[n] else bits[n]


@njit(cache=True, error_model="numpy", nogil=True)
def _chain(
    a: np.ndarray,
    a_exponent: np.ndarray,
    b: np.ndarray,
    b_exponent: np.ndarray,
    out: np.ndarray,
    step: int,
    fraction_bits: int,
    least: int,
    zero_exponent: int,
    result_fraction: int,
    result_least: int,
    largest: float,
    to_nearest: bool,
    align_to_nearest: bool,
) -> None:
    left, right = np.empty(step), np.empty((step, _COLUMNS))
    left_top, right_top = np.empty(step, np.int16), np.empty((step, _COLUMNS), np.int16)
    top, acc = np.empty(_COLUMNS, np.int16), np.empty(_COLUMNS, np.float32)
    power, total = np.empty(_COLUMNS), np.empty(_COLUMNS)
    acc_bits = acc.view(np.int32)
    power_bits, total_bits = power.view(np.int64), total.view(np.int64)
    for i in range(out.shape[0]):
        for n0 in range(0, out.shape[2], _COLUMNS):
            width = min(_COLUMNS, out.shape[2] - n0)
            for k0 in range(0, a.shape[2], step):
                for k in range(step):
                    for n in range(width):
                        right[k, n] = b[i, k0 + k, n0 + n]
                        right_top[k, n] = b_exponent[i, k0 + k, n0 + n]
                for m in range(out.shape[1]):
                    for k in range(step):
                        left[k] = a[i, m, k0 + k]
                        left_top[k] = a_exponent[i, m, k0 + k]
                    for n in range(width):
                        acc[n] = out[i, m, n0 + n]
                    _top_of_accumulator(top, acc_bits, width, least, zero_exponent)
                    _raise(top, left_top, right_top, step, width)
                    _start(
                        total, power, power_bits, top, acc, width, fraction_bits, align_to_nearest
                    )
                    _add(total, power, left, right, step, width, align_to_nearest)
                    _round(
                        total,
                        total_bits,
                        power,
                        power_bits,
                        top,
                        width,
                        fraction_bits,
                        result_fraction,
                        result_least,
                        to_nearest,
                    )
                    _store(acc, acc_bits, total, width, largest)
                    for n in range(width):
                        out[i, m, n0 + n] = acc[n]
