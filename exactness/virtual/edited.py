"""An edited kernel beside the original: its operations by the registers that they touch."""

from __future__ import annotations

from collections.abc import Iterator

from exactness.virtual import ops
from exactness.virtual.instructions import Entry
from exactness.virtual.operation import Elementwise, Operation
from exactness.virtual.program import Program, decode_entry
from exactness.virtual.state import Bits


class EditedKernel:
    """A decoded kernel, its operations by the registers that they write and read.

    Attributes:
        program: the edited kernel, decoded for this object alone.
        writers: register to the operations that write it.
        readers: register to the operations that read it; None stands for the end of a block.
        originals: `id` of an edited operation to the operation that it was.
    """

    def __init__(self, original: Entry, edited: Entry) -> None:
        """Decode `edited`, which differs from `original` in single instructions."""
        # Not the cached program, which others run: watching replaces operations.
        self.program: Program = decode_entry.__wrapped__(edited)
        self.writers: dict[int, list[Operation]] = {}
        self.readers: dict[int, list[Operation | None]] = {}
        for operation in self.operations():
            for target in operation.targets:
                self.writers.setdefault(target, []).append(operation)
            for source in registers_read(operation):
                self.readers.setdefault(source, []).append(operation)
        for block in self.program.blocks:
            for source in block.end.sources():
                self.readers.setdefault(source, []).append(None)
        self.originals = self._originals(original, edited)

    def operations(self) -> Iterator[Operation]:
        """All operations in program order."""
        for block in self.program.blocks:
            yield from block.operations

    def _originals(self, original: Entry, edited: Entry) -> dict[int, Elementwise]:
        """`id` of an edited operation to the operation it was."""
        before = {
            id(new): old
            for old, new in zip(original.body, edited.body, strict=True)
            if (old.name, old.operands) != (new.name, new.operands)
        }
        found = {}
        for operation in self.operations():
            instruction = before.get(id(operation.instruction))
            if instruction is not None:
                found[id(operation)] = _elementwise(ops.decode(instruction, self.program.builder))
        return found

    def is_single(self, register: int) -> bool:
        """Whether one unguarded operation alone writes a register."""
        found = self.writers.get(register, [])
        return len(found) == 1 and found[0].guard is None

    def constant(self, operation: Operation) -> Bits | None:
        """What a `mov` of a literal, the only writer of its register, puts there."""
        literal = self.program.builder.literals.get((*operation.sources, -1)[0])
        if operation.instruction.opcode == "mov" and self.is_single(operation.targets[0]):
            return literal
        return None


def registers_read(operation: Operation) -> tuple[int, ...]:
    """What an operation reads, its guard included."""
    guard = () if operation.guard is None else (operation.guard[0],)
    return (*operation.sources, *guard)


def _elementwise(operation: Operation) -> Elementwise:
    if not isinstance(operation, Elementwise):
        raise TypeError(f"{operation.instruction.name} is edited, and is no function of its lane")
    return operation
