"""Launches of candle's CUDA backend that several chains share.

Baseline: huggingface/candle, commit 2a13b0f, candle-kernels/src: `affine.cu` (affine),
`reduce.cu` (fast_sum), `unary.cu` (usqr, urecip, usqrt), `binary.cu` (bmul).
"""

from __future__ import annotations

from exactness.arithmetic import Order, Value, launch, sum_
from exactness.arithmetic import sqrt as square_root
from exactness.arithmetic.orders import halving, next_power_of_two, strided


def fast_sum_order(n: int) -> Order:
    """One block of threads a row: slots from zero, strided by the block, then a halving tree."""
    block = next_power_of_two(min(1024, n))
    return strided(n, block).then(halving(block), f"candle fast_sum of {n}")


@launch
def sqr(x: Value) -> Value:
    return x * x


@launch
def fast_sum(x: Value) -> Value:
    return sum_(x, order=fast_sum_order(x.shape[-1]))


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
