"""Trees of sums as a probe sees them: unordered, with fused nodes of any number of operands.

An `Order` is a program of binary additions. What a probe reveals is less and more: it cannot see
which operand stands left, nor additions of zero, but it sees the fused additions of tensor cores,
which round several terms at once.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exactness.arithmetic.orders import Order, from_nested


@dataclass(frozen=True, eq=False)
class Tree:
    """One sum of `n` terms.

    Attributes:
        n: number of terms; nodes 0 … n−1 are the terms.
        children: the operands of nodes n, n + 1 …, each a node that comes before; the last node
            is the sum. Empty for a single term.
    """

    n: int
    children: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        """Refuse what is no tree over all terms.

        Raises:
            ValueError: a term or a node is used twice, never, or before it exists.
        """
        used = [child for operands in self.children for child in operands]
        nodes = self.n + len(self.children)
        if sorted(used) != list(range(nodes - 1)):
            raise ValueError(f"tree of {self.n} terms: every node but the last is used once")
        for node, operands in enumerate(self.children, self.n):
            if len(operands) < 2 or max(operands) >= node:
                raise ValueError(f"tree of {self.n} terms: operands {operands} of node {node}")

    @property
    def root(self) -> int:
        """The node of the whole sum."""
        return self.n + len(self.children) - 1

    @property
    def widest(self) -> int:
        """The largest number of operands of a node; 2 where all additions are binary."""
        return max(map(len, self.children), default=2)

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of terms below every node."""
        sizes = [1] * self.n
        for operands in self.children:
            sizes.append(sum(sizes[child] for child in operands))
        return tuple(sizes)

    @functools.cached_property
    def firsts(self) -> tuple[int, ...]:
        """The smallest term below every node."""
        firsts = list(range(self.n))
        for operands in self.children:
            firsts.append(min(firsts[child] for child in operands))
        return tuple(firsts)

    @functools.cached_property
    def depth(self) -> int:
        """Additions that the deepest term goes through."""
        depths = [0] * self.n
        for operands in self.children:
            depths.append(1 + max(depths[child] for child in operands))
        return depths[-1]

    def operands(self, node: int) -> tuple[int, ...]:
        """The operands of a node, by their smallest term; none for a term."""
        if node < self.n:
            return ()
        return tuple(sorted(self.children[node - self.n], key=self.firsts.__getitem__))

    def leaves(self, node: int) -> list[int]:
        """The terms below a node, ascending."""
        found, waiting = [], [node]
        while waiting:
            node = waiting.pop()
            if node < self.n:
                found.append(node)
            else:
                waiting += self.children[node - self.n]
        return sorted(found)

    @functools.cached_property
    def _canonical(self) -> tuple[tuple[int, ...], ...]:
        """Operands of the inner nodes in an order that only the tree decides."""
        order = sorted(
            range(self.n, self.root + 1), key=lambda node: (self.sizes[node], self.firsts[node])
        )
        renamed = {node: place for place, node in enumerate([*range(self.n), *order])}
        return tuple(
            tuple(sorted(renamed[child] for child in self.children[node - self.n]))
            for node in order
        )

    def __eq__(self, other: object) -> bool:
        """Whether both are the same tree, whatever the order of operands."""
        if not isinstance(other, Tree):
            return NotImplemented
        if (self.n, self.depth, len(self.children)) != (other.n, other.depth, len(other.children)):
            return False
        return self._canonical == other._canonical

    def __hash__(self) -> int:
        """Hash of the tree."""
        return hash((self.n, self._canonical))

    def nested(self) -> Any:
        """The tree as nested lists of terms, operands by their smallest term."""
        built: list[Any] = list(range(self.n))
        for node in range(self.n, self.root + 1):
            built.append([built[child] for child in self.operands(node)])
        return built[-1]

    def order(self, name: str = "revealed") -> Order:
        """The tree as an `Order`, to sum with.

        Raises:
            ValueError: a node has more than two operands; no binary additions round as it does.
        """
        if self.widest > 2:
            raise ValueError(f"a fused addition of {self.widest} terms is no order of additions")
        return from_nested(self.nested(), self.n, name)

    @classmethod
    def of_order(cls, order: Order) -> Tree:
        """The tree of an order with one result, additions of the identity left out.

        Raises:
            ValueError: the order leaves several results or skips a term.
        """
        if order.results.size != 1:
            raise ValueError(f"order {order.name} leaves {order.results.size} results, not one")
        names: list[int | None] = [*range(order.n), None]
        children: list[tuple[int, ...]] = []
        for left, right in order.levels:
            for a, b in zip(left.tolist(), right.tolist(), strict=True):
                x, y = names[a], names[b]
                if x is None or y is None:
                    names.append(y if x is None else x)
                else:
                    children.append((x, y))
                    names.append(order.n + len(children) - 1)
        return cls(order.n, tuple(children))

    @classmethod
    def from_nested(cls, nested: Any) -> Tree:
        """The tree of nested sequences of terms, as `nested` gives it.

        Raises:
            ValueError: terms are not 0 … n−1, or a node has fewer than two operands.
        """
        operands: list[list[Any]] = []
        terms: list[int] = []
        # Breadth first, so that a chain as deep as it is long does not recurse.
        waiting: list[tuple[Any, list[Any] | None]] = [(nested, None)]
        for node, parent in waiting:
            name: Any
            if isinstance(node, (int, np.integer)) and not isinstance(node, bool):
                name = int(node)
                terms.append(name)
            elif isinstance(node, Sequence) and not isinstance(node, str):
                operands.append([])
                name = (len(operands) - 1,)
                waiting += [(child, operands[-1]) for child in node]
            else:
                raise ValueError(f"tree: {node!r:.60} is neither a term nor a list of operands")
            if parent is not None:
                parent.append(name)
        n, last = len(terms), len(operands) - 1
        numbered = [
            tuple(n + last - child[0] if isinstance(child, tuple) else child for child in each)
            for each in reversed(operands)
        ]
        return cls(n, tuple(numbered))
