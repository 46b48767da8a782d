"""Masks of consecutive bits, and tests of generic addresses.

Source: PTX ISA 9.0, sections 9.7.1.24 (szext), 9.7.1.25 (bmsk) and 9.7.9.19 (isspacep).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from exactness.virtual.builder import Builder
from exactness.virtual.instructions import Instruction
from exactness.virtual.lanes import LOCAL_WINDOW, SHARED_WINDOW
from exactness.virtual.operation import Elementwise, Operation
from exactness.virtual.ops.common import (
    Decoder,
    elementwise,
    expect_operands,
    flags_of,
    single_type,
)
from exactness.virtual.state import Bits

_WORD = np.uint32(0xFFFFFFFF)
_BITS = np.uint32(32)
_LOW = np.uint32(31)
_NONE = np.uint32(0)


def _mode(ins: Instruction, b: Builder) -> bool:
    """Whether positions and widths of 32 and more are clamped, not taken modulo 32."""
    modes = flags_of(ins, b, {"clamp", "wrap"})
    if len(modes) != 1:
        raise b.unsupported(ins, "it needs .clamp or .wrap")
    return "clamp" in modes


def _above(position: Bits) -> Bits:
    """All bits from a position on; none from 32 on."""
    return np.where(position < _BITS, _WORD << (position & _LOW), _NONE)


def _bmsk(ins: Instruction, b: Builder) -> Operation:
    """`width` ones from bit `position` on."""
    expect_operands(ins, b, 3)
    clamp = _mode(ins, b)
    single_type(ins, b, {"b32"})

    def function(position: Bits, width: Bits) -> Bits:
        if not clamp:
            position, width = position & _LOW, width & _LOW
        end = np.minimum(position, _BITS) + np.minimum(width, _BITS)
        return _above(position) & ~_above(end)

    return elementwise(ins, b, function, 32)


def _szext(ins: Instruction, b: Builder) -> Operation:
    """The low `width` bits, extended by zeros or by the sign."""
    expect_operands(ins, b, 3)
    clamp = _mode(ins, b)
    is_signed = single_type(ins, b, {"u32", "s32"}) == "s32"

    def function(x: Bits, width: Bits) -> Bits:
        width = width if clamp else width & _LOW
        upper = _above(width)
        sign = (x >> ((width - np.uint32(1)) & _LOW)) & np.uint32(1)
        fill = np.where((sign == 1) & (width != 0) & is_signed, upper, _NONE)
        return (x & ~upper) | fill

    return elementwise(ins, b, function, 32)


def _isspacep(ins: Instruction, b: Builder) -> Operation:
    """Whether a generic address is in a state space; constants and parameters count as global."""
    expect_operands(ins, b, 2)
    (space,) = flags_of(ins, b, {"global", "shared", "shared::cta", "local"})
    bounds = {
        "global": (0, SHARED_WINDOW),
        "shared": (SHARED_WINDOW, LOCAL_WINDOW),
        "local": (LOCAL_WINDOW, 1 << 63),
    }
    low, high = (np.uint64(bound) for bound in bounds[space.removesuffix("::cta")])
    source = b.source(ins, ins.operands[1], 64)
    target = b.target(ins, ins.operands[0], 1)
    return Elementwise(ins, lambda x: (x >= low) & (x < high), (source,), (target,))


TABLE: Mapping[str, Decoder] = {"bmsk": _bmsk, "szext": _szext, "isspacep": _isspacep}
