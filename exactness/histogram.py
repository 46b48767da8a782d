"""Exact quantiles of integer distances in bounded memory, by radix refinement.

Distances below 2^16, which is nearly all of them, are counted one by one. Larger ones are first
counted by their top 16 bits; a quantile that falls among them is then found by further passes
over the data, 16 bits a pass, which look only at distances with the digits found so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

DIGIT = 16
SMALL = 1 << DIGIT

Pass = Callable[[], Iterable[np.ndarray]]
"""Yields all distances once more, in unsigned arrays; those below `SMALL` may be left out."""


class Histogram:
    """Counts of distances that arrive in blocks.

    Attributes:
        small: how often each distance below 2^16 occurred.
    """

    def __init__(self, bits: int) -> None:
        """Count distances of a word of `bits` bits."""
        self._bits = bits
        self.small = np.zeros(SMALL, np.int64)
        self._top = np.zeros(SMALL, np.int64) if bits > DIGIT else None

    def add(self, distances: np.ndarray, largest: int, excluded: int = 0) -> None:
        """Count a block.

        Args:
            distances: 1-D, unsigned, not empty.
            largest: its maximum, which the caller has anyway.
            excluded: how many of its zeros stand for something else and are not counted.
        """
        if self._top is not None and largest >= SMALL:
            _count(self._top, distances >> distances.dtype.type(self._bits - DIGIT))
            distances = distances[distances < SMALL]
            self._top[0] -= distances.size
        _count(self.small, distances)
        self.small[0] -= excluded

    def add_zeros(self, count: int) -> None:
        """Count `count` distances of zero."""
        self.small[0] += count

    @property
    def total(self) -> int:
        """How many distances were counted."""
        return int(self.small.sum()) + self._large_total

    @property
    def _large_total(self) -> int:
        return 0 if self._top is None else int(self._top.sum())

    def between(self, low: int, high: int) -> int:
        """How many distances d have low <= d <= high; high < 2^16."""
        return int(self.small[low : high + 1].sum())

    def quantiles(self, fractions: tuple[tuple[int, int], ...], again: Pass) -> list[int] | None:
        """The smallest counted distances that at least num/den of all do not exceed.

        Args:
            fractions: (num, den) pairs with 0 < num <= den.
            again: gives the distances once more; called only when a quantile is 2^16 or more.

        Returns:
            One distance a fraction, None when nothing was counted. This is the definition
            `numpy.quantile` calls "inverted_cdf": always a distance that occurs.
        """
        total = self.total
        if total == 0:
            return None
        ranks = [-(-total * numerator // denominator) for numerator, denominator in fractions]
        small_total = total - self._large_total
        large = {rank: _Search() for rank in ranks if rank > small_total}
        if large:
            self._refine(large, small_total, again)
        cumulated = np.cumsum(self.small)
        return [
            large[rank].prefix if rank in large else int(np.searchsorted(cumulated, rank))
            for rank in ranks
        ]

    def _refine(self, searches: dict[int, _Search], small_total: int, again: Pass) -> None:
        assert self._top is not None
        for rank, search in searches.items():
            search.rank = rank - small_total
            search.descend(self._top)
        for shift in range(self._bits - 2 * DIGIT, -1, -DIGIT):
            counts = {search.prefix: np.zeros(SMALL, np.int64) for search in searches.values()}
            for distances in again():
                _count_below(counts, distances, shift)
            for search in searches.values():
                search.descend(counts[search.prefix])


class _Search:
    """The digits found so far of one order statistic, and its rank among what shares them."""

    def __init__(self) -> None:
        self.prefix = 0
        self.rank = 0

    def descend(self, counts: np.ndarray) -> None:
        cumulated = np.cumsum(counts)
        digit = int(np.searchsorted(cumulated, self.rank))
        self.rank -= int(cumulated[digit - 1]) if digit else 0
        self.prefix = (self.prefix << DIGIT) | digit


def _count(into: np.ndarray, values: np.ndarray) -> None:
    # bincount is several times faster on the index type than on narrow or unsigned ones.
    counts = np.bincount(values.astype(np.intp))
    into[: counts.size] += counts


def _count_below(counts: dict[int, np.ndarray], distances: np.ndarray, shift: int) -> None:
    word = distances.dtype.type
    prefixes = distances >> word(shift + DIGIT)
    for prefix, into in counts.items():
        matching = distances[prefixes == prefix]
        if prefix == 0:
            matching = matching[matching >= SMALL]
        _count(into, (matching >> word(shift)) & word(SMALL - 1))
