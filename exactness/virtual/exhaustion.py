"""Edits of a kernel tried on all values of the one register that they depend on, or on a sample.

Where that register has 16 bits, every operation between it and the point where the edited kernel
agrees with the original again is run on all 65,536 values, which proves that the edit changes
nothing. Where it has 32 bits, a sample shows for which values the edit counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from exactness.virtual.edited import Before, EditedKernel
from exactness.virtual.instructions import Entry
from exactness.virtual.state import Bits
from exactness.virtual.tables import PATTERNS, Tables

_RANDOM = 1 << 20


def proved_without_effect(edited: Entry, before: Before) -> bool:
    """Whether an edit changes nothing for any input, because only 16 bits reach it.

    Args:
        edited: the kernel.
        before: what its edited instructions were.
    """
    kernel = EditedKernel(edited, before)
    tables = Tables(kernel, None)
    found = (tables.escaping(operation) for operation in kernel.edited_operations())
    return all(escaping is not None and not escaping for escaping in found)


@dataclass
class Effect:
    """For which values of one register an edit counts.

    Attributes:
        patterns: width of a register, 16 or 32 bits, to the patterns, 1-D, after which the kernel
            differs from the original where it stops to be a function of that register alone.
        complete: whether every edited operation is a function of one register.
    """

    patterns: dict[int, Bits] = field(default_factory=dict)
    complete: bool = True

    @property
    def is_nothing(self) -> bool:
        """Whether the edit changed nothing, for all values that were tried."""
        return self.complete and not self.patterns

    def merge(self, other: Effect) -> None:
        """Join the findings of another edited operation."""
        self.complete &= other.complete
        for width, patterns in other.patterns.items():
            known = self.patterns.get(width)
            self.patterns[width] = patterns if known is None else np.union1d(known, patterns)


class Sampler:
    """Tries edits on a sample of 32-bit values, and on all 16-bit values.

    Copies of an operation, as an unrolled loop has them, are tried once.
    """

    def __init__(self, sample: Bits) -> None:
        """Keep the f32 patterns to try, u32 [1, count]."""
        self.sample = sample
        self._known: dict[int, Effect] = {}

    def effect(self, edited: Entry, before: Before) -> Effect:
        """The effect of all edited operations of a kernel, of which `before` tells."""
        kernel = EditedKernel(edited, before)
        tables = Tables(kernel, self.sample)
        found = Effect()
        for operation in kernel.edited_operations():
            shape = tables.shape(operation)
            if shape not in self._known:
                patterns = tables.escaping(operation)
                self._known[shape] = Effect(patterns or {}, patterns is not None)
            found.merge(self._known[shape])
        return found


def f32_sample(rng: np.random.Generator) -> Bits:
    """All bf16 and f16 values, and 2^20 from 2^-12 to 2^8 in magnitude; patterns [1, count]."""
    with np.errstate(invalid="ignore"):
        halves = PATTERNS.view(np.float16).astype(np.float32).view(np.uint32)
    exponents = rng.integers(127 - 12, 127 + 8, _RANDOM, np.uint32) << np.uint32(23)
    rest = rng.integers(0, 1 << 24, _RANDOM, np.uint32)
    signs = (rest >> np.uint32(23)) << np.uint32(31)
    random = signs | exponents | (rest & np.uint32((1 << 23) - 1))
    brains = PATTERNS.astype(np.uint32) << np.uint32(16)
    return np.concatenate([brains, halves, random[None, :]], axis=1)
