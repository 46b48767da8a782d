"""Triton's sum of the squares of a row on Hopper, in the order of its layout.

Baseline: `tl.sum(h * h, axis=-1)` compiled by Triton 3.6 or 3.7 for sm_90 with fusion on, 4 warps.
Which thread holds which elements is read from the TTGIR, what ptxas contracts from the SASS; both
are confirmed by the recordings with f32 rows and by running the baseline's own machine code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from exactness import arrays
from exactness.arithmetic import Value, fma, rsqrt_approx, sum_, where
from exactness.arithmetic.orders import halving, next_power_of_two

_OTHER_HALF = np.array([1, 0])


@dataclass(frozen=True)
class Layout:
    """Which threads hold a row, padded with zeros to `block` elements.

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

    @classmethod
    def of(cls, n: int, rows: int, widest: int) -> Layout:
        """The layout of a tile of rows of `n` elements for 4 warps.

        Args:
            n: elements of a row.
            rows: rows of the tile, a power of two.
            widest: elements of the widest vector access of the kernel.
        """
        block = next_power_of_two(n)
        size = min(max(rows * block // 128, 1), widest)
        lanes = min(32, block // size)
        warps = min(4, block // (size * lanes))
        return cls(size, block // (size * lanes * warps), lanes, warps)

    @property
    def elements(self) -> np.ndarray:
        """[warps, lanes, elements in register order]."""
        shape = (self.repeats, self.warps, self.lanes, self.size)
        numbered = np.arange(self.repeats * self.warps * self.lanes * self.size).reshape(shape)
        return numbered.transpose(1, 2, 0, 3).reshape(self.warps, self.lanes, -1)


def inverse_rms(h: Value, eps: float, layout: Layout) -> Value:
    """1 / √(mean(h²) + eps) of each row.

    ptxas folds the division by the constant n into a multiplication and contracts the addition;
    of a single column it contracts the square itself.

    Args:
        h: f32 [rows, n].
        eps: host constant, f64 to f32.
        layout: which thread holds which element.

    Returns:
        f32 [rows, 1], or [rows, n] where the elements of a row are given different sums.
    """
    n = h.shape[-1]
    if n == 1:
        square_eps = fma(h, h, eps)
        return rsqrt_approx(square_eps, ftz=True)
    total = _sum_of_squares(h, layout)
    mean_eps = fma(total, 1.0 / n, eps)
    return rsqrt_approx(mean_eps, ftz=True)


def _sum_of_squares(h: Value, layout: Layout) -> Value:
    held = _by_thread(h, layout)
    if held.shape[-1] > 1:
        several = _over_lanes(_in_thread(held))
        return _over_warps(several)
    halves = _over_lanes(_first_exchange(held[..., 0]))
    if layout.warps > 1:
        # Lane 0 hands its warp's sum to the others: the lower half's.
        lower = _over_warps(halves[:, :, 0])
        return lower
    rows, n = h.shape
    by_lane = halves.broadcast_to(rows, 1, 2, layout.lanes // 2).reshape(rows, layout.lanes)
    return by_lane[:, :n]


def _by_thread(h: Value, layout: Layout) -> Value:
    """[rows, warps, lanes, elements in register order], zeros behind the end of the row."""
    element = layout.elements
    inside = element < h.shape[-1]
    held = h[:, arrays.index_array(h.payload, np.where(inside, element, 0))]
    return where(arrays.index_array(h.payload, inside), held, 0.0)


def _in_thread(held: Value) -> Value:
    """The square of the second element is rounded; the others are contracted onto it in order."""
    acc = held[..., 1] * held[..., 1]
    for i in (0, *range(2, held.shape[-1])):
        acc = fma(held[..., i], held[..., i], acc)
    return acc


def _first_exchange(single: Value) -> Value:
    """One element a thread: its own square is contracted onto its partner's, which was rounded.

    Returns:
        f32 [rows, warps, 2, lanes / 2]: what the lower and the upper half of the lanes hold.
    """
    rows, warps, lanes = single.shape
    halves = single.reshape(rows, warps, 2, lanes // 2)
    square = halves * halves
    return fma(halves, halves, square[:, :, arrays.index_array(square.payload, _OTHER_HALF)])


def _over_lanes(partial: Value) -> Value:
    """The butterfly of a warp, the largest distance first."""
    return sum_(partial, order=halving(partial.shape[-1]))


def _over_warps(partial: Value) -> Value:
    """The same across warps, through shared memory: [rows, warps, 1] to [rows, 1]."""
    total = sum_(partial, order=halving(partial.shape[1]), axis=1)
    return total[:, 0]
