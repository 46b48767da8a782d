"""RMS norm of every key head, as WeLM's Triton kernel computes it on Hopper.

Baseline: LinyuanLi0046/sglang, commit 4ca5bcf, python/sglang/srt/layers/welmv4_op.py:
`mmq_style_k_rms_norm`; one launch, compiled by Triton 3.6 with fusion on.
"""

from __future__ import annotations

from exactness.arithmetic import Value, cast, launch
from exactness.arithmetic.orders import next_power_of_two
from exactness.formats import f32

from ._squares import Layout, inverse_rms


@launch
def k_rms_norm(x: Value, weight: Value, eps: float) -> Value:
    """Each head over its root mean square, times the weight.

    Args:
        x: bf16, f16 or f32 [tokens, heads, head_dim].
        weight: bf16, f16 or f32 [head_dim].
        eps: host constant, f64 to f32.

    Returns:
        The result in the format of `x`.
    """
    tokens, heads, head_dim = x.shape
    rows = cast(x, f32).reshape(tokens * heads, head_dim)
    layout = Layout.of(head_dim, next_power_of_two(heads), 128 // x.format.bits)
    normal = rows * inverse_rms(rows, eps, layout)
    out = normal * cast(weight, f32)
    return cast(out.reshape(tokens, heads, head_dim), x.format)
