"""RMS norm of x + residual in one launch: h · rsqrt(mean(h²) + eps) · weight, and the new residual.

In f32, h = x + residual rounded to the weight's format before it is squared; the result is rounded
once, the new residual is h in the residual's format. Other contracts square h as it is
(`Contract.PREVIOUS_PRECISION`) or as it is stored (`Contract.RESIDUAL_ROUNDED`). Order of
summation: that of Triton's `tl.sum` on 4 warps, written out in `_squares.py`.

Baseline: WeLM's Triton kernel as compiled with fusion on (`references/rms_norm_residual.py`),
called with contiguous tensors at 16 bytes. Other strides give the bits of the contiguous copy.
"""

from functools import partial

import torch

from exactness.claim import Bench, Claim
from exactness.formats import bf16, f16, f32
from exactness.inputs import Inputs, Tensor
from exactness.launching import Launch, launcher

from ._norm import check_beside, check_rows
from ._rms_norm import MAX_COLUMNS, Contract, planned


@launcher
def rms_norm_residual(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-5,
    *,
    residual_after: bool = False,
    f32_copy: bool = False,
    contract: Contract = Contract.WELM,
) -> Launch[tuple[torch.Tensor, ...]]:
    """Add the residual, then normalise as `rms_norm`.

    Args:
        x: bf16, f16 or f32 [rows, n] or [tokens, heads, n], any strides, 1 ≤ n ≤ 8192.
        residual: bf16, f16 or f32, the shape of `x`, any strides.
        weight: bf16, f16 or f32 [n], any stride.
        eps: added to the mean; rounded from f64 to f32.
        residual_after: the new residual is the normalised row, not the sum.
        f32_copy: return the result before its last rounding too.
        contract: where h is rounded, and how the weight enters.

    Returns:
        The result, like `x`, and the new residual, both contiguous; with `f32_copy` also the
        result in f32. The new residual has the dtype of `residual`; that of `x` with
        `residual_after` and in `Contract.PREVIOUS_PRECISION`, where the sum is rounded to both.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong rank, layout, shape or device.
    """
    check_beside("residual", check_rows("residual", residual, (2, 3)), check_rows("x", x, (2, 3)))
    return planned(x, residual, weight, eps, contract, residual_after, f32_copy)


_INPUTS = Inputs(
    {"rows": (0, 40), "n": (1, MAX_COLUMNS)},
    {
        "x": Tensor("format", ("rows", "n")),
        "residual": Tensor("residual_format", ("rows", "n")),
        # Weights that hide the row by neither underflow nor overflow.
        "weight": Tensor("weight_format", ("n",), ("normal", "log_spaced", "ties", "specials")),
    },
    {"eps": (1e-5, 1e-6, 0.0, 1.0 + 2**-24 + 2**-50), "residual_after": (False, True)},
    {
        "format": (bf16, f16, f32),
        "residual_format": (bf16, f32, f16),
        "weight_format": (bf16, f32, f16),
    },
)
_WIDE = {"format": "f32", "weight_format": "f32"}
_CASES = [
    {"rows": 3, "n": 2048},
    {"rows": 5, "n": 1000, **_WIDE, "residual_after": True},
    {"rows": 5, "n": 1001, "weight_format": "f32"},
    {"rows": 40, "n": 200, **_WIDE},
    {"rows": 40, "n": 100, **_WIDE, "residual_format": "f16"},
    {"rows": 40, "n": 13, **_WIDE, "residual_format": "f32"},
    {"rows": 40, "n": 31, **_WIDE, "residual_format": "f32"},
    {"rows": 300, "n": 1, **_WIDE},
]
_OUTPUTS = ("out", "residual_out", "out_f32")
_ALLOWED = ("fma", "rsqrt.approx.ftz")

RESIDUAL = Claim(
    name="rms_norm_residual",
    kernel=partial(rms_norm_residual, f32_copy=True),
    reference="rms_norm_residual:rms_norm_residual",
    golden=("rms_norm_residual", "rms_norm_f32rows"),
    outputs=_OUTPUTS,
    inputs=_INPUTS,
    cases=_CASES,
    parameters={"eps": 1e-5},
    allows=_ALLOWED,
    bench=[
        Bench(
            name="rms_norm_residual",
            sizes={"rows": "tokens", "n": 2048},
            bytes="12*rows*n+2*n",
            against={"chain": "_torch_chains:rms_norm_residual"},
        )
    ],
)

PREVIOUS_PRECISION = Claim(
    name="rms_norm_previous_precision",
    kernel=partial(rms_norm_residual, f32_copy=True, contract=Contract.PREVIOUS_PRECISION),
    reference="rms_norm_residual:rms_norm_previous_precision",
    outputs=_OUTPUTS,
    inputs=_INPUTS,
    cases=_CASES,
    allows=_ALLOWED,
)

RESIDUAL_ROUNDED = Claim(
    name="rms_norm_residual_rounded",
    kernel=partial(rms_norm_residual, f32_copy=True, contract=Contract.RESIDUAL_ROUNDED),
    reference="rms_norm_residual:rms_norm_residual_rounded",
    outputs=_OUTPUTS,
    inputs=_INPUTS,
    cases=[
        {"rows": 3, "n": 2048, "weight_format": "f32"},
        *({**case, "residual_format": "f32"} for case in _CASES[3:]),
    ],
    allows=_ALLOWED,
)
