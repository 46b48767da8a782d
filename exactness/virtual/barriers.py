"""Barriers of thread blocks: who has come, who waits, when they go on.

Barriers are numbered 0 to 15 in every block. A barrier without a thread count waits for all
threads of the block; one with a count lets some warps meet, and `arrive` lets a warp pass without
waiting (warp specialisation).

Source: PTX ISA 9.0, section 9.7.13.1 (bar, barrier).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from exactness.virtual.errors import BarrierDivergenceError
from exactness.virtual.instructions import Instruction
from exactness.virtual.program import Terminator
from exactness.virtual.state import WARP, Bits, Mask, State

Going: TypeAlias = tuple[int, Mask]
"""A basic block, and the lanes that go on there."""


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
        brought: (blocks, warps + 1), what those that came have seen of each warp and of copies.
    """

    waiting: list[Parked]
    come: Bits
    arrivals: Bits
    brought: Bits

    @classmethod
    def empty(cls, state: State) -> Barrier:
        """Nobody has come."""
        order = state.shared.order
        known = 0 if order is None else order.engine
        return cls(
            [],
            np.zeros(state.shape, np.bool_),
            np.zeros(state.blocks, np.int64),
            np.zeros((state.blocks, known), np.int32),
        )

    def clear(self, complete: Bits) -> None:
        """Forget these blocks' threads."""
        self.come &= ~complete[:, None]
        self.arrivals[complete] = 0
        self.brought[complete] = 0


def by_warp(mask: Bits) -> Bits:
    """(blocks, threads) lanes to (blocks, warps): whether any lane of the warp is in."""
    return mask.reshape(mask.shape[0], -1, WARP).any(axis=2)


class Barriers:
    """The barriers of a chunk of blocks.

    Attributes:
        named: barrier number to who has come to it.
    """

    def __init__(self, state: State) -> None:
        """Nobody has come to any barrier."""
        self.state = state
        self.named: dict[int, Barrier] = {}

    def reach(self, end: Terminator, next_block: int, mask: Mask) -> list[Going]:
        """Threads arrive.

        Args:
            end: the barrier instruction.
            next_block: where they go on.
            mask: who arrives.

        Returns:
            Basic blocks and the lanes that go on there now.

        Raises:
            BarrierDivergenceError: part of a warp is missing, or more threads come than expected.
            UndefinedValueError: the barrier's number or count is undefined.
        """
        state = self.state
        state.mask = mask
        state.require_defined([n for n in end.barrier if n >= 0], "a barrier")
        whole = end.barrier[1] < 0
        if mask is None and whole and not self.named and not end.arrive_only:
            if end.reduction is not None:
                self.reduce(end, np.ones(state.shape, np.bool_))
            if state.shared.order is not None:
                everyone = np.ones((state.blocks, state.threads // WARP), np.bool_)
                state.shared.order.meet(everyone, state.shared.order.snapshot(everyone))
            state.shared.barrier(None)
            state.next_epoch(slice(None))
            return [(next_block, None)]
        lanes = np.ones(state.shape, np.bool_) if mask is None else mask
        if end.aligned:
            self.check_whole_warps(lanes)
        numbers = state.full(state.value(end.barrier[0]))
        going: list[Going] = [(next_block, lanes)] if end.arrive_only else []
        for name in np.unique(numbers[lanes]):
            group = Parked(next_block, lanes & (numbers == name), end)
            going += self.arrive(int(name), group)
        return going

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

    def arrive(self, name: int, group: Parked) -> list[Going]:
        """Add a group to a barrier and release the blocks where it is complete."""
        state = self.state
        barrier = self.named.setdefault(name, Barrier.empty(state))
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
        going = self.release(barrier, complete) if complete.any() else []
        if not barrier.come.any():
            del self.named[name]
        return going

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

    def release(self, barrier: Barrier, complete: Bits) -> list[Going]:
        """Let the threads of these blocks go on."""
        state = self.state
        here = complete[:, None]
        met = barrier.come & here
        waited = np.zeros(state.shape, np.bool_)
        released: list[Going] = []
        for group in barrier.waiting:
            going = group.mask & here
            if not going.any():
                continue
            waited |= going
            if group.end.reduction is not None:
                state.mask = going
                self.reduce(group.end, met)
            released.append((group.next_block, going))
            group.mask = group.mask & ~here
        barrier.waiting = [group for group in barrier.waiting if group.mask.any()]
        if state.shared.order is not None:
            state.shared.order.meet(by_warp(waited), np.where(here, barrier.brought, 0))
        whole = complete & (waited | ~state.live).all(axis=1)
        state.shared.barrier(whole)
        state.next_epoch(whole)
        barrier.clear(complete)
        return released

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
        for barrier in self.named.values():
            for group in barrier.waiting:
                self.state.fail(
                    BarrierDivergenceError,
                    "threads wait at a barrier that the others of their block never reach",
                    group.mask,
                )

    def first_instruction(self) -> Instruction | None:
        """The barrier instruction that threads wait at, if any do."""
        for barrier in self.named.values():
            for group in barrier.waiting:
                return group.end.instruction
        return None
