"""Per-head Q RMSNorm of DeepSeek V4 as candle's CUDA backend runs it.

Baseline: huggingface/candle, commit 2a13b0f, the chain sqr, sum_keepdim, affine, affine, recip,
sqrt, broadcast_mul; seven launches, every one rounding to bf16 (kernels: see `_candle.py`).
"""

from __future__ import annotations

from exactness.arithmetic import Value, cast, constant, launch, sqrt, sum_
from exactness.formats import f32

from . import _candle as candle


def qnorm(x: Value, eps: float) -> Value:
    """Normalize each row: x · √(1 / (mean(x²) + eps)).

    Args:
        x: bf16 [rows, n].
        eps: host constant, f64 to bf16.

    Returns:
        bf16 [rows, n].
    """
    n = x.shape[-1]
    square = candle.sqr(x)
    sum_ = candle.fast_sum(square)
    mean = candle.affine(sum_, 1.0 / n, 0.0)
    mean_eps = candle.affine(mean, 1.0, eps)
    recip = candle.recip(mean_eps)
    inv_rms = candle.sqrt(recip)
    return candle.broadcast_mul(x, inv_rms)


@launch
def qnorm_f32_acc(x: Value, eps: float) -> Value:
    """The opt-in f32 accumulator: same order, f32 until the scale; one launch, other bits.

    Args:
        x: bf16 [rows, n].
        eps: host constant, f64 to bf16, then widened to f32.

    Returns:
        bf16 [rows, n].
    """
    n = x.shape[-1]
    wide = cast(x, f32)
    total = sum_(wide * wide, order=candle.fast_sum_order(n))
    mean = total / float(n)
    eps_f32 = cast(constant(eps, x.format, x), f32)
    inv = cast(1.0 / sqrt(mean + eps_f32), x.format)
    return x * inv
