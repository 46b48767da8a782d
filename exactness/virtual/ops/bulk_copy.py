"""cp.async.bulk: copies of tensor boxes and of plain bytes between global and shared memory.

A copy to shared memory is done at once, but belongs to the copy engine: who has not waited for its
mbarrier races with it. A copy to global memory reads and writes at once; that its source may be
overwritten only after `wait_group.read` is not checked.

Source: PTX ISA 9.0, sections 9.7.9.25.4 and 9.7.9.25.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from exactness.virtual import shared_bulk
from exactness.virtual.builder import Builder
from exactness.virtual.errors import MisalignedAccessError
from exactness.virtual.instructions import Address, Instruction, Operand, Vector
from exactness.virtual.lanes import WORDS, active
from exactness.virtual.memory import Access
from exactness.virtual.operation import Effect, Operation
from exactness.virtual.ops.mbarrier import at_each
from exactness.virtual.ops.spaces import effective
from exactness.virtual.ops.tensor_map import read_maps
from exactness.virtual.shared import SHARED_BASE
from exactness.virtual.state import Bits, State
from exactness.virtual.tensor_maps import Box, Pieces, pieces, same_boxes

_DIMENSION = re.compile(r"([1-5])d")
_TO_SHARED = frozenset(["shared::cta", "shared::cluster", "global", "mbarrier::complete_tx::bytes"])
_TO_GLOBAL = frozenset(["global", "shared::cta", "bulk_group"])
_EXTRAS = frozenset(["async", "bulk", "tensor", "tile", "L2::cache_hint"])


@dataclass(frozen=True, slots=True)
class _Tensor:
    """The operands of a tensor copy: registers and byte offsets.

    Attributes:
        map: address of the tensor map.
        corner: coordinates, innermost first.
        shared: address of the box in shared memory.
    """

    map: tuple[int, int]
    corner: tuple[int, ...]
    shared: tuple[int, int]


def bulk(ins: Instruction, b: Builder) -> Operation:
    """Decode `cp.async.bulk…`."""
    words = ins.modifiers
    if words[2:3] in (("commit_group",), ("wait_group",)):
        return Effect(ins, lambda state: None)
    flags = frozenset(words) - _EXTRAS
    if "tensor" not in words:
        return _plain(ins, b, flags)
    rank = next((int(m[1]) for word in flags if (m := _DIMENSION.fullmatch(word))), 0)
    flags -= {f"{rank}d"}
    if flags == _TO_GLOBAL and rank:
        return _store(ins, b, _tensor(ins, b, ins.operands[0], ins.operands[1], rank))
    if rank and flags in (_TO_SHARED - {"shared::cluster"}, _TO_SHARED - {"shared::cta"}):
        tensor = _tensor(ins, b, ins.operands[1], ins.operands[0], rank)
        return _load(ins, b, tensor, b.address(ins, ins.operands[2]))
    raise b.unsupported(ins, f"modifiers {'.'.join(words)}")


def _tensor(ins: Instruction, b: Builder, box: Operand, shared: Operand, rank: int) -> _Tensor:
    if not isinstance(box, Vector) or not isinstance(box.elements[0], Address):
        raise b.unsupported(ins, "a tensor map without coordinates")
    corner = b.sources(ins, box.elements[1:], 32)
    if len(corner) != rank:
        raise b.unsupported(ins, f"{len(corner)} coordinates")
    return _Tensor(b.address(ins, box.elements[0]), corner, b.address(ins, shared))


def _lanes(state: State) -> Bits:
    """Flat numbers of the running lanes."""
    mask = np.ones((1, 1), np.bool_) if state.mask is None else state.mask
    return np.flatnonzero(state.full(mask))


def _boxes(state: State, tensor: _Tensor) -> Iterator[tuple[Box, Pieces, Bits, Bits]]:
    """Box, pieces, flat lanes [lanes] and shared places [lanes, pieces], by kind of box."""
    state.require_defined(tensor.corner, "a coordinate")
    lanes, start = _lanes(state), _starts(state, tensor.shared)
    maps = read_maps(state, effective(state, *tensor.map).astype(np.uint64))
    corners = np.stack([_coordinates(state, register) for register in tensor.corner], axis=-1)
    alike = same_boxes(maps)
    for kind in np.unique(alike):
        chosen = alike == kind
        box = Box.of(maps[chosen][0])
        parts = pieces(maps[chosen], box, corners[chosen])
        linear = start[chosen, None] + parts.places
        swizzled = linear ^ ((linear >> 3) & ((box.span // 16 - 1) << 4))
        places = shared_bulk.places(state, swizzled - SHARED_BASE, lanes[chosen], parts.size)
        yield box, parts, lanes[chosen], places


def _coordinates(state: State, register: int) -> Bits:
    """Signed coordinates of the running lanes, i64."""
    values = active(state.full(state.value(register)), state.mask, state)
    return values.view(np.int32).astype(np.int64)


def _starts(state: State, shared: tuple[int, int]) -> Bits:
    """Shared addresses of the running lanes' boxes, i64.

    Raises:
        MisalignedAccessError: a box does not begin at a multiple of 128 bytes.
    """
    whole = state.full(effective(state, *shared))
    bad = whole % 128 != 0
    if state.mask is not None:
        bad = bad & state.mask
    if bad.any():
        what = "a tensor's box in shared memory that does not begin at a multiple of 128 bytes"
        state.fail(MisalignedAccessError, what, bad)
    return active(whole, state.mask, state).astype(np.int64)


def _load(ins: Instruction, b: Builder, tensor: _Tensor, barrier: tuple[int, int]) -> Operation:
    """A box from global to shared memory; what lies outside of the tensor becomes zero."""

    def run(state: State) -> None:
        brought = np.zeros(state.blocks * state.threads, np.int64)
        for box, parts, lanes, places in _boxes(state, tensor):
            data = np.zeros(parts.addresses.shape, WORDS[parts.size])
            owners = np.broadcast_to(lanes[:, None], parts.addresses.shape)[parts.inside]
            if owners.size:
                access = _access(state, parts.addresses[parts.inside], owners, parts.size)
                data[parts.inside] = state.memory.load(access, strong=False)
            shared_bulk.store(state, places, data, lanes, parts.size)
            brought[lanes] = box.bytes
        _complete(state, barrier, brought)

    return Effect(ins, run, (tensor.map[0], *tensor.corner, tensor.shared[0], barrier[0]))


def _complete(state: State, barrier: tuple[int, int], brought: Bits) -> None:
    """Tell the mbarrier how many bytes each lane's copy has brought."""
    for place, lanes in at_each(state, *barrier):
        state.mbarriers.copied(state, place, lanes, brought.reshape(state.shape))


def _store(ins: Instruction, b: Builder, tensor: _Tensor) -> Operation:
    """A box from shared to global memory; what lies outside of the tensor is not written."""

    def run(state: State) -> None:
        for _, parts, lanes, places in _boxes(state, tensor):
            words = shared_bulk.load(state, places, lanes, parts.size)
            owners = np.broadcast_to(lanes[:, None], parts.addresses.shape)[parts.inside]
            if owners.size:
                access = _access(state, parts.addresses[parts.inside], owners, parts.size)
                state.memory.store(access, words[parts.inside])

    return Effect(ins, run, (tensor.map[0], *tensor.corner, tensor.shared[0]))


def _access(state: State, addresses: Bits, owners: Bits, size: int) -> Access:
    return Access(state, addresses, state.mask, size, owners=owners)


def _plain(ins: Instruction, b: Builder, flags: frozenset[str]) -> Operation:
    """cp.async.bulk [to], [from], size{, mbarrier}: bytes as they are."""
    loads = flags in (_TO_SHARED - {"shared::cluster"}, _TO_SHARED - {"shared::cta"})
    if not loads and flags != _TO_GLOBAL:
        raise b.unsupported(ins, f"modifiers {'.'.join(ins.modifiers)}")
    to, source = b.address(ins, ins.operands[0]), b.address(ins, ins.operands[1])
    count = b.source(ins, ins.operands[2], 32)
    barrier = b.address(ins, ins.operands[3]) if loads else (-1, 0)
    shared, outside = (to, source) if loads else (source, to)

    def run(state: State) -> None:
        state.require_defined((count,), "the size of a copy")
        sizes = active(state.full(state.value(count)), state.mask, state).astype(np.int64)
        begin = active(state.full(effective(state, *shared)), state.mask, state).astype(np.int64)
        where = active(state.full(effective(state, *outside)), state.mask, state)
        lanes = _lanes(state)
        steps = -(-sizes // 16)
        if (sizes % 16).any():
            raise b.unsupported(ins, "a size that is no multiple of 16")
        owners = np.repeat(lanes, steps)
        step = np.concatenate([np.arange(n) for n in steps]) * 16
        offsets = np.repeat(begin, steps) + step - SHARED_BASE
        places = shared_bulk.places(state, offsets[:, None], owners, 16)
        addresses = np.repeat(where.astype(np.uint64), steps) + step.astype(np.uint64)
        access = _access(state, addresses, owners, 16)
        if loads:
            words = state.memory.load(access, strong=False)
            shared_bulk.store(state, places, words[:, None], owners, 16)
            brought = np.zeros(state.blocks * state.threads, np.int64)
            brought[lanes] = sizes
            _complete(state, barrier, brought)
        else:
            state.memory.store(access, shared_bulk.load(state, places, owners, 16)[:, 0])

    sources = [to[0], source[0], count, *([barrier[0]] if loads else [])]
    return Effect(ins, run, tuple(sources))
