"""The order in which a callable adds, found from outside.

summation = target("numpy.sum", Shape(100))
tree = reveal(summation)
print(summation.calls, tree == Tree.of_order(orders.sequential(100)))
"""

from __future__ import annotations

from exactness.reveal.cancellation import reveal_by_cancellation
from exactness.reveal.errors import RevealError
from exactness.reveal.overflow import reveal_by_overflow
from exactness.reveal.parting import Parting, parting
from exactness.reveal.probes import Summation
from exactness.reveal.targets import Called, Shape, target
from exactness.reveal.tree import Tree

__all__ = [
    "Called",
    "Parting",
    "RevealError",
    "Shape",
    "Summation",
    "Tree",
    "parting",
    "reveal",
    "target",
]


def reveal(summation: Summation) -> Tree:
    """The tree in which a summation adds its terms.

    Sums, means and products are probed by cancellation, with exactly the calls of FPRev on the
    same tree, or fewer where a call takes several rows; sums of squares by overflow.

    Raises:
        RevealError: no tree explains what the probes show; the message says what was seen.
    """
    if summation.signed:
        return reveal_by_cancellation(summation)
    return reveal_by_overflow(summation)
