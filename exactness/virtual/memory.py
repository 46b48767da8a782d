"""Global memory: the buffers a kernel was given.

Every access goes to a registered buffer, whole and aligned, or raises. What threads do to each
other through memory is checked in `exactness.virtual.tracking`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np

from exactness.virtual.errors import (
    LaunchError,
    MisalignedAccessError,
    OutOfBoundsError,
    VirtualHopperError,
    WriteConflictError,
)
from exactness.virtual.lanes import WORDS, differs, indices, place, spread
from exactness.virtual.state import Bits, Mask, State
from exactness.virtual.tracking import Tracker


@dataclass(slots=True, eq=False)
class Region:
    """A buffer, or several overlapping ones.

    Attributes:
        base: its first address.
        data: its bytes; writes show in the caller's array.
        names: the arguments it stands for.
        writable: False for constants of the module.
        tracker: who touched it in this launch; None before the first.
        views: `data` as words of each size, from the first aligned address on.
        keep: arrays that own the bytes, where `data` does not.
    """

    base: int
    data: Bits
    names: tuple[str, ...]
    writable: bool = True
    tracker: Tracker | None = None
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


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A load or store of the running lanes.

    Attributes:
        state: whose lanes.
        addresses: u64; with a mask, the running lanes' in one dimension, else broadcasting to
            (blocks, threads).
        mask: the lanes that `addresses` stands for.
        size: bytes: 1, 2, 4, 8 or 16.
        name: the buffer, once known.
        owners: flat lane number of each address, where a lane makes many accesses at once.
        chosen: of the lanes before, those that reach this buffer; None for all.
    """

    state: State
    addresses: Bits
    mask: Mask
    size: int
    name: str = ""
    chosen: Bits | None = None
    owners: Bits | None = None

    def of(self, region: Region) -> Access:
        """The same access, known to be to this region."""
        return replace(self, name="/".join(region.names))

    def full(self) -> Access:
        """The same access with an address for every lane."""
        if self.mask is not None or self.owners is not None:
            return self
        return replace(self, addresses=self.state.full(self.addresses))

    def inside(self, region: Region) -> Access | None:
        """The lanes that reach a region; None if there are none."""
        low, high = np.uint64(region.base), np.uint64(region.end)
        chosen = (self.addresses >= low) & (self.addresses < high)
        if not chosen.any():
            return None
        return replace(self.of(region), addresses=self.addresses[chosen], chosen=chosen)

    def lanes(self, values: Bits) -> Bits:
        """A (blocks, threads) array cut down to the lanes of this access."""
        if self.owners is not None:
            values = values.ravel()[self.owners]
        elif self.mask is not None:
            values = values[np.broadcast_to(self.mask, self.state.shape)]
        return values if self.chosen is None else values[self.chosen]

    def first(self, bad: Bits) -> str:
        """Size and address of the first of some lanes."""
        return f"{self.size}-byte access at {int(self.addresses[bad].ravel()[0]):#x}"

    def fail(self, kind: type[VirtualHopperError], what: str, bad: Bits) -> NoReturn:
        """Raise for some lanes of this access."""
        if self.chosen is not None:
            bad = place(bad, self.chosen)
        if self.owners is not None:
            lanes = np.zeros(self.state.blocks * self.state.threads, np.bool_)
            lanes[self.owners[bad]] = True
            self.state.fail(kind, what, lanes.reshape(self.state.shape))
        self.state.fail(kind, what, spread(bad, self.mask, self.state))


class GlobalMemory:
    """Registered buffers by address.

    Attributes:
        regions: disjoint, in ascending order of address.
    """

    def __init__(self) -> None:
        """Empty memory."""
        self.regions: list[Region] = []

    def register(self, address: int, array: Bits, name: str, *, writable: bool = True) -> None:
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
        for region in self.regions:
            reached = stored is None or any(region.base <= a <= region.end for a in stored)
            region.tracker = Tracker(region, granule, remember_reads=reached)

    def region_of(self, access: Access) -> Region | None:
        """The region that holds all of an access; None if its lanes reach several.

        Raises:
            OutOfBoundsError: a lane's access is not wholly inside a region.
            MisalignedAccessError: an address is not a multiple of the size.
        """
        addresses, size = access.addresses, access.size
        if int(np.bitwise_or.reduce(addresses, axis=None)) & (size - 1):
            bad = addresses & np.uint64(size - 1) != 0
            what = f"{access.first(bad)} is not aligned to {size} bytes"
            access.fail(MisalignedAccessError, what, bad)
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
            near = self.near(int(addresses[~inside].ravel()[0]))
            what = f"{access.first(~inside)} is outside of the memory passed: {near}"
            access.fail(OutOfBoundsError, what, ~inside)
        return None

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

    def load(self, access: Access, *, strong: bool) -> Bits:
        """The words at the addresses of an access.

        Args:
            access: where.
            strong: whether the load may see other blocks' writes (volatile, acquire …).

        Returns:
            Words in the shape of the addresses (of all lanes, if they reach several buffers).

        Raises:
            OrderDependenceError: the value depends on the order of threads.
        """
        region = self.region_of(access)
        if region is not None:
            return self._load(access.of(region), region, strong)
        access = access.full()
        result = np.zeros(access.addresses.shape, WORDS[access.size])
        for region in self.regions:
            part = access.inside(region)
            if part is not None:
                result[part.chosen] = self._load(part, region, strong)
        return result

    def _load(self, access: Access, region: Region, strong: bool) -> Bits:
        if region.tracker is not None:
            region.tracker.read(access, strong=strong)
        start, words = region.words(access.size)
        return words.take(indices(access.addresses, start, access.size))

    def store(self, access: Access, values: Bits) -> None:
        """Write words; the addresses and `values` have one shape, that of all running lanes.

        Raises:
            WriteConflictError: two threads write different values to one address.
            OrderDependenceError: the result depends on the order of threads otherwise.
            OutOfBoundsError: also for a constant.
        """
        region = self.region_of(access)
        if region is not None:
            return self._store(access.of(region), region, values)
        for region in self.regions:
            part = access.inside(region)
            if part is not None:
                self._store(part, region, values[part.chosen])

    def _store(self, access: Access, region: Region, values: Bits) -> None:
        if not region.writable:
            everywhere = np.ones(access.addresses.shape, np.bool_)
            access.fail(OutOfBoundsError, f"a store to the constant {access.name}", everywhere)
        start, words = region.words(access.size)
        index = indices(access.addresses, start, access.size)
        before = words.take(index)
        words[index] = values
        lost = differs(words.take(index), values)
        if region.tracker is not None:
            changed = differs(before, values)
            lost |= region.tracker.write(access, changed) & changed
        if lost.any():
            what = f"two threads write different values to one address of {access.name}"
            access.fail(WriteConflictError, what, lost)


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
