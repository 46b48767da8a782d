"""Orders against plain loops over slots, lanes and registers, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exactness.arithmetic import orders
from exactness.arithmetic.ieee import reduce_along
from exactness.arithmetic.orders import Order
from exactness.formats import bf16, f16, f32
from exactness.rounding import round_to

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 96, 127, 129, 1000]


def add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x + y


def total(order: Order, x: np.ndarray) -> np.ndarray:
    return reduce_along(x, order, -1, add, 0.0)[..., 0]


def sensitive(n: int, seed: int = 0) -> np.ndarray:
    """Magnitudes over 24 binades: another order almost surely gives another f32."""
    rng = np.random.default_rng(seed + n)
    scale = np.exp2(rng.uniform(-12, 12, (20, n)))
    return (rng.standard_normal((20, n)) * scale).astype(np.float32)


def loop(elements: np.ndarray) -> np.float32:
    acc = elements[0]
    for element in elements[1:]:
        acc = acc + element
    return acc


def halving_loop(slots: list[np.float32]) -> np.float32:
    """`slot[t] += slot[t + s]` with shared memory, as a block of threads does it."""
    shared = np.array(slots, np.float32)
    s = shared.size // 2
    while s:
        for t in range(s):
            shared[t] += shared[t + s]
        s //= 2
    return shared[0]


def butterfly(lanes: np.ndarray, distances: list[int]) -> np.ndarray:
    """`x += shfl_xor(x, distance)` in every lane."""
    for distance in distances:
        lanes = lanes + lanes[np.arange(lanes.size) ^ distance]
    return lanes


def power(n: int) -> int:
    p = 1
    while p < n:
        p *= 2
    return p


def padded(x: np.ndarray, n: int) -> np.ndarray:
    return np.append(x, np.zeros(n - x.size, np.float32))


def candle(x: np.ndarray) -> np.float32:
    block = power(min(1024, x.size))
    slots = [np.float32(0)] * block
    for i, value in enumerate(x):
        slots[i % block] = slots[i % block] + value
    return halving_loop(slots)


def candle_order(n: int) -> Order:
    block = orders.next_power_of_two(min(1024, n))
    return orders.strided(n, block).then(orders.halving(block), "candle")


@pytest.mark.parametrize("n", SIZES[1:])
@pytest.mark.parametrize(
    ("order", "by_hand"),
    [
        (orders.sequential, loop),
        (orders.reverse, lambda x: loop(x[::-1])),
        (orders.halving, lambda x: halving_loop(list(padded(x, power(x.size))))),
        (
            orders.pairwise,
            lambda x: butterfly(
                padded(x, power(x.size)), [1 << k for k in range((x.size - 1).bit_length())]
            )[0],
        ),
        (candle_order, candle),
    ],
    ids=["sequential", "reverse", "halving", "pairwise", "candle"],
)
def test_an_order_sums_as_the_loop_it_stands_for(
    n: int, order: Callable[[int], Order], by_hand: Callable[[np.ndarray], np.float32]
) -> None:
    x = sensitive(n)
    expected = np.array([by_hand(row) for row in x], np.float32)
    assert np.array_equal(total(order(n), x).view(np.uint32), expected.view(np.uint32))


def triton_row(x: np.ndarray, size: int, lanes: int, warps: int) -> np.float32:
    """Registers, lanes and warps filled one element at a time (CONTRACTS, section 4)."""
    tile = size * lanes * warps
    row = padded(x, max(power(x.size), tile))
    warp_sums = []
    for warp in range(warps):
        lane_sums = []
        for lane in range(lanes):
            registers = []
            for start in range(0, row.size, tile):
                first = start + warp * lanes * size + lane * size
                registers += list(row[first : first + size])
            lane_sums.append(loop(np.array(registers)))
        distances = [lanes >> k for k in range(1, lanes.bit_length())]
        warp_sums.append(butterfly(np.array(lane_sums), distances)[0])
    distances = [warps >> k for k in range(1, warps.bit_length())]
    return butterfly(np.array(warp_sums), distances)[0]


@pytest.mark.parametrize(
    ("n", "size", "lanes", "warps"),
    [
        (2048, 8, 32, 4),
        (1536, 8, 32, 4),
        (2049, 8, 32, 4),
        (1000, 4, 32, 4),
        (256, 2, 32, 4),
        (96, 1, 32, 4),
        (5, 1, 8, 1),
        (5, 1, 32, 4),
        (1, 1, 1, 1),
        (64, 2, 4, 1),
    ],
)
def test_triton_layout_fills_registers_lanes_and_warps(
    n: int, size: int, lanes: int, warps: int
) -> None:
    x = sensitive(n, seed=1)[:6]
    order = orders.triton_layout(n, size, lanes, warps)
    expected = np.array([triton_row(row, size, lanes, warps) for row in x], np.float32)
    assert np.array_equal(total(order, x).view(np.uint32), expected.view(np.uint32))


def test_triton_layout_puts_elements_where_the_contract_says() -> None:
    """2048 bf16, 4 warps: a thread sums element r·1024 + w·256 + l·8 + v in this order."""
    order = orders.triton_layout(2048, 8, 32, 4)
    text = order.expression()
    for warp in range(4):
        for lane in range(32):
            members = [1024 * r + 256 * warp + 8 * lane + v for r in range(2) for v in range(8)]
            chain = f"a{members[0]}"
            for member in members[1:]:
                chain = f"({chain}+a{member})"
            assert chain in text
    assert order.name == "Triton layout: 8 a thread, 32 lanes, 4 warps"


def test_c21_three_orders_of_four_elements() -> None:
    """C21: from left to right 1.0, pairwise 0.0, candle's halving 2.0."""
    x = np.array([1e8, 1, -1e8, 1], np.float32)
    assert total(orders.sequential(4), x) == 1.0
    assert total(orders.pairwise(4), x) == 0.0
    assert total(orders.halving(4), x) == 2.0


def test_c27_a_narrow_accumulator_sticks() -> None:
    """C27: 4096 ones sum to 256 in bf16, to 2048 in f16, to 4096 in f32 or by a tree."""
    ones = np.ones((1, 4096), np.float32)

    def narrow(order: Order, fmt: object) -> float:
        def combine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return round_to(x + y, fmt)

        return float(reduce_along(ones, order, -1, combine, 0.0)[0, 0])

    sequential = orders.sequential(4096)
    assert [narrow(sequential, fmt) for fmt in (bf16, f16, f32)] == [256, 2048, 4096]
    assert narrow(orders.halving(4096), bf16) == 4096


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "order",
    [
        orders.sequential,
        orders.reverse,
        orders.halving,
        orders.pairwise,
        candle_order,
        lambda n: orders.triton_layout(n, 4, 32, 4),
        lambda n: orders.triton_layout(n, 1, 8, 2),
    ],
    ids=["sequential", "reverse", "halving", "pairwise", "candle", "triton", "triton small"],
)
def test_every_element_enters_once(order: Callable[[int], Order], n: int) -> None:
    """Unit vectors: the sum of row i is 1 if element i enters once."""
    made = order(n)
    assert (made.n, made.results.size) == (n, 1)
    assert made.additions == made.nodes - n - 1
    assert np.array_equal(total(made, np.eye(n, dtype=np.float32)), np.ones(n))


def test_negative_zero_survives_where_no_zero_is_added() -> None:
    """CONTRACTS, section 5: slots that start at zero turn −0 into +0; a plain chain does not."""
    x = np.array([[-0.0]] * 2, np.float32)
    assert np.signbit(total(orders.sequential(1), x)).all()
    assert not np.signbit(total(candle_order(1), x)).any()


EXPRESSIONS = [
    (orders.sequential(4), "((a0+a1)+a2)+a3"),
    (orders.reverse(3), "(a2+a1)+a0"),
    (orders.halving(4), "(a0+a2)+(a1+a3)"),
    (orders.halving(3), "(a0+a2)+(a1+0)"),
    (orders.pairwise(4), "(a0+a1)+(a2+a3)"),
    (orders.strided(5, 2), "((0+a0)+a2)+a4, (0+a1)+a3"),
    (orders.strided(1, 2), "0+a0, 0"),
    (candle_order(4), "((0+a0)+(0+a2))+((0+a1)+(0+a3))"),
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
    other = orders.from_nested(data.draw(nested_trees(n)), n)
    # Over 20 rows of 24 binades the bits tell two different trees apart.
    assert (other == order) == np.array_equal(total(other, x), expected)


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


@pytest.mark.parametrize("n", [1, 7, 96, 1000])
def test_torch_sums_to_the_same_bits(n: int) -> None:
    x = sensitive(n, seed=4)
    for order in (candle_order(n), orders.triton_layout(n, 2, 32, 4), orders.sequential(n)):
        on_torch = reduce_along(torch.from_numpy(x), order, -1, lambda a, b: a + b, 0.0)
        assert np.array_equal(on_torch[..., 0].numpy(), total(order, x))
