"""The order of a sum of squares: terms that cannot cancel, but can overflow together or apart.

Squares have one sign, so FPRev's masks do not exist. But near the end of the range one rounding
decides between the largest number and infinity, and a norm divided by infinity is zero. Of three
terms, A is the largest square, C falls short of what takes A to infinity by less than e, and e
alone is lost beside A. The sum overflows exactly if C and e meet before A:

    A + (C + e) = inf,    (A + C) + e and (A + e) + C are finite.

Each probe so answers, of three terms, whether a given pair meets first. That is one bit where a
cancelling probe gives a size, so the tree is built as by a quicksort, in about n·log₂ n probes
of a balanced one. Then every node of the result is confirmed by a probe of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from exactness.formats import Format
from exactness.reveal.errors import RevealError
from exactness.reveal.probes import Summation
from exactness.reveal.tree import Tree

_Triple: TypeAlias = tuple[int, int, int]
"""Terms whose squares are A, C and e."""


@dataclass(frozen=True)
class Levels:
    """Roots of the squares A, C and e of a format, which is that of the additions, too."""

    largest: float
    completing: float
    deciding: float

    @classmethod
    def of(cls, fmt: Format) -> Levels:
        """The levels for rows of `fmt`, whose squares are rounded to `fmt`, or fused.

        In units of the last place of the largest numbers, A is 2 below the end of the range,
        rounded or not, so that 3/2 are missing to overflow.

        Raises:
            RevealError: the range of the format is too narrow for these squares.
        """
        p, end = fmt.precision, fmt.max_exponent + 1
        if end < 2 * p:
            raise RevealError(
                f"squares of {fmt.name} do not overflow where they are added; "
                "norms of f64, f32 and bf16 rows are accepted"
            )
        largest = math.ldexp((1 << p) - 1, end // 2 - p)
        missing = 3 << (end - p - 1)
        place = 1 << (end - 2 * p + 1)
        root = math.isqrt(missing - 4 * place)
        root >>= (shift := max(root.bit_length() - p, 0))
        completing = root << shift
        short = missing - completing**2 + place
        return cls(largest, float(completing), 2.0 ** math.ceil((short - 1).bit_length() / 2))


@dataclass
class _Cell:
    """A place in the tree that is being built: a term, two places, or another place."""

    content: Any = None


@dataclass
class _Set:
    """Terms, the first of each subtree standing for it, to be joined into one place."""

    terms: list[int]
    cells: dict[int, _Cell]
    root: _Cell


def reveal_by_overflow(summation: Summation) -> Tree:
    """The tree in which a norm adds the squares of a row.

    Args:
        summation: norms of rows; a "sum" is zero where the squares overflowed.

    Raises:
        RevealError: no tree of binary additions explains what the probes show.
    """
    levels, n = Levels.of(summation.format), summation.n
    if n < 1:
        raise RevealError(f"n: {n} is not accepted; 1 and more are")
    root = _Cell()
    waiting = [_Set(list(range(n)), {term: _Cell(term) for term in range(n)}, root)]
    while waiting:
        waiting = _split(summation, levels, waiting)
    tree = Tree.from_nested(_nested(root))
    _confirm(summation, levels, tree)
    return tree


def _split(summation: Summation, levels: Levels, sets: Sequence[_Set]) -> list[_Set]:
    """Compare all terms of each set with its first and its middle one.

    Raises:
        RevealError: answers contradict each other.
    """
    for small in sets:
        if len(small.terms) == 1:
            small.root.content = small.cells[small.terms[0]]
    sets = [large for large in sets if len(large.terms) > 1]
    pivots = [(large.terms[0], large.terms[len(large.terms) // 2]) for large in sets]
    others = [
        [term for term in large.terms if term not in pair]
        for large, pair in zip(sets, pivots, strict=True)
    ]
    pairs = list(zip(pivots, others, strict=True))
    right = _meet_first(summation, levels, [(i, j, k) for (i, j), ks in pairs for k in ks])
    left = _meet_first(
        summation, levels, [(j, i, k) for (i, j), ks in pairs for k in ks if (i, j, k) not in right]
    )
    parts: list[_Set] = []
    wanted: list[_Triple] = []
    never: list[_Triple] = []
    for large, ((i, j), ks) in zip(sets, pairs, strict=True):
        with_j = [k for k in ks if (i, j, k) in right]
        with_i = [k for k in ks if (j, i, k) in left]
        later = [k for k in ks if (i, j, k) not in right and (j, i, k) not in left]
        # One of each is asked the other way round: a function that answers all alike is found here.
        wanted += [(k, i, j) for k in later[:1]]
        never += [(j, i, k) for k in with_j[:1]]
        inner, side = _Cell(), _Cell()
        parts += [
            _Set([i, *with_i], large.cells, inner),
            _Set([j, *with_j], large.cells, side),
            _Set([i, *later], {**_some(large, later), i: _Cell((inner, side))}, large.root),
        ]
    _check(summation, levels, wanted, never)
    return parts


def _some(large: _Set, terms: Sequence[int]) -> dict[int, _Cell]:
    return {term: large.cells[term] for term in terms}


def _meet_first(summation: Summation, levels: Levels, triples: Sequence[_Triple]) -> set[_Triple]:
    """The triples of which the second and the third term meet before the first."""
    found: set[_Triple] = set()
    block = max(summation.rows, 1 << 20 >> summation.n.bit_length())
    for start in range(0, len(triples), block):
        part = triples[start : start + block]
        terms = np.zeros((len(part), summation.n))
        rows = np.arange(len(part))
        values = (levels.largest, levels.completing, levels.deciding)
        for places, value in zip(np.array(part).T, values, strict=True):
            terms[rows, places] = value
        lost = summation.sums(terms) == 0
        found |= {triple for triple, is_lost in zip(part, lost, strict=True) if is_lost}
    return found


def _nested(root: _Cell) -> Any:
    """The cells as nested lists."""
    top: list[Any] = []
    waiting: list[tuple[_Cell, list[Any]]] = [(root, top)]
    for cell, parent in waiting:
        content = cell.content
        while isinstance(content, _Cell):
            content = content.content
        if isinstance(content, int):
            parent.append(content)
        else:
            parent.append([])
            waiting += [(part, parent[-1]) for part in content]
    return top[0]


def _confirm(summation: Summation, levels: Levels, tree: Tree) -> None:
    """Ask of every node but the last whether its operands meet before its sibling, and only they.

    Raises:
        RevealError: they do not, or others do as well.
    """
    wanted: list[_Triple] = []
    for operands in tree.children:
        for node, sibling in (operands, operands[::-1]):
            if node >= tree.n:
                first, second = tree.operands(node)
                wanted.append((tree.firsts[sibling], tree.firsts[first], tree.firsts[second]))
    never = [(first, sibling, second) for sibling, first, second in wanted]
    _check(summation, levels, wanted, never)


def _check(
    summation: Summation, levels: Levels, wanted: Sequence[_Triple], never: Sequence[_Triple]
) -> None:
    """Refuse a summation that overflows where it should not, or does not where it should."""
    found = _meet_first(summation, levels, [*wanted, *never])
    wrong = (set(wanted) - found) | (set(never) & found)
    if wrong:
        raise RevealError(
            f"{summation.name} shows no order of adding {summation.n} {summation.format.name} "
            f"squares (terms {', '.join(map(str, sorted(min(wrong))))} contradict each other): it "
            "adds in another format, scales before it adds, fuses additions, or is no norm"
        )
