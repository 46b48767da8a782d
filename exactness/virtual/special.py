"""Special registers: thread and block numbers, lane masks.

Source: PTX ISA 9.0, chapter 10. Registers whose value depends on time or on the device's state
(%clock, %globaltimer, %smid …) have none here and raise.
"""

from __future__ import annotations

import numpy as np

from exactness.virtual.errors import UnsupportedInstructionError
from exactness.virtual.state import WARP, Bits, State

_AXES = {"x": 0, "y": 1, "z": 2}


def special_value(name: str, state: State) -> Bits:
    """The value of a special register, broadcasting to (blocks, threads).

    Raises:
        UnsupportedInstructionError: a register without a model.
    """
    base, _, axis = name.removeprefix("%").partition(".")
    if axis in _AXES and base in ("tid", "ctaid", "ntid", "nctaid"):
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
        case "cluster_nctarank" | "cluster_nctaid":
            return one
    raise UnsupportedInstructionError(f"special register {name} is not modelled")


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
