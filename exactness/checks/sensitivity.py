"""Would we have noticed? Judge the mutants of a reference on the inputs that the checks use."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from exactness.arithmetic import Hopper
from exactness.arithmetic.base import Arithmetic
from exactness.arithmetic.mutants import Mutant, Mutated
from exactness.arithmetic.value import Value
from exactness.bits import Bits
from exactness.inputs import Example

CONFIDENCE = 0.999
"""Probability with which the stated number of runs would notice a mutant."""

OF_THE_KERNEL = "kernel: "
"""Before the name of a fault of the compiled kernel, where a claim lists it as equivalent."""

Outputs = list[tuple[np.ndarray, np.ndarray]]
"""For each output its values, and its values before the last rounding."""


class Fate(enum.Enum):
    """What became of a mutant."""

    KILLED = "killed"
    PROVED_EQUAL = "proved equal"
    EQUIVALENT = "equivalent"
    """Listed by the claim with a reason whose check passed."""
    NEVER_DIFFERED = "never differed"
    """A fault of the compiled kernel whose instruction gave the same result in every execution."""
    SURVIVED = "survived"


@dataclass(frozen=True)
class Judgement:
    """What became of one mutant.

    Attributes:
        mutant: its name.
        fate: what became of it.
        by: the case or example that killed it first.
        before_last_rounding: whether only the unrounded outputs show it.
        differing: elements that differ, of `compared`.
        compared: elements compared.
        examples: cases and examples on which it was tried, `telling` of which show it.
        telling: examples that show it.
        runs: default-sized runs after which it is noticed with probability `CONFIDENCE`; 1 for a
            mutant that a fixed case kills; None if it was never seen.
        reason: why it is equal.
        witness: the drawn example that killed it; empty where a fixed case does.
    """

    mutant: str
    fate: Fate
    by: str = ""
    before_last_rounding: bool = False
    differing: int = 0
    compared: int = 0
    examples: int = 0
    telling: int = 0
    runs: int | None = None
    reason: str = ""
    witness: str = ""


@dataclass(frozen=True)
class Trial:
    """One set of arguments on which mutants are tried, with the reference's own outputs."""

    label: str
    arguments: Mapping[str, Any]
    program: Callable[..., Any]
    example: Example | None = None

    @functools.cached_property
    def expected(self) -> Outputs:
        """What the reference gives."""
        return _outputs(Hopper(), self.program, self.arguments)


@dataclass
class Count:
    """Counts over trials."""

    differing: int = 0
    compared: int = 0
    examples: int = 0
    telling: int = 0
    first: Trial | None = None
    unrounded_only: bool = True

    def add(self, trial: Trial, rounded: int, unrounded: int, compared: int) -> None:
        """Count one trial."""
        self.examples += 1
        self.compared += compared
        self.differing += rounded or unrounded
        if rounded or unrounded:
            self.telling += 1
            if self.first is None or (self.unrounded_only and rounded):
                self.first = trial
            self.unrounded_only = self.unrounded_only and not rounded

    def include(self, other: Count) -> None:
        """Add the counts of further trials."""
        self.examples += other.examples
        self.compared += other.compared
        self.differing += other.differing
        self.telling += other.telling
        if self.first is None:
            self.first, self.unrounded_only = other.first, other.unrounded_only


def try_mutant(mutant: Mutant, trials: Iterable[Trial], *, unrounded: bool) -> Count:
    """Run a mutant on trials and count where it differs from the original.

    Args:
        mutant: the mutant.
        trials: where to try it.
        unrounded: whether outputs are also compared before their last rounding.
    """
    count = Count()
    for trial in trials:
        actual = _outputs(Mutated(mutant), trial.program, trial.arguments)
        pairs = list(zip(actual, trial.expected, strict=True))
        rounded = sum(_differing(a[0], e[0]) for a, e in pairs)
        wide = sum(_differing(a[1], e[1]) for a, e in pairs) if unrounded else 0
        count.add(trial, rounded, wide, sum(e[0].size for _, e in pairs))
    return count


def runs_needed(count: Count, examples_a_run: int) -> int | None:
    """Default-sized runs after which a mutant is seen with probability `CONFIDENCE`."""
    if not count.telling:
        return None
    share = count.telling / count.examples
    if share == 1:
        return 1
    missed = math.log(1 - CONFIDENCE) / (examples_a_run * math.log1p(-share))
    return max(1, math.ceil(missed))


def _outputs(
    arithmetic: Arithmetic, program: Callable[..., Any], arguments: Mapping[str, Any]
) -> Outputs:
    result = arithmetic.run(program, arguments)
    return list(_named(result if isinstance(result, tuple) else (result,)))


def _named(results: tuple[Any, ...]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for result in results:
        if isinstance(result, Value):
            unrounded = result.payload if result.unrounded is None else result.unrounded
            yield np.asarray(result.payload), np.asarray(unrounded)
        else:
            plain = result.values() if isinstance(result, Bits) else np.asarray(result)
            yield plain, plain


def _differing(actual: np.ndarray, expected: np.ndarray) -> int:
    """Elements that differ as bits would: the sign of zero counts, NaN equals NaN."""
    actual, expected = np.broadcast_arrays(actual, expected)
    same = actual == expected
    if actual.dtype.kind == "f":
        same &= np.signbit(actual) == np.signbit(expected)
        same |= np.isnan(actual) & np.isnan(expected)
    return int(np.sum(~same))
