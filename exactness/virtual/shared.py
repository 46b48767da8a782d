"""Shared memory of a chunk of blocks, with what is undefined and who touched what.

Bytes are tracked in granules, the smallest element that the kernel moves. A granule knows which of
its bytes are undefined, and which warp wrote it since the block's last barrier. Reads since then
are kept in a list and looked at only when a write follows. Warps that touch one granule
between barriers, one of them writing, race; a write of the value that is there already does not.
Lanes of one warp are taken to run in step, as `bar.warp.sync` exchanges rely on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from exactness.virtual.errors import (
    MisalignedAccessError,
    OutOfBoundsError,
    SharedRaceError,
    VirtualHopperError,
)
from exactness.virtual.lanes import WORDS, differs, spread
from exactness.virtual.order import PartialOrder
from exactness.virtual.shared_tiles import TileReads
from exactness.virtual.state import Bits, Mask, State

SHARED_BASE = 1024
"""Shared addresses start here: the hardware keeps the first KiB to itself."""

_MANY = np.uint8(255)
"""The writer of a granule that several warps wrote by atomics."""


_NO_TIME = np.zeros((1, 1), np.int32)


class SharedMemory:
    """The shared memory of `blocks` blocks.

    Attributes:
        size: bytes of a block, a multiple of 16.
        granule: bytes tracked together, at most 8.
        data: (blocks · size) u8.
        undefined: per granule, u8, bit k where byte k is undefined.
        order: what partial barriers have ordered; None if the kernel has none.
        times: per granule, the writer's time at the write.
        reads: granules, warps and times of the reads since the last whole barrier.
        writers: per granule, warp + 1 of who wrote it since the last barrier, 0 for nobody,
            255 for atomics.
        atomics: per granule, the kind of the last atomic; counts only where `writers` is 255.
        tiles: what matrix products read.
    """

    def __init__(self, blocks: int, size: int, granule: int, order: PartialOrder | None) -> None:
        """Uninitialised memory; `order` is for kernels with barriers that not all warps wait at."""
        self.size = -(-size // 16) * 16
        self.granule = granule
        self.per_block = self.size // granule
        self.data = np.zeros(blocks * self.size, np.uint8)
        self.undefined = np.full(blocks * self.per_block, (1 << granule) - 1, np.uint8)
        self.writers = np.zeros(blocks * self.per_block, np.uint8)
        self.atomics = np.zeros(blocks * self.per_block, np.uint8)
        self.blocks = blocks
        self.base = (np.arange(blocks, dtype=np.int64) * self.size)[:, None]
        self.all_defined = False
        self.written = False
        self.reads: list[tuple[Bits, Bits, Bits]] = []
        self.order = order
        self.times = None if order is None else np.zeros(self.writers.size, np.int32)
        self.tiles = TileReads(self)

    def places(self, state: State, addresses: Bits, mask: Mask, size: int) -> Bits:
        """Flat byte offsets of accesses, compressed to the running lanes.

        Raises:
            OutOfBoundsError: outside of the block's shared memory.
            MisalignedAccessError: an address is not a multiple of `size`.
        """
        offsets = addresses.astype(np.int64) - SHARED_BASE
        flat = offsets + self.base
        if mask is not None:
            shape = np.broadcast_shapes(flat.shape, mask.shape)
            chosen = np.broadcast_to(mask, shape)
            flat = np.broadcast_to(flat, shape)[chosen]
            offsets = np.broadcast_to(offsets, shape)[chosen]
            if flat.size == 0:
                return flat
        if int(offsets.min()) < 0 or int(offsets.max()) + size > self.size:
            bad = (offsets < 0) | (offsets + size > self.size)
            self._fail(state, OutOfBoundsError, offsets, bad, mask, size)
        if int(np.bitwise_or.reduce(offsets, axis=None)) & (size - 1):
            self._fail(state, MisalignedAccessError, offsets, offsets & (size - 1) != 0, mask, size)
        return flat

    def _fail(
        self, state: State, kind: type[VirtualHopperError], offsets: Bits, bad: Bits,
        mask: Mask, size: int,
    ) -> NoReturn:  # fmt: skip
        first = int(offsets[bad].ravel()[0])
        what = f"{size}-byte access at shared offset {first} "
        if kind is MisalignedAccessError:
            what += f"is not aligned to {size} bytes"
        else:
            what += f"is outside of the block's {self.size} bytes of shared memory"
        state.fail(kind, what, spread(bad, mask, state))

    def load(self, state: State, flat: Bits, mask: Mask, size: int) -> tuple[Bits, Bits | None]:
        """Words at `flat` byte offsets, and their undefined bytes (u16, bit k; None: none).

        Raises:
            SharedRaceError: another warp wrote a byte since the last barrier.
        """
        granules = self.granules(flat, size)
        if self.written:
            self._check_read(state, granules, mask)
        self.note_reads(granules, warps(state, flat.shape, mask))
        words = self.data.view(WORDS[size]).take(flat // size)
        if self.all_defined:
            return words, None
        undefined = self.undefined.take(granules[0]).astype(np.uint16)
        for index, granule in enumerate(granules[1:], start=1):
            part = self.undefined.take(granule).astype(np.uint16)
            undefined |= part << np.uint16(index * self.granule)
        return words, undefined if undefined.any() else None

    def note_reads(self, granules: list[Bits], mine: Bits) -> None:
        """Remember a read until the next barrier, with its time where warps are ordered partly."""
        for granule in granules:
            time = _NO_TIME
            if self.order is not None:
                time = self.order.time(granule // self.per_block, mine)
            self.reads.append((granule, mine, time))

    def granules(self, flat: Bits, size: int) -> list[Bits]:
        """Flat granule numbers of accesses: one array for each granule they cover."""
        first = flat // self.granule
        return [first + step for step in range(max(size // self.granule, 1))]

    def _check_read(self, state: State, granules: list[Bits], mask: Mask) -> None:
        for granule in granules:
            writer = self.writers.take(granule)
            if not writer.any():
                continue
            mine = warps(state, granule.shape, mask)
            race = self.unordered((writer != 0) & (writer != mine), granule, mine, writer)
            if race.any():
                self.race(state, "reads what another warp wrote", race, mask)

    def unordered(self, candidates: Bits, granule: Bits, mine: Bits, writer: Bits) -> Bits:
        """Those of the candidates whose earlier write is not before this access."""
        if self.order is None or self.times is None or not candidates.any():
            return candidates
        seen = self.order.seen(granule // self.per_block, mine, writer)
        return candidates & (self.times.take(granule) > seen)

    def race(self, state: State, what: str, race: Bits, mask: Mask) -> NoReturn:
        """Raise for some lanes of an access."""
        state.fail(
            SharedRaceError,
            f"a shared-memory race: a warp {what} with no barrier between",
            spread(race, mask, state),
        )

    def store(
        self, state: State, flat: Bits, values: Bits, poison: Bits | None, mask: Mask, size: int
    ) -> None:
        """Write words; `flat`, `values` and `poison` (u16, bit k for byte k) have one shape.

        Raises:
            SharedRaceError: a race, or lanes that write different values to one byte.
        """
        granules = self.granules(flat, size)
        words = self.data.view(WORDS[size])
        index = flat // size
        before = words.take(index)
        words[index] = values
        lost = differs(words.take(index), values)
        if lost.any():
            self.race(state, "writes two values to one address at once", lost, mask)
        changed = differs(before, values)
        for granule in granules:
            same = ~changed & (self.undefined.take(granule) == 0)
            self.check_write(state, granule, same, mask)
        self.claim(granules, warps(state, flat.shape, mask), poison)

    def check_write(self, state: State, granule: Bits, benign: Bits, mask: Mask) -> None:
        """Raise if another warp touched these granules since the last barrier."""
        found = self.find_race(granule, warps(state, granule.shape, mask), benign)
        if found is not None:
            self.race(state, found[0], found[1], mask)

    def find_race(self, granule: Bits, mine: Bits, benign: Bits) -> tuple[str, Bits] | None:
        """What a write by warps `mine` races with, and where; None if with nothing."""
        if self.written:
            writer = self.writers.take(granule)
            race = (writer != 0) & (writer != mine) & ~benign
            race = self.unordered(race, granule, mine, writer)
            if race.any():
                return "overwrites what another warp wrote", race
        race = self.tiles.overwritten(granule, mine) & ~benign
        if race.any():
            return "overwrites what a matrix product reads", race
        if not self.reads:
            return None
        marks = np.zeros(self.undefined.size, np.uint8)
        marks[granule[~benign]] = np.broadcast_to(mine, granule.shape)[~benign]
        for read, reader, time in self.reads:
            mark = marks.take(read)
            hit = (mark != 0) & (mark != reader)
            if self.order is not None and hit.any():
                hit = hit & (time > self.order.seen(read // self.per_block, mark, reader))
            if hit.any():
                touched = np.isin(granule, np.broadcast_to(read, hit.shape)[hit]) & ~benign
                return "overwrites what another warp reads", touched
        return None

    def claim(self, granules: list[Bits], mine: Bits, poison: Bits | None) -> None:
        """Record a write: these granules belong to these warps, and are defined or not."""
        for index, granule in enumerate(granules):
            self.writers[granule] = np.broadcast_to(mine, granule.shape)
            if self.order is not None and self.times is not None:
                self.times[granule] = self.order.time(granule // self.per_block, mine)
            self.undefined[granule] = 0 if poison is None else self._part(poison, index)
        self.written = True
        if poison is not None:
            self.all_defined = False
        elif not self.all_defined:
            self.all_defined = not self.undefined.any()

    def _part(self, poison: Bits, index: int) -> Bits:
        """The undefined bytes of one granule of an access."""
        ones = np.uint16((1 << self.granule) - 1)
        return ((poison >> np.uint16(index * self.granule)) & ones).astype(np.uint8)

    def claim_atomic(
        self, state: State, granule: Bits, kind: int, refuse: Callable[[Bits], None], mask: Mask
    ) -> None:
        """Record an atomic: atomics of one commuting kind do not race with each other.

        Args:
            state: for warp numbers and messages.
            granule: flat granule numbers of the running lanes.
            kind: 1 for what does not commute, else a number for each commuting operation.
            refuse: raises for the lanes whose result depends on the order.
            mask: the running lanes.
        """
        writer = self.writers.take(granule)
        before = self.atomics.take(granule)
        clash = (writer == _MANY) & ((before != kind) | (kind == 1))
        if kind == 1 and not clash.any():
            _, inverse, counts = np.unique(granule, return_inverse=True, return_counts=True)
            clash = np.asarray(counts[inverse] > 1).reshape(granule.shape)
        if clash.any():
            refuse(clash)
        self.check_write(state, granule, writer == _MANY, mask)
        self.writers[granule] = _MANY
        if self.times is not None:
            # Atomics of several warps have no one time: only a whole barrier orders them.
            self.times[granule] = np.iinfo(np.int32).max
        self.atomics[granule] = kind
        self.written = True

    def barrier(self, blocks: Bits | None) -> None:
        """All warps of these blocks (None: of all) have met: what came before is ordered."""
        self.tiles.barrier(blocks)
        chosen = slice(None) if blocks is None else blocks
        if self.written:
            writers = self.writers.reshape(self.blocks, -1)
            kept = np.uint8(0) if self.order is None else self._copied(chosen)
            writers[chosen] = kept
            self.written = bool(self.writers.any())
        if blocks is None:
            self.reads.clear()
        elif self.per_block:
            kept_reads = []
            for entry in self.reads:
                read, reader, time = np.broadcast_arrays(*entry)
                rest = ~blocks[read // self.per_block]
                if rest.any():
                    kept_reads.append((read[rest], reader[rest], time[rest]))
            self.reads = kept_reads

    def _copied(self, blocks: Bits | slice) -> Bits:
        """The writers that a barrier leaves: bulk copies that no warp has waited for."""
        assert self.order is not None
        assert self.times is not None
        engine = np.uint8(self.order.engine)
        writers = self.writers.reshape(self.blocks, -1)[blocks]
        seen = self.order.clocks[blocks, :, -1].max(axis=1)[:, None]
        late = self.times.reshape(self.blocks, -1)[blocks] > seen
        return np.where((writers == engine) & late, writers, np.uint8(0))


def warps(state: State, shape: tuple[int, ...], mask: Mask) -> Bits:
    """Warp + 1 of every lane of an access (u8); several warps' common lanes count as the first."""
    numbers = state.warp_numbers
    if mask is not None:
        return np.broadcast_to(numbers, state.shape)[np.broadcast_to(mask, state.shape)]
    return np.broadcast_to(numbers, state.shape) if shape == state.shape else numbers
