"""The legs of the A/B: the same model, its norms computed in different arithmetics."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class How(enum.Enum):
    """What computes a norm."""

    KERNEL = "kernel"
    """The claim's kernel: on a GPU, or its PTX on the virtual Hopper."""
    CHAIN = "chain"
    """The reference in Hopper's arithmetic."""
    EXACT = "exact"
    """The reference without its roundings, rounded once at the end."""
    REORDERED = "reordered"
    """The reference with the elements of a row in another order."""
    OWN = "own"
    """The model's own code."""


@dataclass(frozen=True)
class Leg:
    """One pass over the text.

    Attributes:
        key: its name in reports.
        title: what it is, in a few words.
        how: what computes the norms.
        opt_in: whether it is the claim's variant, where it has one.
    """

    key: str
    title: str
    how: How
    opt_in: bool = False


DEFAULT = Leg("default", "A: bit-identical kernel", How.KERNEL)
AGAIN = Leg("again", "A once more", How.KERNEL)
VARIANT = Leg("variant", "B: opt-in variant", How.KERNEL, opt_in=True)
CHAIN = Leg("chain", "reference, op by op", How.CHAIN)
EXACT = Leg("exact", "exact arithmetic", How.EXACT)
REORDERED = Leg("reordered", "reference, other order", How.REORDERED)
OWN = Leg("own", "the model's own norm", How.OWN)

LEGS = (DEFAULT, AGAIN, VARIANT, CHAIN, EXACT, REORDERED, OWN)
"""In the order of the passes; all others are compared with the first."""

MUST_EQUAL = (AGAIN, CHAIN)
"""What must give the first leg's logits bit for bit."""
