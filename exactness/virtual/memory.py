"""Global memory: the buffers a kernel was given, with who wrote what in this launch.

Every access goes to a registered buffer, whole and aligned, or raises. Stores remember their
thread, so that a result that depends on the order of threads is noticed: two threads that write
different values to one address, a load of what another block or warp wrote with no barrier
between, atomics whose result depends on the order. Buffers that the kernel may write to also
remember which block read what, for a write that comes after another block's read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from exactness.virtual.errors import (
    LaunchError,
    MisalignedAccessError,
    OrderDependenceError,
    OutOfBoundsError,
    WriteConflictError,
)
from exactness.virtual.lanes import WORDS, differs, indices, part_of, place, spread
from exactness.virtual.state import Bits, Mask, State

ATOMIC_OWNER = np.int64(-1)
_SEVERAL = np.int32(-1)


@dataclass(slots=True, eq=False)
class Region:
    """A buffer, or several overlapping ones.

    Attributes:
        base: its first address.
        data: its bytes; writes show in the caller's array.
        names: the arguments it stands for.
        writable: False for constants of the module.
        owners: per granule, who wrote it in this launch; None until somebody does.
        atomics: per granule, the kind of atomic that touched it; None until one does.
        readers: per granule, block + 1 of who read it, −1 for several; None: not remembered.
        views: `data` as words of each size, from the first aligned address on.
        keep: arrays that own the bytes, where `data` does not.
    """

    base: int
    data: Bits
    names: tuple[str, ...]
    writable: bool = True
    owners: Bits | None = None
    atomics: Bits | None = None
    readers: Bits | None = None
    views: dict[int, tuple[int, Bits]] = field(default_factory=dict)
    keep: tuple[Bits, ...] = ()

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.base + int(self.data.size)

    @property
    def title(self) -> str:
        """For messages: names, address range, size."""
        return f"{'/'.join(self.names)} [{self.base:#x}, {self.end:#x}), {self.data.size} bytes"

    def words(self, size: int) -> tuple[int, Bits]:
        """The first aligned address, and the words from there on."""
        if size not in self.views:
            skip = -self.base % size
            count = max(self.data.size - skip, 0) // size
            part = self.data[skip : skip + count * size]
            self.views[size] = (self.base + skip, part.view(WORDS[size]))
        return self.views[size]


class GlobalMemory:
    """Registered buffers by address.

    Attributes:
        regions: disjoint, in ascending order of address.
        granule: bytes that are tracked together: no store or atomic of the kernel is smaller.
    """

    def __init__(self) -> None:
        """Empty memory."""
        self.regions: list[Region] = []
        self.granule = 1

    def register(
        self, address: int, array: Bits, name: str, *, writable: bool = True
    ) -> None:
        """Make a buffer reachable.

        Args:
            address: address of its first byte, as the kernel sees it.
            array: its bytes, u8, contiguous; written in place.
            name: what to call it in messages.
            writable: False makes a store to it an error.

        Raises:
            LaunchError: it is no contiguous u8 array, or it overlaps another buffer at an
                address that is not its own in host memory.
        """
        if array.dtype != np.uint8 or array.ndim != 1 or not array.flags.c_contiguous:
            raise LaunchError(
                f"buffer {name}: {array.dtype} of shape {array.shape}; "
                "a contiguous one-dimensional uint8 array is accepted"
            )
        if array.size == 0:
            return
        region = Region(address, array, (name,), writable)
        touching = [r for r in self.regions if r.base < region.end and address < r.end]
        if touching:
            region = _merged([*touching, region])
        kept = [r for r in self.regions if r not in touching]
        self.regions = sorted([*kept, region], key=lambda r: r.base)

    def begin_launch(self, granule: int, stored: Collection[int] | None) -> None:
        """Forget who read and wrote what.

        Args:
            granule: bytes of the smallest store or atomic of the kernel.
            stored: addresses from which the kernel's stores start out; None: they may go anywhere.
        """
        self.granule = granule
        for region in self.regions:
            region.owners = region.atomics = region.readers = None
            if stored is None or any(region.base <= a <= region.end for a in stored):
                region.readers = np.zeros(-(-region.data.size // granule), np.int32)

    def region_of(self, state: State, addresses: Bits, mask: Mask, size: int) -> Region | None:
        """The region that holds all these accesses; None if they lie in several.

        Raises:
            OutOfBoundsError: a lane's access is not wholly inside a region.
            MisalignedAccessError: an address is not a multiple of `size`.
        """
        if int(np.bitwise_or.reduce(addresses, axis=None)) & (size - 1):
            bad = addresses & np.uint64(size - 1) != 0
            self._fail(state, MisalignedAccessError, addresses, mask, bad, size)
        low, high = int(addresses.min()), int(addresses.max())
        for region in self.regions:
            if region.base <= low and high + size <= region.end:
                return region
        inside = np.zeros(addresses.shape, np.bool_)
        for region in self.regions:
            if region.data.size >= size:
                last = np.uint64(region.end - size)
                inside |= (addresses >= np.uint64(region.base)) & (addresses <= last)
        if not inside.all():
            self._fail(state, OutOfBoundsError, addresses, mask, ~inside, size)
        return None

    def _fail(
        self, state: State, kind: Any, addresses: Bits, mask: Mask, bad: Bits, size: int
    ) -> None:
        first = int(addresses[bad].ravel()[0])
        what = f"{size}-byte access at {first:#x} "
        if kind is MisalignedAccessError:
            what += f"is not aligned to {size} bytes"
        else:
            what += f"is outside of the memory passed: {self.near(first)}"
        state.fail(kind, what, spread(bad, mask, state))

    def near(self, address: int) -> str:
        """The region closest to an address, and how far away it is."""
        if not self.regions:
            return "the kernel was given no memory"

        def gap(region: Region) -> int:
            return max(region.base - address, address - region.end + 1, 0)

        region = min(self.regions, key=gap)
        side = "before the start" if address < region.base else "past the end"
        distance = region.base - address if address < region.base else address - region.end
        return f"{distance} bytes {side} of {region.title}"

    def load(
        self, state: State, addresses: Bits, mask: Mask, size: int, *, strong: bool
    ) -> Bits:
        """Words of `size` bytes at `addresses` (any shape).

        Args:
            state: for messages and thread numbers.
            addresses: u64; with a mask, only the running lanes' in order, else all lanes'.
            mask: the running lanes that `addresses` stands for.
            size: 1, 2, 4, 8 or 16.
            strong: whether the load may see other blocks' writes (volatile, acquire …).

        Raises:
            OrderDependenceError: a weak load of what another block wrote in this launch, or
                another warp since the block's last barrier.
        """
        region = self.region_of(state, addresses, mask, size)
        if region is not None:
            return self._load(state, region, addresses, mask, size, strong, None)
        if mask is None:
            addresses = state.full(addresses)
        result = np.zeros(addresses.shape, WORDS[size])
        for region, inside in self._parts(addresses):
            part = self._load(state, region, addresses[inside], mask, size, strong, inside)
            result[inside] = part
        return result

    def _parts(self, addresses: Bits) -> list[tuple[Region, Bits]]:
        parts = []
        for region in self.regions:
            inside = (addresses >= np.uint64(region.base)) & (addresses < np.uint64(region.end))
            if inside.any():
                parts.append((region, inside))
        return parts

    def _load(
        self, state: State, region: Region, addresses: Bits, mask: Mask, size: int,
        strong: bool, inside: Bits | None,
    ) -> Bits:  # fmt: skip
        if region.owners is not None and not strong:
            self._check_read(state, region, addresses, mask, size, inside)
        if region.readers is not None:
            self._note_read(state, region, addresses, mask, size, inside)
        start, words = region.words(size)
        return words.take(indices(addresses, start, size))

    def _check_read(
        self, state: State, region: Region, addresses: Bits, mask: Mask, size: int,
        inside: Bits | None,
    ) -> None:  # fmt: skip
        assert region.owners is not None
        me = part_of(state.writers(), addresses.shape, mask, state, inside)
        for granule in self.granules(region, addresses, size):
            owner = region.owners.take(granule)
            if not owner.any():
                continue
            foreign = (owner != 0) & ((owner >> 32) != (me >> 32))
            # Bits 5 to 9 are the warp, those above block and epoch.
            unordered = ((owner >> 10) == (me >> 10)) & ((owner >> 5) != (me >> 5))
            for bad, who in ((foreign, "block"), (unordered, "warp")):
                if bad.any():
                    state.fail(
                        OrderDependenceError,
                        f"a load of {'/'.join(region.names)} sees what another {who} wrote in "
                        "this launch with nothing to order them",
                        spread(place(bad, inside), mask, state),
                    )

    def _note_read(
        self, state: State, region: Region, addresses: Bits, mask: Mask, size: int,
        inside: Bits | None,
    ) -> None:  # fmt: skip
        """Remember which block read these addresses, −1 if several did."""
        assert region.readers is not None
        if mask is None and inside is None:
            addresses = state.full(addresses)
        blocks = (state.writers() >> 32).astype(np.int32)
        me = part_of(blocks, addresses.shape, mask, state, inside)
        for granule in self.granules(region, addresses, size):
            before = region.readers.take(granule)
            region.readers[granule] = np.where((before == 0) | (before == me), me, _SEVERAL)
            lost = region.readers.take(granule) != me
            if lost.any():
                region.readers[granule[lost]] = _SEVERAL

    def granules(self, region: Region, addresses: Bits, size: int) -> list[Bits]:
        """Tracking indices of an access: one for each granule it covers."""
        first = (addresses - np.uint64(region.base)).view(np.int64) // self.granule
        return [first + step for step in range(max(size // self.granule, 1))]

    def store(
        self, state: State, addresses: Bits, values: Bits, mask: Mask, size: int
    ) -> None:
        """Write words of `size` bytes; `addresses` and `values` have one shape.

        Raises:
            WriteConflictError: two threads write different values to one address.
            OrderDependenceError: an atomic of this launch wrote there, or another block reads it.
        """
        region = self.region_of(state, addresses, mask, size)
        if region is not None:
            return self._store(state, region, addresses, values, mask, size, None)
        for region, inside in self._parts(addresses):
            self._store(state, region, addresses[inside], values[inside], mask, size, inside)

    def _store(
        self, state: State, region: Region, addresses: Bits, values: Bits, mask: Mask,
        size: int, inside: Bits | None,
    ) -> None:  # fmt: skip
        if not region.writable:
            state.fail(
                OutOfBoundsError,
                f"a store to the constant {'/'.join(region.names)}",
                spread(place(np.ones(addresses.shape, np.bool_), inside), mask, state),
            )
        start, words = region.words(size)
        index = indices(addresses, start, size)
        before = words.take(index)
        words[index] = values
        lost = differs(words.take(index), values)
        changed = differs(before, values)
        if changed.any():
            self._check_readers(state, region, addresses, mask, size, changed, inside)
        lost |= self._overwritten(state, region, addresses, mask, size, inside) & changed
        if lost.any():
            state.fail(
                WriteConflictError,
                f"two threads write different values to one address of {'/'.join(region.names)}",
                spread(place(lost, inside), mask, state),
            )

    def _check_readers(
        self, state: State, region: Region, addresses: Bits, mask: Mask, size: int,
        changed: Bits, inside: Bits | None,
    ) -> None:  # fmt: skip
        """Raise if another block has read what is changed now."""
        if region.readers is None:
            return
        me = part_of(state.writers() >> 32, addresses.shape, mask, state, inside)
        for granule in self.granules(region, addresses, size):
            reader = region.readers.take(granule)
            bad = changed & (reader != 0) & (reader != me)
            if bad.any():
                state.fail(
                    OrderDependenceError,
                    f"a store to {'/'.join(region.names)} changes what another block reads in "
                    "this launch",
                    spread(place(bad, inside), mask, state),
                )

    def _overwritten(
        self, state: State, region: Region, addresses: Bits, mask: Mask, size: int,
        inside: Bits | None,
    ) -> Bits:  # fmt: skip
        """Which addresses another thread wrote with no barrier between; claims all of them.

        Raises:
            OrderDependenceError: an atomic of this launch wrote there.
        """
        if region.owners is None:
            region.owners = np.zeros(-(-region.data.size // self.granule), np.int64)
        me = part_of(state.writers(), addresses.shape, mask, state, inside)
        clash = np.zeros(addresses.shape, np.bool_)
        for granule in self.granules(region, addresses, size):
            owner = region.owners.take(granule)
            if (owner == ATOMIC_OWNER).any():
                state.fail(
                    OrderDependenceError,
                    f"a store to {'/'.join(region.names)} overwrites what an atomic of this "
                    "launch wrote",
                    spread(place(owner == ATOMIC_OWNER, inside), mask, state),
                )
            # The same block may overwrite after a barrier: the epoch below the block differs.
            clash |= (owner != 0) & (owner != me) & (
                ((owner >> 32) != (me >> 32)) | ((owner >> 10) == (me >> 10))
            )
            region.owners[granule] = me
        return clash


def _merged(regions: list[Region]) -> Region:
    """One region over overlapping buffers, which must be views of one piece of host memory."""
    for region in regions:
        if region.data.ctypes.data != region.base:
            raise LaunchError(
                f"buffers {', '.join('/'.join(r.names) for r in regions)} overlap at addresses "
                "that are not their own in host memory"
            )
    base, end = min(r.base for r in regions), max(r.end for r in regions)
    pointer = ctypes.cast(base, ctypes.POINTER(ctypes.c_uint8))
    data = np.ctypeslib.as_array(pointer, (end - base,))
    names = tuple(dict.fromkeys(name for region in regions for name in region.names))
    writable = all(r.writable for r in regions)
    keep = tuple(array for r in regions for array in (r.data, *r.keep))
    return Region(base, data, names, writable, keep=keep)
