"""Hopper's approximate special functions, for every f32 input, with the H200's bits.

A result is one look-up in a recorded table (`exactness.hopper.tables`), moved to its exponent by
integer arithmetic. The `.ftz` form is the MUFU instruction itself; the other form is what ptxas
13.0 emits around it for sm_90 (read from its SASS): subnormal or huge operands are scaled by a
power of two before MUFU and the result is scaled back.

Every function takes f32 values of any shape, a NumPy array or a CUDA tensor, and returns f32 of
the same shape and kind, the same bits on both. `ftz` chooses between `<name>.approx.ftz.f32`
(True) and `<name>.approx.f32` (False). NaN results are 0x7fffffff. A dtype other than f32 is a
TypeError.

Sources: PTX ISA 9.0, sections "rcp", "sqrt", "rsqrt" and "ex2" of the floating-point
instructions, for zeros, infinities and NaN; exhaustive recordings on an H200 for the rest
(`scripts/measure_special_functions.py` repeats them over all 2^32 inputs).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from exactness import arrays
from exactness.arrays import Array
from exactness.blocks import in_blocks
from exactness.hopper import tables

_SIGN = -0x80000000
_MAGNITUDE = 0x7FFFFFFF
_INFINITY = 0x7F800000
_SMALLEST_NORMAL = 0x00800000
_NAN = 0x7FFFFFFF
_ONE = 0x3F800000
_FRACTION = 0x7FFFFF

_TINY = 2.0**-126
"""Magnitudes below it are subnormal; the SASS compares with it."""
_HUGE = 2.0**126
"""Above it a reciprocal is subnormal; the SASS compares with it."""


@in_blocks
def ex2_approx(x: Array, *, ftz: bool) -> Array:
    """2^x: `ex2.approx.ftz.f32`, or `ex2.approx.f32`, which squares ex2(x/2) below −126.

    Args:
        x: f32, any shape.
        ftz: flush subnormal results to zero.

    Returns:
        f32 of the shape of `x`.

    Raises:
        TypeError: `x` is not f32.
    """
    require_f32(x=x)
    with np.errstate(all="ignore"):
        if ftz:
            return _mufu_ex2(x)
        low = x < -126.0
        z = _mufu_ex2(arrays.where(low, x * 0.5, x))
        return arrays.where(low, z * z, z)


@in_blocks
def rsqrt_approx(x: Array, *, ftz: bool) -> Array:
    """1/√x: `rsqrt.approx.ftz.f32`, or `rsqrt.approx.f32` (2^24 in, 2^12 out if subnormal).

    Args:
        x: f32, any shape. ±0 gives ±inf, negative values NaN.
        ftz: treat subnormal inputs as zeros of their sign.

    Returns:
        f32 of the shape of `x`.

    Raises:
        TypeError: `x` is not f32.
    """
    require_f32(x=x)
    return _root(_mufu_rsq, x, 2.0**12, ftz=ftz)


@in_blocks
def sqrt_approx(x: Array, *, ftz: bool) -> Array:
    """√x: `sqrt.approx.ftz.f32`, or `sqrt.approx.f32` (2^24 in, 2^-12 out if subnormal).

    Args:
        x: f32, any shape. ±0 gives ±0, negative values NaN.
        ftz: treat subnormal inputs as zeros of their sign.

    Returns:
        f32 of the shape of `x`.

    Raises:
        TypeError: `x` is not f32.
    """
    require_f32(x=x)
    return _root(_mufu_sqrt, x, 2.0**-12, ftz=ftz)


@in_blocks
def rcp_approx(x: Array, *, ftz: bool) -> Array:
    """1/x: `rcp.approx.ftz.f32`, or `rcp.approx.f32`, which keeps subnormals on both sides.

    Args:
        x: f32, any shape. ±0 gives ±inf, ±inf gives ±0.
        ftz: flush subnormal inputs and results to zeros of their sign.

    Returns:
        f32 of the shape of `x`.

    Raises:
        TypeError: `x` is not f32.
    """
    require_f32(x=x)
    with np.errstate(all="ignore"):
        if ftz:
            return _mufu_rcp(x)
        return scale_for_reciprocal(_mufu_rcp(scale_for_reciprocal(x, x)), x)


def scale_for_reciprocal(x: Array, divisor: Array) -> Array:
    """Scale `x` by the power of two that brings `divisor` into MUFU.RCP's range.

    Args:
        x: f32, any shape.
        divisor: f32, a shape that broadcasts with it.

    Returns:
        f32 of the broadcast shape: x · 2^-2 where |divisor| > 2^126, x · 2^24 where it is zero or
        subnormal, else x.
    """
    magnitude = abs(divisor)
    scaled = arrays.where(magnitude < _TINY, x * 2.0**24, x)
    return arrays.where(magnitude > _HUGE, x * 0.25, scaled)


def require_f32(**operands: Array) -> None:
    """Refuse operands that are not f32.

    Args:
        operands: the arrays by argument name.

    Raises:
        TypeError: naming the first operand of another dtype.
    """
    for name, x in operands.items():
        if arrays.dtype_name(x) != "float32":
            raise TypeError(f"{name}: dtype {arrays.dtype_name(x)}; float32 is accepted")


def _root(mufu: Callable[[Array], Array], x: Array, back: float, *, ftz: bool) -> Array:
    with np.errstate(all="ignore"):
        if ftz:
            return mufu(x)
        low = abs(x) < _TINY
        y = mufu(arrays.where(low, x * 2.0**24, x))
        return arrays.where(low, y * back, y)


def _mufu_ex2(x: Array) -> Array:
    """MUFU.EX2. The argument counts to 2^-23, truncated toward zero.

    A negative argument is split into its floor and the ones' complement of its fraction: one
    unit of 2^-23 less than the two's complement split. Only integers escape: they are exact.
    """
    units = arrays.astype(x.clip(-126.0, 128.0) * 2.0**23, "int32")
    inexact_negative = (units < 0) & ((units & _FRACTION) != 0)
    units = units - arrays.astype(inexact_negative, "int32")
    # The table holds ex2 on [1, 2), one above the fraction. 128 lands on the pattern of +inf.
    bits = tables.look_up(tables.EX2, units & _FRACTION) + (((units >> 23) - 1) << 23)
    bits = arrays.where(x < -126.0, 0, bits)
    return _finish(x, bits)


def _mufu_rsq(x: Array) -> Array:
    bits, quarter, index = _split_by_four(x)
    result = tables.look_up(tables.RSQ, index) - (quarter << 23)
    result = arrays.where(bits == _INFINITY, 0, result)
    result = arrays.where(bits < 0, _NAN, result)
    zero = (bits & _MAGNITUDE) < _SMALLEST_NORMAL
    return _finish(x, arrays.where(zero, (bits & _SIGN) | _INFINITY, result))


def _mufu_sqrt(x: Array) -> Array:
    bits, quarter, index = _split_by_four(x)
    result = tables.look_up(tables.SQRT, index) + (quarter << 23)
    result = arrays.where(bits == _INFINITY, _INFINITY, result)
    result = arrays.where(bits < 0, _NAN, result)
    zero = (bits & _MAGNITUDE) < _SMALLEST_NORMAL
    return _finish(x, arrays.where(zero, bits & _SIGN, result))


def _mufu_rcp(x: Array) -> Array:
    bits = arrays.view(x, "int32")
    sign, magnitude = bits & _SIGN, bits & _MAGNITUDE
    exponent = (magnitude >> 23) - 127
    result = tables.look_up(tables.RCP, bits & _FRACTION) - (exponent << 23)
    # Operands beyond 2^126 have subnormal reciprocals; infinity goes the same way.
    result = arrays.where(result < _SMALLEST_NORMAL, 0, result)
    result = arrays.where(magnitude < _SMALLEST_NORMAL, _INFINITY, result)
    return _finish(x, sign | result)


def _split_by_four(x: Array) -> tuple[Array, Array, Array]:
    """Bits of x = 4^k · m with m in [1, 4), k, and the index of m in its table."""
    bits = arrays.view(x, "int32")
    offset = (bits & _MAGNITUDE) - _ONE
    return bits, offset >> 24, offset & 0xFFFFFF


def _finish(x: Array, bits: Array) -> Array:
    return arrays.view(arrays.where(x != x, _NAN, bits), "float32").reshape(x.shape)
