"""Who read and wrote which global bytes in a launch.

Bytes are tracked in granules: no store or atomic of the kernel is smaller. A granule remembers the
thread that wrote it last, the kind of atomic that touched it, and, in buffers that the kernel may
write to, the block that read it. What depends on the order of threads is noticed from that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from exactness.virtual.errors import OrderDependenceError
from exactness.virtual.state import Bits

if TYPE_CHECKING:
    from exactness.virtual.memory import Access, Region

ATOMIC_OWNER = np.int64(-1)
"""The owner of a granule that atomics wrote."""
_SEVERAL = np.int32(-1)


class Tracker:
    """The records of one region.

    Attributes:
        granule: bytes tracked together, a power of two.
        first: the region's first granule, counted from address 0.
        count: granules of the region.
        owners: who wrote each granule, as `State.writers` packs it; 0 for nobody. None until
            somebody does.
        atomics: the kind of atomic that touched each granule. None until one does.
        readers: block + 1 of who read each granule, −1 for several; None: not remembered.
    """

    def __init__(self, region: Region, granule: int, *, remember_reads: bool) -> None:
        """Nobody has touched anything."""
        self.granule = granule
        self.first = region.base // granule
        self.count = (region.end - 1) // granule - self.first + 1
        self.owners: Bits | None = None
        self.atomics: Bits | None = None
        self.readers = np.zeros(self.count, np.int32) if remember_reads else None

    def granules(self, access: Access) -> list[Bits]:
        """Numbers of the granules that an access covers, one array for each."""
        shift = np.uint64(self.granule.bit_length() - 1)
        first = (access.addresses >> shift).view(np.int64) - self.first
        return [first + step for step in range(max(access.size // self.granule, 1))]

    def read(self, access: Access, *, strong: bool) -> None:
        """Record a load.

        Raises:
            OrderDependenceError: a weak load of what another block wrote, or another warp since
                the last barrier.
        """
        if self.owners is not None and not strong:
            self._check_owners(access, self.owners)
        if self.readers is not None:
            self._note_readers(access, self.readers)

    def _check_owners(self, access: Access, owners: Bits) -> None:
        me = access.lanes(access.state.writers())
        for granule in self.granules(access):
            owner = owners.take(granule)
            if not owner.any():
                continue
            foreign = (owner != 0) & ((owner >> 32) != (me >> 32))
            # Bits 5 to 9 are the warp, those above block and epoch.
            unordered = ((owner >> 10) == (me >> 10)) & ((owner >> 5) != (me >> 5))
            for bad, who in ((foreign, "block"), (unordered, "warp")):
                if bad.any():
                    access.fail(
                        OrderDependenceError,
                        f"a load of {access.name} sees what another {who} wrote in this launch "
                        "with nothing to order them",
                        bad,
                    )

    def _note_readers(self, access: Access, readers: Bits) -> None:
        me = access.lanes((access.state.writers() >> 32).astype(np.int32))
        for granule in self.granules(access):
            granule, mine = np.broadcast_arrays(granule, me)
            before = readers.take(granule)
            readers[granule] = np.where((before == 0) | (before == mine), mine, _SEVERAL)
            lost = readers.take(granule) != mine
            if lost.any():
                readers[granule[lost]] = _SEVERAL

    def write(self, access: Access, changed: Bits) -> Bits:
        """Record a store.

        Args:
            access: the store.
            changed: where the bytes differ from what they were.

        Returns:
            Where another thread wrote with no barrier between.

        Raises:
            OrderDependenceError: an atomic of this launch wrote there, or another block has read
                what is changed.
        """
        if self.owners is None:
            self.owners = np.zeros(self.count, np.int64)
        me = access.lanes(access.state.writers())
        clash = np.zeros(access.addresses.shape, np.bool_)
        for granule in self.granules(access):
            owner = self.owners.take(granule)
            self._refuse(access, owner == ATOMIC_OWNER, "overwrites what an atomic wrote")
            if self.readers is not None:
                reader = self.readers.take(granule)
                foreign = changed & (reader != 0) & (reader != me >> 32)
                self._refuse(access, foreign, "changes what another block reads")
            # The same block may overwrite after a barrier: the epoch below the block differs.
            clash |= (
                (owner != 0)
                & (owner != me)
                & (((owner >> 32) != (me >> 32)) | ((owner >> 10) == (me >> 10)))
            )
            self.owners[granule] = me
        return clash

    def _refuse(self, access: Access, bad: Bits, what: str) -> None:
        if bad.any():
            message = f"a store to {access.name} {what} in this launch"
            access.fail(OrderDependenceError, message, bad)
