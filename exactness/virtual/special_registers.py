"""Special registers: thread and block numbers, lane masks.

Source: PTX ISA 9.0, chapter 10. Registers whose value depends on time or on the device's state
(%clock, %globaltimer, %smid …) have none here; the decoder raises.
"""

from __future__ import annotations

import numpy as np

from exactness.virtual.state import WARP, Bits, State

_AXES = {"x": 0, "y": 1, "z": 2}
_POSITIONS = frozenset(["tid", "ctaid", "ntid", "nctaid"])
_OTHERS = frozenset(
    """laneid warpid nwarpid lanemask_eq lanemask_lt lanemask_le lanemask_gt lanemask_ge
    cluster_ctarank cluster_ctaid cluster_nctarank cluster_nctaid""".split()
)


def is_modelled(name: str) -> bool:
    """Whether a special register has a value here."""
    base, _, axis = name.removeprefix("%").partition(".")
    return base in _OTHERS or (base in _POSITIONS and axis in _AXES)


def special_value(name: str, state: State) -> Bits:
    """The value of a modelled special register, broadcasting to (blocks, threads)."""
    base, _, axis = name.removeprefix("%").partition(".")
    if base in _POSITIONS:
        return _position(base, _AXES[axis], state)
    lane = np.arange(state.threads, dtype=np.int64)[None, :] % WARP
    one = np.ones((1, 1), np.int64)
    match base:
        case "laneid":
            return lane
        case "warpid":
            return np.arange(state.threads, dtype=np.int64)[None, :] // WARP
        case "nwarpid":
            return one * (state.threads // WARP)
        case "lanemask_eq":
            return 1 << lane
        case "lanemask_lt":
            return (1 << lane) - 1
        case "lanemask_le":
            return (2 << lane) - 1
        case "lanemask_gt":
            return 0xFFFFFFFF & ~((2 << lane) - 1)
        case "lanemask_ge":
            return 0xFFFFFFFF & ~((1 << lane) - 1)
        case "cluster_ctarank" | "cluster_ctaid":
            return one * 0
    return one  # of cluster_nctarank, cluster_nctaid: a block is a cluster


def _position(base: str, axis: int, state: State) -> Bits:
    """%tid, %ctaid, %ntid, %nctaid along an axis."""
    if base == "ntid":
        return np.full((1, 1), state.block[axis])
    if base == "nctaid":
        return np.full((1, 1), state.grid[axis])
    extent = state.block if base == "tid" else state.grid
    count = state.threads if base == "tid" else state.blocks
    first = 0 if base == "tid" else state.first_block
    linear = np.arange(first, first + count, dtype=np.int64)
    stride = int(np.prod(extent[:axis], dtype=np.int64))
    values = linear // stride % extent[axis]
    return values[None, :] if base == "tid" else values[:, None]
