"""RMS norm of rows, as WeLM's Triton kernel computes it on Hopper.

Baseline: LinyuanLi0046/sglang, commit 4ca5bcf, python/sglang/srt/layers/welmv4_op.py:
`rms_norm_kernel` and `WelmV4FusedRMSNorm.forward_cuda`; one launch, compiled by Triton 3.6 with
fusion on, called with contiguous tensors at 16 bytes.

The other contracts keep WeLM's order and mean, and take from elsewhere where they round:
`rms_norm_cast_first` from Hugging Face's `LlamaRMSNorm`, `rms_norm_weight_offset` from its
`GemmaRMSNorm`; `rms_norm_weight_offset_rounded` is how ports of that one go wrong.
"""

from __future__ import annotations

from exactness.arithmetic import Value, cast, launch
from exactness.formats import f32

from ._rms_norm import normalised, to_and_back


@launch
def rms_norm(x: Value, weight: Value, eps: float) -> tuple[Value, Value]:
    """Each row over its root mean square, times the weight; rounded to the weight's format first.

    Args:
        x: bf16, f16 or f32 [rows, n] or [tokens, heads, n].
        weight: bf16, f16 or f32 [n].
        eps: host constant, f64 to f32.

    Returns:
        The result in the format of `x`, and before its last rounding in f32.
    """
    h = to_and_back(cast(x, f32), weight.format)
    normal = normalised(h, eps, weight, [x.format])
    out = normal * cast(weight, f32)
    return cast(out, x.format), out


def o_norm(x: Value, weight: Value, eps: float) -> Value:
    """`rms_norm` without the f32 copy: the norm of the attention's output.

    Args:
        x: bf16, f16 or f32 [rows, n] or [tokens, heads, n].
        weight: bf16, f16 or f32 [n].
        eps: host constant, f64 to f32.

    Returns:
        The result in the format of `x`.
    """
    return rms_norm(x, weight, eps)[0]


@launch
def rms_norm_cast_first(x: Value, weight: Value, eps: float) -> tuple[Value, Value]:
    """The normalised row is rounded to the format of `x` before the weight multiplies it.

    Args:
        x: bf16, f16 or f32 [rows, n] or [tokens, heads, n].
        weight: bf16, f16 or f32 [n].
        eps: host constant, f64 to f32.

    Returns:
        The result in the format of `x`, and before its last rounding in f32.
    """
    normal = normalised(cast(x, f32), eps, weight, [x.format])
    rounded = to_and_back(normal, x.format)
    out = rounded * cast(weight, f32)
    return cast(out, x.format), out


@launch
def rms_norm_weight_offset(x: Value, weight: Value, eps: float) -> tuple[Value, Value]:
    """The factor is 1 + weight, formed in f32.

    Args:
        x: bf16, f16 or f32 [rows, n] or [tokens, heads, n].
        weight: bf16, f16 or f32 [n].
        eps: host constant, f64 to f32.

    Returns:
        The result in the format of `x`, and before its last rounding in f32.
    """
    normal = normalised(cast(x, f32), eps, weight, [x.format])
    factor = 1.0 + cast(weight, f32)
    out = normal * factor
    return cast(out, x.format), out


@launch
def rms_norm_weight_offset_rounded(x: Value, weight: Value, eps: float) -> tuple[Value, Value]:
    """The factor is 1 + weight, formed in the weight's format.

    Args:
        x: bf16, f16 or f32 [rows, n] or [tokens, heads, n].
        weight: bf16, f16 or f32 [n].
        eps: host constant, f64 to f32.

    Returns:
        The result in the format of `x`, and before its last rounding in f32.
    """
    normal = normalised(cast(x, f32), eps, weight, [x.format])
    factor = 1.0 + weight
    out = normal * cast(factor, f32)
    return cast(out, x.format), out
