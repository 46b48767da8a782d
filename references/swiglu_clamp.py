"""SwiGLU with clamps as candle's CUDA backend runs it.

Baseline: huggingface/candle, commit 2a13b0f: to_dtype, minimum, to_dtype, maximum, minimum, silu,
mul, to_dtype; eight launches, f32 in between (candle-kernels/src: `cast.cu`, `binary.cu`,
`unary.cu`).
"""

from __future__ import annotations

from exactness.arithmetic import Value
from exactness.formats import f32

from . import _candle as candle


def swiglu_clamp(gate: Value, up: Value, limit: float) -> Value:
    """The product silu(min(gate, limit)) · min(max(up, −limit), limit).

    Args:
        gate: bf16, f16 or f32, any shape.
        up: like `gate`.
        limit: host constant, f64 to f32.

    Returns:
        like `gate`.
    """
    gate_f32 = candle.to_dtype(gate, f32)
    gate_clamped = candle.minimum(gate_f32, limit)
    up_f32 = candle.to_dtype(up, f32)
    up_above = candle.maximum(up_f32, -limit)
    up_clamped = candle.minimum(up_above, limit)
    activated = candle.silu(gate_clamped)
    product = candle.mul(activated, up_clamped)
    return candle.to_dtype(product, gate.format)
