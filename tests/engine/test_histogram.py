"""Quantiles by radix refinement against sorting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.histogram import Histogram

FRACTIONS = ((1, 2), (99, 100), (1, 1), (1, 1000))


def distances(bits: int) -> st.SearchStrategy[list[int]]:
    # Clusters that share their upper digits are what refinement has to tell apart.
    base = st.integers(0, bits).map(lambda shift: min(1 << shift, (1 << bits) - 1))
    near = st.tuples(base, st.integers(0, 300)).map(lambda p: min(sum(p), (1 << bits) - 1))
    return st.lists(st.one_of(st.integers(0, (1 << bits) - 1), near), min_size=1, max_size=200)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_quantiles_are_those_of_the_sorted_distances(bits: int, data: st.DataObject) -> None:
    values = data.draw(distances(bits))
    cut = data.draw(st.integers(0, len(values)))
    pieces = [np.array(part, f"u{bits // 8}") for part in (values[:cut], values[cut:]) if part]
    histogram = Histogram(bits)
    for piece in pieces:
        histogram.add(piece, int(piece.max()))
    ordered = sorted(values)
    ranks = [-(-len(values) * num // den) for num, den in FRACTIONS]
    expected = [ordered[rank - 1] for rank in ranks]
    assert histogram.quantiles(FRACTIONS, lambda: iter(pieces)) == expected
    assert histogram.total == len(values)


def test_zeros_can_be_excluded_and_added() -> None:
    histogram = Histogram(16)
    histogram.add(np.array([0, 0, 0, 5], np.uint16), 5, excluded=2)
    histogram.add_zeros(10)
    assert histogram.between(0, 0) == 11
    assert histogram.between(3, 10) == 1
    assert histogram.total == 12


def test_nothing_counted_has_no_quantile() -> None:
    assert Histogram(32).quantiles(FRACTIONS, lambda: iter(())) is None


def test_small_quantiles_need_no_second_pass() -> None:
    def fail() -> None:
        raise AssertionError("the data was read again")

    histogram = Histogram(32)
    histogram.add(np.array([1, 2, 3, 1 << 20], np.uint32), 1 << 20)
    assert histogram.quantiles(((1, 2),), fail) == [2]
