"""Sums of squares, revealed by which terms overflow together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.formats import bf16, f16, f32, f64
from exactness.reveal import RevealError, known, reveal
from exactness.reveal.overflow import Levels
from exactness.rounding import round_to

NAMES = ("sequential", "reverse", "halving", "pairwise", "numpy", "strided:8", "triton:4,32,4")


@pytest.mark.parametrize("fmt", [f32, bf16, f64], ids=lambda fmt: fmt.name)
def test_levels_overflow_only_as_a_pair(fmt) -> None:
    levels = Levels.of(fmt)
    roots = np.array([levels.largest, levels.completing, levels.deciding])
    assert np.array_equal(round_to(roots, fmt), roots)

    def add(a, b):
        with np.errstate(over="ignore"):
            return np.asarray(round_to(np.array([a + b]), fmt))[0]

    a, c, e = np.asarray(round_to(roots * roots, fmt))
    assert add(a, add(c, e)) == math.inf
    assert math.isfinite(add(add(a, c), e))
    assert math.isfinite(add(add(a, e), c))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 33, 100])
@pytest.mark.parametrize("fmt", [f32, bf16], ids=lambda fmt: fmt.name)
def test_known_orders(norm, name, n, fmt) -> None:
    summation = norm(known.named(name, n), fmt)
    summation.rows = 64
    assert reveal(summation) == summation.tree


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 40))
def test_random_trees(norm, random_tree, seed, n) -> None:
    tree = random_tree(np.random.default_rng(seed), n, 2)
    summation = norm(tree)
    summation.rows = 64
    assert reveal(summation) == tree


@pytest.mark.parametrize("name", NAMES)
def test_probes_grow_as_a_quicksort(norm, name) -> None:
    summation = norm(known.named(name, 256))
    summation.rows = 256
    reveal(summation)
    assert summation.probes < 3 * 256 * math.log2(256)


@pytest.mark.parametrize(
    ("fmt", "accumulator"), [(f32, f64), (bf16, f32)], ids=["f64 of f32", "f32 of bf16"]
)
def test_wider_accumulator_is_refused(norm, fmt, accumulator) -> None:
    with pytest.raises(RevealError, match="contradict each other"):
        reveal(norm(known.named("numpy", 20), fmt, accumulator))


def test_fused_additions_are_refused(norm, random_tree) -> None:
    with pytest.raises(RevealError, match="contradict each other"):
        reveal(norm(random_tree(np.random.default_rng(5), 20, 6)))


@pytest.mark.parametrize("shown", [0.0, 1.0])
def test_what_is_no_norm_is_refused(norm, shown) -> None:
    summation = norm(known.named("numpy", 20))
    summation.call = lambda terms: np.full(len(terms), shown)
    with pytest.raises(RevealError, match="is no norm"):
        reveal(summation)


def test_formats_without_room_are_refused(norm) -> None:
    with pytest.raises(RevealError, match="squares of f16 do not overflow"):
        reveal(norm(known.named("halving", 8), f16))
