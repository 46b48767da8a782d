"""How the matrices of `mma.sync` and `wgmma` lie in the registers of warps.

A fragment is an array of words, u32 [registers, units, warps, 8, 4]: one unit is a warp or a
warpgroup, a lane is 4·group + thread. A matrix is an array [units, rows, columns] of elements.

Source: PTX ISA 9.0, sections 9.7.14.5 (mma.m16n8kK) and 9.7.15.5.1 (wgmma.m64nNkK).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from exactness.virtual.errors import BarrierDivergenceError
from exactness.virtual.ops.warp import running
from exactness.virtual.state import WARP, Bits, State


def units_running(state: State, warps: int, name: str) -> Bits:
    """Which warps, or warpgroups of 4 warps, execute: (blocks, units).

    Raises:
        BarrierDivergenceError: only part of one does.
    """
    if state.threads % (warps * WARP):
        everyone = np.ones((1, 1), np.bool_)
        state.fail(BarrierDivergenceError, f"{name} in a block without whole warpgroups", everyone)
    here = running(state).reshape(state.blocks, -1, warps * WARP)
    some = here.any(axis=2)
    partial = some[:, :, None] & ~here
    if partial.any():
        unit = "warp" if warps == 1 else "warpgroup"
        state.fail(
            BarrierDivergenceError,
            f"{name} by part of a {unit}: it never runs there",
            partial.reshape(state.shape),
        )
    return some


def read(state: State, registers: Sequence[int], units: Bits, warps: int) -> Bits:
    """A fragment from registers.

    Args:
        state: whose registers.
        registers: their numbers.
        units: which units run, as `units_running` gives them.
        warps: warps of a unit.
    """
    words = np.empty((len(registers), *state.shape), np.uint32)
    for place, register in enumerate(registers):
        words[place] = state.value(register)
    grouped = words.reshape(len(registers), *units.shape, warps, 8, 4)
    chosen = grouped[:, units] if not units.all() else grouped
    return chosen.reshape(len(registers), -1, warps, 8, 4)


def write(state: State, registers: Sequence[int], words: Bits, units: Bits) -> None:
    """The inverse of `read`."""
    if units.all():
        flat = words.reshape(len(registers), *state.shape)
    else:
        whole = np.zeros((len(registers), *units.shape, *words.shape[2:]), np.uint32)
        whole[:, units] = words
        flat = whole.reshape(len(registers), *state.shape)
    for register, value in zip(registers, flat, strict=True):
        state.write(register, value)


def left(words: Bits, element: type) -> Bits:
    """The left operand [units, 16·warps, K] from its fragment; `element` is the storage type."""
    registers, units, warps = words.shape[:3]
    split = words.reshape(registers // 2, 2, units, warps, 8, 4)
    rows = np.ascontiguousarray(split.transpose(2, 3, 1, 4, 0, 5))
    return rows.reshape(units, 16 * warps, 2 * registers).view(element)


def right(words: Bits, element: type) -> Bits:
    """The right operand [units, K, 8] of one warp from its fragment."""
    registers, units = words.shape[:2]
    columns = np.ascontiguousarray(words[:, :, 0].transpose(1, 2, 0, 3))
    return columns.reshape(units, 8, 4 * registers).view(element).swapaxes(1, 2)


def accumulator(words: Bits, bits: int) -> Bits:
    """The accumulator [units, 16·warps, N] from its fragment, as patterns of 16 or 32 bits."""
    registers, units, warps = words.shape[:3]
    pair = bits // 16
    split = words.reshape(registers // (2 * pair), 2, pair, units, warps, 8, 4)
    rows = np.ascontiguousarray(split.transpose(3, 4, 1, 5, 0, 6, 2))
    flat = rows.reshape(units, 16 * warps, -1)
    return flat if bits == 32 else flat.view(np.uint16)


def accumulator_words(matrix: Bits, registers: int, warps: int) -> Bits:
    """The inverse of `accumulator`; `matrix` holds u16 or u32 patterns."""
    units = matrix.shape[0]
    pair = matrix.dtype.itemsize // 2
    words = np.ascontiguousarray(matrix).view(np.uint32)
    split = words.reshape(units, warps, 2, 8, registers // (2 * pair), 4, pair)
    rows = np.ascontiguousarray(split.transpose(4, 2, 6, 0, 1, 3, 5))
    return rows.reshape(registers, units, warps, 8, 4)
