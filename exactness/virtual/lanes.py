"""Lanes of an access: cutting arrays down to those that run, and back; words of memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from exactness.virtual.state import Bits, Mask, State

SHARED_WINDOW = 1 << 56
"""Generic addresses of shared memory start here."""
LOCAL_WINDOW = 1 << 57
"""Generic addresses of local memory start here."""

WORDS: dict[int, Any] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    # 16 bytes move fastest as a native type of that size; the values are never looked at.
    16: np.dtype(np.complex128),
}
"""The type that moves an access of so many bytes in one piece."""


def indices(addresses: Bits, start: int, size: int) -> Bits:
    """Word numbers of aligned addresses."""
    offsets = (addresses - np.uint64(start)).view(np.int64)
    return offsets >> (size.bit_length() - 1) if size > 1 else offsets


def differs(x: Bits, y: Bits) -> Bits:
    """Where words differ, bit for bit."""
    if x.dtype == np.complex128:
        pairs = x.view(np.uint64) != np.ascontiguousarray(y).view(np.uint64)
        return pairs.reshape(*x.shape, 2).any(axis=-1)
    return np.asarray(x != y)


def place(part: Bits, inside: Bits | None) -> Bits:
    """The inverse of indexing with `inside`."""
    if inside is None:
        return part
    whole = np.zeros(inside.shape, np.bool_)
    whole[inside] = part
    return whole


def spread(part: Bits, mask: Mask, state: State) -> Bits:
    """The inverse of indexing with the mask: lanes of (blocks, threads)."""
    if mask is None:
        return np.broadcast_to(part, state.shape)
    return place(part, np.broadcast_to(mask, state.shape))


def active(array: Bits, mask: Mask, state: State) -> Bits:
    """The running lanes of an array, in one dimension; all of it if every lane runs."""
    if mask is None:
        return array
    return np.broadcast_to(array, state.shape)[np.broadcast_to(mask, state.shape)]


def inactive_filled(part: Bits, mask: Mask, state: State) -> Bits:
    """The inverse of `active`; lanes that do not run hold zero."""
    if mask is None:
        return part
    whole = np.zeros(state.shape, part.dtype)
    whole[np.broadcast_to(mask, state.shape)] = part
    return whole
