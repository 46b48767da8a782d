"""Trees as data: equality, conversion to and from orders and nested lists, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.arithmetic import orders
from exactness.reveal import RevealError, Tree, known


@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 30), widest=st.sampled_from([2, 5]))
def test_nested_lists_hold_the_tree(random_tree, seed, n, widest) -> None:
    tree = random_tree(np.random.default_rng(seed), n, widest)
    again = Tree.from_nested(tree.nested())
    assert again == tree
    assert hash(again) == hash(tree)
    assert tree.leaves(tree.root) == list(range(n))
    assert tree.sizes[tree.root] == n
    if tree.widest == 2:
        assert Tree.of_order(tree.order()) == tree


def test_equality_ignores_the_side_of_operands_only() -> None:
    assert Tree(3, ((0, 1), (3, 2))) == Tree(3, ((1, 0), (2, 3)))
    assert Tree(3, ((0, 1), (3, 2))) != Tree(3, ((0, 2), (3, 1)))
    assert Tree(3, ((0, 1), (3, 2))) != Tree(3, ((0, 1, 2),))
    assert Tree(4, ((0, 1), (2, 3), (4, 5))) == Tree(4, ((2, 3), (1, 0), (4, 5)))
    assert Tree(1, ()) != Tree(2, ((0, 1),))
    assert Tree(1, ()) != 0


def test_additions_of_zero_are_left_out() -> None:
    from_zero = orders.strided(5, 4).then(orders.halving(4))
    assert Tree.of_order(from_zero).nested() == [[[0, 4], 2], [1, 3]]
    assert Tree.of_order(orders.halving(3)) == Tree(3, ((0, 2), (3, 1)))


def test_long_chains_do_not_recurse() -> None:
    tree = known.named("reverse", 5000)
    assert Tree.from_nested(tree.nested()) == tree
    assert tree.depth == 4999
    assert tree.order() == orders.reverse(5000)


@pytest.mark.parametrize(
    ("n", "children"),
    [
        (3, ((0, 1),)),
        (2, ((0, 0),)),
        (3, ((0, 1), (1, 2))),
        (3, ((0, 4), (2, 1))),
        (2, ((0, 1, 2),)),
        (2, ()),
        (1, ((0,),)),
    ],
)
def test_what_is_no_tree_is_refused(n, children) -> None:
    with pytest.raises(ValueError, match=f"tree of {n} terms"):
        Tree(n, children)


def test_conversions_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="fused addition of 3 terms"):
        Tree(3, ((0, 1, 2),)).order()
    with pytest.raises(ValueError, match="leaves 2 results"):
        Tree.of_order(orders.strided(4, 2))
    with pytest.raises(ValueError, match="neither a term nor a list"):
        Tree.from_nested([0, "a"])


def test_named_orders() -> None:
    assert known.named("strided:2", 5).nested() == [[[0, 2], 4], [1, 3]]
    assert known.named("fused:3", 7).nested() == [[[0, 1, 2], 3, 4, 5], 6]
    assert known.named("numpy", 10).nested() == [
        [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]], 8],
        9,
    ]
    layout = orders.triton_layout(100, 4, 8, 2)
    assert known.named("triton:4,8,2", 100) == Tree.of_order(layout)


@pytest.mark.parametrize(
    "name",
    ["nope", "strided", "strided:0", "strided:x", "triton:4,32", "triton:3,32,1", "fused:1",
     "sequential:2", "numpy:1", ""],
)  # fmt: skip
def test_unknown_orders_are_refused(name) -> None:
    with pytest.raises(RevealError, match="is unknown; known are sequential, reverse"):
        known.named(name, 8)


@pytest.mark.parametrize(
    "name",
    ["sequential", "reverse", "halving", "pairwise", "numpy", "strided:8", "triton:4,32,4",
     "triton:2,32,8", "fused:8"],
)  # fmt: skip
def test_trees_are_recognized(name) -> None:
    assert name in known.recognized(known.named(name, 600))


def test_a_random_tree_has_no_name(random_tree) -> None:
    assert known.recognized(random_tree(np.random.default_rng(3), 50, 2)) == []
