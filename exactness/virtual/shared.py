"""Shared memory of a chunk of blocks, with what is undefined and who touched what.

Bytes are tracked in granules, the smallest access of the kernel. A granule knows whether it holds
a defined value, and which warp wrote it since the block's last barrier. Reads since the last
barrier are kept in a list and looked at only when a write follows. Warps that touch one granule
between barriers, one of them writing, race; a write of the value that is there already does not.
Lanes of one warp are taken to run in step, as `bar.warp.sync` exchanges rely on.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from exactness.virtual.errors import (
    MisalignedAccessError,
    OutOfBoundsError,
    SharedRaceError,
    VirtualHopperError,
)
from exactness.virtual.memory import WORDS, differs, spread
from exactness.virtual.state import WARP, Bits, Mask, State

SHARED_BASE = 1024
"""Shared addresses start here: the hardware keeps the first KiB to itself."""

_MANY = np.uint8(255)
"""The writer of a granule that several warps wrote by atomics."""


class SharedMemory:
    """The shared memory of `blocks` blocks.

    Attributes:
        size: bytes of a block, a multiple of 16.
        granule: bytes tracked together.
        data: (blocks · size) u8.
        valid: per granule, whether it is defined.
        writers: per granule, warp + 1 of who wrote it since the last barrier, 0 for nobody.
    """

    def __init__(self, blocks: int, size: int, granule: int) -> None:
        """Uninitialised memory."""
        self.size = -(-size // 16) * 16
        self.granule = granule
        self.per_block = self.size // granule
        self.data = np.zeros(blocks * self.size, np.uint8)
        self.valid = np.zeros(blocks * self.per_block, np.bool_)
        self.writers = np.zeros(blocks * self.per_block, np.uint8)
        self.blocks = blocks
        self.base = (np.arange(blocks, dtype=np.int64) * self.size)[:, None]
        self.all_valid = False
        self.written = False
        self.reads: list[tuple[Bits, Bits]] = []

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
            self._fail(
                state, MisalignedAccessError, offsets, offsets & (size - 1) != 0, mask, size
            )
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
        state.fail(kind, what, _spread(bad, mask, state))

    def load(
        self, state: State, flat: Bits, mask: Mask, size: int
    ) -> tuple[Bits, Bits | None]:
        """Words at `flat` byte offsets, and which of them are undefined (None: none).

        Raises:
            SharedRaceError: another warp wrote a byte since the last barrier.
        """
        granules = self.granules(flat, size)
        if self.written:
            self._check_read(state, granules, mask)
        self.reads.extend((granule, warps(state, flat.shape, mask)) for granule in granules)
        words = self.data.view(WORDS[size]).take(flat // size)
        if self.all_valid:
            return words, None
        valid = self.valid.take(granules[0])
        for granule in granules[1:]:
            valid = valid & self.valid.take(granule)
        return words, None if valid.all() else ~valid

    def granules(self, flat: Bits, size: int) -> list[Bits]:
        """Flat granule numbers of accesses: one array for each granule they cover."""
        first = flat // self.granule
        return [first + step for step in range(max(size // self.granule, 1))]

    def _check_read(self, state: State, granules: list[Bits], mask: Mask) -> None:
        for granule in granules:
            writer = self.writers.take(granule)
            if not writer.any():
                continue
            race = (writer != 0) & (writer != warps(state, granule.shape, mask))
            if race.any():
                self._race(state, "reads what another warp wrote", race, mask)

    def _race(self, state: State, what: str, race: Bits, mask: Mask) -> NoReturn:
        state.fail(
            SharedRaceError,
            f"a shared-memory race: a warp {what} with no barrier between",
            _spread(race, mask, state),
        )

    def store(
        self, state: State, flat: Bits, values: Bits, poison: Bits | None, mask: Mask, size: int
    ) -> None:
        """Write words; `flat`, `values` and `poison` have one shape.

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
            self._race(state, "writes two values to one address at once", lost, mask)
        changed = differs(before, values)
        for granule in granules:
            same = ~changed & self.valid.take(granule)
            self.check_write(state, granule, same, mask)
        self.claim(granules, warps(state, flat.shape, mask), poison)

    def check_write(self, state: State, granule: Bits, benign: Bits, mask: Mask) -> None:
        """Raise if another warp touched these granules since the last barrier."""
        mine = warps(state, granule.shape, mask)
        if self.written:
            writer = self.writers.take(granule)
            race = (writer != 0) & (writer != mine) & ~benign
            if race.any():
                self._race(state, "overwrites what another warp wrote", race, mask)
        if self.reads:
            marks = np.zeros(self.valid.size, np.uint8)
            marks[granule[~benign]] = np.broadcast_to(mine, granule.shape)[~benign]
            for read, reader in self.reads:
                mark = marks.take(read)
                hit = (mark != 0) & (mark != reader)
                if hit.any():
                    touched = np.isin(granule, read[hit]) & ~benign
                    self._race(state, "overwrites what another warp reads", touched, mask)

    def claim(self, granules: list[Bits], mine: Bits, poison: Bits | None) -> None:
        """Record a write: these granules belong to these warps, and are defined or not."""
        for granule in granules:
            self.writers[granule] = np.broadcast_to(mine, granule.shape)
            self.valid[granule] = True if poison is None else ~poison
        self.written = True
        if poison is not None:
            self.all_valid = False
        elif not self.all_valid:
            self.all_valid = bool(self.valid.all())

    def barrier(self, blocks: Bits | None) -> None:
        """All warps of these blocks (None: of all) have met: what came before is ordered."""
        if blocks is None:
            if self.written:
                self.writers.fill(0)
            self.written = False
            self.reads.clear()
            return
        self.writers.reshape(self.blocks, -1)[blocks] = 0
        self.written = bool(self.writers.any())
        if self.per_block:
            kept = []
            for read, reader in self.reads:
                rest = ~blocks[read // self.per_block]
                if rest.any():
                    kept.append((read[rest], np.broadcast_to(reader, read.shape)[rest]))
            self.reads = kept


def warps(state: State, shape: tuple[int, ...], mask: Mask) -> Bits:
    """Warp + 1 of every lane of an access (u8); several warps' common lanes count as the first."""
    numbers = (np.arange(state.threads) // WARP + 1).astype(np.uint8)[None, :]
    if mask is not None:
        return np.broadcast_to(numbers, state.shape)[np.broadcast_to(mask, state.shape)]
    return np.broadcast_to(numbers, state.shape) if shape == state.shape else numbers


def _spread(part: Bits, mask: Mask, state: State) -> Bits:
    return spread(part, mask, state)
