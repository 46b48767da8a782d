"""Run a chunk of blocks: groups of threads at basic blocks, and barriers.

Threads at the same basic block form a group, across warps and thread blocks. The group at the
lowest basic block runs first, so diverged threads meet again where their paths join. A barrier
parks a group until every thread it waits for has come. Warps of a block may be at different
places, and named barriers with thread counts let some of them meet (warp specialisation).
"""

from __future__ import annotations

from collections import Counter
from typing import NoReturn

import numpy as np

from exactness.virtual.barriers import Barriers
from exactness.virtual.errors import UnsupportedInstructionError, VirtualHopperError
from exactness.virtual.instructions import Instruction, Symbol
from exactness.virtual.mbarriers import MBarriers
from exactness.virtual.operation import Operation
from exactness.virtual.program import Block, Program, Terminator
from exactness.virtual.state import Bits, Mask, State


class Scheduler:
    """The groups of one chunk.

    Attributes:
        pending: basic block to lanes that are about to run it; None stands for all lanes.
        barriers: who waits where.
        mbarriers: the same for mbarriers.
    """

    def __init__(self, program: Program, state: State, counts: Counter[str]) -> None:
        """Put every live thread at the first basic block."""
        self.program = program
        self.state = state
        self.counts = counts
        self.executed = [0] * len(program.blocks)
        self.off = Counter[str]()
        self.pending: dict[int, Mask] = {0: None if state.live.all() else state.live}
        self.barriers = Barriers(state)
        self.mbarriers = state.mbarriers = MBarriers()
        self.instruction: Instruction | None = None

    def run(self) -> None:
        """Run until every thread has exited.

        Raises:
            VirtualHopperError: naming the instruction it happened at.
        """
        try:
            while self.pending:
                number = min(self.pending)
                self.run_block(number, self.pending.pop(number))
                if self.mbarriers.waiting:
                    self.release()
            self.instruction = self.barriers.first_instruction()
            self.barriers.check_nobody_waits()
            self.instruction = self.mbarriers.first_instruction()
            self.mbarriers.check_nobody_waits(self.state)
        except VirtualHopperError as error:
            error.instruction = error.instruction or self.instruction
            raise
        self.add_counts()

    def run_block(self, number: int, mask: Mask) -> None:
        """Run a basic block for a group, and send its threads on."""
        block = self.program.blocks[number]
        self.executed[number] += self.state.count(mask)
        self.run_operations(block, mask)
        self.leave(number, block.end, mask)

    def run_operations(self, block: Block, mask: Mask) -> None:
        """The operations of a block; registers are freed only if no other thread needs them."""
        state = self.state
        registers, poison = state.registers, state.poison
        alone = not (self.pending or self.barriers.named or self.mbarriers.waiting)
        for operation in block.operations:
            if (
                mask is None
                and operation.fast is not None
                and operation.guard is None
                and (not poison or poison.keys().isdisjoint(operation.touched))
            ):
                operation.fast(registers)
            else:
                self.run_slowly(operation, mask)
            if alone:
                for index in operation.kills:
                    registers[index] = None
                    poison.pop(index, None)

    def run_slowly(self, operation: Operation, mask: Mask) -> None:
        """An operation with a guard, for some lanes only, or on undefined values."""
        self.instruction = operation.instruction
        state = self.state
        state.mask = mask
        if operation.guard is not None:
            before = self.state.count(mask)
            state.mask = self.guarded(operation.guard, mask, operation)
            now = state.count(state.mask)
            self.off[operation.instruction.name] += before - now
            if now == 0:
                return
            if now == state.blocks * state.threads:
                state.mask = None
        operation.execute(state)

    def guarded(self, guard: tuple[int, bool], mask: Mask, operation: Operation | None) -> Mask:
        """Lanes of the group whose guard holds."""
        state = self.state
        register, negated = guard
        state.mask = mask
        state.require_defined((register,), "a predicate")
        value = state.value(register)
        chosen = ~value if negated else value
        return chosen if mask is None else mask & chosen

    def send(self, number: int, mask: Mask) -> None:
        """Put lanes at a basic block."""
        if mask is None or number not in self.pending:
            self.pending[number] = mask
            return
        other = self.pending[number]
        assert other is not None
        self.pending[number] = mask | other

    def leave(self, number: int, end: Terminator, mask: Mask) -> None:
        """Follow the end of a basic block."""
        if end.kind == "next":
            return self.send(number + 1, mask)
        self.instruction = end.instruction
        taken, rest = self.split(end, mask)
        if rest is not _NOBODY:
            self.send(number + 1, rest)
        if taken is _NOBODY:
            return
        match end.kind:
            case "branch":
                self.branch(end, taken)
            case "exit":
                self.exit(taken)
            case "barrier":
                self.pass_barrier(end, number + 1, taken)
            case "wait":
                self.mbarriers.wait(self.state, end, number + 1, taken)
            case "missing":
                self.fail_call(end, taken)
            case _:
                self.state.fail(VirtualHopperError, "the kernel trapped", self.lanes(taken))

    def branch(self, end: Terminator, mask: Mask) -> None:
        """Threads go to the one target, or each to that which its index selects."""
        if end.index < 0:
            return self.send(end.targets[0], mask)
        state = self.state
        state.mask = mask
        state.require_defined((end.index,), "the index of a branch")
        index = np.broadcast_to(state.value(end.index), state.shape)
        here = self.lanes(mask)
        beyond = here & (index >= len(end.targets))
        if beyond.any():
            listed = len(end.targets)
            state.fail(VirtualHopperError, f"a branch index beyond its {listed} targets", beyond)
        for number, target in enumerate(end.targets):
            chosen = here & (index == number)
            if chosen.all():
                self.send(target, None)
            elif chosen.any():
                self.send(target, chosen)

    def fail_call(self, end: Terminator, mask: Mask) -> NoReturn:
        """Threads call what the module does not contain: printf, malloc, a failed assertion."""
        assert end.instruction is not None
        (function,) = end.instruction.operands
        assert isinstance(function, Symbol)
        if function.name == "__assertfail":
            self.state.fail(VirtualHopperError, "a device assertion failed", self.lanes(mask))
        what = f"call is not modelled: {function.name} has no body in this module"
        self.state.fail(UnsupportedInstructionError, what, self.lanes(mask))

    def split(self, end: Terminator, mask: Mask) -> tuple[Mask, Mask]:
        """Lanes for which the terminator holds, and the others."""
        if end.guard is None:
            return mask, _NOBODY
        taken = self.guarded(end.guard, mask, None)
        assert taken is not None
        before, now = self.state.count(mask), self.state.count(taken)
        assert end.instruction is not None
        self.off[end.instruction.name] += before - now
        if now == before:
            return mask, _NOBODY
        if now == 0:
            return _NOBODY, mask
        return self.lanes(taken), (~self.lanes(taken) if mask is None else mask & ~taken)

    def lanes(self, mask: Mask) -> Bits:
        """A mask as a full array."""
        if mask is None:
            return np.ones(self.state.shape, np.bool_)
        return self.state.full(mask)

    def exit(self, mask: Mask) -> None:
        """Threads are done."""
        state = self.state
        state.live = np.zeros(state.shape, np.bool_) if mask is None else state.live & ~mask

    def pass_barrier(self, end: Terminator, next_block: int, mask: Mask) -> None:
        """Threads come to a barrier; those it waited for go on."""
        lanes = None if mask is None else self.lanes(mask)
        for number, going in self.barriers.reach(end, next_block, lanes):
            self.send(number, going)

    def release(self) -> None:
        """Let threads go on whose mbarrier has completed its phase."""
        for number, going in self.mbarriers.ready(self.state):
            self.send(number, going)

    def add_counts(self) -> None:
        """Thread-instructions: what the blocks hold times how often they ran, less guarded off."""
        for block, times in zip(self.program.blocks, self.executed, strict=True):
            if not times:
                continue
            for operation in block.operations:
                self.counts[operation.instruction.name] += times
            if block.end.instruction is not None:
                self.counts[block.end.instruction.name] += times
        self.counts.subtract(self.off)


_NOBODY: Bits = np.zeros((1, 1), np.bool_)
"""A mask of no lanes; compared by identity."""
