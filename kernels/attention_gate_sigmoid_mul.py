"""Gate the heads of an attention output in place, in one launch: y ← round(sigmoid(gate)) · y.

sigmoid(g) = 1 / (1 + e^(0 − g)) in f32 from ex2.approx and div.full, as Triton computes it. Two
contracts: `attention_gate_sigmoid_mul` rounds the sigmoid to the format of y before the product,
`attention_gate_sigmoid_mul_once` multiplies in f32 and rounds once (the baseline's previous
precision). For f32 they are the same. Nothing is summed.

Baseline: WeLMv4's `inplace_sigmoid_mul` (`references/attention_gate_sigmoid_mul.py`).
"""

from collections.abc import Mapping

import numpy as np
import torch
import triton
import triton.language as tl

from exactness.bits import Bits, encode
from exactness.claim import Bench, Claim, Equivalent, Exhaustive
from exactness.formats import bf16, f16, f32
from exactness.inputs import Inputs, Layout, Tensor
from exactness.launching import Launch, launcher

from . import _reasons as reasons
from ._layout import WARPS, check_float_tensor, check_own_elements, walk
from ._math import sigmoid_approx
from ._memory import check_apart, is_same_view
from ._rows import place, pointers, starts
from ._start import options, start

ONCE: tl.constexpr = tl.constexpr(1)
TWICE: tl.constexpr = tl.constexpr(2)
"""Roundings of a 16-bit result."""


@triton.jit(
    do_not_specialize=["rows", "middle", "cols"],
    do_not_specialize_on_alignment=["gate_ptr", "value_ptr"],
)
def _sigmoid_mul_kernel(
    gate_ptr,
    value_ptr,
    rows,
    middle,
    cols,
    gate_strides,
    value_strides,
    PER_ROW: tl.constexpr,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    SPLIT: tl.constexpr,
    FLAT: tl.constexpr,
    ROUNDINGS: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    row, col, mask = place(rows, cols, ROWS, BLOCK, SPLIT, ALIGN)
    value_at = pointers(value_ptr, row, col, middle, value_strides, FLAT, UNIT[1], ALIGN)
    dtype: tl.constexpr = value_ptr.dtype.element_ty

    value = tl.load(value_at, mask=mask, other=0.0).to(tl.float32)
    if PER_ROW:
        gate_at = starts(gate_ptr, row, middle, gate_strides, FLAT)
        gate = tl.load(gate_at, mask=row < rows, other=0.0)
    else:
        gate_at = pointers(gate_ptr, row, col, middle, gate_strides, FLAT, UNIT[0], ALIGN)
        gate = tl.load(gate_at, mask=mask, other=0.0)
    gate = sigmoid_approx(gate.to(tl.float32))
    if ROUNDINGS == TWICE:
        gate = gate.to(dtype).to(tl.float32)
    if PER_ROW:
        gate = gate[:, None]
    tl.store(value_at, (gate * value).to(dtype), mask=mask)


@launcher(compares=("gate", "value"))
def attention_gate_sigmoid_mul(gate: torch.Tensor, value: torch.Tensor) -> Launch[None]:
    """Multiply `value` in place by sigmoid(gate), the sigmoid rounded before the product.

    Args:
        gate: bf16, f16 or f32 […, 1] for one gate a row of `value`, or of its shape.
        value: […, n] of the same dtype and device; both with strides that merge to three
            dimensions. Overwritten, so `gate` is the same view or shares no element with it.

    Raises:
        TypeError: wrong dtype.
        ValueError: wrong layout, shape or device, or elements of `value` that overlap.
    """
    return _planned(gate, value, TWICE.value)


@launcher(compares=("gate", "value"))
def attention_gate_sigmoid_mul_once(gate: torch.Tensor, value: torch.Tensor) -> Launch[None]:
    """The same with one rounding: the product is taken in f32.

    Args:
        gate: bf16, f16 or f32 […, 1] for one gate a row of `value`, or of its shape.
        value: […, n] of the same dtype and device; both with strides that merge to three
            dimensions. Overwritten, so `gate` is the same view or shares no element with it.

    Raises:
        TypeError: wrong dtype.
        ValueError: wrong layout, shape or device, or elements of `value` that overlap.
    """
    return _planned(gate, value, ONCE.value)


def _planned(gate: torch.Tensor, value: torch.Tensor, roundings: int) -> Launch[None]:
    check_float_tensor("value", value)
    check_float_tensor("gate", gate, (value.dtype,))
    if gate.device != value.device:
        raise ValueError(f"gate: device {gate.device} is not accepted; value is on {value.device}")
    if gate.shape not in (value.shape, (*value.shape[:-1], 1)):
        raise ValueError(
            f"gate: shape {tuple(gate.shape)} is not accepted; for a value of shape "
            f"{tuple(value.shape)} the same or {(*value.shape[:-1], 1)} is"
        )
    if value.numel() == 0:
        return Launch(None)
    check_own_elements("value", value)
    if not is_same_view(gate, value):
        check_apart("gate", gate, "value", value)
    way = walk(gate=gate.expand(value.shape), value=value)
    return Launch(
        None,
        _sigmoid_mul_kernel,
        (way.programs,),
        gate,
        value,
        way.rows,
        way.middle,
        way.cols,
        *way.strides,
        PER_ROW=way.strides[0][2] == 0,
        ROUNDINGS=roundings,
        **way.constants,
        **options(way.programs, value, WARPS),
    )


def _every_gate_times_one() -> Mapping[str, Bits]:
    """All bf16 patterns as gates, in ascending order, with the value 1."""
    patterns = np.arange(1 << 16, dtype=np.uint16)
    return {"gate": Bits(patterns, bf16), "value": Bits(encode(np.ones(1 << 16), bf16), bf16)}


_INPUTS = Inputs(
    {"tokens": (0, 300), "heads": (1, 16), "dim": (1, 600)},
    {
        "gate": Tensor("format", ("tokens", "heads", 1), layouts=tuple(Layout)),
        "value": Tensor("format", ("tokens", "heads", "dim"), layouts=tuple(Layout)),
    },
    formats={"format": (bf16, f16, f32)},
)
_CASES = [
    {"tokens": 9, "heads": 6, "dim": 256},
    {"tokens": 5, "heads": 6, "dim": 33, "format": "f16"},
    {"tokens": 5, "heads": 3, "dim": 64, "format": "f32"},
]
_TINY = Equivalent(
    "the exponential of a subnormal is 1, as that of a zero", reasons.ex2_of_subnormal_is_one
)
_BENCH = Bench(
    name="attention_gate_sigmoid_mul",
    sizes={"tokens": "tokens", "heads": 6, "dim": 256},
    bytes="2*2*tokens*heads*dim+2*tokens*heads",
    against={"chain": "_torch_chains:attention_gate_sigmoid_mul"},
)

CLAIM = Claim(
    kernel=attention_gate_sigmoid_mul,
    reference="attention_gate_sigmoid_mul:attention_gate_sigmoid_mul",
    golden=("sigmoid_mul", "sigmoid_mul_f32"),
    implied={"exhaustive_gate_times_one": _every_gate_times_one},
    inputs=_INPUTS,
    cases=_CASES,
    outputs=(),
    mutates={"value": "out"},
    allows=("ex2.approx.f32", "div.full.f32"),
    equivalent={"exp:scaled=mul(sigmoid > denominator) flush_subnormals": _TINY},
    exhaustive=[Exhaustive(argument="gate", sizes={"tokens": 4096, "heads": 16, "dim": 1})],
    bench=[_BENCH],
)

ONCE_CLAIM = Claim(
    kernel=attention_gate_sigmoid_mul_once,
    reference="attention_gate_sigmoid_mul:attention_gate_sigmoid_mul_once",
    inputs=_INPUTS,
    cases=_CASES,
    outputs=(),
    mutates={"value": "out"},
    allows=("ex2.approx.f32", "div.full.f32"),
    equivalent={"exp:scaled=mul(product > denominator) flush_subnormals": _TINY},
)
