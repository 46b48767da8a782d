"""Launches of candle's CUDA backend that several chains share.

Baseline: huggingface/candle, commit 2a13b0f, candle-kernels/src: `affine.cu` (affine),
`cast.cu` (cast), `reduce.cu` (fast_sum, fast_max), `unary.cu` (usqr, urecip, usqrt, usilu, uexp),
`binary.cu` (badd, bsub, bmul, bdiv, bminimum, bmaximum).
"""

from __future__ import annotations

import functools

from exactness import arithmetic
from exactness.arithmetic import Order, Value, cast, expf, launch, max_, sum_
from exactness.arithmetic import sqrt as square_root
from exactness.arithmetic.orders import halving, next_power_of_two, strided
from exactness.formats import Format


@functools.lru_cache(maxsize=64)
def fast_sum_order(n: int) -> Order:
    """One block of threads a row: slots from zero, strided by the block, then a halving tree."""
    block = next_power_of_two(min(1024, n))
    return strided(n, block).then(halving(block), f"candle fast_sum of {n}")


@launch
def sqr(x: Value) -> Value:
    return x * x


@launch
def fast_sum(x: Value, axis: int = -1) -> Value:
    return sum_(x, order=fast_sum_order(x.shape[axis]), axis=axis)


@launch
def fast_max(x: Value) -> Value:
    return max_(x, order=fast_sum_order(x.shape[-1]))


@launch
def affine(x: Value, mul: float, add: float) -> Value:
    return x * mul + add


@launch
def recip(x: Value) -> Value:
    return 1.0 / x


@launch
def sqrt(x: Value) -> Value:
    return square_root(x)


@launch
def broadcast_mul(x: Value, y: Value) -> Value:
    return x * y


@launch
def to_dtype(x: Value, fmt: Format) -> Value:
    return cast(x, fmt)


@launch
def minimum(x: Value, y: float) -> Value:
    return arithmetic.minimum(x, y)


@launch
def maximum(x: Value, y: float) -> Value:
    return arithmetic.maximum(x, y)


@launch
def silu(x: Value) -> Value:
    return x / (1.0 + expf(-x))


@launch
def mul(x: Value, y: Value) -> Value:
    return x * y


@launch
def exp(x: Value) -> Value:
    return expf(x)


@launch
def broadcast_sub(x: Value, y: Value) -> Value:
    return x - y


@launch
def broadcast_div(x: Value, y: Value) -> Value:
    return x / y
