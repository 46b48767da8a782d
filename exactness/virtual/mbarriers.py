"""mbarrier objects: arrivals, bytes of bulk copies, phases, and who waits for them.

A wait is blocking here: `try_wait` parks the threads until the phase is complete, which is what a
loop around it comes to. What those that arrived have seen, those that waited have seen as well.

Source: PTX ISA 9.0, section 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from exactness.virtual.errors import BarrierDivergenceError, VirtualHopperError
from exactness.virtual.instructions import Instruction
from exactness.virtual.state import WARP, Bits, Mask, State

if TYPE_CHECKING:
    from exactness.virtual.program import Terminator

Going: TypeAlias = tuple[int, Mask]
"""A basic block, and the lanes that go on there."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A group that waits.

    Attributes:
        next_block: where it goes on.
        mask: its lanes that still wait, (blocks, threads).
        offset: the barrier's shared address.
        parity: of the phase that it waits for, (blocks, threads).
        end: the instruction.
    """

    next_block: int
    mask: Bits
    offset: int
    parity: Bits
    end: Terminator


@dataclass(slots=True, eq=False)
class Object:
    """The mbarrier at one shared address, in every block.

    Attributes:
        valid: whether it is initialised.
        phase: parity of the phase under way.
        expected: arrivals that complete a phase.
        pending: arrivals that this one still needs.
        bytes: that copies still have to bring.
        brought: (blocks, …), what those that arrived have seen.
        released: the same, of the phases that are complete.
    """

    valid: Bits
    phase: Bits
    expected: Bits
    pending: Bits
    bytes: Bits
    brought: Bits
    released: Bits

    @classmethod
    def empty(cls, blocks: int, known: int) -> Object:
        """No block has initialised it."""
        numbers = (np.zeros(blocks, np.int64) for _ in range(4))
        seen = (np.zeros((blocks, known), np.int32) for _ in range(2))
        return cls(np.zeros(blocks, np.bool_), *numbers, *seen)

    def complete(self) -> None:
        """Begin the next phase where nothing is pending."""
        done = self.valid & (self.pending == 0) & (self.bytes == 0)
        self.phase ^= done
        self.pending = np.where(done, self.expected, self.pending)
        now = np.maximum(self.released, self.brought)
        self.released = np.where(done[:, None], now, self.released)
        self.brought = np.where(done[:, None], 0, self.brought)


@dataclass(slots=True, eq=False)
class MBarriers:
    """The mbarriers of a chunk of blocks.

    Attributes:
        objects: by shared address.
        waiting: groups that wait.
    """

    objects: dict[int, Object] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)

    def at(self, state: State, offset: int, lanes: Bits) -> Object:
        """The barrier at an address, initialised in every block that these lanes belong to.

        Raises:
            VirtualHopperError: it is not.
        """
        found = self.objects.get(offset)
        here = lanes.any(axis=1)
        if found is None or not found.valid[here].all():
            bad = lanes if found is None else lanes & ~found.valid[:, None]
            state.fail(VirtualHopperError, f"there is no mbarrier at {offset:#x}", bad)
        return found

    def initialise(self, state: State, offset: int, lanes: Bits, count: Bits) -> None:
        """mbarrier.init by lanes (blocks, threads); `count` is (blocks, threads)."""
        known = 0 if state.shared.order is None else state.shared.order.engine
        found = self.objects.setdefault(offset, Object.empty(state.blocks, known))
        here = lanes.any(axis=1)
        value = np.where(lanes, count, 0).max(axis=1)
        found.valid[here] = True
        found.phase[here] = found.bytes[here] = 0
        found.expected[here] = found.pending[here] = value[here]
        found.brought[here] = found.released[here] = 0

    def invalidate(self, state: State, offset: int, lanes: Bits) -> None:
        """mbarrier.inval."""
        self.at(state, offset, lanes).valid[lanes.any(axis=1)] = False

    def phase(self, state: State, offset: int, lanes: Bits) -> Bits:
        """The parity of the phase under way, u64 (blocks, 1)."""
        return self.at(state, offset, lanes).phase[:, None].astype(np.uint64)

    def arrive(
        self, state: State, offset: int, lanes: Bits, count: Bits | None, expected: Bits | None
    ) -> None:
        """Arrivals of lanes (blocks, threads), and bytes that they expect from copies.

        Raises:
            BarrierDivergenceError: more arrive than the phase waits for.
        """
        found = self.at(state, offset, lanes)
        if expected is not None:
            found.bytes += np.where(lanes, expected, 0).sum(axis=1)
        if count is not None:
            found.pending -= np.where(lanes, count, 0).sum(axis=1)
        bad = (found.pending < 0)[:, None] & lanes
        if bad.any():
            state.fail(BarrierDivergenceError, "more threads arrive than an mbarrier expects", bad)
        if state.shared.order is not None:
            warps = lanes.reshape(state.blocks, -1, WARP).any(axis=2)
            brought = state.shared.order.snapshot(warps)
            found.brought = np.maximum(found.brought, brought)
        found.complete()

    def copied(self, state: State, offset: int, lanes: Bits, count: Bits) -> None:
        """Bulk copies that lanes issued have brought `count` bytes (blocks, threads)."""
        found = self.at(state, offset, lanes)
        found.bytes -= np.where(lanes, count, 0).sum(axis=1)
        order = state.shared.order
        if order is not None:
            seen = np.where(lanes.any(axis=1), order.copies, 0)
            found.brought[:, -1] = np.maximum(found.brought[:, -1], seen)
        found.complete()

    def wait(self, state: State, end: Terminator, next_block: int, mask: Mask) -> None:
        """Threads wait at try_wait.parity; `ready` lets them go on, at once if they can."""
        assert end.wait is not None
        address, offset, parity, _ = end.wait
        lanes = np.ones(state.shape, np.bool_) if mask is None else state.full(mask)
        state.mask = mask
        state.require_defined((address, parity), "an mbarrier")
        places = state.full(state.value(address)).astype(np.int64) + offset
        phases = state.full(state.value(parity)).astype(np.int64) & 1
        for place in np.unique(places[lanes]):
            here = lanes & (places == place)
            self.at(state, int(place), here)
            self.waiting.append(Waiting(next_block, here, int(place), phases, end))

    def ready(self, state: State) -> list[Going]:
        """Let the threads go on whose phase is complete."""
        going: list[Going] = []
        for group in self.waiting:
            found = self.objects[group.offset]
            free = group.mask & (found.phase[:, None] != group.parity)
            if not free.any():
                continue
            group.mask = group.mask & ~free
            if state.shared.order is not None:
                warps = free.reshape(state.blocks, -1, WARP).any(axis=2)
                state.shared.order.meet(warps, found.released)
            assert group.end.wait is not None
            state.mask = None if free.all() else free
            state.write(group.end.wait[3], np.ones((1, 1), np.bool_))
            going.append((group.next_block, state.mask))
        self.waiting = [group for group in self.waiting if group.mask.any()]
        return going

    def check_nobody_waits(self, state: State) -> None:
        """Raise if threads wait when all others have exited or wait, too."""
        for group in self.waiting:
            what = f"threads wait at the mbarrier at {group.offset:#x} for a phase that never ends"
            state.fail(BarrierDivergenceError, what, group.mask)

    def first_instruction(self) -> Instruction | None:
        """The instruction that threads wait at, if any do."""
        return self.waiting[0].end.instruction if self.waiting else None
