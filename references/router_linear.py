"""The router's scores: tf32 products of a bf16 or f16 row with f32 experts rounded to its format.

Baseline: LinyuanLi0046/sglang, commit 4ca5bcf, python/sglang/srt/layers/welmv4_op.py:
`mmq_style_router_linear` and its kernel. torch casts the weight, then one launch multiplies:
`tl.dot` of operands widened to f32 uses tf32. No configuration of its autotuner changes the bits.
"""

from __future__ import annotations

from exactness.arithmetic import Value, cast, dot, launch
from exactness.formats import Format, f32, tf32


@launch
def narrowed(weight: Value, fmt: Format) -> Value:
    """`weight.to(x.dtype)`."""
    return cast(weight, fmt)


@launch
def scores(x: Value, weight: Value) -> Value:
    """One chain over K. tf32 holds both formats exactly."""
    left = cast(x, tf32)
    right = cast(weight, tf32)
    return dot(left, right.swapaxes(0, 1), accumulator=f32)


def router_linear(x: Value, weight: Value) -> Value:
    """The product x · weightᵀ.

    Args:
        x: bf16 or f16 [tokens, K].
        weight: f32, or the format of `x`, [experts, K].

    Returns:
        f32 [tokens, experts].
    """
    operand = narrowed(weight, x.format)
    return scores(x, operand)
