"""Loads and stores by state space, for the lanes that run.

A load takes addresses and gives words with their undefined bytes; a store takes words compressed
to the running lanes. Generic addresses below the shared window are global ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from exactness.virtual.errors import OutOfBoundsError, UndefinedValueError
from exactness.virtual.lanes import (
    LOCAL_WINDOW,
    SHARED_WINDOW,
    WORDS,
    active,
    inactive_filled,
)
from exactness.virtual.memory import Access
from exactness.virtual.state import Bits, Mask, State


def effective(state: State, register: int, offset: int) -> Bits:
    """Addresses of the instruction, checked to be defined."""
    state.require_defined((register,), "an address")
    base = state.value(register)
    return base if offset == 0 else base + base.dtype.type(offset % (1 << 8 * base.itemsize))


def _load_global(state: State, addresses: Bits, size: int, strong: bool) -> Any:
    mask = state.mask
    part = active(addresses.astype(np.uint64, copy=False), mask, state)
    if part.size == 0:
        return np.zeros((1, 1), WORDS[size]), None
    words = state.memory.load(Access(state, part, mask, size), strong=strong)
    return inactive_filled(words, mask, state), None


def _load_shared(state: State, addresses: Bits, size: int, strong: bool) -> Any:
    mask = state.mask
    flat = state.shared.places(state, addresses, mask, size)
    if flat.size == 0:
        return np.zeros((1, 1), WORDS[size]), None
    words, poison = state.shared.load(state, flat, mask, size)
    if poison is not None:
        poison = inactive_filled(poison, mask, state)
    return inactive_filled(words, mask, state), poison


def _local_places(state: State, addresses: Bits, size: int) -> Bits:
    """Flat byte offsets into the private memory of the running lanes."""
    assert state.local is not None
    per_lane = state.local.shape[2]
    offsets = addresses.astype(np.int64)
    offsets = np.where(offsets >= LOCAL_WINDOW, offsets - LOCAL_WINDOW, offsets)
    bad = (offsets < 0) | (offsets + size > per_lane) | (offsets % size != 0)
    if state.mask is not None:
        bad = bad & state.mask
    if bad.any():
        state.fail(
            OutOfBoundsError,
            f"{size}-byte access outside of the thread's {per_lane} bytes of local memory, "
            "or misaligned",
            bad,
        )
    lanes = np.arange(state.blocks * state.threads, dtype=np.int64).reshape(state.shape)
    return active(state.full(lanes * per_lane + offsets), state.mask, state)


def _load_local(state: State, addresses: Bits, size: int, strong: bool) -> Any:
    flat = _local_places(state, addresses, size)
    assert state.local is not None
    assert state.local_valid is not None
    words = state.local.reshape(-1).view(WORDS[size]).take(flat // size)
    missing = ~state.local_valid.reshape(-1, size)[flat // size]
    if not missing.any():
        return inactive_filled(words, state.mask, state), None
    weights = np.left_shift(np.uint16(1), np.arange(size, dtype=np.uint16))
    poison = (missing * weights).sum(axis=-1, dtype=np.uint16)
    return inactive_filled(words, state.mask, state), inactive_filled(poison, state.mask, state)


def _store_local(
    state: State, addresses: Bits, values: Bits, poison: Bits | None, size: int
) -> None:
    flat = _local_places(state, addresses, size)
    assert state.local is not None
    assert state.local_valid is not None
    state.local.reshape(-1).view(WORDS[size])[flat // size] = values
    defined: Any = True
    if poison is not None:
        defined = (poison[..., None] >> np.arange(size, dtype=np.uint16)) & 1 == 0
    state.local_valid.reshape(-1, size)[flat // size] = defined


_WINDOWS = {"global": 0, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW}


def split_generic(state: State, addresses: Bits) -> list[tuple[str, Bits, Mask]]:
    """The spaces that running lanes reach by generic addresses.

    Returns:
        For each: its name, the addresses within it, and the lanes that reach it (the running ones
        if all of them do).
    """
    windows = np.array([SHARED_WINDOW, LOCAL_WINDOW], np.uint64)
    numbers = np.searchsorted(windows, addresses, side="right")
    present = np.unique(active(numbers, state.mask, state))
    names = list(_WINDOWS)
    found = []
    for number in present:
        mask = state.mask
        if present.size > 1:
            inside = np.broadcast_to(numbers == number, state.shape)
            mask = inside if mask is None else inside & mask
        name = names[int(number)]
        found.append((name, addresses - np.uint64(_WINDOWS[name]), mask))
    return found


def _known(mask: Mask) -> Bits:
    assert mask is not None
    return mask


def _load_generic(state: State, addresses: Bits, size: int, strong: bool) -> Any:
    parts = split_generic(state, addresses)
    if len(parts) == 1:
        ((space, within, _),) = parts
        return LOADS[space](state, within, size, strong)
    running = state.mask
    words = np.zeros(state.shape, WORDS[size])
    poison: Bits = np.zeros(state.shape, np.uint16)
    for space, within, lanes in parts:
        state.mask = lanes
        found, undefined = LOADS[space](state, within, size, strong)
        words = np.where(_known(lanes), found, words)
        if undefined is not None:
            poison = np.where(_known(lanes), undefined, poison)
    state.mask = running
    return words, poison if poison.any() else None


LOADS: Mapping[str, Any] = {
    "global": _load_global,
    "const": _load_global,
    "shared": _load_shared,
    "local": _load_local,
    "generic": _load_generic,
}


def _store_global(
    state: State, addresses: Bits, values: Bits, poison: Bits | None, size: int
) -> None:
    if poison is not None:
        bad = inactive_filled(poison != 0, state.mask, state)
        state.fail(UndefinedValueError, "an undefined value is stored to global memory", bad)
    part = active(state.full(addresses.astype(np.uint64, copy=False)), state.mask, state)
    state.memory.store(Access(state, part, state.mask, size), values)


def _store_shared(
    state: State, addresses: Bits, values: Bits, poison: Bits | None, size: int
) -> None:
    flat = state.shared.places(state, state.full(addresses), state.mask, size)
    state.shared.store(state, flat, values, poison, state.mask, size)


def _store_generic(
    state: State, addresses: Bits, values: Bits, poison: Bits | None, size: int
) -> None:
    parts = split_generic(state, addresses)
    if len(parts) == 1:
        ((space, within, _),) = parts
        return STORES[space](state, within, values, poison, size)
    running = state.mask
    words = inactive_filled(values, running, state)
    undefined = None if poison is None else inactive_filled(poison, running, state)
    for space, within, lanes in parts:
        state.mask = lanes
        bad = None if undefined is None else active(undefined, lanes, state)
        bad = None if bad is None or not bad.any() else bad
        STORES[space](state, within, active(words, lanes, state), bad, size)
    state.mask = running


STORES: Mapping[str, Any] = {
    "global": _store_global,
    "shared": _store_shared,
    "local": _store_local,
    "generic": _store_generic,
}
