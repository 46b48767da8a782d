"""How undefined bytes pass through an instruction.

The poison of a register is an array of u8 beside it: bit k is set where byte k of the lane is
undefined (bit 0 for a predicate). Most instructions make their whole result undefined if a byte
of any operand is; those that move, select or combine bytes keep the others defined, as packed
halves and masked lanes need.

A rule takes the values and the poison of the sources and gives the poison of each target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from exactness.virtual.state import Bits

PoisonRule: TypeAlias = Callable[[Sequence[Bits], Sequence[Bits]], tuple[Bits, ...]]
"""From source values and their poison to the poison of every target."""

CLEAN = np.zeros((1, 1), np.uint8)
ALL = np.uint8(0xFF)


def everything(bad: Bits) -> Bits:
    """All bytes undefined where `bad` (boolean) holds."""
    return np.where(bad, ALL, np.uint8(0))


def any_of(poison: Sequence[Bits]) -> Bits:
    """Lanes where a byte of any of these is undefined."""
    bad = poison[0] != 0
    for part in poison[1:]:
        bad = bad | (part != 0)
    return bad


def whole(count: int) -> PoisonRule:
    """The usual rule: any undefined byte spoils all of every target."""
    return lambda values, poison: (everything(any_of(poison)),) * count


def bytewise(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
    """Byte k of the result comes from byte k of the sources."""
    result = poison[0]
    for part in poison[1:]:
        result = result | part
    return (result,)


def copies(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
    """Each target is one source."""
    return tuple(poison)


def packed_halves(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
    """Each 16-bit half of the result comes from that half of the sources."""
    (joint,) = bytewise(values, poison)
    low, high = (joint & np.uint8(3)) != 0, (joint & np.uint8(12)) != 0
    return (np.where(low, np.uint8(3), np.uint8(0)) | np.where(high, np.uint8(12), np.uint8(0)),)


def packed_pair(size: int) -> PoisonRule:
    """The first source becomes the upper `size` bytes of the result, the second the lower."""
    part = np.uint8((1 << size) - 1)

    def rule(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
        high, low = (np.where(source != 0, part, np.uint8(0)) for source in poison)
        return ((high << np.uint8(size)) | low,)

    return rule


def halves_to_bytes(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
    """Each byte of the result comes from a 16-bit half of the source."""
    low, high = (poison[0] & np.uint8(3)) != 0, (poison[0] & np.uint8(12)) != 0
    return (low.astype(np.uint8) | (high.astype(np.uint8) << np.uint8(1)),)


def bytes_to_halves(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
    """Each 16-bit half of the result comes from a byte of the source."""
    low, high = (poison[0] & np.uint8(1)) != 0, (poison[0] & np.uint8(2)) != 0
    return (np.where(low, np.uint8(3), np.uint8(0)) | np.where(high, np.uint8(12), np.uint8(0)),)


def _bytes_equal(values: Bits, byte: int) -> Bits:
    """A mask of the bytes that equal `byte`; all ones for a predicate that does."""
    if values.dtype == np.bool_:
        return everything(values == bool(byte))
    parts = np.ascontiguousarray(values)[..., None].view(np.uint8) == byte
    return np.packbits(parts, axis=-1, bitorder="little")[..., 0]


def conjunction(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
    """A defined zero byte decides an AND, whatever the other operand holds."""
    return _decided(values, poison, 0)


def disjunction(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
    """A defined byte of ones decides an OR."""
    return _decided(values, poison, 0xFF)


def _decided(values: Sequence[Bits], poison: Sequence[Bits], byte: int) -> tuple[Bits, ...]:
    (x, y), (px, py) = values, poison
    decided = (~px & _bytes_equal(x, byte)) | (~py & _bytes_equal(y, byte))
    return ((px | py) & ~decided,)


def selected(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
    """Only the operand that the predicate (last) chooses counts."""
    chosen = np.where(values[2], poison[0], poison[1])
    return (chosen | everything(poison[2] != 0),)


def joined(part_bytes: int) -> PoisonRule:
    """Sources side by side, the first in the low bytes."""

    def rule(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
        keep = np.uint8((1 << part_bytes) - 1)
        result = poison[0] & keep
        for index, part in enumerate(poison[1:], start=1):
            result = result | ((part & keep) << np.uint8(index * part_bytes))
        return (result,)

    return rule


def parted(part_bytes: int, count: int) -> PoisonRule:
    """One source cut into targets, the low bytes first."""

    def rule(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
        keep = np.uint8((1 << part_bytes) - 1)
        return tuple((poison[0] >> np.uint8(i * part_bytes)) & keep for i in range(count))

    return rule


def shifted(size: int, left: bool, signed: bool) -> PoisonRule:
    """A shift by an amount that is the same everywhere moves bytes; any other spoils all."""

    def rule(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
        amount = values[1]
        if amount.size != 1 or poison[1].any():
            return whole(1)(values, poison)
        count = min(int(amount.item()), 8 * size)
        steps = {count // 8, -(-count // 8)}
        wide = poison[0].astype(np.uint32) & ((1 << size) - 1)
        if signed:
            # Copies of the sign come in from above.
            top = (wide >> (size - 1)) & 1
            wide = wide | np.where(top == 1, ((1 << size) - 1) << size, 0).astype(np.uint32)
        result = np.zeros((1, 1), np.uint32)
        for step in steps:
            result = result | (wide << np.uint32(step) if left else wide >> np.uint32(step))
        return ((result & ((1 << size) - 1)).astype(np.uint8),)

    return rule


def permuted(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
    """prmt: each result byte is a byte of the two first operands."""
    selector = values[2]
    wide = poison[0].astype(np.uint32) & 15 | (poison[1].astype(np.uint32) & 15) << 4
    result = np.zeros((1, 1), np.uint32)
    for index in range(4):
        place = (selector >> np.uint32(4 * index)) & np.uint32(7)
        result = result | ((wide >> place) & 1) << index
    return (result.astype(np.uint8) | everything(poison[2] != 0),)


def extended(source_bytes: int, target_bytes: int, signed: bool) -> PoisonRule:
    """The low bytes of the source, then zeros or copies of the sign."""

    def rule(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
        kept = min(source_bytes, target_bytes)
        result = poison[0] & np.uint8((1 << kept) - 1)
        if signed:
            top = (result >> np.uint8(kept - 1)) & np.uint8(1)
            upper = np.uint8(0xFF & ~((1 << kept) - 1))
            result = result | np.where(top == 1, upper, np.uint8(0))
        return (result,)

    return rule


def compared(packed: bool, targets: int, boolean: str | None, negated: bool) -> PoisonRule:
    """setp: one predicate, or two (of the halves if packed), each combined with a third operand.

    A defined operand decides `and` if it is false and `or` if it is true.
    """

    def rule(values: Sequence[Bits], poison: Sequence[Bits]) -> tuple[Bits, ...]:
        joint = poison[0] | poison[1]
        if packed:
            bad = [(joint & np.uint8(3)) != 0, (joint & np.uint8(12)) != 0]
        else:
            bad = [joint != 0] * targets
        if boolean is None:
            return tuple(everything(lanes) for lanes in bad)
        unknown = poison[2] != 0
        other = values[2] != negated
        decided: Bits = np.zeros((1, 1), np.bool_)
        if boolean in ("and", "or"):
            decided = ~unknown & (other == (boolean == "or"))
        return tuple(everything((lanes | unknown) & ~decided) for lanes in bad)

    return rule
