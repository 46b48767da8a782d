"""Three analyses of a decoded kernel.

Definite assignment finds the registers that some path reads before writing them: only those can
be undefined from the start. Liveness finds where a register is read for the last time, so that
its array can be freed, and the results that nobody reads. Following parameters through the
registers finds those that stores may reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import Operation

if TYPE_CHECKING:
    from exactness.virtual.program import Block, Program


def maybe_undefined(program: Program) -> frozenset[int]:
    """Registers that some path from the entry reads before it has written them."""
    given = _given(program)
    written = [_written(block) for block in program.blocks]
    # None stands for every register: the block has not been reached yet.
    assigned: list[set[int] | None] = [None] * len(program.blocks)
    assigned[0] = given
    work = [0]
    while work:
        number = work.pop()
        out = (assigned[number] or set()) | written[number]
        for successor in program.blocks[number].successors(number):
            before = assigned[successor]
            after = set(out) if before is None else before & out
            if before is None or len(after) < len(before):
                assigned[successor] = after
                work.append(successor)
    found: set[int] = set()
    for block, known in zip(program.blocks, assigned, strict=True):
        if known is not None:
            found |= _read_first(block, known)
    return frozenset(found)


def liveness(program: Program) -> None:
    """Fill in the operations' `kills` and the builder's `unread`."""
    blocks = program.blocks
    exposed = [_read_first(block, set()) for block in blocks]
    written = [_written(block) for block in blocks]
    live_in: list[set[int]] = [set() for _ in blocks]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(blocks))):
            live = exposed[number] | (_live_out(program, live_in, number) - written[number])
            if len(live) > len(live_in[number]):
                live_in[number], changed = live, True
    keep = _given(program)
    for number, block in enumerate(blocks):
        live = _live_out(program, live_in, number) | keep
        live.update(block.end.sources())
        for operation in reversed(block.operations):
            _mark(program, operation, live)


def stored_params(program: Program) -> frozenset[str] | None:
    """Parameters that addresses of global stores are computed from.

    Returns:
        Their names; None if an address may come from memory or from something that is no
        parameter.
    """
    origins: dict[int, set[str]] = {
        number: {name} for number, (name, _, _) in program.builder.params.items()
    }
    operations = [operation for block in program.blocks for operation in block.operations]
    changed = True
    while changed:
        changed = False
        for operation in operations:
            found = _origins(program, operation, origins)
            for target in operation.targets:
                known = origins.setdefault(target, set())
                if not found <= known:
                    known |= found
                    changed = True
    reached: set[str] = set()
    for operation in operations:
        if _is_bulk_store(operation.instruction):
            return None  # the address is in a tensor map, or found through one
        if operation.instruction.opcode in ("st", "atom", "red") and _may_be_global(operation):
            from_params = origins.get(operation.sources[0], set())
            if not from_params or _FROM_MEMORY in from_params:
                return None
            reached |= from_params
    return frozenset(reached)


_FROM_MEMORY = ""
"""Stands for a pointer that was loaded; no parameter has this name."""


def _origins(program: Program, operation: Operation, origins: dict[int, set[str]]) -> set[str]:
    """Parameters that an operation's results are computed from."""
    ins = operation.instruction
    if ins.opcode in ("ld", "atom") and "param" not in ins.modifiers:
        # What memory holds may be a pointer if it is wide enough.
        wide = any(program.builder.widths[target] >= 64 for target in operation.targets)
        return {_FROM_MEMORY} if wide else set()
    found: set[str] = set()
    for source in operation.sources:
        found |= origins.get(source, set())
    return found


def _is_bulk_store(ins: Instruction) -> bool:
    """Whether the copy engine, or a copy of a tensor map, writes to global memory."""
    words = ins.modifiers
    if ins.opcode == "tensormap":
        return "global" in words
    return ins.opcode == "cp" and "bulk_group" in words


def _may_be_global(operation: Operation) -> bool:
    spaces = {"shared", "shared::cta", "local"}
    return spaces.isdisjoint(operation.instruction.modifiers)


def _given(program: Program) -> set[int]:
    """Registers filled before the launch."""
    builder = program.builder
    return {
        *builder.literals,
        *builder.specials.values(),
        *builder.symbols.values(),
        *builder.params,
    }


def _reads(operation: Operation) -> tuple[int, ...]:
    if operation.guard is None:
        return operation.sources
    return (*operation.sources, operation.guard[0])


def _written(block: Block) -> set[int]:
    """Registers that a block writes whatever its guards say."""
    written = {t for op in block.operations if op.guard is None for t in op.targets}
    if block.end.reduction is not None and block.end.guard is None:
        written.add(block.end.reduction[1])
    if block.end.wait is not None and block.end.guard is None:
        written.add(block.end.wait[3])
    return written


def _read_first(block: Block, known: set[int]) -> set[int]:
    """Registers that a block reads before it writes them, other than those known."""
    found: set[int] = set()
    known = set(known)
    for operation in block.operations:
        found.update(source for source in _reads(operation) if source not in known)
        if operation.guard is None:
            known.update(operation.targets)
    found.update(source for source in block.end.sources() if source not in known)
    return found


def _live_out(program: Program, live_in: list[set[int]], number: int) -> set[int]:
    live: set[int] = set()
    for successor in program.blocks[number].successors(number):
        live |= live_in[successor]
    return live


def _mark(program: Program, operation: Operation, live: set[int]) -> None:
    """Note what dies at an operation, and step `live` back over it."""
    if operation.targets and live.isdisjoint(operation.targets):
        program.builder.unread.add(id(operation.instruction))
    touched = dict.fromkeys((*_reads(operation), *operation.targets))
    operation.kills = tuple(number for number in touched if number not in live)
    if operation.guard is None:
        live.difference_update(operation.targets)
    live.update(_reads(operation))
