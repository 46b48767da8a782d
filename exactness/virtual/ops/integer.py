"""Integer arithmetic: add to rem, min, max, wide products, carries.

Source: PTX ISA 9.0, sections 9.7.1 and 9.7.2 (extended precision).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from exactness.virtual import poison
from exactness.virtual.floats import join_halves, split_halves
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import UNSIGNED, Builder, Effect, Elementwise, Operation
from exactness.virtual.ops.common import (
    BITS,
    INTEGER_TYPES,
    Decoder,
    elementwise,
    expect_operands,
    flags_of,
    single_type,
)
from exactness.virtual.state import Bits, State

_SIGNED: dict[int, Any] = {n: np.dtype(f"i{n // 8}") for n in (8, 16, 32, 64)}
_ARITHMETIC_TYPES = frozenset(["u16", "s16", "u32", "s32", "u64", "s64"])
_PACKED = {"u16x2": "u16", "s16x2": "s16"}


def signed(bits: Bits) -> Bits:
    """The patterns read as two's complement."""
    return bits.view(_SIGNED[8 * bits.itemsize])


def unsigned(values: Bits) -> Bits:
    """The patterns of two's complement values."""
    return values.view(UNSIGNED[8 * values.itemsize])


def _is_signed(name: str) -> bool:
    return name.startswith("s")


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
        return _with_carry(ins, b, ufunc, reads=False, writes=True)
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


def _with_carry(
    ins: Instruction, b: Builder, ufunc: Any, *, reads: bool, writes: bool
) -> Operation:
    """32-bit and 64-bit add and sub through the carry flag."""
    name = single_type(ins, b, {"u32", "s32", "b32", "u64", "s64"})
    sources = b.sources(ins, ins.operands[1:], BITS[name])
    target = b.target(ins, ins.operands[0], BITS[name])
    subtract = ufunc is np.subtract

    def run(state: State) -> None:
        state.require_defined(sources, "an operand of extended-precision arithmetic")
        x, y = (state.value(index) for index in sources)
        result = ufunc(x, y)
        carry = x < y if subtract else result < x
        if reads:
            before = _carry(state).astype(result.dtype)
            total = ufunc(result, before)
            wrapped = result < before if subtract else total < result
            result = total
            carry = carry | wrapped
        state.write(target, result)
        if writes:
            _set_carry(state, carry)

    return Effect(ins, run, sources, (target,))


def _carry(state: State) -> Bits:
    return np.zeros((1, 1), np.bool_) if state.carry is None else state.carry


def _set_carry(state: State, carry: Bits) -> None:
    if state.mask is not None:
        carry = np.where(state.mask, carry, _carry(state))
    state.carry = carry


def _addc(ins: Instruction, b: Builder) -> Operation:
    return _with_carry(ins, b, np.add, reads=True, writes="cc" in flags_of(ins, b, {"cc"}))


def _subc(ins: Instruction, b: Builder) -> Operation:
    return _with_carry(ins, b, np.subtract, reads=True, writes="cc" in flags_of(ins, b, {"cc"}))


def product_high(x: Bits, y: Bits, is_signed: bool) -> Bits:
    """The upper half of the full product."""
    bits = 8 * x.itemsize
    if bits < 64:
        kind = np.int64 if is_signed else np.uint64
        if is_signed:
            x, y = signed(x), signed(y)
        return (x.astype(kind) * y.astype(kind) >> kind(bits)).astype(UNSIGNED[bits])
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    other = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> half) + (other >> half)
    if is_signed:
        # Two's complement: a negative factor counts 2^64 too much of the other one.
        zero = np.uint64(0)
        high = high - np.where(signed(x) < 0, y, zero) - np.where(signed(y) < 0, x, zero)
    return high


def product_wide(x: Bits, y: Bits, is_signed: bool) -> Bits:
    """The full product, twice as wide."""
    wide = 16 * x.itemsize
    if is_signed:
        kind = _SIGNED[wide]
        return unsigned(np.asarray(signed(x).astype(kind) * signed(y).astype(kind)))
    kind = UNSIGNED[wide]
    return np.asarray(x.astype(kind) * y.astype(kind))


def _mul(ins: Instruction, b: Builder) -> Operation:
    expect_operands(ins, b, 3)
    flags = flags_of(ins, b, {"lo", "hi", "wide"})
    name = single_type(ins, b, _ARITHMETIC_TYPES)
    bits, is_signed = BITS[name], _is_signed(name)
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
        return _mad_carry(ins, b, name, "hi" in flags, reads=False, writes=True)
    bits, is_signed = BITS[name], _is_signed(name)
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


def _mad_carry(
    ins: Instruction, b: Builder, name: str, high: bool, *, reads: bool, writes: bool
) -> Operation:
    """mad.{lo,hi}.cc and madc: half a product plus an addend, through the carry flag."""
    sources = b.sources(ins, ins.operands[1:], BITS[name])
    target = b.target(ins, ins.operands[0], BITS[name])
    is_signed = _is_signed(name)

    def run(state: State) -> None:
        state.require_defined(sources, "an operand of extended-precision arithmetic")
        x, y, z = (state.value(index) for index in sources)
        product = product_high(x, y, is_signed) if high else x * y
        result = product + z
        carry = result < z
        if reads:
            total = result + _carry(state).astype(result.dtype)
            carry = carry | (total < result)
            result = total
        state.write(target, result)
        if writes:
            _set_carry(state, carry)

    return Effect(ins, run, sources, (target,))


def _madc(ins: Instruction, b: Builder) -> Operation:
    flags = flags_of(ins, b, {"lo", "hi", "cc"})
    name = single_type(ins, b, {"u32", "s32", "u64", "s64"})
    return _mad_carry(ins, b, name, "hi" in flags, reads=True, writes="cc" in flags)


def _mul24(ins: Instruction, b: Builder) -> Operation:
    """mul24 and mad24 of the low 24 bits, the low 32 bits of the product."""
    if "lo" not in flags_of(ins, b, {"lo"}):
        raise b.unsupported(ins, "it needs .lo")
    is_signed = _is_signed(single_type(ins, b, {"u32", "s32"}))

    def low24(x: Bits) -> Bits:
        eight = np.uint32(8)
        if is_signed:
            return unsigned(signed(x << eight) >> np.int32(8))
        return x & np.uint32(0xFFFFFF)

    def function(x: Bits, y: Bits, *addend: Bits) -> Bits:
        product = low24(x) * low24(y)
        return product + addend[0] if addend else product

    return elementwise(ins, b, function, 32)


def divide(x: Bits, y: Bits, is_signed: bool) -> tuple[Bits, Bits]:
    """Quotient toward zero and remainder; what a divisor of zero gives is undefined."""
    safe = np.where(y == 0, y.dtype.type(1), y)
    if not is_signed:
        quotient = x // safe
        return quotient, x - quotient * safe
    negative_x, negative_y = signed(x) < 0, signed(safe) < 0
    quotient = np.where(negative_x, -x, x) // np.where(negative_y, -safe, safe)
    quotient = np.where(negative_x != negative_y, -quotient, quotient)
    return quotient, x - quotient * safe


def _division(ins: Instruction, b: Builder, part: int) -> Operation:
    expect_operands(ins, b, 3)
    flags_of(ins, b, ())
    name = single_type(ins, b, _ARITHMETIC_TYPES)
    sources = b.sources(ins, ins.operands[1:], BITS[name])
    target = b.target(ins, ins.operands[0], BITS[name])
    is_signed = _is_signed(name)

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
        is_signed = _is_signed(name)

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
    is_signed = _is_signed(name)

    def function(x: Bits, y: Bits, z: Bits) -> Bits:
        less = signed(x) < signed(y) if is_signed else x < y
        return np.where(less, y - x, x - y) + z

    return elementwise(ins, b, function, BITS[name])


def _dot_product(ins: Instruction, b: Builder) -> Operation:
    """dp4a: four products of bytes, added to a 32-bit accumulator."""
    expect_operands(ins, b, 4)
    flags_of(ins, b, ())
    kinds = [word for word in ins.modifiers if word in INTEGER_TYPES]
    if len(kinds) != 2 or not {*kinds} <= {"u32", "s32"}:
        raise b.unsupported(ins, f"types {kinds}")
    first, second = kinds

    def byte_values(x: Bits, name: str) -> Bits:
        parts = np.ascontiguousarray(x)[..., None].view(np.int8 if name == "s32" else np.uint8)
        return parts.astype(np.int64)

    def function(x: Bits, y: Bits, z: Bits) -> Bits:
        total = (byte_values(x, first) * byte_values(y, second)).sum(axis=-1)
        return (total + z.astype(np.int64)).astype(np.uint32)

    return elementwise(ins, b, function, 32)


TABLE: Mapping[str, Decoder] = {
    "add": _add,
    "sub": _sub,
    "addc": _addc,
    "subc": _subc,
    "mul": _mul,
    "mad": _mad,
    "madc": _madc,
    "mul24": _mul24,
    "mad24": _mul24,
    "div": _div,
    "rem": _rem,
    "min": _extreme(np.minimum),
    "max": _extreme(np.maximum),
    "neg": _neg,
    "abs": _abs,
    "sad": _sad,
    "dp4a": _dot_product,
}
