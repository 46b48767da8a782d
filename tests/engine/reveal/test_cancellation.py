"""Trees revealed by masks that cancel, in exactly the calls of the published algorithm."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.arithmetic import orders
from exactness.formats import bf16, e4m3fn, f16, f32, f64
from exactness.reveal import RevealError, Summation, Tree, known, reveal
from exactness.reveal.probes import Masks

FORMULAS = [
    ("sequential", lambda n: n - 1),
    ("reverse", lambda n: n * (n - 1) // 2),
    ("halving", lambda n: n * int(math.log2(n)) // 2),
    ("pairwise", lambda n: n * int(math.log2(n)) // 2),
    ("fused:4", lambda n: n - 1 + 3 + (n // 4 - 1) * 6),
    ("fused:16", lambda n: n - 1 + 105 + (n // 16 - 1) * 120),
]


@pytest.mark.parametrize(("name", "formula"), FORMULAS, ids=[name for name, _ in FORMULAS])
@pytest.mark.parametrize(("n", "rows"), [(32, 1), (128, 64)])
def test_calls_are_the_published_number(tree_sum, fprev_calls, name, formula, n, rows) -> None:
    summation = tree_sum(known.named(name, n))
    summation.rows = rows
    assert reveal(summation) == summation.tree
    assert summation.probes == formula(n) == fprev_calls(summation.tree)
    assert rows > 1 or summation.calls == summation.probes


@pytest.mark.parametrize(
    "name", ["numpy", "strided:4", "strided:8", "triton:4,32,4", "triton:1,8,1", "triton:8,32,1"]
)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 31, 100, 129, 200])
def test_known_orders(tree_sum, fprev_calls, name, n) -> None:
    summation = tree_sum(known.named(name, n))
    summation.rows = 64
    assert reveal(summation) == summation.tree
    assert n - 1 <= summation.probes == fprev_calls(summation.tree) <= n * (n - 1) // 2


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 24), widest=st.sampled_from([2, 3, 8, 24]))
def test_random_trees(tree_sum, random_tree, fprev_calls, seed, n, widest) -> None:
    tree = random_tree(np.random.default_rng(seed), n, widest)
    summation = tree_sum(tree)
    assert reveal(summation) == tree
    assert summation.calls == fprev_calls(tree)


FORMATS = (f64, f32, f16, bf16)
WIDER = [(fmt, wide) for fmt in FORMATS for wide in FORMATS if wide.precision >= fmt.precision]


@pytest.mark.parametrize(
    ("fmt", "wide"),
    [pair for pair in WIDER if pair != (bf16, f16)],  # f16 has a narrower range
    ids=lambda fmt: fmt.name,
)
def test_formats_and_accumulators(tree_sum, fmt, wide) -> None:
    tree = known.named("numpy", 60)
    summation = tree_sum(tree, fmt, wide, fmt)
    summation.rows = 64
    if (fmt, wide) == (f16, f64):  # no f16 term is lost beside another one
        with pytest.raises(RevealError, match="accumulator is too wide"):
            reveal(summation)
    else:
        assert reveal(summation) == tree


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32), n=st.integers(259, 400), widest=st.sampled_from([2, 5]))
def test_more_units_than_a_narrow_result_can_count(tree_sum, random_tree, seed, n, widest) -> None:
    tree = random_tree(np.random.default_rng(seed), n, widest)
    summation = tree_sum(tree, bf16, f32, bf16)
    summation.rows = 512
    assert reveal(summation) == tree


@pytest.mark.parametrize("name", ["sequential", "numpy", "halving", "strided:2"])
@pytest.mark.parametrize(
    ("fmt", "accumulator", "result"),
    [(bf16, bf16, f32), (bf16, f32, bf16), (f32, f32, bf16)],
    ids=["narrow accumulator", "narrow result", "narrower than its terms"],
)
def test_what_cannot_be_counted_at_once(tree_sum, name, fmt, accumulator, result) -> None:
    """Misread counts could still look like a tree, with a fused node where counting stopped."""
    summation = tree_sum(known.named(name, 280), fmt, accumulator, result)
    summation.rows = 256
    assert reveal(summation) == summation.tree


def test_wide_accumulator_and_result_need_no_parts(tree_sum, fprev_calls) -> None:
    summation = tree_sum(known.named("numpy", 300), bf16, f32, f32)
    summation.rows = 100
    assert reveal(summation) == summation.tree
    assert summation.probes == 1 + fprev_calls(summation.tree)


def test_rows_of_one_call_are_so_many_probes(tree_sum, fprev_calls) -> None:
    summation = tree_sum(orders_tree(100))
    summation.rows = 50
    assert reveal(summation) == summation.tree
    assert summation.probes == fprev_calls(summation.tree)
    assert summation.calls < summation.probes / 20


def orders_tree(n: int) -> Tree:
    return Tree.of_order(orders.halving(n))


class Function(Summation):
    """Any function of a row."""

    name, format, countable = "function", f32, 1 << 24

    def __init__(self, function, n: int) -> None:
        super().__init__()
        self.function, self.n = function, n

    def call(self, terms: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.array([float(self.function(row.astype(np.float32))) for row in terms])


def by_size(x: np.ndarray) -> float:
    return float(np.add.accumulate(x[np.argsort(np.abs(x), kind="stable")])[-1])


REFUSED = [
    ("largest", np.max, r"is no sum of 80 terms: with 1.26765e\+30 at 0"),
    ("product", np.prod, "is no sum"),
    ("mean", np.mean, "is no sum"),
    ("nan", lambda x: np.nan, "gives nan"),
    ("constant", lambda x: 3.0, "no order of additions|no tree"),
    ("nothing", lambda x: 0.0, "more than 64 terms of function would be added at once"),
    ("median", np.median, "no tree: terms 0 and 1 meet in a sum of 79 terms"),
    ("exact", math.fsum, "exact or compensated"),
    ("small terms first", by_size, "from small to large"),
    ("large terms first", lambda x: by_size(1 / x), "."),
]


@pytest.mark.parametrize(
    ("function", "message"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
def test_what_is_no_summation_is_refused(function, message) -> None:
    with pytest.raises(RevealError, match=message) as caught:
        reveal(Function(function, 80))
    assert "\n" not in str(caught.value)


def test_nondeterminism_is_named() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(RevealError, match="is not deterministic"):
        reveal(Function(lambda x: np.add.accumulate(rng.permutation(x))[-1], 40))
    with pytest.raises(RevealError, match="it is not deterministic"):
        reveal(Function(lambda x: rng.uniform(), 40))


def test_limits_are_told(tree_sum) -> None:
    with pytest.raises(RevealError, match="format e4m3fn is not accepted; f64, f32, f16 and bf16"):
        Masks.of(e4m3fn)
    summation = Function(np.sum, Masks.of(f16).terms + 1)
    summation.format = f16
    with pytest.raises(RevealError, match="n: 16385 is not accepted for f16 terms; 1 to 16384 are"):
        reveal(summation)
