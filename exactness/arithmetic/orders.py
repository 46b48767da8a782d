"""Summation orders as trees: build, compose, compare, draw.

An `Order` says in which order a reduction combines its elements. It is data: a list of levels,
each a batch of independent additions, from which a reference sums (vectorized), a picture is
drawn and two orders are compared. The same order serves any associative-looking operation (sum,
maximum), so its padding leaf is called the *identity*.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

Level: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Node ids of the left and the right operands of independent additions."""


@dataclass(frozen=True, eq=False)
class Order:
    """A reduction of `n` elements to `len(results)` partial results.

    Nodes are numbered: 0 … n−1 are the elements, n is the identity (+0 for a sum), and every
    level adds one node an addition, in order.

    Attributes:
        name: what to call it in a report.
        n: number of elements.
        levels: the additions; a level uses only nodes that exist before it.
        results: the nodes that remain.
    """

    name: str
    n: int
    levels: tuple[Level, ...]
    results: np.ndarray

    def __post_init__(self) -> None:
        """Refuse an addition of a node that does not exist yet."""
        nodes = self.n + 1
        for left, right in self.levels:
            if left.shape != right.shape or left.ndim != 1:
                raise ValueError(f"order {self.name}: operands of a level differ in number")
            if not _are_nodes(left, nodes) or not _are_nodes(right, nodes):
                raise ValueError(
                    f"order {self.name}: a level uses a node that comes later or is none"
                )
            nodes += left.size
        if not _are_nodes(self.results, nodes):
            raise ValueError(f"order {self.name}: a result is not a node")

    @property
    def nodes(self) -> int:
        """Number of nodes: elements, the identity and all partial results."""
        return self.n + 1 + sum(left.size for left, _ in self.levels)

    @property
    def additions(self) -> int:
        """Number of additions."""
        return self.nodes - self.n - 1

    def then(self, following: Order, name: str | None = None) -> Order:
        """This order, then `following` over its results.

        Raises:
            ValueError: `following` takes another number of elements than this one leaves.
        """
        if following.n != self.results.size:
            raise ValueError(
                f"order {following.name} takes {following.n} elements, "
                f"{self.name} leaves {self.results.size}"
            )
        renamed = np.concatenate(
            [
                self.results,
                [self.n],
                np.arange(self.nodes, self.nodes + following.additions),
            ]
        ).astype(np.int64)
        levels = tuple((renamed[left], renamed[right]) for left, right in following.levels)
        joined = name or f"{self.name}, {following.name}"
        return Order(joined, self.n, self.levels + levels, renamed[following.results])

    def __eq__(self, other: object) -> bool:
        """Whether both are the same trees up to the commutativity of an addition."""
        if not isinstance(other, Order):
            return NotImplemented
        shared: dict[tuple[int, int], int] = {}
        return self.n == other.n and _canonical(self, shared) == _canonical(other, shared)

    def __hash__(self) -> int:
        """Hash of the trees, whatever the order of the levels they were built in."""
        hashes = list(range(self.n + 1))
        for left, right in self.levels:
            for a, b in zip(left, right, strict=True):
                hashes.append(hash(tuple(sorted((hashes[a], hashes[b])))))
        return hash((self.n, *(hashes[node] for node in self.results)))

    def same_sums(self, other: Order) -> bool:
        """Whether the trees are the same once additions of the identity are left out.

        Such orders give the same sums, except that a sum of −0 alone may keep its sign.
        """
        shared: dict[tuple[int, int], int] = {}
        mine = _canonical(self, shared, without_identity=True)
        return self.n == other.n and mine == _canonical(other, shared, without_identity=True)

    def expression(self, element: str = "a") -> str:
        """The tree in parentheses, as `(a0+a2)+(a1+a3)`; several results are listed."""
        texts = [f"{element}{i}" for i in range(self.n)] + ["0"]
        for left, right in self.levels:
            texts += [f"({texts[a]}+{texts[b]})" for a, b in zip(left, right, strict=True)]
        return ", ".join(_unwrap(texts[node]) for node in self.results)

    def draw(self, element: str = "a") -> str:
        """The tree as indented text, a node a line."""
        operands = self._operands()
        lines: list[str] = []
        # A stack, not recursion: a sequential order is as deep as it is long.
        waiting = [(int(node), "", "") for node in self.results[::-1]]
        while waiting:
            node, before, below = waiting.pop()
            lines.append(before + self._label(node, element))
            if node in operands:
                left, right = operands[node]
                waiting.append((right, f"{below}└─", f"{below}  "))
                waiting.append((left, f"{below}├─", f"{below}│ "))
        return "\n".join(lines)

    def _label(self, node: int, element: str) -> str:
        if node > self.n:
            return "+"
        return "0" if node == self.n else f"{element}{node}"

    def _operands(self) -> dict[int, tuple[int, int]]:
        pairs: dict[int, tuple[int, int]] = {}
        node = self.n + 1
        for left, right in self.levels:
            for a, b in zip(left, right, strict=True):
                pairs[node] = (int(a), int(b))
                node += 1
        return pairs


def _are_nodes(ids: np.ndarray, count: int) -> bool:
    return ids.size == 0 or bool(ids.min() >= 0 and ids.max() < count)


def _unwrap(text: str) -> str:
    return text[1:-1] if text.startswith("(") else text


def _canonical(
    order: Order, shared: dict[tuple[int, int], int], *, without_identity: bool = False
) -> list[int]:
    """Ids of the result trees, equal for equal trees; `shared` numbers the inner nodes."""
    ids = list(range(order.n + 1))
    for left, right in order.levels:
        for a, b in zip(left.tolist(), right.tolist(), strict=True):
            x, y = ids[a], ids[b]
            if without_identity and order.n in (x, y):
                ids.append(x if y == order.n else y)
            else:
                pair = (x, y) if x < y else (y, x)
                ids.append(shared.setdefault(pair, order.n + 1 + len(shared)))
    return [ids[node] for node in order.results]


_kept = functools.lru_cache(maxsize=64)
"""Orders are asked for again and again with the same sizes, and building one walks its nodes."""


class _Builder:
    """Collects levels and hands out node ids."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.levels: list[Level] = []
        self._next = n + 1

    def add(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """One level; returns the new nodes."""
        self.levels.append((np.array(left, np.int64), np.array(right, np.int64)))
        new = np.arange(self._next, self._next + left.size)
        self._next += left.size
        return new

    def order(self, name: str, results: np.ndarray) -> Order:
        return Order(name, self.n, tuple(self.levels), np.asarray(results, np.int64))


def next_power_of_two(n: int) -> int:
    """The smallest power of two that is at least `n` (1 for 0)."""
    return 1 << max(n - 1, 0).bit_length()


@_kept
def sequential(n: int) -> Order:
    """Left to right: ((a0 + a1) + a2) + …."""
    return columns(np.arange(n).reshape(1, n), n, "sequential")


@_kept
def reverse(n: int) -> Order:
    """Right to left: ((a[n−1] + a[n−2]) + …) + a0."""
    return columns(np.arange(n)[::-1].reshape(1, n), n, "reverse")


def columns(members: np.ndarray, n: int, name: str) -> Order:
    """Each row of `members` summed from left to right, all rows at once.

    Args:
        members: element ids [results, terms]; −1 ends a row early. No terms give the identity.
        n: number of elements.
        name: name of the order.
    """
    builder = _Builder(n)
    if members.shape[1] == 0:
        return builder.order(name, np.full(members.shape[0], n))
    current = np.where(members[:, 0] < 0, n, members[:, 0])
    for term in members.T[1:]:
        present = term >= 0
        if present.any():
            current[present] = builder.add(current[present], term[present])
    return builder.order(name, current)


@_kept
def strided(n: int, slots: int) -> Order:
    """Slot t starts at the identity and adds elements t, t + slots, t + 2·slots … in order."""
    builder = _Builder(n)
    current = np.full(slots, n)
    for first in range(0, n, slots):
        count = min(slots, n - first)
        current[:count] = builder.add(current[:count], np.arange(first, first + count))
    return builder.order(f"strided by {slots}", current)


@_kept
def halving(n: int) -> Order:
    """`slot[t] += slot[t + s]` for s = n/2, n/4 … 1: also a butterfly, largest distance first.

    A count that is no power of two is padded with the identity.
    """
    builder = _Builder(n)
    slots = next_power_of_two(n)
    current = np.full(slots, n)
    current[:n] = np.arange(n)
    while current.size > 1:
        half = current.size // 2
        current = builder.add(current[:half], current[half:])
    return builder.order("halving", current)


@_kept
def pairwise(n: int) -> Order:
    """Adjacent pairs, then pairs of pairs …: a butterfly, smallest distance first."""
    builder = _Builder(n)
    current = np.full(next_power_of_two(n), n)
    current[:n] = np.arange(n)
    while current.size > 1:
        current = builder.add(current[::2], current[1::2])
    return builder.order("pairwise", current)


@_kept
def triton_layout(n: int, size_per_thread: int, lanes: int, warps: int) -> Order:
    """The order of Triton's `tl.sum` over one row, Triton 3.6 and 3.7 (CONTRACTS, section 4).

    Element (repeat r, warp w, lane l, vector v) of the padded row is
    r·(warps·lanes·size) + w·(lanes·size) + l·size + v. A thread adds its elements in register
    order, the lanes join in a butterfly with the largest distance first, then the warps.

    Args:
        n: elements of the row; the row is padded with the identity to a power of two.
        size_per_thread: contiguous elements a thread holds.
        lanes: lanes of a warp that share the row.
        warps: warps that share the row.
    """
    padded = next_power_of_two(n)
    tile = size_per_thread * lanes * warps
    repeats = max(padded // tile, 1)
    r, w, l, v = np.meshgrid(  # noqa: E741 - the letters of the formula
        *(np.arange(k) for k in (repeats, warps, lanes, size_per_thread)), indexing="ij"
    )
    element = r * tile + w * (lanes * size_per_thread) + l * size_per_thread + v
    members = element.transpose(1, 2, 0, 3).reshape(warps * lanes, repeats * size_per_thread)
    threads = columns(members, repeats * tile, "in registers")
    lanes_then_warps = _grouped(halving(lanes), warps).then(halving(warps))
    order = threads.then(lanes_then_warps)
    name = f"Triton layout: {size_per_thread} a thread, {lanes} lanes, {warps} warps"
    return _pad_tail(order, n, name)


def _grouped(order: Order, groups: int) -> Order:
    """The same order within each of `groups` consecutive groups of elements."""
    n = order.n * groups
    builder = _Builder(n)
    ids = np.empty((groups, order.nodes), np.int64)
    ids[:, : order.n] = np.arange(n).reshape(groups, order.n)
    ids[:, order.n] = n
    node = order.n + 1
    for left, right in order.levels:
        new = builder.add(ids[:, left].ravel(), ids[:, right].ravel())
        ids[:, node : node + left.size] = new.reshape(groups, left.size)
        node += left.size
    return builder.order(f"{order.name} in {groups} groups", ids[:, order.results].ravel())


def _pad_tail(order: Order, n: int, name: str) -> Order:
    """The order with elements n, n + 1 … replaced by the identity."""
    shift = order.n - n
    renamed = np.arange(order.nodes) - shift
    renamed[: order.n + 1] = np.minimum(np.arange(order.n + 1), n)
    levels = tuple((renamed[left], renamed[right]) for left, right in order.levels)
    return Order(name, n, levels, renamed[order.results])


def without_last(order: Order) -> Order:
    """The order with the last element left out: the identity stands in its place."""
    if order.n == 0:
        return order
    return _renamed(order, {order.n - 1: order.n}, f"{order.name}, last element dropped")


def with_last_twice(order: Order) -> Order:
    """The order, and then the last element once more."""
    if order.n == 0:
        return order
    again = (np.array([order.results[0]]), np.array([order.n - 1]))
    name = f"{order.name}, last element doubled"
    return Order(name, order.n, (*order.levels, again), np.array([order.nodes]))


def _renamed(order: Order, names: dict[int, int], name: str) -> Order:
    ids = np.arange(order.nodes)
    for old, new in names.items():
        ids[old] = new
    levels = tuple((ids[left], ids[right]) for left, right in order.levels)
    return Order(name, order.n, levels, ids[order.results])


def from_nested(tree: object, n: int, name: str = "given") -> Order:
    """An order from nested pairs of element ids, as `((0, 2), (1, 3))`.

    Raises:
        ValueError: a node has not two children, or a leaf is not an element.
    """
    builder = _Builder(n)
    built: list[np.ndarray] = []
    # A stack, not recursion: a sequential order is as deep as it is long.
    waiting: list[object] = [tree]
    while waiting:
        node = waiting.pop()
        if node is _ADD:
            right, left = built.pop(), built.pop()
            built.append(builder.add(left, right))
        elif isinstance(node, (int, np.integer)):
            if not 0 <= node < n:
                raise ValueError(f"tree: leaf {node} is not one of the {n} elements")
            built.append(np.array([node]))
        elif isinstance(node, Sequence) and not isinstance(node, str) and len(node) == 2:
            waiting += [_ADD, node[1], node[0]]
        else:
            raise ValueError(f"tree: {node!r} is neither an element nor a pair")
    return builder.order(name, built.pop())


_ADD = object()
"""On the stack of `from_nested`: add the two trees built last."""
