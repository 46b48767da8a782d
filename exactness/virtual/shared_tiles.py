"""Reads of shared memory by matrix products.

A warpgroup reads whole tiles, and goes on reading until it has waited for the product. A write to
such memory races unless a barrier came after that wait. Per granule and warpgroup the time of the
latest read is kept: that of the warpgroup's first warp where barriers order warps partly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from exactness.virtual.errors import OutOfBoundsError, SharedRaceError, UndefinedValueError
from exactness.virtual.lanes import WORDS
from exactness.virtual.state import Bits, State

if TYPE_CHECKING:
    from exactness.virtual.shared import SharedMemory

_WARPS = 4


class TileReads:
    """Who reads which granules as part of a matrix operand.

    Attributes:
        times: per warpgroup of a block, per granule, the time of the latest read since the last
            whole barrier; 0 for none, the largest number while it is under way.
    """

    def __init__(self, shared: SharedMemory) -> None:
        """Nobody has read anything."""
        self.shared = shared
        self.times: dict[int, Bits] = {}
        # Where barriers order all warps, a read has no time: it has been since the last one.
        self.kind = np.int8 if shared.order is None else np.int32
        self.never = np.iinfo(self.kind).max

    def load(self, state: State, places: Bits, units: Bits, size: int) -> tuple[Bits, Bits]:
        """Read pieces of `size` bytes for warpgroups.

        Args:
            state: for messages.
            places: flat byte offsets, [units that run, …].
            units: (blocks, units) that run.
            size: bytes of a piece, a multiple of the granule.

        Returns:
            The pieces, and the granules that they cover, [units that run, …, granules].

        Raises:
            SharedRaceError: a warp wrote part of it since the last barrier.
            UndefinedValueError: part of it is undefined.
        """
        shared = self.shared
        step = size // shared.granule
        granules = (places // shared.granule)[..., None] + np.arange(step)
        if shared.written:
            self._check_read(state, granules, units)
        if not shared.all_defined:
            bad = shared.undefined.take(granules) != 0
            if bad.any():
                what = "undefined shared memory is used as a matrix operand"
                state.fail(UndefinedValueError, what, _lanes(state, bad, units))
        return shared.data.view(WORDS[size]).take(places // size), granules

    def _check_read(self, state: State, granules: Bits, units: Bits) -> None:
        shared = self.shared
        writer = shared.writers.take(granules)
        if not writer.any():
            return
        leader = np.nonzero(units)[1] * _WARPS + 1
        mine = np.broadcast_to(leader.reshape(-1, *[1] * (granules.ndim - 1)), granules.shape)
        race = shared.unordered(writer != 0, granules, mine, writer)
        if race.any():
            what = "a shared-memory race: a matrix product reads what a warp wrote with no barrier"
            state.fail(SharedRaceError, f"{what} between", _lanes(state, race, units))

    def under_way(self, granules: Bits, unit: int) -> None:
        """Warpgroup `unit` is reading these granules."""
        if unit not in self.times:
            self.times[unit] = np.zeros(self.shared.writers.size, self.kind)
        self.times[unit][granules] = self.never

    def done(self, granules: Bits, unit: int) -> None:
        """Warpgroup `unit` has waited for its reads of these granules."""
        now: Bits = 1
        if self.shared.order is not None:
            blocks = granules // self.shared.per_block
            now = self.shared.order.time(blocks, np.int64(unit * _WARPS + 1))
        self.times[unit][granules] = now

    def overwritten(self, granules: Bits, mine: Bits) -> Bits:
        """Where a write by warps `mine` touches what a product still reads."""
        shared = self.shared
        found: Bits = np.zeros(granules.shape, np.bool_)
        for unit, times in self.times.items():
            time = times.take(granules)
            hit = time != 0
            if shared.order is not None and hit.any():
                writer = np.broadcast_to(mine, granules.shape)
                leader = np.full(granules.shape, unit * _WARPS + 1)
                hit &= time > shared.order.seen(granules // shared.per_block, writer, leader)
            found |= hit
        return found

    def barrier(self, blocks: Bits | None) -> None:
        """All warps of these blocks have met: what was waited for is ordered."""
        for times in self.times.values():
            per_block = times.reshape(self.shared.blocks, -1)
            chosen = per_block if blocks is None else per_block[blocks]
            kept = chosen * (chosen == self.never)
            per_block[slice(None) if blocks is None else blocks] = kept


def tile_places(state: State, addresses: Bits, units: Bits, size: int, base: int) -> Bits:
    """Flat byte offsets of pieces at shared addresses [units that run, …].

    Raises:
        OutOfBoundsError: outside of the block's shared memory.
    """
    shared = state.shared
    offsets = addresses - base
    bad = (offsets < 0) | (offsets + size > shared.size)
    if bad.any():
        first = int(offsets[bad].ravel()[0])
        what = f"a matrix operand at shared offset {first} is outside of the block's {shared.size}"
        state.fail(OutOfBoundsError, f"{what} bytes of shared memory", _lanes(state, bad, units))
    block = np.nonzero(units)[0].reshape(-1, *[1] * (addresses.ndim - 1))
    return offsets + block * shared.size


def _lanes(state: State, bad: Bits, units: Bits) -> Bits:
    """Lanes of the warpgroups with something bad."""
    which = np.zeros(units.shape, np.bool_)
    which[units] = bad.reshape(bad.shape[0], -1).any(axis=1)
    lanes: Bits = np.repeat(which, state.threads // units.shape[1], axis=1)
    return lanes
