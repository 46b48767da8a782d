"""PTX as data: operands, instructions, entries, modules. Frozen, compared by value or identity.

The words are those of the PTX ISA manual (CUDA 13, PTX 9.0), chapters 4 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register; those of an inner scope carry the scope's number (`tmp@3`)."""

    name: str


@dataclass(frozen=True, slots=True)
class NotRegister:
    """A negated predicate operand, `!%p1`."""

    register: Register


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer literal, or a floating-point one given by its bits (`0f3F800000`).

    Attributes:
        value: the number, or the bit pattern.
        float_bits: 32 or 64 for `0f…` and `0d…` literals, else 0.
    """

    value: int
    float_bits: int = 0


@dataclass(frozen=True, slots=True)
class Decimal:
    """A decimal floating-point literal, `1.0`: an f64 constant, converted to the type used."""

    value: float


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name: variable, parameter, label or function."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """A memory operand, `[base + offset]`."""

    base: Register | Symbol | Integer
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector operand, `{%r1, %r2}`."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations, `%p1|%p2`; the second or first may be the sink `_`."""

    first: Operand
    second: Operand


Operand: TypeAlias = (
    Register | NotRegister | Special | Integer | Decimal | Symbol | Address | Vector | Pair
)

SINK = Symbol("_")


@dataclass(frozen=True, slots=True)
class Guard:
    """The predicate before an instruction, `@%p1` or `@!%p1`."""

    register: Register
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Location:
    """A source position, with the position it was inlined at.

    Attributes:
        file: path as the compiler wrote it.
        line: from 1.
        column: from 1; 0 if unknown.
        inlined_at: the call that brought this line here.
    """

    file: str
    line: int
    column: int = 0
    inlined_at: Location | None = None

    @property
    def outermost(self) -> Location:
        """The position in the kernel itself."""
        return self if self.inlined_at is None else self.inlined_at.outermost

    def __str__(self) -> str:
        """`kernel.py:30 (standard.py:261)`: the kernel's own line first."""
        inner, place = [], self
        while place.inlined_at is not None:
            inner.append(f"{place.file.rsplit('/', maxsplit=1)[-1]}:{place.line}")
            place = place.inlined_at
        text = f"{place.file}:{place.line}"
        return f"{text} ({', '.join(inner)})" if inner else text


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: the first word, `ld`.
        modifiers: the words after it, `("global", "v4", "b32")`.
        operands: in PTX order, destinations first.
        guard: its predicate, if any.
        location: the source line it was compiled from.
        text: the instruction as printed in the PTX.
        line: its line in the PTX text, from 1.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    location: Location | None = None
    text: str = ""
    line: int = 0

    @property
    def name(self) -> str:
        """Opcode and modifiers as printed, `ld.global.v4.b32`."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable outside registers.

    Attributes:
        name: its symbol.
        space: "shared", "local", "global" or "const".
        align: alignment in bytes.
        size: bytes; 0 for `extern` arrays, whose size is the launch's dynamic shared memory.
        initial: initial bytes (zero-extended to `size`), None if there are none.
        relocated: whether the initial value holds addresses, which are not known here.
    """

    name: str
    space: str
    align: int
    size: int
    initial: bytes | None = None
    relocated: bool = False


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a kernel or a device function.

    Attributes:
        name: its symbol.
        type: "u64", "f32", "b8" … (of an element, for arrays).
        size: bytes.
        align: alignment in bytes.
        is_pointer: whether it is declared `.ptr`.
    """

    name: str
    type: str
    size: int
    align: int
    is_pointer: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A kernel, or a device function.

    Attributes:
        name: its symbol.
        params: in order.
        body: its instructions in order.
        labels: label to index in `body` (its length for a label at the end).
        registers: register to type ("pred", "b32" …).
        variables: shared and local variables, the module's and its own.
        constants: the module's `.global` and `.const` variables.
        reqntid: required block dimensions, if stated.
        maxntid: largest block dimensions, if stated.
        cluster: blocks of a cluster, if stated.
        target: the module's target, "sm_90a".
        returns: what a device function returns: one parameter or none.
        functions: the module's device functions by name, as far as they have bodies.
    """

    name: str
    params: tuple[Param, ...]
    body: tuple[Instruction, ...]
    labels: Mapping[str, int]
    registers: Mapping[str, str]
    variables: tuple[Variable, ...] = ()
    constants: tuple[Variable, ...] = ()
    reqntid: tuple[int, int, int] | None = None
    maxntid: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    target: str = ""
    returns: tuple[Param, ...] = ()
    functions: Mapping[str, Entry] = field(default_factory=dict, repr=False)

    @property
    def shared(self) -> tuple[Variable, ...]:
        """The shared variables."""
        return tuple(v for v in self.variables if v.space == "shared")


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A PTX module.

    Attributes:
        version: PTX ISA version, "8.7".
        target: "sm_90a".
        address_size: 64.
        entries: kernels by name.
        shared: shared variables of the module.
        constants: `.global` and `.const` variables of the module.
        files: the `.file` table.
        functions: device functions by name.
    """

    version: str
    target: str
    address_size: int
    entries: Mapping[str, Entry]
    shared: tuple[Variable, ...]
    constants: tuple[Variable, ...]
    files: Mapping[int, str]
    functions: Mapping[str, Entry] = field(default_factory=dict)
