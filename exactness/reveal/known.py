"""Orders that have a name: to recognize a revealed tree, and to compare with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping

from exactness.arithmetic import orders
from exactness.reveal.errors import RevealError
from exactness.reveal.tree import Tree

_SIMPLE: Mapping[str, Callable[[int], orders.Order]] = {
    "sequential": orders.sequential,
    "reverse": orders.reverse,
    "halving": orders.halving,
    "pairwise": orders.pairwise,
}

WORDS = (*_SIMPLE, "numpy", "strided", "triton", "fused")
NAMES = f"{', '.join(WORDS[:5])}, strided:SLOTS, triton:SIZE,LANES,WARPS, fused:TERMS"


def named(name: str, n: int) -> Tree:
    """The tree called `name` over `n` terms.

    Args:
        name: one of `NAMES`; `strided:4` sums every fourth term in order and halves the four
            sums, `fused:16` is a chain of tensor-core steps of 16 terms.
        n: number of terms.

    Raises:
        RevealError: no such order.
    """
    word, _, numbers = name.partition(":")
    try:
        given = [int(number) for number in numbers.split(",")] if numbers else []
    except ValueError:
        given = [0]
    if word in _SIMPLE and not numbers:
        return Tree.of_order(_SIMPLE[word](n))
    if word == "numpy" and not numbers:
        return numpy_pairwise(n)
    if min(given, default=0) > 0:
        if word == "strided" and len(given) == 1:
            return strided(n, given[0])
        if word == "fused" and len(given) == 1 and given[0] > 1:
            return fused(n, given[0])
        if word == "triton" and len(given) == 3 and all(k & (k - 1) == 0 for k in given):
            return Tree.of_order(orders.triton_layout(n, *given))
    raise RevealError(f"order {name!r} is unknown; known are {NAMES}")


def strided(n: int, slots: int) -> Tree:
    """Slot t sums terms t, t + slots … in order; then the slots are halved."""
    return Tree.of_order(orders.strided(n, slots).then(orders.halving(slots)))


def fused(n: int, terms: int) -> Tree:
    """A chain of fused additions, each of `terms` terms and the sum of those before.

    A last step may have fewer. Tensor cores add in this way (arXiv 2511.10909).
    """
    children: list[tuple[int, ...]] = []
    for first in range(0, n, terms):
        step = tuple(range(first, min(first + terms, n)))
        before = (n + len(children) - 1,) if first else ()
        if len(before + step) > 1:
            children.append(before + step)
    return Tree(n, tuple(children))


def numpy_pairwise(n: int) -> Tree:
    """The order of `numpy.sum` over a contiguous row of floats.

    Up to 7 terms in order; up to 128 in eight sums, every eighth term each, that are joined in
    pairs, and the last n mod 8 terms in order; longer rows are split at a multiple of 8.
    Source: numpy 2.4, `numpy/_core/src/umath/loops_utils.h.src`, `pairwise_sum`.
    """
    children: list[tuple[int, ...]] = []

    def add(left: int, right: int) -> int:
        children.append((left, right))
        return n + len(children) - 1

    def block(first: int, count: int) -> int:
        if count < 8:
            return functools.reduce(add, range(first, first + count))
        if count > 128:
            half = count // 2 - count // 2 % 8
            return add(block(first, half), block(first + half, count - half))
        whole = count - count % 8
        sums = [functools.reduce(add, range(first + k, first + whole, 8)) for k in range(8)]
        while len(sums) > 1:
            sums = [add(*pair) for pair in zip(sums[::2], sums[1::2], strict=True)]
        return functools.reduce(add, range(first + whole, first + count), sums[0])

    block(0, n)
    return Tree(n, tuple(children))


def recognized(tree: Tree) -> list[str]:
    """The names of the orders that give this tree, plainest first."""
    return [name for name in _candidates(tree) if named(name, tree.n) == tree]


def _candidates(tree: Tree) -> Iterator[str]:
    """Names worth trying; a strided or layout order shows its distances in the first sum."""
    if tree.widest > 2:
        yield f"fused:{max(len(operands) for operands in tree.children if max(operands) < tree.n)}"
        return
    yield from (*_SIMPLE, "numpy")
    slots = 2
    while slots < tree.n:
        yield f"strided:{slots}"
        slots *= 2
    for warps in (1, 2, 4, 8, 16):
        for size in (1, 2, 4, 8, 16):
            for lanes in (32,) if warps * size > 1 else (2, 4, 8, 16, 32):
                if size * lanes * warps <= orders.next_power_of_two(tree.n):
                    yield f"triton:{size},{lanes},{warps}"
