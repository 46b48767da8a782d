"""A kernel gone wrong, decoded beside what its wrong operations were before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from exactness.virtual import ops
from exactness.virtual.builder import Builder
from exactness.virtual.instructions import SINK, Entry, Instruction
from exactness.virtual.operation import Elementwise, Operation
from exactness.virtual.program import Program, decode_entry
from exactness.virtual.state import Bits

Before: TypeAlias = Callable[[Instruction, Builder], Elementwise | None]
"""What an instruction of the edited kernel was before the edit; None if it is not edited."""


def replaced(original: Entry, edited: Entry) -> Before:
    """For edits that put one instruction in the place of another.

    Raises:
        ValueError: the kernels have different numbers of instructions.
    """
    pairs = zip(original.body, edited.body, strict=True)
    old = {
        id(after): before
        for before, after in pairs
        if (before.name, before.operands) != (after.name, after.operands)
    }

    def before(instruction: Instruction, builder: Builder) -> Elementwise | None:
        found = old.get(id(instruction))
        return None if found is None else _elementwise(ops.decode(found, builder))

    return before


def uncontracted(contracted: Collection[Instruction]) -> Before:
    """For fused multiply-adds that were a product and a sum, each rounded."""
    chosen = {id(instruction) for instruction in contracted}

    def before(instruction: Instruction, builder: Builder) -> Elementwise | None:
        return _two_roundings(instruction, builder) if id(instruction) in chosen else None

    return before


def _two_roundings(fused: Instruction, builder: Builder) -> Elementwise:
    """The product and the sum that a fused multiply-add stands for, as one operation."""
    _, first, second, addend = fused.operands
    without_clamp = tuple(word for word in fused.modifiers if word not in ("sat", "relu"))
    product = _elementwise(
        ops.decode(
            replace(fused, opcode="mul", modifiers=without_clamp, operands=(SINK, first, second)),
            builder,
        )
    )
    # Only the registers of the addend matter here; the other operand is the product.
    total = _elementwise(
        ops.decode(replace(fused, opcode="add", operands=(SINK, addend, addend)), builder)
    )

    def function(a: Bits, b: Bits, c: Bits) -> Any:
        return total.function(product.function(a, b), c)

    return Elementwise(fused, function, (*product.sources, total.sources[0]), total.targets)


class EditedKernel:
    """A decoded kernel, its operations by the registers that they write and read.

    Attributes:
        program: the edited kernel, decoded for this object alone.
        writers: register to the operations that write it.
        readers: register to the operations that read it; None stands for the end of a block.
        originals: `id` of an edited operation to the operation that it was.
    """

    def __init__(self, edited: Entry, before: Before) -> None:
        """Decode a kernel of which `before` tells the edited instructions."""
        # Not the cached program, which others run: watching replaces operations.
        self.program: Program = decode_entry.__wrapped__(edited)
        self.writers: dict[int, list[Operation]] = {}
        self.readers: dict[int, list[Operation | None]] = {}
        self.originals: dict[int, Elementwise] = {}
        for operation in self.operations():
            for target in operation.targets:
                self.writers.setdefault(target, []).append(operation)
            for source in registers_read(operation):
                self.readers.setdefault(source, []).append(operation)
            original = before(operation.instruction, self.program.builder)
            if original is not None:
                self.originals[id(operation)] = original
        for block in self.program.blocks:
            for source in block.end.sources():
                self.readers.setdefault(source, []).append(None)

    def operations(self) -> Iterator[Operation]:
        """All operations in program order."""
        for block in self.program.blocks:
            yield from block.operations

    def edited_operations(self) -> Iterator[Operation]:
        """Those that were something else before."""
        return (operation for operation in self.operations() if id(operation) in self.originals)

    def is_single(self, register: int) -> bool:
        """Whether one unguarded operation alone writes a register."""
        found = self.writers.get(register, [])
        return len(found) == 1 and found[0].guard is None

    def constant(self, original: Elementwise) -> Bits | None:
        """What a `mov` of a literal, the only writer of its register, put there."""
        literal = self.program.builder.literals.get((*original.sources, -1)[0])
        if original.instruction.opcode == "mov" and self.is_single(original.targets[0]):
            return literal
        return None


def narrowing(reader: Operation | None) -> Callable[[Bits], Bits] | None:
    """The conversion of one f32 value to 16 bits that an operation is, packed or not, else None."""
    if not isinstance(reader, Elementwise):
        return None
    words = reader.instruction.modifiers
    narrow = any(word.removesuffix("x2") in ("bf16", "f16") for word in words[:-1])
    if reader.instruction.opcode != "cvt" or not narrow or words[-1] != "f32":
        return None
    function, sources = reader.function, reader.sources
    return lambda bits: function(*(bits for _ in sources))


def registers_read(operation: Operation) -> tuple[int, ...]:
    """What an operation reads, its guard included."""
    guard = () if operation.guard is None else (operation.guard[0],)
    return (*operation.sources, *guard)


def _elementwise(operation: Operation) -> Elementwise:
    if not isinstance(operation, Elementwise):
        raise TypeError(f"{operation.instruction.name} is edited, and is no function of its lane")
    return operation
