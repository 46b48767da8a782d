"""Integer arithmetic: add to rem, min, max, wide products.

Source: PTX ISA 9.0, section 9.7.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from exactness.virtual import poison
from exactness.virtual.builder import Builder
from exactness.virtual.floats import join_halves, split_halves
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import Effect, Elementwise, Operation
from exactness.virtual.ops.common import (
    BITS,
    INTEGER_TYPES,
    Decoder,
    elementwise,
    expect_operands,
    flags_of,
    single_type,
)
from exactness.virtual.ops.extended import mad_carry, with_carry
from exactness.virtual.ops.twos_complement import (
    divide,
    is_signed_type,
    product_high,
    product_wide,
    signed,
    unsigned,
)
from exactness.virtual.state import Bits, State

_ARITHMETIC_TYPES = frozenset(["u16", "s16", "u32", "s32", "u64", "s64"])
_PACKED = {"u16x2": "u16", "s16x2": "s16"}


def _add(ins: Instruction, b: Builder) -> Operation:
    return _sum(ins, b, np.add, np.subtract)


def _sub(ins: Instruction, b: Builder) -> Operation:
    return _sum(ins, b, np.subtract, np.add)


def _sum(ins: Instruction, b: Builder, ufunc: Any, inverse: Any) -> Operation:
    """`add` and `sub`; `.sat` clamps s32, `.cc` writes the carry."""
    expect_operands(ins, b, 3)
    flags = flags_of(ins, b, {"sat", "cc"})
    name = single_type(ins, b, _ARITHMETIC_TYPES | set(_PACKED))
    if name in _PACKED:
        return elementwise(ins, b, _packed(ufunc), 32, poison_rule=poison.packed_halves)
    if "cc" in flags:
        return with_carry(ins, b, ufunc, reads=False, writes=True)
    if "sat" not in flags:
        return elementwise(ins, b, ufunc, BITS[name])
    if name != "s32":
        raise b.unsupported(ins, "modifier .sat on another type than .s32")

    def saturating(x: Bits, y: Bits) -> Bits:
        exact = ufunc(signed(x).astype(np.int64), signed(y).astype(np.int64))
        return unsigned(np.clip(exact, -(1 << 31), (1 << 31) - 1).astype(np.int32))

    return elementwise(ins, b, saturating, 32)


def _packed(function: Any) -> Any:
    """A function of 16-bit patterns, applied to both halves of 32-bit registers."""

    def apply(*registers: Bits) -> Bits:
        return join_halves(function(*(split_halves(bits) for bits in registers)))

    return apply


def _mul(ins: Instruction, b: Builder) -> Operation:
    expect_operands(ins, b, 3)
    flags = flags_of(ins, b, {"lo", "hi", "wide"})
    name = single_type(ins, b, _ARITHMETIC_TYPES)
    bits, is_signed = BITS[name], is_signed_type(name)
    if "wide" in flags:
        return elementwise(
            ins, b, lambda x, y: product_wide(x, y, is_signed), bits, out_bits=2 * bits
        )
    if "hi" in flags:
        return elementwise(ins, b, lambda x, y: product_high(x, y, is_signed), bits)
    if "lo" not in flags:
        raise b.unsupported(ins, "it needs .lo, .hi or .wide")
    return elementwise(ins, b, np.multiply, bits)


def _mad(ins: Instruction, b: Builder) -> Operation:
    expect_operands(ins, b, 4)
    flags = flags_of(ins, b, {"lo", "hi", "wide", "cc"})
    name = single_type(ins, b, _ARITHMETIC_TYPES)
    if "cc" in flags:
        return mad_carry(ins, b, name, "hi" in flags, reads=False, writes=True)
    bits, is_signed = BITS[name], is_signed_type(name)
    target, x, y, z = ins.operands
    out = 2 * bits if "wide" in flags else bits
    if "wide" in flags:
        function = lambda x, y, z: product_wide(x, y, is_signed) + z  # noqa: E731
    elif "hi" in flags:
        function = lambda x, y, z: product_high(x, y, is_signed) + z  # noqa: E731
    else:
        function = lambda x, y, z: x * y + z  # noqa: E731
    sources = (*b.sources(ins, (x, y), bits), b.source(ins, z, out))
    return Elementwise(ins, function, sources, (b.target(ins, target, out),))


def _mul24(ins: Instruction, b: Builder) -> Operation:
    """mul24 and mad24 of the low 24 bits, the low 32 bits of the product."""
    if "lo" not in flags_of(ins, b, {"lo"}):
        raise b.unsupported(ins, "it needs .lo")
    is_signed = is_signed_type(single_type(ins, b, {"u32", "s32"}))

    def low24(x: Bits) -> Bits:
        eight = np.uint32(8)
        if is_signed:
            return unsigned(signed(x << eight) >> np.int32(8))
        return x & np.uint32(0xFFFFFF)

    def function(x: Bits, y: Bits, *addend: Bits) -> Bits:
        product = low24(x) * low24(y)
        return product + addend[0] if addend else product

    return elementwise(ins, b, function, 32)


def _division(ins: Instruction, b: Builder, part: int) -> Operation:
    expect_operands(ins, b, 3)
    flags_of(ins, b, ())
    name = single_type(ins, b, _ARITHMETIC_TYPES)
    sources = b.sources(ins, ins.operands[1:], BITS[name])
    target = b.target(ins, ins.operands[0], BITS[name])
    is_signed = is_signed_type(name)

    def run(state: State) -> None:
        x, y = (state.value(index) for index in sources)
        bad = poison.any_of([state.poison.get(index, poison.CLEAN) for index in sources])
        state.write(target, divide(x, y, is_signed)[part], poison.everything(bad | (y == 0)))

    return Effect(ins, run, sources, (target,))


def _div(ins: Instruction, b: Builder) -> Operation:
    return _division(ins, b, 0)


def _rem(ins: Instruction, b: Builder) -> Operation:
    return _division(ins, b, 1)


def _extreme(ufunc: Any) -> Decoder:
    """`min` or `max`; `.relu` clamps signed results at zero."""

    def decode(ins: Instruction, b: Builder) -> Operation:
        expect_operands(ins, b, 3)
        relu = "relu" in flags_of(ins, b, {"relu"})
        name = single_type(ins, b, _ARITHMETIC_TYPES | set(_PACKED))
        is_signed = is_signed_type(name)

        def function(x: Bits, y: Bits) -> Bits:
            if not is_signed:
                return np.asarray(ufunc(x, y))
            result = ufunc(signed(x), signed(y))
            return unsigned(np.maximum(result, 0) if relu else result)

        if name in _PACKED:
            return elementwise(ins, b, _packed(function), 32, poison_rule=poison.packed_halves)
        return elementwise(ins, b, function, BITS[name])

    return decode


def _neg(ins: Instruction, b: Builder) -> Operation:
    flags_of(ins, b, ())
    return elementwise(ins, b, np.negative, BITS[single_type(ins, b, {"s16", "s32", "s64"})])


def _abs(ins: Instruction, b: Builder) -> Operation:
    flags_of(ins, b, ())
    bits = BITS[single_type(ins, b, {"s16", "s32", "s64"})]
    return elementwise(ins, b, lambda x: np.where(signed(x) < 0, -x, x), bits)


def _sad(ins: Instruction, b: Builder) -> Operation:
    """|x − y| + z."""
    expect_operands(ins, b, 4)
    flags_of(ins, b, ())
    name = single_type(ins, b, _ARITHMETIC_TYPES)
    is_signed = is_signed_type(name)

    def function(x: Bits, y: Bits, z: Bits) -> Bits:
        less = signed(x) < signed(y) if is_signed else x < y
        return np.where(less, y - x, x - y) + z

    return elementwise(ins, b, function, BITS[name])


def _dot_product(ins: Instruction, b: Builder) -> Operation:
    """dp4a and dp2a: products with bytes, added to a 32-bit accumulator.

    dp4a multiplies four bytes by four bytes, dp2a two halves by the low or high two bytes.
    """
    expect_operands(ins, b, 4)
    halves = ins.opcode == "dp2a"
    chosen = flags_of(ins, b, ("lo", "hi") if halves else ())
    kinds = [word for word in ins.modifiers if word in INTEGER_TYPES]
    if len(kinds) != 2 or not {*kinds} <= {"u32", "s32"}:
        raise b.unsupported(ins, f"types {kinds}")
    first, second = kinds

    def parts(x: Bits, name: str, size: int) -> Bits:
        kind = f"{'i' if name == 's32' else 'u'}{size}"
        return np.ascontiguousarray(x)[..., None].view(kind).astype(np.int64)

    def function(x: Bits, y: Bits, z: Bits) -> Bits:
        right = parts(y, second, 1)
        if halves:
            right = right[..., 2:] if "hi" in chosen else right[..., :2]
        total = (parts(x, first, 2 if halves else 1) * right).sum(axis=-1)
        return (total + z.astype(np.int64)).astype(np.uint32)

    return elementwise(ins, b, function, 32)


TABLE: Mapping[str, Decoder] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "mad": _mad,
    "mul24": _mul24,
    "mad24": _mul24,
    "div": _div,
    "rem": _rem,
    "min": _extreme(np.minimum),
    "max": _extreme(np.maximum),
    "neg": _neg,
    "abs": _abs,
    "sad": _sad,
    "dp2a": _dot_product,
    "dp4a": _dot_product,
}
