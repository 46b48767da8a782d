"""cp.async: copies from global to shared memory that are done when waited for.

The bytes move at once, but their granules stay undefined until the issuing thread has waited for
the copy's group; reading them before gives an undefined value.

Source: PTX ISA 9.0, sections 9.7.9.25.3 (cp.async, commit_group, wait_group, wait_all) and
9.7.13.15.17 (cp.async.mbarrier.arrive).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from exactness.virtual.builder import Builder
from exactness.virtual.instructions import Instruction
from exactness.virtual.lanes import WORDS, active
from exactness.virtual.memory import Access
from exactness.virtual.operation import Effect, Operation
from exactness.virtual.ops import bulk_copy
from exactness.virtual.ops.common import Decoder, flags_of
from exactness.virtual.ops.mbarrier import at_each
from exactness.virtual.ops.spaces import effective
from exactness.virtual.shared import warps
from exactness.virtual.state import AsyncCopy, Bits, State

_FLAGS = frozenset(
    """async ca cg shared shared::cta shared::cluster global L2::cache_hint L2::64B L2::128B
    L2::256B""".split()
)


def _cp(ins: Instruction, b: Builder) -> Operation:
    words = ins.modifiers
    if words[:2] == ("async", "commit_group") and len(words) == 2:
        return Effect(ins, _commit)
    if words[:2] == ("async", "wait_group") and len(words) == 2:
        return _wait_group(ins, b)
    if words[:2] == ("async", "wait_all") and len(words) == 2:
        return Effect(ins, lambda state: _complete(state, None))
    if words[:3] == ("async", "mbarrier", "arrive"):
        return _arrive(ins, b)
    if words[:2] == ("async", "bulk"):
        return bulk_copy.bulk(ins, b)
    return _copy(ins, b)


def _copy(ins: Instruction, b: Builder) -> Operation:
    """cp.async.{ca,cg}.shared.global [dst], [src], size{, source size or ignore-src}."""
    flags = flags_of(ins, b, _FLAGS)
    if "async" not in flags or not flags & {"ca", "cg"}:
        raise b.unsupported(ins, "another copy than cp.async.{ca,cg}.shared.global")
    operands = list(ins.operands)
    target, source = b.address(ins, operands[0]), b.address(ins, operands[1])
    size = int(b.literals[b.source(ins, operands[2], 32)].item())
    if size not in (4, 8, 16):
        raise b.unsupported(ins, f"a copy of {size} bytes")
    if "L2::cache_hint" in flags:
        operands.pop()
    given = b.source(ins, operands[3], 32) if len(operands) > 3 else -1
    sources = (target[0], source[0], *([given] if given >= 0 else []))

    def run(state: State) -> None:
        flat = state.shared.places(state, state.full(effective(state, *target)), state.mask, size)
        if flat.size == 0:
            return
        from_where = active(state.full(effective(state, *source)), state.mask, state)
        state.require_defined((given,) if given >= 0 else (), "the size of a copy")
        length = np.full(flat.shape, size)
        if given >= 0:
            length = active(state.full(state.value(given)), state.mask, state).astype(np.int64)
        _check_lengths(ins, b, length, size)
        data = _fetch(state, from_where, length, size)
        _land(state, flat, data, size)

    return Effect(ins, run, sources)


def _check_lengths(ins: Instruction, b: Builder, length: Bits, size: int) -> None:
    """Only whole powers of two are copied in part here."""
    bad = (length > size) | (length & (length - 1) != 0)
    if bad.any():
        raise b.unsupported(ins, f"a copy of {int(length[bad].ravel()[0])} out of {size} bytes")


def _fetch(state: State, addresses: Bits, length: Bits, size: int) -> Bits:
    """`length` bytes from each address, zero-filled to `size`; nothing is read where it is 0."""
    data = np.zeros((addresses.size, size), np.uint8)
    lanes = np.ones((1, 1), np.bool_) if state.mask is None else state.mask
    where = np.flatnonzero(np.broadcast_to(lanes, state.shape))
    flat_addresses, flat_length = addresses.ravel(), length.ravel()
    for count in (1, 2, 4, 8, 16):
        chosen = flat_length == count
        if count <= size and chosen.any():
            mask = np.zeros(state.blocks * state.threads, np.bool_)
            mask[where[chosen]] = True
            part = flat_addresses[chosen]
            access = Access(state, part, mask.reshape(state.shape), count)
            words = state.memory.load(access, strong=False)
            data[chosen, :count] = words.view(np.uint8).reshape(-1, count)
            flat_length = np.where(chosen, 0, flat_length)
    return data.view(WORDS[size])[:, 0].reshape(addresses.shape)


def _land(state: State, flat: Bits, data: Bits, size: int) -> None:
    """Store the bytes as undefined, and remember the copy."""
    pending = np.full(flat.shape, 0xFFFF, np.uint16)
    state.shared.store(state, flat, data, pending, state.mask, size)
    granules = state.shared.granules(flat, size)
    lanes = np.arange(state.blocks * state.threads).reshape(state.shape)
    lanes = active(lanes, state.mask, state).ravel()
    state.copies.append(
        AsyncCopy(
            lanes=lanes,
            groups=_groups(state).ravel()[lanes],
            places=np.stack([g.ravel() for g in granules], axis=1),
        )
    )


def _groups(state: State) -> Bits:
    """Per lane, the number of the group being filled."""
    if state.copy_group is None:
        state.copy_group = np.zeros(state.shape, np.int64)
    return state.copy_group


def _commit(state: State) -> None:
    one = np.ones((1, 1), np.int64) if state.mask is None else state.mask.astype(np.int64)
    state.copy_group = _groups(state) + one


def _wait_group(ins: Instruction, b: Builder) -> Operation:
    left = int(b.literals[b.source(ins, ins.operands[0], 32)].item())
    return Effect(ins, lambda state: _complete(state, left))


def _arrive(ins: Instruction, b: Builder) -> Operation:
    """cp.async.mbarrier.arrive: the lane's copies are done when the mbarrier's phase is."""
    if not set(ins.modifiers[3:]) <= {"noinc", "shared", "shared::cta", "b64"}:
        raise b.unsupported(ins, f"modifiers {'.'.join(ins.modifiers)}")
    register, offset = b.address(ins, ins.operands[0])
    # Without .noinc the arrival is counted as pending first, so that it changes nothing.
    counts = np.full((1, 1), int("noinc" in ins.modifiers), np.int64)

    def run(state: State) -> None:
        _complete(state, None)
        for place, lanes in at_each(state, register, offset):
            state.mbarriers.arrive(state, place, lanes, counts, None)

    return Effect(ins, run, (register,))


def _complete(state: State, left: int | None) -> None:
    """Finish the running lanes' copies: all, or all but those of the latest `left` groups."""
    filled = _groups(state).ravel()
    running = np.ones((1, 1), np.bool_) if state.mask is None else state.mask
    waiting = np.broadcast_to(running, state.shape).ravel()
    kept = []
    warp = np.broadcast_to(warps(state, state.shape, None), state.shape).ravel()
    for copy in state.copies:
        done = waiting[copy.lanes]
        if left is not None:
            done = done & (copy.groups < filled[copy.lanes] - left)
        if done.any():
            for column in copy.places.T:
                state.shared.claim([column[done]], warp[copy.lanes[done]], None)
        rest = ~done
        if rest.any():
            kept.append(AsyncCopy(copy.lanes[rest], copy.groups[rest], copy.places[rest]))
    state.copies = kept


TABLE: Mapping[str, Decoder] = {"cp": _cp}
