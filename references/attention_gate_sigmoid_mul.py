"""The gate of WeLMv4's attention output: sigmoid of one logit a head, times the head.

Baseline: LinyuanLi0046/sglang, commit 4ca5bcf, python/sglang/srt/layers/welmv4_op.py:
`inplace_sigmoid_mul` and, with one rounding, `inplace_sigmoid_mul_legacy`; one launch each.
"""

from __future__ import annotations

from exactness.arithmetic import Value, cast, launch
from exactness.formats import f32

from . import _triton as triton


@launch
def attention_gate_sigmoid_mul(gate: Value, value: Value) -> Value:
    """The product round(sigmoid(gate)) · value: the sigmoid is rounded to the format of `value`.

    Args:
        gate: bf16, f16 or f32 […, 1], or of the shape of `value`.
        value: like `gate` in format, […, n].

    Returns:
        like `value`, which it replaces.
    """
    gate_f32 = cast(gate, f32)
    sigmoid = triton.sigmoid(gate_f32)
    rounded = cast(sigmoid, value.format)
    return rounded * value


@launch
def attention_gate_sigmoid_mul_once(gate: Value, value: Value) -> Value:
    """The previous precision: the product is taken in f32 and rounded once.

    Args:
        gate: bf16, f16 or f32 […, 1], or of the shape of `value`.
        value: like `gate` in format, […, n].

    Returns:
        like `value`, which it replaces.
    """
    gate_f32 = cast(gate, f32)
    value_f32 = cast(value, f32)
    product = triton.sigmoid(gate_f32) * value_f32
    return cast(product, value.format)
