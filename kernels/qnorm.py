"""Per-head Q RMSNorm of DeepSeek V4 in one launch: x · √(1 / (mean(x²) + eps)).

Order of summation: candle's `fast_sum`: min(1024, n) slots, the next power of two of them; slot t
adds elements t, t + slots … in order; then slot[t] += slot[t + s] for s = slots/2 … 1. Every step
is rounded to bf16. Written out below: the row is halved by additions of two operands, never by a
`tl.sum` whose order the compiler chooses.

Baseline: the seven launches of candle's CUDA backend (`references/qnorm.py`).
"""

import os

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim, Exhaustive, Variant
from exactness.formats import bf16
from exactness.inputs import Layout, rows
from exactness.launching import Launch, launcher

from ._host import bf16_constant, check_number, check_tensor
from ._start import options, start

_ENV = "EXACTNESS_QNORM_F32_ACC"


@triton.jit
def _round_bf16(x):
    return x.to(tl.bfloat16).to(tl.float32)


@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def _squares(x, F32_ACC: tl.constexpr):
    if F32_ACC:
        x = x.to(tl.float32)
    return x * x


@triton.jit
def _qnorm_kernel(
    x_ptr,
    out_ptr,
    stride_xm,
    stride_xn,
    n_cols,
    n_f32,
    inv_n,
    eps,
    SLOTS: tl.constexpr,
    LOG_SLOTS: tl.constexpr,
    F32_ACC: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    row = tl.program_id(0).to(tl.int64)
    slot = tl.arange(0, SLOTS)
    x_row = x_ptr + row * stride_xm
    out_row = out_ptr + row * n_cols

    # candle's slots begin with 0, to which a square adds itself: it is never −0.
    head = tl.load(x_row + slot.to(tl.int64) * stride_xn, mask=slot < n_cols, other=0.0)
    acc = _squares(head, F32_ACC)
    for begin in range(SLOTS, n_cols, SLOTS):
        col = begin + slot
        x = tl.load(x_row + col.to(tl.int64) * stride_xn, mask=col < n_cols, other=0.0)
        acc += _squares(x, F32_ACC)

    # Two operands along axis 0: each reduction is a single addition per slot.
    for level in tl.static_range(LOG_SLOTS):
        acc = tl.reduce(tl.reshape(acc, [2, SLOTS >> (level + 1)]), 0, _add)
    total = tl.reshape(acc, [1]).to(tl.float32)

    if F32_ACC:
        mean = tl.div_rn(total, n_f32)
        inv = _round_bf16(tl.div_rn(1.0, tl.sqrt_rn(mean + eps)))
    else:
        # candle's first affine also adds 0, which is exact: a sum of squares is never −0.
        mean_eps = _round_bf16(_round_bf16(total * inv_n) + eps)
        inv = _round_bf16(tl.sqrt_rn(_round_bf16(tl.div_rn(1.0, mean_eps))))

    out = (head.to(tl.float32) * inv).to(out_ptr.dtype.element_ty)
    tl.store(out_row + slot, out, mask=slot < n_cols)
    for begin in range(SLOTS, n_cols, SLOTS):
        col = begin + slot
        x = tl.load(x_row + col.to(tl.int64) * stride_xn, mask=col < n_cols, other=0.0)
        out = (x.to(tl.float32) * inv).to(out_ptr.dtype.element_ty)
        tl.store(out_row + col, out, mask=col < n_cols)


def qnorm(x: torch.Tensor, eps: float = 1e-6, *, f32_acc: bool | None = None) -> torch.Tensor:
    """Normalize each row by its root mean square, with candle's bits.

    Args:
        x: bf16 [rows, n], any strides, n ≥ 1 (an empty tensor gives an empty one).
        eps: added to the mean; rounded from f64 to bf16 as candle's host does.
        f32_acc: accumulate in f32 (not bit-identical); None asks EXACTNESS_QNORM_F32_ACC.

    Returns:
        bf16 [rows, n], contiguous.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong rank or layout.
    """
    if f32_acc is None:
        f32_acc = os.environ.get(_ENV, "") == "1"
    return _launch(x, eps, torch.bfloat16, f32_acc)


def qnorm_unrounded(x: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """`qnorm` before the last rounding: x · inv in f32, [rows, n]."""
    return _launch(x, eps, torch.float32, False)


@launcher
def _launch(
    x: torch.Tensor, eps: float, out_dtype: torch.dtype, f32_acc: bool
) -> Launch[torch.Tensor]:
    check_tensor("x", x, torch.bfloat16, 2)
    check_number("eps", eps)
    n_rows, n_cols = x.shape
    out = torch.empty((n_rows, n_cols), dtype=out_dtype, device=x.device)
    if out.numel() == 0:
        return Launch(out)
    slots = triton.next_power_of_2(min(1024, n_cols))
    return Launch(
        out,
        _qnorm_kernel,
        (n_rows,),
        x,
        out,
        x.stride(0),
        x.stride(1),
        n_cols,
        float(n_cols),
        bf16_constant(1.0 / n_cols),
        bf16_constant(eps),
        SLOTS=slots,
        LOG_SLOTS=slots.bit_length() - 1,
        F32_ACC=f32_acc,
        **options(n_rows, x, 1 if slots <= 512 else 4),
    )


CLAIM = Claim(
    kernel=qnorm,
    reference="qnorm:qnorm",
    golden="qnorm",
    unrounded=qnorm_unrounded,
    inputs=rows(
        bf16,
        n=(1, 8192),
        layouts=tuple(Layout),
        eps=(1e-6, 0.0, 1e-5, 1.0, 2**-8 + 2**-16 + 2**-48),
    ),
    cases=[
        {"rows": 64, "n": 512},
        {"rows": 7, "n": 96},
        {"rows": 257, "n": 17},
        {"rows": 300, "n": 1},  # the reciprocal of a huge mean is subnormal only in short rows
        {"rows": 40, "n": 3000},  # orders that agree up to 1024 elements part here
    ],
    parameters={"eps": 1e-6},
    exhaustive=[Exhaustive(argument="x", sizes={"rows": 65536, "n": 1})],
    variants=[Variant(name="f32_acc", reference="qnorm:qnorm_f32_acc", env=_ENV)],
    bench=[
        Bench(
            name="qnorm",
            sizes={"rows": "64*tokens", "n": 512},
            tokens=(1,),
            bytes="2*2*rows*n",
            against={"chain": "_torch_chains:qnorm", "torch": "_torch_chains:qnorm_fused"},
        )
    ],
)
