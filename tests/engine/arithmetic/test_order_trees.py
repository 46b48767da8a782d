"""Orders as data: expressions, drawings, equality, composition, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.arithmetic import orders
from exactness.arithmetic.ieee import reduce_along
from exactness.arithmetic.orders import Order


def total(order: Order, x: np.ndarray) -> np.ndarray:
    return reduce_along(x, order, -1, lambda a, b: a + b, 0.0)[..., 0]


def sensitive(n: int) -> np.ndarray:
    """Magnitudes over 24 binades: another order almost surely gives another f32."""
    rng = np.random.default_rng(n)
    scale = np.exp2(rng.uniform(-12, 12, (20, n)))
    return (rng.standard_normal((20, n)) * scale).astype(np.float32)


EXPRESSIONS = [
    (orders.sequential(4), "((a0+a1)+a2)+a3"),
    (orders.reverse(3), "(a2+a1)+a0"),
    (orders.halving(4), "(a0+a2)+(a1+a3)"),
    (orders.halving(3), "(a0+a2)+(a1+0)"),
    (orders.pairwise(4), "(a0+a1)+(a2+a3)"),
    (orders.strided(5, 2), "((0+a0)+a2)+a4, (0+a1)+a3"),
    (orders.strided(1, 2), "0+a0, 0"),
    (orders.strided(4, 4).then(orders.halving(4)), "((0+a0)+(0+a2))+((0+a1)+(0+a3))"),
    (orders.sequential(1), "a0"),
    (orders.sequential(0), "0"),
    (orders.halving(0), "0"),
    (orders.columns(np.array([[2, 0, -1], [1, -1, -1], [-1, -1, -1]]), 3, "c"), "a2+a0, a1, 0"),
    (orders.columns(np.zeros((2, 0), int), 3, "empty"), "0, 0"),
    (orders.from_nested(((0, 2), (1, 3)), 4), "(a0+a2)+(a1+a3)"),
    (orders.from_nested([np.int64(1), 0], 2), "a1+a0"),
]


@pytest.mark.parametrize(
    ("order", "text"), EXPRESSIONS, ids=[f"{order.name} of {order.n}" for order, _ in EXPRESSIONS]
)
def test_expressions(order: Order, text: str) -> None:
    assert order.expression() == text
    assert order.expression("x") == text.replace("a", "x")


def test_a_drawing_shows_the_tree() -> None:
    drawn = orders.sequential(1).then(orders.strided(1, 1)).draw()
    assert drawn.splitlines() == ["+", "├─0", "└─a0"]
    expected = ["+", "├─+", "│ ├─a0", "│ └─a2", "└─+", "  ├─a1", "  └─0"]
    assert orders.halving(3).draw().splitlines() == expected
    assert orders.strided(2, 2).draw("x").splitlines() == ["+", "├─0", "└─x0", "+", "├─0", "└─x1"]


def test_long_chains_are_no_deeper_than_memory() -> None:
    """A sequential order of a row is as deep as the row is long: nothing may recurse."""
    n = 3000
    nested: object = 0
    for element in range(1, n):
        nested = (nested, element)
    order = orders.from_nested(nested, n)
    assert order == orders.sequential(n)
    assert hash(order) == hash(orders.sequential(n))
    assert len(order.draw().splitlines()) == 2 * n - 1
    assert order.expression().endswith(f"+a{n - 1}")


@st.composite
def nested_trees(draw: st.DrawFn, n: int) -> object:
    """A random tree over n shuffled elements, some of whose additions are swapped."""
    nodes: list[object] = draw(st.permutations(list(range(n))))
    while len(nodes) > 1:
        left = nodes.pop(draw(st.integers(0, len(nodes) - 1)))
        right = nodes.pop(draw(st.integers(0, len(nodes) - 1)))
        nodes.append((left, right))
    return nodes[0]


def mirrored(tree: object) -> object:
    return tuple(mirrored(part) for part in tree[::-1]) if isinstance(tree, tuple) else tree


def unordered(tree: object) -> object:
    """Nested sets are equal exactly if the trees are, up to swapped operands."""
    return frozenset(map(unordered, tree)) if isinstance(tree, tuple) else tree


def evaluated(tree: object, x: np.ndarray) -> np.float32:
    if isinstance(tree, tuple):
        return evaluated(tree[0], x) + evaluated(tree[1], x)
    return x[tree]


@settings(deadline=None, max_examples=100)
@given(data=st.data(), n=st.integers(1, 12))
def test_any_tree_sums_as_it_is_nested(data: st.DataObject, n: int) -> None:
    tree = data.draw(nested_trees(n))
    order, x = orders.from_nested(tree, n), sensitive(n)
    expected = np.array([evaluated(tree, row) for row in x], np.float32)
    assert np.array_equal(total(order, x), expected)
    twin = orders.from_nested(mirrored(tree), n)
    assert order == twin
    assert hash(order) == hash(twin)
    other = data.draw(nested_trees(n))
    assert (orders.from_nested(other, n) == order) == (unordered(other) == unordered(tree))


def test_equality_does_not_depend_on_how_the_levels_were_built() -> None:
    """A tree built depth first has other levels than one built breadth first."""
    deep = orders.from_nested((((0, 4), (2, 6)), ((1, 5), (3, 7))), 8)
    assert len(deep.levels) == 7
    assert len(orders.halving(8).levels) == 3
    assert deep == orders.halving(8)
    assert len({deep, orders.halving(8), orders.pairwise(8), orders.sequential(8)}) == 3


def test_equality_tells_orders_apart() -> None:
    assert orders.halving(4) != orders.pairwise(4)
    assert orders.sequential(3) != orders.sequential(4)
    assert orders.sequential(3) != orders.reverse(3)
    assert orders.sequential(2) == orders.reverse(2)
    assert orders.sequential(1) != orders.strided(1, 1)
    assert orders.sequential(2) != "a0+a1"


def test_additions_of_the_identity_do_not_change_a_sum() -> None:
    """candle's slots start at zero; a halving tree does not. They differ in the sign of zero."""
    from_zero = orders.strided(4, 4).then(orders.halving(4))
    assert from_zero.same_sums(orders.halving(4))
    assert from_zero != orders.halving(4)
    assert orders.halving(3).same_sums(orders.from_nested(((2, 0), 1), 3))
    assert orders.strided(3, 1).same_sums(orders.sequential(3))
    assert orders.halving(0).same_sums(orders.sequential(0))
    assert not orders.halving(4).same_sums(orders.pairwise(4))
    assert not orders.sequential(3).same_sums(orders.reverse(3))
    assert not orders.sequential(3).same_sums(orders.sequential(4))
    assert not orders.without_last(orders.sequential(3)).same_sums(orders.sequential(3))


def test_composition_keeps_both_trees() -> None:
    joined = orders.strided(6, 4).then(orders.pairwise(4))
    assert joined.expression() == "(((0+a0)+a4)+((0+a1)+a5))+((0+a2)+(0+a3))"
    assert joined.name == "strided by 4, pairwise"
    # The identity of the second order is that of the first.
    assert orders.sequential(2).then(orders.strided(1, 1)).expression() == "0+(a0+a1)"
    with pytest.raises(ValueError, match="halving takes 4 elements, strided by 2 leaves 2"):
        orders.strided(6, 2).then(orders.halving(4))


@pytest.mark.parametrize(
    ("levels", "results", "message"),
    [
        ([([0, 1], [1])], [0], "differ in number"),
        ([([0], [4])], [0], "comes later or is none"),
        ([([3], [0])], [0], "comes later or is none"),
        ([([-1], [0])], [3], "comes later or is none"),
        ([([0], [1])], [4], "a result is not a node"),
        ([], [-1], "a result is not a node"),
    ],
)
def test_impossible_orders_are_refused(
    levels: list[tuple[list[int], list[int]]], results: list[int], message: str
) -> None:
    made = tuple((np.array(left), np.array(right)) for left, right in levels)
    with pytest.raises(ValueError, match=message):
        Order("bad", 2, made, np.array(results))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ((0, 2), "leaf 2 is not one of the 2 elements"),
        ((0, -1), "leaf -1 is not"),
        ((0, 1, 1), "is neither an element nor a pair"),
        ((0, "ab"), "'ab' is neither"),
        ((0, None), "None is neither"),
        (0.0, "0.0 is neither"),
    ],
)
def test_impossible_trees_are_refused(tree: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        orders.from_nested(tree, 2)


def test_powers_of_two() -> None:
    assert [orders.next_power_of_two(n) for n in (0, 1, 2, 3, 4, 5, 1023, 1024, 1025)] == [
        1, 1, 2, 4, 4, 8, 1024, 1024, 2048
    ]  # fmt: skip


def test_orders_that_forget_or_repeat_the_last_element() -> None:
    """The two index faults that mutants plant, on trees that use the last element anywhere."""
    halving, chain = orders.halving(3), orders.reverse(3)
    assert orders.without_last(halving).expression() == "(a0+0)+(a1+0)"
    assert orders.without_last(chain).expression() == "(0+a1)+a0"
    assert orders.without_last(orders.sequential(1)).expression() == "0"
    assert orders.with_last_twice(halving).expression() == "((a0+a2)+(a1+0))+a2"
    assert orders.with_last_twice(chain).expression() == "((a2+a1)+a0)+a2"
    for change in (orders.without_last, orders.with_last_twice):
        assert change(halving) != halving
        assert change(orders.halving(0)) == orders.halving(0)
