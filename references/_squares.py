"""Triton's sum of the squares of a row on Hopper, in the order of its layout.

Baseline: `tl.sum(h * h, axis=-1)` compiled by Triton 3.6 or 3.7 for sm_90 with fusion on. Which
thread holds which elements is read from the TTGIR, what ptxas contracts from the SASS.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exactness import arrays
from exactness.arithmetic import Value, fma, sum_, where
from exactness.arithmetic.orders import halving, next_power_of_two


@dataclass(frozen=True)
class Layout:
    """Which threads hold a row of `block` elements, the row padded with zeros.

    Element (repeat r, warp w, lane l, vector v) is ((r·warps + w)·lanes + l)·size + v.

    Attributes:
        size: neighbouring elements a thread holds.
        repeats: how often the warps step along the row.
        lanes: lanes of a warp that share the row.
        warps: warps that share the row.
    """

    size: int
    repeats: int
    lanes: int
    warps: int

    @property
    def block(self) -> int:
        """Elements of the padded row."""
        return self.size * self.repeats * self.lanes * self.warps

    @classmethod
    def of(cls, row: int, rows: int, widest: int) -> Layout:
        """The layout of a tile of `rows` rows for 4 warps.

        Args:
            row: elements of a row.
            rows: rows of the tile, a power of two.
            widest: elements of the widest vector access of the kernel.
        """
        block = next_power_of_two(row)
        size = min(max(rows * block // 128, 1), widest)
        lanes = min(32, block // size)
        warps = min(4, block // (size * lanes))
        return cls(size, block // (size * lanes * warps), lanes, warps)


def sum_of_squares(h: Value, layout: Layout) -> Value:
    """The sum with which each element of a row is normalised.

    Args:
        h: f32 [rows, n]; n is at most `layout.block`.
        layout: which thread holds which element.

    Returns:
        f32 [rows, 1], or [rows, n] where the elements of a row are given different sums.
    """
    held = _by_thread(h, layout)
    if held.shape[-1] > 1:
        return _over_warps(_over_lanes(_in_thread(held)))
    if layout.lanes == 1:
        only = held[..., 0, 0]
        return only * only
    sums = _over_lanes(_first_exchange(held[..., 0]))
    if layout.warps > 1:
        # Lane 0 hands its warp's sum to the others: the lower half's.
        return _over_warps(sums[:, :, 0])
    halves = sums.broadcast_to(h.shape[0], 1, 2, layout.lanes // 2)
    return halves.reshape(h.shape[0], layout.lanes)[:, : h.shape[-1]]


def _by_thread(h: Value, layout: Layout) -> Value:
    """[rows, warps, lanes, elements in register order], zeros behind the end of the row."""
    shape = (layout.repeats, layout.warps, layout.lanes, layout.size)
    element = np.arange(layout.block).reshape(shape).transpose(1, 2, 0, 3)
    element = element.reshape(layout.warps, layout.lanes, -1)
    inside = element < h.shape[-1]
    held = h[:, arrays.index_array(h.payload, np.where(inside, element, 0))]
    return where(arrays.index_array(h.payload, inside), held, 0.0)


def _in_thread(held: Value) -> Value:
    """The second square is rounded; the first, then the others in order, are contracted."""
    acc = held[..., 1] * held[..., 1]
    for i in (0, *range(2, held.shape[-1])):
        acc = fma(held[..., i], held[..., i], acc)
    return acc


def _first_exchange(only: Value) -> Value:
    """One element a thread: its own square is contracted, its partner's was rounded.

    Returns:
        [rows, warps, 2, lanes / 2]: what the lower and the upper half of the lanes hold.
    """
    pairs = only.reshape(*only.shape[:-1], 2, only.shape[-1] // 2)
    square = pairs * pairs
    return fma(pairs, pairs, square[:, :, ::-1])


def _over_lanes(partial: Value) -> Value:
    """The butterfly of a warp, the largest distance first."""
    total = sum_(partial, order=halving(partial.shape[-1]))
    return total


def _over_warps(partial: Value) -> Value:
    """The same across warps, through shared memory: [rows, warps, 1] to [rows, 1]."""
    total = sum_(partial, order=halving(partial.shape[1]), axis=1)
    return total[:, 0]
