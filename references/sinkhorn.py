"""Sinkhorn normalization as candle's CUDA backend runs it.

Baseline: huggingface/candle, commit 2a13b0f, the chain max, broadcast_sub, exp, sum, broadcast_div,
affine; then alternately sum, affine, broadcast_div along columns and rows (kernels: `_candle.py`).
"""

from __future__ import annotations

from exactness.arithmetic import Value

from . import _candle as candle


def sinkhorn(x: Value, iterations: int, eps: float) -> Value:
    """Softmax of the rows plus eps, then columns and rows divided by their sums in turn.

    Args:
        x: f32 [n, h, h].
        iterations: divisions of the columns.
        eps: host constant, f64 to f32.

    Returns:
        f32 [n, h, h].
    """
    largest = candle.fast_max(x)
    below = candle.broadcast_sub(x, largest)
    power = candle.exp(below)
    total = candle.fast_sum(power)
    softmax = candle.broadcast_div(power, total)
    weights = candle.affine(softmax, 1.0, eps)
    result = normalize(weights, eps, axis=-2)
    for _ in range(iterations - 1):
        rows = normalize(result, eps, axis=-1)
        columns = normalize(rows, eps, axis=-2)
        result = columns
    return result


def normalize(x: Value, eps: float, axis: int) -> Value:
    """Divide by (sum + eps) along `axis`."""
    total = candle.fast_sum(x, axis)
    divisor = candle.affine(total, 1.0, eps)
    return candle.broadcast_div(x, divisor)
