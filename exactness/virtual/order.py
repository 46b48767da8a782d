"""Which accesses of others are before a warp's own, where barriers do not order all of them.

Barriers that only some warps meet at, or that a warp passes without waiting, order some warps and
not others. Kernels that have such barriers keep a vector clock for every warp: an access races
with an earlier one of another warp only if its clock has not seen that one.
"""

from __future__ import annotations

import numpy as np

from exactness.virtual.state import Bits


class PartialOrder:
    """Vector clocks: which accesses of other warps are before a warp's own.

    Attributes:
        clocks: (blocks, warps, warps + 1) i32; [b, w, u] is the time up to which warp w has seen
            u. The last u is the engine that copies in bulk.
        copies: (blocks,) i32, the engine's own time.
    """

    def __init__(self, blocks: int, warps: int) -> None:
        """Every warp at time 1, having seen nobody."""
        self.clocks = np.zeros((blocks, warps, warps + 1), np.int32)
        self.copies = np.zeros(blocks, np.int32)
        self.clocks[:, np.arange(warps), np.arange(warps)] = 1

    @property
    def engine(self) -> int:
        """The number of the engine that copies in bulk, after those of the warps."""
        return int(self.clocks.shape[2])

    def time(self, block: Bits, warp: Bits) -> Bits:
        """The present time of warps (numbered from 1) of blocks."""
        own = warp.astype(np.int64) - 1
        return self.clocks[block, own, own]

    def seen(self, block: Bits, warp: Bits, other: Bits) -> Bits:
        """Up to when `warp` has seen `other`; others than warps (0, atomics) never."""
        index = other.astype(np.int64) - 1
        known = (index >= 0) & (index < self.clocks.shape[2])
        mine = np.maximum(warp.astype(np.int64) - 1, 0)
        return np.where(known, self.clocks[block, mine, np.where(known, index, 0)], 0)

    def snapshot(self, present: Bits) -> Bits:
        """What warps that arrive bring along: (blocks, warps) present to (blocks, warps) times."""
        brought = np.where(present[:, :, None], self.clocks, 0).max(axis=1)
        self._tick(present)
        return np.asarray(brought)

    def meet(self, waiting: Bits, brought: Bits) -> None:
        """Warps that waited (blocks, warps) have now seen all that was brought."""
        joined = np.maximum(self.clocks, brought[:, None, :])
        self.clocks = np.where(waiting[:, :, None], joined, self.clocks)

    def _tick(self, present: Bits) -> None:
        """What a warp does after it arrived is later than what it brought."""
        warps = np.arange(present.shape[1])
        self.clocks[:, warps, warps] += present.astype(np.int32)
