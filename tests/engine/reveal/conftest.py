"""Summations whose tree is known, and what FPRev would call on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from exactness.formats import Format, f32
from exactness.reveal import Summation, Tree
from exactness.rounding import round_to


class TreeSum(Summation):
    """Adds as a tree says, each addition rounded to `accumulator`; fused nodes as tensor cores."""

    plain = True

    def __init__(
        self,
        tree: Tree,
        fmt: Format = f32,
        accumulator: Format | None = None,
        result: Format | None = None,
    ) -> None:
        super().__init__()
        self.tree, self.n, self.format, self.name = tree, tree.n, fmt, "known"
        self.accumulator = accumulator or fmt
        self.result = result or self.accumulator

    def prepared(self, terms: np.ndarray) -> np.ndarray:
        return terms

    def call(self, terms: np.ndarray) -> np.ndarray:
        self.result_bits = self.result.precision
        nodes = list(self.prepared(terms).T)
        for operands in self.tree.children:
            nodes.append(self._added([nodes[child] for child in operands]))
        return self.shown(np.asarray(round_to(nodes[-1], self.result)), terms)

    def shown(self, sums: np.ndarray, terms: np.ndarray) -> np.ndarray:
        return sums

    def _added(self, operands: list[np.ndarray]) -> np.ndarray:
        if len(operands) > 2:
            return fused(np.array(operands))
        with np.errstate(over="ignore"):
            return np.asarray(round_to(operands[0] + operands[1], self.accumulator))


class Norm(TreeSum):
    """Adds squares that are rounded to the accumulator; a row over its root mean square."""

    signed = plain = False

    def prepared(self, terms: np.ndarray) -> np.ndarray:
        return np.asarray(round_to(terms * terms, self.accumulator))

    def shown(self, sums: np.ndarray, terms: np.ndarray) -> np.ndarray:
        rows = np.abs(terms) / np.sqrt(sums / self.n)[:, None]
        return np.asarray(np.max(np.where(np.isfinite(rows), rows, 0.0), axis=1))


def fused(terms: np.ndarray) -> np.ndarray:
    """Terms cut at 25 bits below the largest, added exactly (all here fit in f64)."""
    largest = np.frexp(np.max(np.abs(terms), axis=0))[1]
    return np.asarray(np.ldexp(np.trunc(np.ldexp(terms, 26 - largest)).sum(axis=0), largest - 26))


def published(tree: Tree) -> int:
    """Calls of FPRev: the first of a set against all others, then each group alone."""
    above = {child: node for node, ops in enumerate(tree.children, tree.n) for child in ops}
    paths = []
    for term in range(tree.n):
        path = [term]
        while path[-1] in above:
            path.append(above[path[-1]])
        paths.append(path)
    below = [set(path) for path in paths]

    def calls(terms: list[int]) -> int:
        pivot, groups = terms[0], {}
        for term in terms[1:]:
            met = next(node for node in paths[term] if node in below[pivot])
            groups.setdefault(met, []).append(term)
        return len(terms) - 1 + sum(map(calls, groups.values()))

    return calls(list(range(tree.n)))


@pytest.fixture(scope="session")
def tree_sum() -> type[TreeSum]:
    """A summation by a tree."""
    return TreeSum


@pytest.fixture(scope="session")
def norm() -> type[Norm]:
    """A norm whose squares are summed by a tree."""
    return Norm


@pytest.fixture(scope="session")
def fprev_calls() -> Callable[[Tree], int]:
    """The number of calls of the published algorithm."""
    return published


@pytest.fixture(scope="session")
def random_tree() -> Callable[[np.random.Generator, int, int], Tree]:
    """A random tree of n shuffled terms, with nodes of up to `widest` operands."""

    def made(rng: np.random.Generator, n: int, widest: int) -> Tree:
        nodes = rng.permutation(n).tolist()
        children: list[tuple[int, ...]] = []
        while len(nodes) > 1:
            count = int(rng.integers(2, min(widest, len(nodes)), endpoint=True))
            start = int(rng.integers(0, len(nodes) - count, endpoint=True))
            children.append(tuple(nodes[start : start + count]))
            nodes[start : start + count] = [n + len(children) - 1]
        return Tree(n, tuple(children))

    return made
