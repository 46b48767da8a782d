"""The registers of a chunk of thread blocks, and which lanes are running.

A lane is one thread of one block. A register is an array of bit patterns that broadcasts to
`(blocks, threads)`: (1, 1) where every lane holds the same value, (1, threads) where blocks agree,
so uniform and thread-indexed arithmetic costs next to nothing. Arrays are never written in place;
a register gets a new one.

Undefined bytes are tracked as poison, an array beside the register (`exactness.virtual.poison`).
Registers that hold only defined values have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from exactness.virtual.errors import UndefinedValueError, VirtualHopperError

if TYPE_CHECKING:
    from exactness.virtual.mbarriers import MBarriers
    from exactness.virtual.memory import GlobalMemory
    from exactness.virtual.shared import SharedMemory
    from exactness.virtual.wgmma_groups import ProductGroups

Bits: TypeAlias = Any
"""A NumPy array of unsigned patterns (bool for predicates) that broadcasts to (blocks, threads)."""

Mask: TypeAlias = Bits | None
"""Which lanes, a boolean array broadcasting to (blocks, threads); None stands for all."""

WARP = 32


@dataclass(slots=True)
class AsyncCopy:
    """A `cp.async` on its way: whose it is, in which group, and where it lands.

    Attributes:
        lanes: flat lane numbers that issued it.
        groups: each lane's group number.
        places: flat shared-memory granules, (lanes, granules).
    """

    lanes: Bits
    groups: Bits
    places: Bits


@dataclass(slots=True, eq=False)
class State:
    """What a chunk of blocks holds while it runs.

    Attributes:
        grid: blocks of the whole launch, (x, y, z).
        block: threads of a block, (x, y, z).
        first_block: linear number of the chunk's first block.
        blocks: blocks in the chunk.
        threads: lanes of a block, a multiple of 32.
        registers: one array a register; None if nothing was written yet, or nobody reads it again.
        poison: register number to its undefined bytes, u8, bit k for byte k.
        mask: lanes that execute the present instruction, its guard included.
        live: lanes that have not exited.
        epochs: per block, how many whole-block barriers it has passed.
        memory: global memory.
        shared: shared memory of the chunk's blocks.
        carry: the carry flag CC.CF.
        copies: asynchronous copies not waited for.
        copy_group: per lane, the number of the group that is being filled.
        products: matrix products not waited for.
        mbarriers: the blocks' mbarriers.
        local: private memory of every lane, (blocks, threads, bytes).
        local_valid: which of its bytes were written.
        warp_numbers: per thread, the number of its warp, from 1 (u8, (1, threads)).
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    first_block: int
    blocks: int
    threads: int
    registers: list[Bits | None]
    memory: GlobalMemory
    shared: SharedMemory
    live: Bits
    epochs: Bits
    mask: Mask = None
    poison: dict[int, Bits] = field(default_factory=dict)
    carry: Bits | None = None
    copies: list[AsyncCopy] = field(default_factory=list)
    copy_group: Bits | None = None
    products: ProductGroups | None = None
    mbarriers: MBarriers = field(init=False)
    local: Bits | None = None
    local_valid: Bits | None = None
    warp_numbers: Bits = None
    _writers: Bits | None = None

    def __post_init__(self) -> None:
        """Number the warps."""
        self.warp_numbers = (np.arange(self.threads) // WARP + 1).astype(np.uint8)[None, :]

    @property
    def shape(self) -> tuple[int, int]:
        """(blocks, threads)."""
        return self.blocks, self.threads

    def next_epoch(self, blocks: Bits | slice) -> None:
        """These blocks have passed a barrier of all their threads."""
        self.epochs[blocks] += 1
        self._writers = None

    def writers(self) -> Bits:
        """Per lane: block + 1, barrier epoch and thread, packed into an i64."""
        if self._writers is None:
            first = self.first_block + 1
            block = np.arange(first, first + self.blocks, dtype=np.int64)
            thread = np.arange(self.threads, dtype=np.int64)
            self._writers = ((block << 32) | (self.epochs << 10))[:, None] | thread
        return self._writers

    def value(self, index: int) -> Bits:
        """The array of a register."""
        value = self.registers[index]
        if value is None:
            raise UndefinedValueError("a register is read that no instruction has written")
        return value

    def full(self, array: Bits) -> Bits:
        """`array` broadcast to (blocks, threads)."""
        return np.broadcast_to(array, self.shape)

    def count(self, mask: Mask) -> int:
        """How many lanes `mask` selects."""
        lanes = self.blocks * self.threads
        if mask is None:
            return lanes
        return int(np.count_nonzero(mask)) * (lanes // int(mask.size))

    def undefined(self, index: int) -> Bits | None:
        """The lanes of a register, among those that run, with an undefined byte; None for none."""
        poison = self.poison.get(index)
        if poison is None:
            return None
        bad = poison != 0
        running = bad if self.mask is None else bad & self.mask
        return running if running.any() else None

    def require_defined(self, indices: Sequence[int], use: str) -> None:
        """Raise if a running lane of these registers is undefined.

        Raises:
            UndefinedValueError: naming the use, the block and the thread.
        """
        if not self.poison:
            return
        for index in indices:
            bad = self.undefined(index)
            if bad is not None:
                self.fail(UndefinedValueError, f"an undefined value is used as {use}", bad)

    def fail(self, kind: type[VirtualHopperError], what: str, bad: Bits) -> NoReturn:
        """Raise `kind`, naming the first lane of `bad` and how many there are."""
        lanes = self.full(bad)
        block, thread = np.unravel_index(int(np.argmax(lanes)), lanes.shape)
        x, y, z = self.grid_position(self.first_block + int(block))
        bx, by, _ = self.block
        where = int(thread)
        raise kind(
            f"{what}: block ({x}, {y}, {z}), thread ({where % bx}, {where // bx % by}, "
            f"{where // (bx * by)}), and {int(np.count_nonzero(lanes)) - 1} more lanes"
        )

    def grid_position(self, linear: int) -> tuple[int, int, int]:
        """The (x, y, z) of a linear block number."""
        gx, gy, _ = self.grid
        return linear % gx, linear // gx % gy, linear // (gx * gy)

    def write(self, index: int, value: Bits, poison: Bits | None = None) -> None:
        """Give a register a value in the running lanes."""
        mask = self.mask
        registers = self.registers
        old = registers[index]
        if mask is None or old is None:
            registers[index] = value
            if poison is not None and poison.any():
                self.poison[index] = poison
            elif self.poison:
                self.poison.pop(index, None)
            return
        registers[index] = np.where(mask, value, old)
        if poison is None and not self.poison:
            return
        before = self.poison.get(index)
        if poison is None and before is None:
            return
        merged: Bits = np.where(mask, _or_clean(poison), _or_clean(before))
        if merged.any():
            self.poison[index] = merged
        else:
            self.poison.pop(index, None)


_CLEAN = np.zeros((1, 1), np.uint8)


def _or_clean(poison: Bits | None) -> Bits:
    return _CLEAN if poison is None else poison
