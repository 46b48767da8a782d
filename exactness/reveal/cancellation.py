"""The order of a summation from probes that cancel: FPRev, its fused nodes included.

Of a set of terms that is a subtree, the first is masked against each of the others. Terms that
meet it at the same node show the same size; each such group is a subtree (or, of a fused node,
several), and the same is done within. With n terms that takes between n − 1 probes (a sequential
sum) and n·(n − 1)/2 (the reverse).

Source: P. Xie et al., "Revealing Floating-Point Accumulation Orders in Software/Hardware
Implementations", arXiv 2411.00442v3. Added here are the checks that every size fits, and reading
in parts what a narrow result cannot count.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from exactness.reveal.errors import RevealError
from exactness.reveal.probes import Masks, Probe, Summation, counts
from exactness.reveal.tree import Tree

WIDEST = 64
"""Terms of a fused addition; the tensor cores described in arXiv 2511.10909 stay below."""


@dataclass
class _Subset:
    """Terms that are a subtree, or all operands but the first of a fused node.

    Attributes:
        terms: ascending; the first is the pivot.
        outer: the size of the node at which the pivot of the set around it meets them; 0 for all.
        sentinel: that pivot, or None.
        fused: operands found so far of the fused node that the terms are part of.
        groups: sizes at which the others meet the pivot, ascending, and who does.
    """

    terms: list[int]
    outer: int = 0
    sentinel: int | None = None
    fused: int = 1
    groups: list[tuple[int, _Subset]] = field(default_factory=list)


def reveal_by_cancellation(summation: Summation) -> Tree:
    """The tree in which a summation adds its terms.

    Args:
        summation: sums terms of either sign.

    Raises:
        RevealError: no tree explains what the probes show; the message says what was seen.
    """
    n, masks = summation.n, Masks.of(summation.format)
    if not 1 <= n <= masks.terms:
        raise RevealError(
            f"n: {n} is not accepted for {summation.format.name} terms; 1 to {masks.terms} are"
        )
    whole = _Subset(list(range(n)))
    subsets, waiting = [whole], [whole]
    while waiting:
        countable = summation.countable
        sizes = _sizes(summation, masks, countable, waiting)
        if summation.countable < countable:
            continue  # the first results were narrower than their terms: count in parts
        for subset, found in zip(waiting, sizes, strict=True):
            subset.groups = _groups(summation, masks, countable, subset, found)
        waiting = [inner for subset in waiting for _, inner in subset.groups]
        subsets += waiting
    return _assembled(n, subsets)


def _sizes(
    summation: Summation, masks: Masks, countable: int, subsets: Sequence[_Subset]
) -> list[list[int]]:
    """For each subset the size of the node at which each term meets the pivot."""
    pairs = [(subset, minus) for subset in subsets for minus in subset.terms[1:]]
    planned = [_probes(subset, minus, summation.n, countable) for subset, minus in pairs]
    counted = iter(counts(summation, masks, list(itertools.chain.from_iterable(planned))))
    sizes: dict[int, list[int]] = {id(subset): [] for subset in subsets}
    for (subset, _), probes in zip(pairs, planned, strict=True):
        kept = sum(_checked(summation, masks, probe, next(counted)) for probe in probes)
        sizes[id(subset)].append(_size(subset, summation.n, countable, kept))
    return [sizes[id(subset)] for subset in subsets]


def _probes(subset: _Subset, minus: int, n: int, countable: int) -> list[Probe]:
    """One probe with a unit everywhere, or, where those cannot be counted, several.

    Those have units within the subset only, and at its sentinel, which tells a fused node around
    the subset from the subset's own.
    """
    plus = subset.terms[0]
    places = range(n) if _fits(n, countable) else subset.terms
    units = [term for term in places if term not in (plus, minus)]
    if not _fits(n, countable) and subset.sentinel is not None:
        units.append(subset.sentinel)
    parts = range(0, max(len(units), 1), countable)
    return [Probe(plus, minus, tuple(units[at : at + countable])) for at in parts]


def _fits(n: int, countable: int) -> bool:
    return n - 2 <= countable


def _size(subset: _Subset, n: int, countable: int, kept: int) -> int:
    if _fits(n, countable):
        return n - kept
    if subset.sentinel is None:
        return len(subset.terms) - kept
    return subset.outer if kept == 0 else len(subset.terms) + 1 - kept


def _checked(summation: Summation, masks: Masks, probe: Probe, count: float) -> int:
    """The count as an integer, if it can be one.

    Raises:
        RevealError: it cannot.
    """
    if 0 <= count <= len(probe.units) and count == int(count):
        return int(count)
    raise RevealError(
        f"{summation.name} is no sum of {summation.n} terms: with {masks.mask:g} at {probe.plus}, "
        f"{-masks.mask:g} at {probe.minus} and {len(probe.units)} units of {masks.unit:g} it gives "
        f"{count * masks.unit:g}{_repeated(summation, masks, probe, count)}"
    )


def _repeated(summation: Summation, masks: Masks, probe: Probe, count: float) -> str:
    """What the same probe gives once more, if that is something else."""
    again = counts(summation, masks, [probe] * 3)
    other = [value for value in again if value != count and (value == value or count == count)]
    return f", and then {other[0] * masks.unit:g}: it is not deterministic" if other else ""


def _groups(
    summation: Summation, masks: Masks, countable: int, subset: _Subset, sizes: Sequence[int]
) -> list[tuple[int, _Subset]]:
    """Sizes, ascending, and the terms that meet the pivot in a sum of that size.

    Raises:
        RevealError: the sizes do not add up.
    """
    members: dict[int, list[int]] = {}
    for term, size in zip(subset.terms[1:], sizes, strict=True):
        members.setdefault(size, []).append(term)
    groups, below = [], 1
    for size, terms in sorted(members.items()):
        below += len(terms)
        # A fused node shows its whole size to each of its operands.
        if size != below and not (below == len(subset.terms) and size == subset.outer):
            if _sizes(summation, masks, countable, [subset])[0] != sizes:
                raise RevealError(f"{summation.name} is not deterministic: one input, two results")
            raise RevealError(_contradiction(subset.terms[0], terms, size, below))
        fused = subset.fused + 1 if size == subset.outer else 1
        if fused == WIDEST:
            raise RevealError(
                f"no order of additions: more than {WIDEST} terms of {summation.name} would be "
                "added at once; a sum from small to large terms looks so, as does a function that "
                "sums nothing, or an accumulator that cannot count so many units"
            )
        groups.append((size, _Subset(terms, size, subset.terms[0], fused)))
    return groups


def _contradiction(pivot: int, terms: Sequence[int], size: int, below: int) -> str:
    if size == 2 and len(terms) > 1:
        return (
            f"no order of additions: beside terms {pivot} and {terms[0]} no unit is lost, nor "
            f"beside {pivot} and {terms[1]}; the sum is exact or compensated, its accumulator is "
            "too wide for these terms, or its order depends on the values"
        )
    return (
        f"no tree: terms {pivot} and {terms[0]} meet in a sum of {size} terms, which should be "
        f"{below}; the order depends on the values, or the result is not deterministic"
    )


def _assembled(n: int, subsets: Sequence[_Subset]) -> Tree:
    """Nodes from the innermost subset outwards."""
    children: list[list[int]] = []
    built: dict[int, tuple[int, int]] = {}
    for subset in reversed(subsets):
        node, size = subset.terms[0], 1
        for met, inner in subset.groups:
            other, other_size = built.pop(id(inner))
            if other_size == met:
                children[other - n].append(node)
                node = other
            else:
                children.append([node, other])
                node = n + len(children) - 1
            size = met
        built[id(subset)] = (node, size)
    return _renumbered(n, children, built[id(subsets[0])][0])


def _renumbered(n: int, children: Sequence[Sequence[int]], root: int) -> Tree:
    """A fused node may have got operands that were built after it; number anew."""
    order: list[int] = []
    waiting = [root] if children else []
    for node in waiting:
        order.append(node)
        waiting += [child for child in children[node - n] if child >= n]
    names = {node: n + place for place, node in enumerate(reversed(order))}
    return Tree(
        n,
        tuple(
            tuple(names.get(child, child) for child in children[node - n])
            for node in reversed(order)
        ),
    )
