"""RMS norm in one launch: x · rsqrt(mean(x²) + eps) · weight.

In f32, x rounded to the weight's format before it is squared; the result is rounded once. Other
contracts leave x as it is, and round before the weight (`Contract.CAST_FIRST`) or take 1 + weight
(`Contract.WEIGHT_OFFSET`). Order of summation: that of Triton's `tl.sum` on 4 warps, written out
in `_squares.py`.

Baseline: WeLM's Triton kernel as compiled with fusion on (`references/rms_norm.py`), called with
contiguous tensors at 16 bytes. Other strides give the bits of the contiguous copy.
"""

from functools import partial

import torch

from exactness.claim import Bench, Claim
from exactness.formats import bf16, f16, f32
from exactness.inputs import Inputs, Layout, Tensor
from exactness.launching import Launch, launcher

from ._rms_norm import MAX_COLUMNS, Contract, planned


@launcher
def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-5,
    *,
    f32_copy: bool = False,
    contract: Contract = Contract.WELM,
) -> Launch[torch.Tensor | tuple[torch.Tensor, ...]]:
    """Normalise each row by its root mean square and scale it by the weight.

    Args:
        x: bf16, f16 or f32 [rows, n] or [tokens, heads, n], any strides, 1 ≤ n ≤ 8192.
        weight: bf16, f16 or f32 [n], any stride.
        eps: added to the mean; rounded from f64 to f32.
        f32_copy: return the result before its last rounding too.
        contract: where h is rounded, and how the weight enters.

    Returns:
        Like `x`, contiguous; with `f32_copy` also the same in f32.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong rank, layout, shape or device.
    """
    return planned(x, None, weight, eps, contract, False, f32_copy)


@launcher
def rms_norm_unrounded(
    x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5
) -> Launch[torch.Tensor]:
    """`rms_norm` before its last rounding, f32."""
    return planned(x, None, weight, eps, Contract.WELM, False, False, torch.float32)


_WIDE = {"format": "f32", "weight_format": "f32"}
_CASES = [
    {"tokens": 5, "heads": 3, "n": 768, "format": "f32", "weight_format": "f16"},
    {"tokens": 3, "heads": 1, "n": 2048},
    {"tokens": 5, "heads": 1, "n": 1000, "format": "f16", "weight_format": "f32"},
    {"tokens": 5, "heads": 1, "n": 1001, "format": "bf16", "weight_format": "f32"},
    {"tokens": 3, "heads": 1, "n": 4001, **_WIDE},
    {"tokens": 20, "heads": 2, "n": 200, **_WIDE},
    {"tokens": 40, "heads": 1, "n": 100, **_WIDE},
    {"tokens": 40, "heads": 1, "n": 13, **_WIDE},
    {"tokens": 8, "heads": 5, "n": 31, **_WIDE},
    {"tokens": 300, "heads": 1, "n": 1, **_WIDE},
]


def _inputs(**leading: tuple[int, int]) -> Inputs:
    return Inputs(
        {**leading, "n": (1, MAX_COLUMNS)},
        {
            "x": Tensor("format", (*leading, "n"), layouts=tuple(Layout)),
            # Weights that hide the row by neither underflow nor overflow.
            "weight": Tensor(
                "weight_format",
                ("n",),
                ("normal", "log_spaced", "ties", "specials"),
                tuple(Layout),
            ),
        },
        {"eps": (1e-5, 1e-6, 0.0, 1.0 + 2**-24 + 2**-50)},
        {"format": (bf16, f16, f32), "weight_format": (bf16, f32, f16)},
    )


_HEADS = _inputs(tokens=(0, 40), heads=(1, 8))
_ROWS = _inputs(rows=(0, 40))
_ALLOWED = ("fma", "rsqrt.approx.ftz")
_HIDDEN = {"rows": "tokens", "n": 2048}

RMS_NORM = Claim(
    name="rms_norm",
    kernel=partial(rms_norm, f32_copy=True),
    reference="rms_norm:rms_norm",
    golden=("rms_norm", "rms_norm_f32copy"),
    outputs=("out", "out_f32"),
    inputs=_HEADS,
    cases=_CASES,
    parameters={"eps": 1e-5},
    allows=_ALLOWED,
    bench=[
        Bench(
            name="rms_norm_f32copy",
            inputs=_ROWS,
            sizes=_HIDDEN,
            bytes="8*rows*n+2*n",
            against={"chain": "_torch_chains:rms_norm_f32copy"},
        )
    ],
)

O_NORM = Claim(
    name="o_norm",
    kernel=rms_norm,
    reference="rms_norm:o_norm",
    golden="rms_norm",
    inputs=_HEADS,
    unrounded=rms_norm_unrounded,
    cases=[
        {"tokens": 4, "heads": 2, "n": 768, "weight_format": "f32"},
        {"tokens": 8, "heads": 1, "n": 2048},
        *_CASES[5:],
    ],
    parameters={"eps": 1e-5},
    allows=_ALLOWED,
    # One implementation, two places in the model; both normalise the hidden size.
    bench=[
        Bench(
            name=name,
            inputs=_ROWS,
            sizes=_HIDDEN,
            bytes="4*rows*n+2*n",
            against={
                "chain": "_torch_chains:rms_norm",
                "torch": "_torch_chains:rms_norm_fused",
                "liger": "_torch_chains:rms_norm_liger",
            },
        )
        for name in ("rms_norm", "o_norm")
    ],
)

CAST_FIRST = Claim(
    name="rms_norm_cast_first",
    kernel=partial(rms_norm, f32_copy=True, contract=Contract.CAST_FIRST),
    reference="rms_norm:rms_norm_cast_first",
    outputs=("out", "out_f32"),
    inputs=_HEADS,
    cases=[
        {"tokens": 3, "heads": 2, "n": 128},
        {"tokens": 20, "heads": 3, "n": 200, **_WIDE},
        {"tokens": 20, "heads": 3, "n": 100, **_WIDE},
        {"tokens": 20, "heads": 3, "n": 13, **_WIDE},
        {"tokens": 20, "heads": 3, "n": 31, **_WIDE},
        {"tokens": 40, "heads": 8, "n": 1, **_WIDE},
    ],
    allows=_ALLOWED,
)

WEIGHT_OFFSET = Claim(
    name="rms_norm_weight_offset",
    kernel=partial(rms_norm, f32_copy=True, contract=Contract.WEIGHT_OFFSET),
    reference="rms_norm:rms_norm_weight_offset",
    outputs=("out", "out_f32"),
    inputs=_HEADS,
    cases=[
        {"tokens": 3, "heads": 2, "n": 256},
        {"tokens": 20, "heads": 3, "n": 300, **_WIDE},
        {"tokens": 20, "heads": 3, "n": 100, **_WIDE},
        {"tokens": 20, "heads": 3, "n": 13, **_WIDE},
        {"tokens": 20, "heads": 3, "n": 31, **_WIDE},
        {"tokens": 40, "heads": 8, "n": 1, **_WIDE},
    ],
    allows=_ALLOWED,
)
