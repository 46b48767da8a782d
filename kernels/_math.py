"""Device functions that several kernels share: exponentials, activations, two-operand sums.

Every operation is written out as the instruction that CUDA compiles to, so that neither Triton's
choice of a function nor a contraction decides the bits. The constants of `expf` are those of nvcc
13.0 for sm_90 without fast math, as exact values of their f32 bit patterns.
"""

import triton
import triton.language as tl

_LOG2E_OVER_252: tl.constexpr = tl.constexpr(float.fromhex("0x1.77313ap-8"))  # 3BBB989D
_LOG2E: tl.constexpr = tl.constexpr(float.fromhex("0x1.715476p+0"))  # 3FB8AA3B
_LOG2E_LOW: tl.constexpr = tl.constexpr(float.fromhex("0x1.4ae0c0p-26"))  # 32A57060
_MAGIC: tl.constexpr = tl.constexpr(12582913.0)  # 4B400001
_MAGIC_AND_BIAS: tl.constexpr = tl.constexpr(12583039.0)  # −CB40007F


@triton.jit
def add(a, b):
    """One addition: the combination of a reduction over two operands."""
    return a + b


@triton.jit
def maximum(a, b):
    """`fmaxf`: a NaN gives way to a number."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.NONE)


@triton.jit
def minimum(a, b):
    """`fminf`: a NaN gives way to a number."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.NONE)


@triton.jit
def ex2_ftz(x):
    """`ex2.approx.ftz.f32`: subnormal arguments and results are zero."""
    return tl.inline_asm_elementwise(
        "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def ex2(x):
    """`ex2.approx.f32`: subnormal results are kept."""
    return tl.inline_asm_elementwise(
        "ex2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _fma_saturated(a, b, c):
    """The fma clamped to [0, 1]; NaN gives 0."""
    return tl.inline_asm_elementwise(
        "fma.rn.sat.f32 $0, $1, $2, $3;",
        "=f,f,f,f",
        [a, b, c],
        dtype=tl.float32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def _fma_down(a, b, c):
    """The fma rounded toward −∞."""
    return tl.inline_asm_elementwise(
        "fma.rm.f32 $0, $1, $2, $3;",
        "=f,f,f,f",
        [a, b, c],
        dtype=tl.float32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def expf(x):
    """CUDA's accurate `expf`: 2^n · ex2(x · log2(e) − n), n found by a fma rounded down."""
    fraction = _fma_saturated(x, _LOG2E_OVER_252, 0.5)
    shifted = _fma_down(fraction, 252.0, _MAGIC)
    minus_n = _MAGIC_AND_BIAS - shifted
    rest = tl.fma(x, _LOG2E, minus_n)
    rest = tl.fma(x, _LOG2E_LOW, rest)
    scale = (shifted.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)
    return ex2_ftz(rest) * scale


@triton.jit
def silu(x):
    """x / (1 + e^−x) in f32 with accurate `expf` and IEEE division, as CUDA code writes it."""
    return tl.div_rn(x, 1.0 + expf(-x))


@triton.jit
def sigmoid_approx(x):
    """`tl.sigmoid`: 1 / (1 + e^(0 − x)) in f32 from ex2.approx and div.full."""
    return 1.0 / (1.0 + ex2((0.0 - x) * _LOG2E))
