"""What the decoders share: reading modifiers, refusing unknown ones, elementwise construction."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from exactness.virtual.builder import Builder
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import Elementwise, Function, Operation
from exactness.virtual.poison import PoisonRule

Decoder: TypeAlias = Callable[[Instruction, Builder], Operation]

INTEGER_TYPES = frozenset(
    ["u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64"]
)
FLOAT_TYPES = frozenset(["f16", "bf16", "f32", "f64", "f16x2", "bf16x2"])
OTHER_TYPES = frozenset(
    ["pred", "tf32", "e4m3x2", "e5m2x2", "u16x2", "s16x2", "b128", "f32x2", "e2m1x2"]
)
TYPES = INTEGER_TYPES | FLOAT_TYPES | OTHER_TYPES

BITS: dict[str, int] = {
    "pred": 1,
    "tf32": 32,
    "f16x2": 32,
    "bf16x2": 32,
    "u16x2": 32,
    "s16x2": 32,
    "e4m3x2": 16,
    "e5m2x2": 16,
    "bf16": 16,
    **{name: int(name[1:]) for name in INTEGER_TYPES | {"f16", "f32", "f64"}},
}
"""Register width of each PTX type."""


def types_of(ins: Instruction) -> tuple[str, ...]:
    """The type modifiers, in order."""
    return tuple(word for word in ins.modifiers if word in TYPES)


def flags_of(ins: Instruction, b: Builder, allowed: Collection[str]) -> frozenset[str]:
    """The other modifiers.

    Raises:
        UnsupportedInstructionError: one of them is not in `allowed`.
    """
    flags = frozenset(word for word in ins.modifiers if word not in TYPES)
    unknown = flags - frozenset(allowed)
    if unknown:
        names = ", ".join(f".{word}" for word in sorted(unknown))
        raise b.unsupported(ins, f"modifier {names}")
    return flags


def single_type(ins: Instruction, b: Builder, known: Collection[str]) -> str:
    """The only type modifier, which must be in `known`."""
    types = types_of(ins)
    if len(types) != 1 or types[0] not in known:
        given = ", ".join(f".{name}" for name in types) or "no type"
        raise b.unsupported(ins, f"type {given}")
    return types[0]


def expect_operands(ins: Instruction, b: Builder, *counts: int) -> None:
    """Refuse another number of operands than those in `counts`."""
    if len(ins.operands) not in counts:
        raise b.unsupported(ins, f"{len(ins.operands)} operands")


def elementwise(
    ins: Instruction,
    b: Builder,
    function: Function,
    bits: int,
    *,
    out_bits: int | None = None,
    is_float: bool = False,
    poison_rule: PoisonRule | None = None,
) -> Elementwise:
    """One target, then sources that are all `bits` wide."""
    return Elementwise(
        ins,
        function,
        b.sources(ins, ins.operands[1:], bits, is_float=is_float),
        (b.target(ins, ins.operands[0], bits if out_bits is None else out_bits),),
        poison_rule,
    )
