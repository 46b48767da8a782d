"""RMS norm of x + residual in one launch: h · rsqrt(mean(h²) + eps) · weight, and the new residual.

In f32, h = x + residual rounded to the weight's format before it is squared; the result is rounded
once, the new residual is h in the residual's format. Other contracts square h as it is
(`Contract.PREVIOUS_PRECISION`) or as it is stored (`Contract.RESIDUAL_ROUNDED`). Order of
summation: that of Triton's `tl.sum` on 4 warps, written out in `_squares.py`.

Baseline: WeLM's Triton kernel as compiled with fusion on (`references/rms_norm_residual.py`),
called with contiguous tensors at 16 bytes. Other strides give the bits of the contiguous copy.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from exactness.bits import decode, encode
from exactness.claim import Bench, Claim, Equivalent
from exactness.formats import bf16, f16, f32
from exactness.inputs import Inputs, Layout, Tensor
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


def _inputs(**leading: tuple[int, int]) -> Inputs:
    dims = (*leading, "n")
    return Inputs(
        {**leading, "n": (1, MAX_COLUMNS)},
        {
            "x": Tensor("format", dims, layouts=tuple(Layout)),
            "residual": Tensor("residual_format", dims, layouts=tuple(Layout)),
            # Weights that hide the row by neither underflow nor overflow.
            "weight": Tensor(
                "weight_format",
                ("n",),
                ("normal", "log_spaced", "ties", "specials"),
                tuple(Layout),
            ),
        },
        {"eps": (1e-5, 1e-6, 0.0, 1.0 + 2**-24 + 2**-50), "residual_after": (False, True)},
        {
            "format": (bf16, f16, f32),
            "residual_format": (bf16, f32, f16),
            "weight_format": (bf16, f32, f16),
        },
    )


_HEADS = _inputs(tokens=(0, 40), heads=(1, 8))
_ROWS = _inputs(rows=(0, 40))
_ONE_FORMAT = replace(
    _HEADS,
    tensors={name: replace(each, format="format") for name, each in _HEADS.tensors.items()},
    parameters={"eps": _HEADS.parameters["eps"]},
    formats={"format": _HEADS.formats["format"]},
)
_WIDE = {"format": "f32", "weight_format": "f32"}
_CASES = [
    {"tokens": 5, "heads": 2, "n": 1001, "weight_format": "f32"},
    {"tokens": 3, "heads": 1, "n": 2048},
    {"tokens": 5, "heads": 1, "n": 1000, **_WIDE, "residual_after": True},
    {"tokens": 20, "heads": 2, "n": 200, **_WIDE},
    {"tokens": 40, "heads": 1, "n": 100, **_WIDE, "residual_format": "f16"},
    {"tokens": 40, "heads": 1, "n": 13, **_WIDE, "residual_format": "f32"},
    {"tokens": 8, "heads": 5, "n": 31, **_WIDE, "residual_format": "f32"},
    {"tokens": 300, "heads": 1, "n": 1, **_WIDE},
]


def _sizes(case: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in case.items() if name in _HEADS.sizes}


def _rows(case: Mapping[str, Any]) -> dict[str, Any]:
    """A case in two dimensions."""
    others = {name: value for name, value in case.items() if name not in _HEADS.sizes}
    return {"rows": case["tokens"] * case["heads"], "n": case["n"], **others}


def _is_exact_in_its_own_format() -> bool:
    """Residual and weight have one format, and all numbers of 16 bits are exact in theirs."""
    patterns = np.arange(1 << 16, dtype=np.uint16)
    for fmt in (bf16, f16):
        values = decode(patterns, fmt)
        if not np.all((encode(values, fmt) == patterns) | np.isnan(values)):
            return False
    return {each.format for each in _ONE_FORMAT.tensors.values()} == {"format"}


_OUTPUTS = ("out", "residual_out", "out_f32")
_ALLOWED = ("fma", "rsqrt.approx.ftz")

RESIDUAL = Claim(
    name="rms_norm_residual",
    kernel=partial(rms_norm_residual, f32_copy=True),
    reference="rms_norm_residual:rms_norm_residual",
    golden=("rms_norm_residual", "rms_norm_f32rows"),
    outputs=_OUTPUTS,
    inputs=_HEADS,
    cases=_CASES,
    parameters={"eps": 1e-5},
    allows=_ALLOWED,
    bench=[
        Bench(
            name="rms_norm_residual",
            inputs=_ROWS,
            sizes={"rows": "tokens", "n": 2048},
            bytes="12*rows*n+2*n",
            against={"chain": "_torch_chains:rms_norm_residual"},
        )
    ],
)

PAIR = Claim(
    name="residual_add_rms_norm",
    kernel=partial(rms_norm_residual, f32_copy=True),
    reference="rms_norm_residual:residual_add_rms_norm",
    golden="rms_norm_residual",
    outputs=_OUTPUTS,
    inputs=_ONE_FORMAT,
    cases=[
        {"tokens": 5, "heads": 2, "n": 1001},
        {"tokens": 3, "heads": 1, "n": 2048},
        {"tokens": 5, "heads": 1, "n": 768, "format": "f16"},
        *({**_sizes(case), "format": "f32"} for case in _CASES[3:]),
    ],
    parameters={"eps": 1e-5},
    allows=_ALLOWED,
    equivalent={
        f"to_and_back:narrow=cast(out, out_f32 > h) {wrong}": Equivalent(
            "the stored sum has the weight's format already, in which it is exact",
            _is_exact_in_its_own_format,
        )
        for wrong in ("no_rounding", "toward_zero")
    },
)

PREVIOUS_PRECISION = Claim(
    name="rms_norm_previous_precision",
    kernel=partial(rms_norm_residual, f32_copy=True, contract=Contract.PREVIOUS_PRECISION),
    reference="rms_norm_residual:rms_norm_previous_precision",
    outputs=_OUTPUTS,
    inputs=_ROWS,
    cases=[*map(_rows, _CASES)],
    allows=_ALLOWED,
)

RESIDUAL_ROUNDED = Claim(
    name="rms_norm_residual_rounded",
    kernel=partial(rms_norm_residual, f32_copy=True, contract=Contract.RESIDUAL_ROUNDED),
    reference="rms_norm_residual:rms_norm_residual_rounded",
    outputs=_OUTPUTS,
    inputs=_ROWS,
    cases=[
        {"rows": 3, "n": 2048, "weight_format": "f32"},
        *({**_rows(case), "residual_format": "f32"} for case in _CASES[3:]),
    ],
    allows=_ALLOWED,
)
