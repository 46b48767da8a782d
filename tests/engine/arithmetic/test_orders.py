"""Orders against plain loops over slots, lanes and registers, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

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


@pytest.mark.parametrize("n", [1, 7, 96, 1000])
def test_torch_sums_to_the_same_bits(n: int) -> None:
    x = sensitive(n, seed=4)
    for order in (candle_order(n), orders.triton_layout(n, 2, 32, 4), orders.sequential(n)):
        on_torch = reduce_along(torch.from_numpy(x), order, -1, lambda a, b: a + b, 0.0)
        assert np.array_equal(on_torch[..., 0].numpy(), total(order, x))
