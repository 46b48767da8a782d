"""Where two trees part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from exactness.reveal.tree import Tree


@dataclass(frozen=True)
class Parting:
    """The first difference between two trees, from the sum downwards.

    Attributes:
        terms: the terms that both trees sum in one subtree, but from other operands.
        actual: the terms of each operand in the one tree.
        expected: the same in the other.
        common: partial sums that both trees make.
        additions: partial sums of the one tree, the whole sum included.
    """

    terms: tuple[int, ...]
    actual: tuple[tuple[int, ...], ...]
    expected: tuple[tuple[int, ...], ...]
    common: int
    additions: int


def parting(actual: Tree, expected: Tree) -> Parting | None:
    """Where `actual` parts from `expected`, or None if they are the same tree.

    Raises:
        ValueError: the trees have different numbers of terms.
    """
    if actual.n != expected.n:
        raise ValueError(f"trees of {actual.n} and of {expected.n} terms cannot be compared")
    ours, theirs = _sets(actual), _sets(expected)
    place = {terms: node for node, terms in enumerate(theirs)}
    shared = sum(terms in place for terms in ours[actual.n :])
    for node in reversed(range(actual.n, actual.root + 1)):
        if ours[node] not in place:
            continue
        other = place[ours[node]]
        mine = {ours[child] for child in actual.operands(node)}
        if mine != {theirs[child] for child in expected.operands(other)}:
            return Parting(
                tuple(actual.leaves(node)),
                _operands(actual, node),
                _operands(expected, other),
                shared,
                len(actual.children),
            )
    return None


def _sets(tree: Tree) -> list[int]:
    """The terms below every node, as bits of an integer."""
    sets = [1 << term for term in range(tree.n)]
    for operands in tree.children:
        sets.append(sum(sets[child] for child in operands))
    return sets


def _operands(tree: Tree, node: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(tree.leaves(child)) for child in tree.operands(node))


def terms_text(terms: Iterable[int], element: str = "a") -> str:
    """Terms in words, progressions abbreviated: `a0, a1, a8 … a64 by 8`."""
    left, parts = list(terms), []
    while left:
        run = _progression(left)
        if run < 4:
            parts.append(f"{element}{left.pop(0)}")
            continue
        step = left[1] - left[0]
        by = "" if step == 1 else f" by {step}"
        parts.append(f"{element}{left[0]} … {element}{left[run - 1]}{by}")
        del left[:run]
    return ", ".join(parts)


def _progression(terms: list[int]) -> int:
    """How many of the first terms have the distance of the first two."""
    run = 2
    while run < len(terms) and terms[run] - terms[run - 1] == terms[1] - terms[0]:
        run += 1
    return min(run, len(terms))


def parting_text(found: Parting, actual: str, expected: str) -> str:
    """The difference in words, three lines.

    Args:
        found: the difference.
        actual: name of the one tree.
        expected: name of the other.
    """
    lines = [
        f"they part at the sum of {terms_text(found.terms)} "
        f"({found.common} of {found.additions} partial sums are the same):"
    ]
    for name, operands in ((actual, found.actual), (expected, found.expected)):
        sums = " + ".join(f"({terms_text(operand)})" for operand in operands)
        lines.append(f"  {name}: {sums}")
    return "\n".join(lines)
