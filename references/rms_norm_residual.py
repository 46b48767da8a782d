"""RMS norm of x + residual, as WeLM's Triton kernel computes it on Hopper.

Baseline: LinyuanLi0046/sglang, commit 4ca5bcf, python/sglang/srt/layers/welmv4_op.py:
`rms_norm_kernel` and `WelmV4FusedRMSNorm.forward_cuda`; one launch, compiled by Triton 3.6 with
fusion on, called with contiguous tensors at 16 bytes. `rms_norm_previous_precision` is what it
computes under WELM_USE_PREVIOUS_PRECISION=1.

The sum is one f32 addition. The baseline's is not where a bf16 and an f16 meet and the sum only
goes to f16: LLVM narrows it to an f16 addition, in which the bf16 may overflow (Triton 3.6 and 3.7;
no recording has such formats).

`residual_add_rms_norm` is the pair of launches that it fuses, for x, residual and weight of one
format: the sum is rounded to that format as the new residual, and so it is before it is squared.
With a weight of another format the fused kernel squares another rounding than it stores.

`rms_norm_residual_rounded` keeps WeLM's order and mean, and rounds where vLLM's CUDA kernel
`fused_add_rms_norm` does.
"""

from __future__ import annotations

from exactness.arithmetic import Value, cast, launch
from exactness.formats import f32

from ._rms_norm import normalised, to_and_back
from .rms_norm import rms_norm


@launch
def residual_add(x: Value, residual: Value) -> Value:
    """The sum of two values of one format, in that format."""
    return x + residual


def residual_add_rms_norm(
    x: Value, residual: Value, weight: Value, eps: float
) -> tuple[Value, Value, Value]:
    """Two launches: the sum, rounded as the new residual, and `rms_norm` of what was stored.

    Args:
        x: bf16, f16 or f32 [rows, n] or [tokens, heads, n].
        residual: like `x`.
        weight: [n], in the format of `x`.
        eps: host constant, f64 to f32.

    Returns:
        The result and the new residual in the format of `x`, and the result in f32.
    """
    residual_out = residual_add(x, residual)
    out, out_f32 = rms_norm(residual_out, weight, eps)
    return out, residual_out, out_f32


@launch
def rms_norm_residual(
    x: Value, residual: Value, weight: Value, eps: float, residual_after: bool = False
) -> tuple[Value, Value, Value]:
    """The norm of x + residual; the sum is rounded to the weight's format before it is squared.

    Args:
        x: bf16, f16 or f32 [rows, n] or [tokens, heads, n].
        residual: bf16, f16 or f32, the shape of `x`.
        weight: bf16, f16 or f32 [n].
        eps: host constant, f64 to f32.
        residual_after: the new residual is the result, not the sum.

    Returns:
        The result in the format of `x`, the new residual in the format of `residual` (of `x` with
        `residual_after`), and the result in f32.
    """
    total = cast(x, f32) + cast(residual, f32)
    h = to_and_back(total, weight.format)
    new = x.format if residual_after else residual.format
    normal = normalised(h, eps, weight, [x.format, new], residual.format)
    out_f32 = normal * cast(weight, f32)
    out = cast(out_f32, x.format)
    return out, out if residual_after else cast(total, new), out_f32


@launch
def rms_norm_previous_precision(
    x: Value, residual: Value, weight: Value, eps: float, residual_after: bool = False
) -> tuple[Value, Value, Value]:
    """The norm of x + residual, the sum kept in f32; it is stored in the format of `x`.

    Args:
        x: bf16, f16 or f32 [rows, n] or [tokens, heads, n].
        residual: bf16, f16 or f32, the shape of `x`.
        weight: bf16, f16 or f32 [n].
        eps: host constant, f64 to f32.
        residual_after: the new residual is the result, not the sum.

    Returns:
        The result and the new residual in the format of `x`, and the result in f32.
    """
    total = cast(x, f32) + cast(residual, f32)
    normal = normalised(total, eps, weight, [x.format], residual.format)
    out_f32 = normal * cast(weight, f32)
    out = cast(out_f32, x.format)
    as_residual = cast(total, residual.format)
    return out, out if residual_after else cast(as_residual, x.format), out_f32


@launch
def rms_norm_residual_rounded(
    x: Value, residual: Value, weight: Value, eps: float, residual_after: bool = False
) -> tuple[Value, Value, Value]:
    """The norm of x + residual; the sum is rounded to the residual's format before it is squared.

    Args:
        x: bf16, f16 or f32 [rows, n] or [tokens, heads, n].
        residual: bf16, f16 or f32, the shape of `x`.
        weight: bf16, f16 or f32 [n].
        eps: host constant, f64 to f32.
        residual_after: the new residual is the result, not the sum.

    Returns:
        The result in the format of `x`, the new residual in the format of `residual` (of `x` with
        `residual_after`), and the result in f32.
    """
    total = cast(x, f32) + cast(residual, f32)
    rounded = cast(total, residual.format)
    new = x.format if residual_after else residual.format
    normal = normalised(cast(rounded, f32), eps, weight, [x.format, new], residual.format)
    out_f32 = normal * cast(weight, f32)
    out = cast(out_f32, x.format)
    return out, out if residual_after else rounded, out_f32
