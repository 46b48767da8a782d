"""CUDA's accurate f32 functions, as nvcc compiles them without fast math.

torch's CUDA operators on f32, and on bf16 with one more rounding, are built from these with IEEE
division: `exp` is `expf`, `tanh` `tanhf`, `erf` `erff`; `sigmoid` is 1 / (1 + expf(−x)), `silu`
x / (1 + expf(−x)), `gelu` (x · 0.5) · (1 + erff(x · f32(√½))). `rsqrt` is
`special.rsqrt_approx` without `.ftz`; `sqrt` and `reciprocal` are IEEE.

Every function takes f32 values of any shape, a NumPy array or a CUDA tensor, and returns f32 of
the same shape and kind, the same bits on both. A dtype other than f32 is a TypeError.

Source: the PTX of nvcc 13.0 for sm_90, which gives the order of operations and, by their bit
patterns, the constants.
"""

from __future__ import annotations

import numpy as np

from exactness import arrays
from exactness.arrays import Array
from exactness.blocks import in_blocks
from exactness.hopper.special import ex2_approx, rcp_approx, require_f32
from exactness.rounding import fma

_SIGN = -0x80000000
_MAGNITUDE = 0x7FFFFFFF


def _f32(*patterns: int) -> list[float]:
    """The numbers with these f32 bit patterns."""
    return [float(x) for x in np.array(patterns, np.uint32).view(np.float32)]


(_LOG2E, _LOG2E_LOW, _LOG2E_OVER_252) = _f32(0x3FB8AA3B, 0x32A57060, 0x3BBB989D)

(_TWO_LOG2E, _TANH_MIDDLE, _TANH_LARGE) = _f32(0x4038AA3B, 0x3F19999A, 0x41102CB4)
_TANH = _f32(0x3C80F082, 0xBD563CAE, 0x3E085941, 0xBEAAA9ED, 0x00000000)

(_ERF_LARGE,) = _f32(0x3F8060FE)
_ERF_SMALL_COEFFICIENTS = _f32(
    0x38B1E96A, 0xBA574D20, 0x3BAAD5EA, 0xBCDC1BE7, 0x3DE718AF, 0xBEC093AC, 0x3E0375D3
)
_ERF_LARGE_COEFFICIENTS = _f32(
    0x38EB4C3A, 0xBAAE005B, 0x3C09919F, 0xBD24D99A, 0x3E235519, 0x3F69B4F9, 0x3F210A14
)


@in_blocks
def expf(x: Array) -> Array:
    """e^x: CUDA's `expf`, as 2^n · ex2(r) with a reduction in two steps.

    Args:
        x: f32, any shape.

    Returns:
        f32 of the shape of `x`; subnormal results are kept.

    Raises:
        TypeError: `x` is not f32.
    """
    require_f32(x=x)
    with np.errstate(all="ignore"):
        n = _exponent(x)
        r = fma(x, _like(x, _LOG2E), arrays.astype(-n, "float32"))
        r = fma(x, _like(x, _LOG2E_LOW), r)
        scale = arrays.view((n + 127) << 23, "float32").reshape(x.shape)
        return ex2_approx(r, ftz=True) * scale


def _exponent(x: Array) -> Array:
    """The int32 exponent n in [−126, 126] of `expf`, found by a saturated fma.

    nvcc adds 1.5 · 2^23 in an fma rounded down, which is the floor of an exact product.
    """
    t = fma(x, _like(x, _LOG2E_OVER_252), _like(x, 0.5))
    t = arrays.where(t != t, 0.0 * _like(x, 1.0), t.clip(0.0, 1.0))
    return arrays.astype(arrays.astype(t, "float64") * 252.0, "int32") - 126


@in_blocks
def tanhf(x: Array) -> Array:
    """Hyperbolic tangent: CUDA's `tanhf`, a polynomial below 0.6, above from ex2 and rcp.

    Args:
        x: f32, any shape.

    Returns:
        f32 of the shape of `x`.

    Raises:
        TypeError: `x` is not f32.
    """
    require_f32(x=x)
    one = _like(x, 1.0)
    with np.errstate(all="ignore"):
        magnitude = abs(x)
        power = ex2_approx(magnitude * _TWO_LOG2E, ftz=True)
        large = fma(rcp_approx(power + 1.0, ftz=True), -2.0 * one, one)
        large = arrays.where(magnitude >= _TANH_LARGE, one, large)
        small = fma(_polynomial(x * x, [c * one for c in _TANH]), x, x)
        return arrays.where(magnitude >= _TANH_MIDDLE, _copy_sign(x, large), small)


@in_blocks
def erff(x: Array) -> Array:
    """Error function: CUDA's `erff`, a polynomial below 1.003 and 1 − ex2(polynomial) above.

    Args:
        x: f32, any shape.

    Returns:
        f32 of the shape of `x`.

    Raises:
        TypeError: `x` is not f32.
    """
    require_f32(x=x)
    one = _like(x, 1.0)
    with np.errstate(all="ignore"):
        magnitude = abs(x)
        large = magnitude >= _ERF_LARGE
        pairs = zip(_ERF_LARGE_COEFFICIENTS, _ERF_SMALL_COEFFICIENTS, strict=True)
        coefficients = [arrays.where(large, high * one, low * one) for high, low in pairs]
        polynomial = _polynomial(arrays.where(large, magnitude, x * x), coefficients)
        factor = arrays.where(large, -magnitude, x)
        y = fma(polynomial, factor, factor)
        return arrays.where(large, _copy_sign(x, 1.0 - ex2_approx(y, ftz=True)), y)


def _polynomial(x: Array, coefficients: list[Array]) -> Array:
    """Horner's scheme in fma, highest coefficient first."""
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = fma(value, x, coefficient)
    return value


def _copy_sign(sign: Array, magnitude: Array) -> Array:
    bits = (arrays.view(magnitude, "int32") & _MAGNITUDE) | (arrays.view(sign, "int32") & _SIGN)
    return arrays.view(bits, "float32").reshape(sign.shape)


def _like(x: Array, value: float) -> Array:
    """A scalar f32 array beside `x`."""
    return arrays.full(x, (), value, "float32")
