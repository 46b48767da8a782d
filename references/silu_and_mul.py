"""SiLU of one half of each row times the other half.

Baseline: torch 2.11 on CUDA, `torch.nn.functional.silu(x[…, :n]) * x[…, n:]`; two launches, both
rounding to the format of x (aten/src/ATen/native/cuda/ActivationSiluKernel.cu). `silu_and_mul_once`
is the fused form that multiplies in f32, as a vLLM or SGLang CUDA kernel may.
"""

from __future__ import annotations

from exactness.arithmetic import Value, cast, expf, launch
from exactness.formats import f32


@launch
def silu(x: Value) -> Value:
    """In f32 with accurate `expf` and IEEE division, rounded to the format of `x`."""
    wide = cast(x, f32)
    activated = wide / (1.0 + expf(-wide))
    return cast(activated, x.format)


@launch
def mul(x: Value, y: Value) -> Value:
    """The rounded product."""
    return x * y


def silu_and_mul(x: Value) -> Value:
    """The product silu(x[…, :n]) · x[…, n:], the activation rounded before it.

    Args:
        x: bf16, f16 or f32 […, 2·n].

    Returns:
        like `x` but […, n].
    """
    n = x.shape[-1] // 2
    activated = silu(x[..., :n])
    return mul(activated, x[..., n:])


@launch
def silu_and_mul_once(x: Value) -> Value:
    """The same with one rounding: activation and product in f32.

    Args:
        x: bf16, f16 or f32 […, 2·n].

    Returns:
        like `x` but […, n].
    """
    n = x.shape[-1] // 2
    wide = cast(x, f32)
    gate, up = wide[..., :n], wide[..., n:]
    activated = gate / (1.0 + expf(-gate))
    return cast(activated * up, x.format)
