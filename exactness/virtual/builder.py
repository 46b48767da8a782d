"""Resolve the operands of a kernel's instructions to register numbers.

Literals, special registers, addresses of variables and parameters are registers too, filled
before the launch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from exactness.virtual.errors import UnsupportedInstructionError
from exactness.virtual.instructions import (
    SINK,
    Address,
    Decimal,
    Entry,
    Instruction,
    Integer,
    NotRegister,
    Operand,
    Register,
    Special,
    Symbol,
    Vector,
)
from exactness.virtual.operation import UNSIGNED
from exactness.virtual.ptx import type_bytes
from exactness.virtual.special_registers import is_modelled
from exactness.virtual.state import Bits


class Builder:
    """Resolves the operands of one kernel to register numbers.

    Attributes:
        entry: the kernel.
        numbers: register name to number.
        literals: number to array, for literals.
        specials: special register name to number.
        symbols: symbol name to number; its address is known at launch.
        widths: bits of every register number.
        params: register number to parameter, byte offset and type; filled at launch.
        unread: `id` of instructions whose results nobody reads, known after liveness analysis.
    """

    def __init__(self, entry: Entry) -> None:
        """Number the declared registers."""
        self.entry = entry
        self.numbers: dict[str, int] = {}
        self.widths: list[int] = []
        for name, type_name in entry.registers.items():
            bits = 1 if type_name == "pred" else 8 * type_bytes(type_name)
            self.numbers[name] = self._number(bits)
        self.literals: dict[int, Bits] = {}
        self.specials: dict[str, int] = {}
        self.symbols: dict[str, int] = {}
        self.params: dict[int, tuple[str, int, str]] = {}
        self.unread: set[int] = set()
        variables = (*entry.variables, *entry.constants)
        self._variables = {v.name for v in variables if v.size or v.space == "shared"}
        self._variables.update(param.name for param in entry.params)
        self._relocated = {v.name for v in variables if v.relocated}
        self._literal_numbers: dict[tuple[int, int], int] = {}

    def _number(self, bits: int) -> int:
        self.widths.append(bits)
        return len(self.widths) - 1

    def unsupported(self, instruction: Instruction, why: str) -> UnsupportedInstructionError:
        """An error that names the instruction."""
        return UnsupportedInstructionError(
            f"{instruction.name} is not modelled: {why}",
            kernel=self.entry.name,
            instruction=instruction,
        )

    def literal(self, value: int, bits: int) -> int:
        """The register that holds a literal."""
        value &= (1 << bits) - 1
        key = (value, bits)
        if key not in self._literal_numbers:
            number = self._literal_numbers[key] = self._number(bits)
            self.literals[number] = np.full((1, 1), value, UNSIGNED[bits])
        return self._literal_numbers[key]

    def scratch(self, bits: int) -> int:
        """A register that nobody reads: the sink `_`."""
        return self._number(bits)

    def special(self, name: str, bits: int) -> int:
        """The register that holds a special register, as `bits` wide as it is read."""
        key = f"{name}:{bits}"
        if key not in self.specials:
            self.specials[key] = self._number(bits)
        return self.specials[key]

    def symbol(self, name: str, bits: int) -> int:
        """The register that holds the address of a variable or of a parameter."""
        if name not in self._variables or name in self._relocated:
            why = "initialised with addresses" if name in self._relocated else "no variable"
            raise UnsupportedInstructionError(
                f"the address of {name} is not modelled: it is {why} of the kernel",
                kernel=self.entry.name,
            )
        key = f"{name}:{bits}"
        if key not in self.symbols:
            self.symbols[key] = self._number(bits)
        return self.symbols[key]

    def param(self, ins: Instruction, name: str, offset: int, type_name: str, bits: int) -> int:
        """The register that holds part of a parameter, extended to `bits`."""
        known = {param.name: param.size for param in self.entry.params}
        if name not in known or offset + type_bytes(type_name) > known[name]:
            raise self.unsupported(ins, f"parameter [{name}+{offset}] does not exist")
        number = self._number(bits)
        self.params[number] = (name, offset, type_name)
        return number

    def source(
        self, ins: Instruction, operand: Operand, bits: int, *, is_float: bool = False
    ) -> int:
        """The register number of a source operand.

        Args:
            ins: for error messages.
            operand: register, literal, special register or symbol.
            bits: the width the instruction reads; wider registers are refused.
            is_float: whether a decimal literal stands for a float (f32 or f64 by `bits`).
        """
        match operand:
            case Register(name):
                number = self.numbers[name]
                if self.widths[number] != bits:
                    raise self.unsupported(
                        ins, f"operand {name} is {self.widths[number]} bits wide, not {bits}"
                    )
                return number
            case Integer(value, 0) if not is_float or bits == 16:
                return self.literal(value, bits)
            case Integer() | Decimal():
                return self.literal(_float_pattern(operand, bits), bits)
            case Special(name):
                if not is_modelled(name):
                    raise self.unsupported(ins, f"special register {name}")
                return self.special(name, bits)
            case Symbol(name):
                return self.symbol(name, bits)
        raise self.unsupported(ins, f"operand {operand} is not a {bits}-bit source")

    def sources(
        self, ins: Instruction, operands: Sequence[Operand], bits: int, *, is_float: bool = False
    ) -> tuple[int, ...]:
        """Register numbers of several sources of one width."""
        return tuple(self.source(ins, operand, bits, is_float=is_float) for operand in operands)

    def any_source(self, ins: Instruction, operand: Operand, least: int) -> int:
        """A source of at least `least` bits, of whatever width its register has."""
        if isinstance(operand, Register):
            number = self.numbers[operand.name]
            if self.widths[number] >= least:
                return number
        return self.source(ins, operand, least)

    def target(self, ins: Instruction, operand: Operand, bits: int) -> int:
        """The register number of a destination of exactly `bits`."""
        if operand == SINK:
            return self.scratch(bits)
        if not isinstance(operand, Register):
            raise self.unsupported(ins, f"destination {operand} is not a register")
        number = self.numbers[operand.name]
        if self.widths[number] != bits:
            raise self.unsupported(
                ins, f"destination {operand.name} is {self.widths[number]} bits wide, not {bits}"
            )
        return number

    def any_target(self, ins: Instruction, operand: Operand, least: int) -> int:
        """A destination of at least `least` bits."""
        if operand == SINK:
            return self.scratch(least)
        if isinstance(operand, Register) and self.widths[self.numbers[operand.name]] >= least:
            return self.numbers[operand.name]
        return self.target(ins, operand, least)

    def predicate(self, ins: Instruction, operand: Operand) -> tuple[int, bool]:
        """Register number and negation of a predicate operand."""
        if isinstance(operand, NotRegister):
            return self.target(ins, operand.register, 1), True
        return self.source(ins, operand, 1), False

    def elements(self, operand: Operand) -> tuple[Operand, ...]:
        """The parts of a vector operand; a plain operand is its own only part."""
        return operand.elements if isinstance(operand, Vector) else (operand,)

    def address(self, ins: Instruction, operand: Operand) -> tuple[int, int]:
        """Register number and byte offset of a memory operand."""
        if not isinstance(operand, Address):
            raise self.unsupported(ins, f"operand {operand} is not an address")
        match operand.base:
            case Register(name):
                return self.numbers[name], operand.offset
            case Integer(value):
                return self.literal(value, 64), operand.offset
            case Symbol(name):
                return self.symbol(name, 64), operand.offset


def _float_pattern(operand: Operand, bits: int) -> int:
    """The pattern of a float literal in f32 or f64, by one rounding from its own precision."""
    if isinstance(operand, Integer):
        if operand.float_bits in (0, bits):
            return operand.value
        wide = struct.unpack("<d", operand.value.to_bytes(8, "little"))[0]
        operand = Decimal(wide)
    assert isinstance(operand, Decimal)
    if bits == 64:
        return int.from_bytes(struct.pack("<d", operand.value), "little")
    with np.errstate(over="ignore"):
        return int(np.float32(operand.value).view(np.uint32))
