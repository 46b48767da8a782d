"""Run a chunk of blocks: groups of threads at basic blocks, and barriers.

Threads at the same basic block form a group, across warps and thread blocks. The group at the
lowest basic block runs first, so diverged threads meet again where their paths join. A barrier
parks a group until every thread it waits for has come. Warps of a block may be at different
places, and named barriers with thread counts let some of them meet (warp specialisation).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from exactness.virtual.errors import BarrierDivergenceError, VirtualHopperError
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import Operation
from exactness.virtual.program import Block, Program, Terminator
from exactness.virtual.state import WARP, Bits, Mask, State


@dataclass(slots=True, eq=False)
class Parked:
    """A group that waits at a barrier.

    Attributes:
        next_block: where it goes on.
        mask: its lanes that still wait.
        end: the barrier instruction.
    """

    next_block: int
    mask: Bits
    end: Terminator


@dataclass(slots=True, eq=False)
class Barrier:
    """A named barrier while threads come to it.

    Attributes:
        waiting: groups that wait.
        come: lanes that have come, those that do not wait included.
        arrivals: per block, how many.
        brought: (blocks, warps), what those that came have seen of each warp.
    """

    waiting: list[Parked]
    come: Bits
    arrivals: Bits
    brought: Bits

    @classmethod
    def empty(cls, state: State) -> Barrier:
        """Nobody has come."""
        warps = state.threads // WARP
        return cls(
            [],
            np.zeros(state.shape, np.bool_),
            np.zeros(state.blocks, np.int64),
            np.zeros((state.blocks, warps), np.int32),
        )

    def clear(self, complete: Bits) -> None:
        """Forget these blocks' threads."""
        self.come &= ~complete[:, None]
        self.arrivals[complete] = 0
        self.brought[complete] = 0


def by_warp(mask: Bits) -> Bits:
    """(blocks, threads) lanes to (blocks, warps): whether any lane of the warp is in."""
    return mask.reshape(mask.shape[0], -1, WARP).any(axis=2)


class Scheduler:
    """The groups of one chunk.

    Attributes:
        pending: basic block to lanes that are about to run it; None stands for all lanes.
        barriers: barrier name to who has come to it.
    """

    def __init__(self, program: Program, state: State, counts: Counter[str]) -> None:
        """Put every live thread at the first basic block."""
        self.program = program
        self.state = state
        self.counts = counts
        self.executed = [0] * len(program.blocks)
        self.off = Counter[str]()
        self.pending: dict[int, Mask] = {0: None if state.live.all() else state.live}
        self.barriers: dict[int, Barrier] = {}
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
            self.instruction = None
            self.check_nobody_waits()
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
        alone = not self.pending and not self.barriers
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
                self.send(end.target, taken)
            case "exit":
                self.exit(taken)
            case "barrier":
                self.reach_barrier(end, number + 1, taken)
            case _:
                self.state.fail(
                    VirtualHopperError, "the kernel trapped", self.lanes(taken)
                )

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

    def reach_barrier(self, end: Terminator, next_block: int, mask: Mask) -> None:
        """Threads arrive; those that a full barrier waited for go on."""
        state = self.state
        state.mask = mask
        state.require_defined([n for n in end.barrier if n >= 0], "a barrier")
        whole = end.barrier[1] < 0
        if mask is None and whole and not self.barriers and not end.arrive_only:
            if end.reduction is not None:
                self.reduce(end, np.ones(state.shape, np.bool_))
            if state.shared.order is not None:
                everyone = np.ones((state.blocks, state.threads // WARP), np.bool_)
                state.shared.order.meet(everyone, state.shared.order.snapshot(everyone))
            state.shared.barrier(None)
            state.epochs += 1
            return self.send(next_block, None)
        lanes = self.lanes(mask)
        if end.aligned:
            self.check_whole_warps(lanes)
        names = state.full(state.value(end.barrier[0]))[lanes]
        for name in np.unique(names):
            here = lanes & (state.full(state.value(end.barrier[0])) == name)
            self.arrive(int(name), Parked(next_block, here, end))
        if end.arrive_only:
            self.send(next_block, lanes)

    def check_whole_warps(self, lanes: Bits) -> None:
        """An aligned barrier needs all live threads of a warp."""
        state = self.state
        by_warp = lanes.reshape(state.blocks, -1, WARP)
        missing = by_warp.any(axis=2, keepdims=True) & ~by_warp
        missing &= state.live.reshape(by_warp.shape)
        if missing.any():
            state.fail(
                BarrierDivergenceError,
                "a warp comes to a barrier without some of its threads",
                missing.reshape(state.shape),
            )

    def arrive(self, name: int, group: Parked) -> None:
        """Add a group to a barrier and release the blocks where it is complete."""
        state = self.state
        barrier = self.barriers.setdefault(name, Barrier.empty(state))
        barrier.come |= group.mask
        barrier.arrivals += group.mask.sum(axis=1)
        if not group.end.arrive_only:
            barrier.waiting.append(group)
        if state.shared.order is not None:
            brought = state.shared.order.snapshot(by_warp(group.mask))
            barrier.brought = np.maximum(barrier.brought, brought)
        expected = self.expected(group)
        if (barrier.arrivals > expected)[expected > 0].any():
            bad = (barrier.arrivals > expected)[:, None] & group.mask
            state.fail(BarrierDivergenceError, "more threads arrive than a barrier expects", bad)
        complete = (barrier.arrivals == expected) & (expected > 0)
        if complete.any():
            self.release(barrier, complete)
        if not barrier.come.any():
            del self.barriers[name]

    def expected(self, group: Parked) -> Bits:
        """Threads that the barrier waits for, per block; 0 where the group has none."""
        state = self.state
        count = group.end.barrier[1]
        real = int(np.prod(state.block))
        here = group.mask.any(axis=1)
        if count < 0:
            return np.where(here, real, 0)
        wanted = np.where(group.mask, state.full(state.value(count)), 0).max(axis=1)
        return np.where(here, wanted, 0)

    def release(self, barrier: Barrier, complete: Bits) -> None:
        """Let the threads of these blocks go on."""
        state = self.state
        here = complete[:, None]
        met = barrier.come & here
        waited = np.zeros(state.shape, np.bool_)
        for group in barrier.waiting:
            going = group.mask & here
            if not going.any():
                continue
            waited |= going
            if group.end.reduction is not None:
                state.mask = going
                self.reduce(group.end, met)
            self.send(group.next_block, going)
            group.mask = group.mask & ~here
        barrier.waiting = [group for group in barrier.waiting if group.mask.any()]
        if state.shared.order is not None:
            state.shared.order.meet(by_warp(waited), np.where(here, barrier.brought, 0))
        whole = complete & (waited | ~state.live).all(axis=1)
        state.shared.barrier(whole)
        state.epochs[whole] += 1
        barrier.clear(complete)

    def reduce(self, end: Terminator, met: Bits) -> None:
        """bar.red: one value a block from the predicates of all that met."""
        assert end.reduction is not None
        operation, target, predicate, negated = end.reduction
        state = self.state
        state.require_defined((predicate,), "the predicate of a barrier")
        values = state.full(state.value(predicate)) != negated
        match operation:
            case "popc":
                result = (values & met).sum(axis=1).astype(np.uint32)
            case "and":
                result = (values | ~met).all(axis=1)
            case _:
                result = (values & met).any(axis=1)
        state.write(target, result[:, None])

    def check_nobody_waits(self) -> None:
        """Raise if threads are still parked when all others have exited."""
        for barrier in self.barriers.values():
            for group in barrier.waiting:
                self.instruction = group.end.instruction
                self.state.fail(
                    BarrierDivergenceError,
                    "threads wait at a barrier that the others of their block never reach",
                    group.mask,
                )

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
