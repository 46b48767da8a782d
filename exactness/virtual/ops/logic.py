"""Bit operations: and to lop3, shifts, fields, counts, permutations.

Source: PTX ISA 9.0, sections 9.7.1 (bit fields, counts) and 9.7.8 (logic and shift).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from exactness.virtual import poison
from exactness.virtual.builder import Builder
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import UNSIGNED, Elementwise, Operation
from exactness.virtual.ops.common import (
    BITS,
    Decoder,
    elementwise,
    expect_operands,
    flags_of,
    single_type,
)
from exactness.virtual.ops.twos_complement import signed, unsigned
from exactness.virtual.poison import PoisonRule
from exactness.virtual.state import Bits

_LOGIC_TYPES = frozenset(["pred", "b16", "b32", "b64"])


def _binary(ufunc: Any, rule: Any) -> Decoder:
    def decode(ins: Instruction, b: Builder) -> Operation:
        expect_operands(ins, b, 3)
        flags_of(ins, b, ())
        bits = BITS[single_type(ins, b, _LOGIC_TYPES)]
        return elementwise(ins, b, ufunc, bits, poison_rule=rule)

    return decode


def _not(ins: Instruction, b: Builder) -> Operation:
    expect_operands(ins, b, 2)
    flags_of(ins, b, ())
    bits = BITS[single_type(ins, b, _LOGIC_TYPES)]
    return elementwise(ins, b, np.invert, bits, poison_rule=poison.bytewise)


def _cnot(ins: Instruction, b: Builder) -> Operation:
    """1 where the operand is zero, else 0."""
    flags_of(ins, b, ())
    bits = BITS[single_type(ins, b, {"b16", "b32", "b64"})]
    return elementwise(ins, b, lambda x: (x == 0).astype(UNSIGNED[bits]), bits)


def shift_amount(amount: Bits, bits: int) -> Bits:
    """A 32-bit shift amount, clamped to the width and converted to its type."""
    return np.minimum(amount, np.uint32(bits)).astype(UNSIGNED[bits])


def _shift(ins: Instruction, b: Builder, function: Any, bits: int, rule: PoisonRule) -> Operation:
    """Value and amount; the amount is always 32 bits wide."""
    expect_operands(ins, b, 3)
    flags_of(ins, b, ())
    target, value, amount = ins.operands
    sources = (b.source(ins, value, bits), b.source(ins, amount, 32))
    return Elementwise(ins, function, sources, (b.target(ins, target, bits),), rule)


def _shl(ins: Instruction, b: Builder) -> Operation:
    bits = BITS[single_type(ins, b, {"b16", "b32", "b64"})]
    rule = poison.shifted(bits // 8, True, False)
    return _shift(ins, b, lambda x, n: x << shift_amount(n, bits), bits, rule)


def _shr(ins: Instruction, b: Builder) -> Operation:
    known = {f"{kind}{bits}" for kind in "bus" for bits in (16, 32, 64)}
    name = single_type(ins, b, known)
    bits = BITS[name]
    if name.startswith("s"):
        rule = poison.shifted(bits // 8, False, True)
        return _shift(
            ins, b, lambda x, n: unsigned(signed(x) >> signed(shift_amount(n, bits))), bits, rule
        )
    rule = poison.shifted(bits // 8, False, False)
    return _shift(ins, b, lambda x, n: x >> shift_amount(n, bits), bits, rule)


def _shf(ins: Instruction, b: Builder) -> Operation:
    """Funnel shift of the 64-bit value {high, low}."""
    expect_operands(ins, b, 4)
    flags = flags_of(ins, b, {"l", "r", "wrap", "clamp"})
    single_type(ins, b, {"b32"})
    left, wrap = "l" in flags, "wrap" in flags

    def function(low: Bits, high: Bits, amount: Bits) -> Bits:
        n = amount & np.uint32(31) if wrap else np.minimum(amount, np.uint32(32))
        wide = (high.astype(np.uint64) << np.uint64(32)) | low
        if left:
            return ((wide << n.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)
        return (wide >> n.astype(np.uint64)).astype(np.uint32)

    return elementwise(ins, b, function, 32)


def _lop3(ins: Instruction, b: Builder) -> Operation:
    """Any boolean function of three operands, given by its truth table."""
    expect_operands(ins, b, 5)
    flags_of(ins, b, ())
    single_type(ins, b, {"b32"})
    table = b.literals[b.source(ins, ins.operands[4], 32)].item()
    sources = b.sources(ins, ins.operands[1:4], 32)

    def function(x: Bits, y: Bits, z: Bits) -> Bits:
        result = np.zeros((1, 1), np.uint32)
        for index in range(8):
            if table >> index & 1:
                result = result | (
                    (x if index & 4 else ~x) & (y if index & 2 else ~y) & (z if index & 1 else ~z)
                )
        return result

    target = b.target(ins, ins.operands[0], 32)
    return Elementwise(ins, function, sources, (target,), poison.bytewise)


def _bfe(ins: Instruction, b: Builder) -> Operation:
    """Extract `length` bits from `position`; the sign fills up for s32 and s64."""
    expect_operands(ins, b, 4)
    flags_of(ins, b, ())
    name = single_type(ins, b, {"u32", "s32", "u64", "s64"})
    bits = BITS[name]
    target, value, position, length = ins.operands

    def function(x: Bits, position: Bits, length: Bits) -> Bits:
        at = shift_amount(position & np.uint32(0xFF), bits)
        count = shift_amount(length & np.uint32(0xFF), bits)
        # Positions past the operand's top are filled like those past the field.
        kept = np.minimum(count, x.dtype.type(bits) - at)
        ones = ~((~x.dtype.type(0)) << kept)
        field = (x >> at) & ones
        if name.startswith("u"):
            return np.asarray(field)
        # The last bit of the field, or of the operand if the field runs past it.
        last = np.minimum(at + count - x.dtype.type(1), x.dtype.type(bits - 1))
        negative = ((x >> last) & x.dtype.type(1)) == 1
        return np.where(negative & (count > 0), field | ~ones, field)

    sources = (b.source(ins, value, bits), *b.sources(ins, (position, length), 32))
    return Elementwise(ins, function, sources, (b.target(ins, target, bits),))


def _bfi(ins: Instruction, b: Builder) -> Operation:
    """Insert the low `length` bits of a into b at `position`."""
    expect_operands(ins, b, 5)
    flags_of(ins, b, ())
    bits = BITS[single_type(ins, b, {"b32", "b64"})]
    target, field, base, position, length = ins.operands

    def function(x: Bits, y: Bits, position: Bits, length: Bits) -> Bits:
        at = shift_amount(position & np.uint32(0xFF), bits)
        count = shift_amount(length & np.uint32(0xFF), bits)
        ones = (~((~x.dtype.type(0)) << count)) << at
        return (y & ~ones) | ((x << at) & ones)

    sources = (*b.sources(ins, (field, base), bits), *b.sources(ins, (position, length), 32))
    return Elementwise(ins, function, sources, (b.target(ins, target, bits),))


def _brev(ins: Instruction, b: Builder) -> Operation:
    flags_of(ins, b, ())
    bits = BITS[single_type(ins, b, {"b32", "b64"})]

    def function(x: Bits) -> Bits:
        parts = np.ascontiguousarray(x)[..., None].view(np.uint8)[..., ::-1]
        return np.ascontiguousarray(_REVERSED.take(parts)).view(UNSIGNED[bits])[..., 0]

    return elementwise(ins, b, function, bits)


_REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint8)


def _popc(ins: Instruction, b: Builder) -> Operation:
    flags_of(ins, b, ())
    bits = BITS[single_type(ins, b, {"b32", "b64"})]
    return elementwise(ins, b, lambda x: np.bitwise_count(x).astype(np.uint32), bits, out_bits=32)


def highest_bit(x: Bits) -> Bits:
    """Index of the highest set bit, −1 for zero (int64)."""
    spread = x
    for step in (1, 2, 4, 8, 16, 32):
        if step < 8 * x.itemsize:
            spread = spread | (spread >> x.dtype.type(step))
    return np.bitwise_count(spread).astype(np.int64) - 1


def _clz(ins: Instruction, b: Builder) -> Operation:
    flags_of(ins, b, ())
    bits = BITS[single_type(ins, b, {"b32", "b64"})]
    return elementwise(
        ins, b, lambda x: (bits - 1 - highest_bit(x)).astype(np.uint32), bits, out_bits=32
    )


def _bfind(ins: Instruction, b: Builder) -> Operation:
    """The highest bit that differs from the sign; 0xffffffff if there is none."""
    expect_operands(ins, b, 2)
    shift = "shiftamt" in flags_of(ins, b, {"shiftamt"})
    name = single_type(ins, b, {"u32", "s32", "u64", "s64"})
    bits = BITS[name]

    def function(x: Bits) -> Bits:
        if name.startswith("s"):
            x = np.where(signed(x) < 0, ~x, x)
        found = highest_bit(x)
        if shift:
            found = np.where(found < 0, found, bits - 1 - found)
        return found.astype(np.uint32)

    return elementwise(ins, b, function, bits, out_bits=32)


def _prmt(ins: Instruction, b: Builder) -> Operation:
    """Pick four bytes out of eight; the high bit of a selector replicates the sign."""
    expect_operands(ins, b, 4)
    flags_of(ins, b, ())
    single_type(ins, b, {"b32"})

    def function(x: Bits, y: Bits, selector: Bits) -> Bits:
        wide = (y.astype(np.uint64) << np.uint64(32)) | x
        result = np.zeros((1, 1), np.uint32)
        for index in range(4):
            nibble = (selector >> np.uint32(4 * index)) & np.uint32(15)
            shift = (nibble & np.uint32(7)).astype(np.uint64) * np.uint64(8)
            byte = ((wide >> shift) & np.uint64(0xFF)).astype(np.uint32)
            replicate = (nibble & np.uint32(8)) != 0
            if replicate.any():
                sign = (byte >> np.uint32(7)) * np.uint32(0xFF)
                byte = np.where(replicate, sign, byte)
            result = result | (byte << np.uint32(8 * index))
        return result

    return elementwise(ins, b, function, 32, poison_rule=poison.permuted)


TABLE: Mapping[str, Decoder] = {
    "and": _binary(np.bitwise_and, poison.conjunction),
    "or": _binary(np.bitwise_or, poison.disjunction),
    "xor": _binary(np.bitwise_xor, poison.bytewise),
    "not": _not,
    "cnot": _cnot,
    "shl": _shl,
    "shr": _shr,
    "shf": _shf,
    "lop3": _lop3,
    "bfe": _bfe,
    "bfi": _bfi,
    "brev": _brev,
    "popc": _popc,
    "clz": _clz,
    "bfind": _bfind,
    "prmt": _prmt,
}
