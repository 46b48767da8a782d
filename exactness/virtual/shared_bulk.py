"""Accesses of the copy engine to shared memory, for the lanes that issue its copies.

What the engine writes is its own: only who has waited for the copy's mbarrier, or has met at a
barrier with somebody who has, is after it. What it overwrites and reads must be before the lane
that issues the copy.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from exactness.virtual.errors import (
    MisalignedAccessError,
    OutOfBoundsError,
    SharedRaceError,
    UndefinedValueError,
    VirtualHopperError,
)
from exactness.virtual.lanes import WORDS, differs
from exactness.virtual.state import WARP, Bits, State


def places(state: State, offsets: Bits, lanes: Bits, size: int) -> Bits:
    """Flat byte offsets from those in the block's shared memory, [lanes, pieces].

    Raises:
        OutOfBoundsError: outside of it.
        MisalignedAccessError: an offset is not a multiple of `size`.
    """
    total = state.shared.size
    bad = (offsets < 0) | (offsets + size > total)
    if bad.any():
        what = f"a bulk copy outside of the block's {total} bytes of shared memory"
        _fail(state, OutOfBoundsError, what, bad, lanes)
    if (offsets % size).any():
        what = f"a bulk copy that is not aligned to {size} bytes"
        _fail(state, MisalignedAccessError, what, offsets % size != 0, lanes)
    return offsets + (lanes // state.threads * total)[:, None]


def store(state: State, flat: Bits, words: Bits, lanes: Bits, size: int) -> None:
    """Write pieces [lanes, pieces] for flat lanes [lanes].

    Raises:
        SharedRaceError: somebody reads or writes there that the issuing lane has not met since.
    """
    shared, order = state.shared, state.shared.order
    assert order is not None
    assert shared.times is not None
    granules = _granules(state, flat, size)
    mine = _warps(state, lanes, granules.shape)
    before = shared.data.view(WORDS[size]).take(flat // size)
    same = np.broadcast_to(~differs(before, words)[..., None], granules.shape)
    benign = same & (shared.undefined.take(granules) == 0)
    found = shared.find_race(granules, mine, benign)
    if found is not None:
        _fail(state, SharedRaceError, f"a shared-memory race: a bulk copy {found[0]}", found[1],
              lanes)  # fmt: skip
    shared.data.view(WORDS[size])[flat // size] = words
    blocks = np.unique(lanes // state.threads)
    order.copies[blocks] += 1
    shared.writers[granules] = order.engine
    shared.times[granules] = order.copies[granules // shared.per_block]
    shared.undefined[granules] = 0
    shared.written = True
    if not shared.all_defined:
        shared.all_defined = not shared.undefined.any()


def load(state: State, flat: Bits, lanes: Bits, size: int) -> Bits:
    """Read pieces [lanes, pieces] for flat lanes [lanes].

    Raises:
        SharedRaceError: another warp wrote there with nothing to order it before the copy.
        UndefinedValueError: part of it is undefined.
    """
    shared = state.shared
    granules = _granules(state, flat, size)
    mine = _warps(state, lanes, granules.shape)
    writer = shared.writers.take(granules)
    race = shared.unordered((writer != 0) & (writer != mine), granules, mine, writer)
    if race.any():
        what = "a shared-memory race: a bulk copy reads what another warp wrote with no barrier"
        _fail(state, SharedRaceError, f"{what} between", race, lanes)
    bad = shared.undefined.take(granules) != 0
    if bad.any():
        what = "an undefined value is copied to global memory"
        _fail(state, UndefinedValueError, what, bad, lanes)
    shared.note_reads([granules], mine)
    return shared.data.view(WORDS[size]).take(flat // size)


def _granules(state: State, flat: Bits, size: int) -> Bits:
    """Flat granules of pieces, [lanes, pieces, granules]."""
    granule = state.shared.granule
    return (flat // granule)[..., None] + np.arange(max(size // granule, 1))


def _warps(state: State, lanes: Bits, shape: tuple[int, ...]) -> Bits:
    """Warp + 1 of the issuing lane of every granule."""
    own = (lanes % state.threads // WARP + 1).astype(np.uint8)
    return np.broadcast_to(own[:, None, None], shape)


def _fail(
    state: State, kind: type[VirtualHopperError], what: str, bad: Bits, lanes: Bits
) -> NoReturn:
    whole = np.zeros(state.blocks * state.threads, np.bool_)
    whole[lanes[bad.reshape(len(lanes), -1).any(axis=1)]] = True
    state.fail(kind, what, whole.reshape(state.shape))
