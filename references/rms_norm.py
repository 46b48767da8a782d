"""RMS norm of rows, with or without a residual, as WeLM's Triton kernel computes it on Hopper.

Baseline: LinyuanLi0046/sglang, commit 4ca5bcf, python/sglang/srt/layers/welmv4_op.py:
`rms_norm_kernel` and `WelmV4FusedRMSNorm.forward_cuda`; one launch. `rms_norm_previous_precision`
is what it computes under WELM_USE_PREVIOUS_PRECISION=1. Compiled by Triton 3.6 with fusion on,
called with contiguous tensors at 16 bytes.

The other contracts keep WeLM's order and mean, and take from elsewhere where they round:
`rms_norm_residual_rounded` from vLLM's CUDA kernel `fused_add_rms_norm`, `rms_norm_cast_first` from
Hugging Face's `LlamaRMSNorm`, `rms_norm_weight_offset` from its `GemmaRMSNorm`, and
`rms_norm_weight_offset_rounded` from ports of that one that form 1 + weight in the weight's format.
"""

from __future__ import annotations

from collections.abc import Sequence

from exactness.arithmetic import Value, cast, launch
from exactness.formats import Format, f32

from ._squares import Layout, inverse_rms


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
    h = cast(cast(cast(x, f32), weight.format), f32)
    out = _normalised(h, eps, weight, [x.format]) * cast(weight, f32)
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
    stored = [x.format] if residual_after else [x.format, residual.format]
    h = cast(cast(total, weight.format), f32)
    out_f32 = _normalised(h, eps, weight, stored, residual.format) * cast(weight, f32)
    out = cast(out_f32, x.format)
    return out, out if residual_after else cast(total, residual.format), out_f32


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
    out_f32 = _normalised(total, eps, weight, [x.format], residual.format) * cast(weight, f32)
    out = cast(out_f32, x.format)
    if residual_after:
        return out, out, out_f32
    return out, cast(cast(total, residual.format), x.format), out_f32


@launch
def rms_norm_residual_rounded(
    x: Value, residual: Value, weight: Value, eps: float
) -> tuple[Value, Value, Value]:
    """The norm of the new residual, which is x + residual rounded to the residual's format.

    Args:
        x: bf16, f16 or f32 [rows, n] or [tokens, heads, n].
        residual: bf16, f16 or f32, the shape of `x`.
        weight: bf16, f16 or f32 [n].
        eps: host constant, f64 to f32.

    Returns:
        The result in the format of `x`, the new residual, and the result in f32.
    """
    total = cast(cast(x, f32) + cast(residual, f32), residual.format)
    h = cast(total, f32)
    stored = [x.format, residual.format]
    out_f32 = _normalised(h, eps, weight, stored, residual.format) * cast(weight, f32)
    return cast(out_f32, x.format), total, out_f32


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
    normal = cast(_normalised(cast(x, f32), eps, weight, [x.format]), x.format)
    out = cast(normal, f32) * cast(weight, f32)
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
    out = _normalised(cast(x, f32), eps, weight, [x.format]) * (1.0 + cast(weight, f32))
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
    out = _normalised(cast(x, f32), eps, weight, [x.format]) * cast(1.0 + weight, f32)
    return cast(out, x.format), out


def _normalised(
    h: Value, eps: float, weight: Value, stored: Sequence[Format], *loaded: Format
) -> Value:
    """The rows h over their root mean square, f32."""
    n = h.shape[-1]
    rows = h.reshape(-1, n)
    layout = Layout.of(n, 1, _widest(n, weight.format, stored, loaded))
    normal = rows * inverse_rms(rows, eps, layout)
    return normal.reshape(*h.shape)


def _widest(
    n: int, weight: Format, stored: Sequence[Format], loaded: Sequence[Format]
) -> int:
    """Elements of the widest vector access, at most 16 bytes, of the baseline's kernel.

    Triton knows where the weight and the stored rows start, as n is a constant there; of the loaded
    rows it knows whether their stride is a multiple of 16.
    """
    narrow = weight.bits == 16
    narrow |= n % 8 == 0 and any(fmt.bits == 16 for fmt in stored)
    narrow |= n % 16 == 0 and any(fmt.bits == 16 for fmt in loaded)
    return 8 if narrow else 4
