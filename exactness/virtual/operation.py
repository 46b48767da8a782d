"""Decoded instructions.

A decoder turns an `Instruction` into an `Elementwise` (its targets are a function of its sources,
lane by lane) or an `Effect` (memory, other lanes). Both name registers by number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from exactness.virtual.instructions import Instruction
from exactness.virtual.poison import CLEAN, PoisonRule, whole
from exactness.virtual.state import Bits, State

Function: TypeAlias = Callable[..., Any]

UNSIGNED: dict[int, Any] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}
"""Register storage by width in bits; 1 is a predicate."""


@dataclass(slots=True, eq=False)
class Elementwise:
    """Targets are a function of sources, lane by lane.

    Attributes:
        instruction: what it was decoded from.
        function: source arrays to one array, or to a tuple with one a target.
        sources: register numbers.
        targets: register numbers.
        poison_rule: None where any undefined byte makes every target undefined.
        guard: register number and negation of the predicate.
        fast: the form for when every lane runs and no operand is undefined.
        kills: registers that nobody reads after this one.
        touched: sources and targets.
    """

    instruction: Instruction
    function: Function
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    poison_rule: PoisonRule | None = None
    guard: tuple[int, bool] | None = None
    fast: Callable[[list[Any]], None] | None = None
    kills: tuple[int, ...] = ()
    touched: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Build the quick form."""
        self.touched = frozenset(self.sources) | frozenset(self.targets)
        self.fast = _fast(self.function, self.sources, self.targets)

    def execute(self, state: State) -> None:
        """The general form: some lanes, or undefined values."""
        values = [state.value(index) for index in self.sources]
        results = self.function(*values)
        if len(self.targets) == 1:
            results = (results,)
        poison = self.poison(state, values)
        for target, result, undefined in zip(self.targets, results, poison, strict=True):
            state.write(target, result, undefined)

    def poison(self, state: State, values: Sequence[Bits]) -> Sequence[Bits | None]:
        """Undefined bytes of each target."""
        if not state.poison or state.poison.keys().isdisjoint(self.sources):
            return (None,) * len(self.targets)
        parts = [state.poison.get(index, CLEAN) for index in self.sources]
        rule = self.poison_rule or whole(len(self.targets))
        return rule(values, parts)


def _fast(
    function: Function, sources: tuple[int, ...], targets: tuple[int, ...]
) -> Callable[[list[Any]], None]:
    """`function` from registers to registers, without loops for the common arities."""
    if len(targets) != 1:

        def many(registers: list[Any]) -> None:
            results = function(*(registers[index] for index in sources))
            for target, result in zip(targets, results, strict=True):
                registers[target] = result

        return many
    (target,) = targets
    if len(sources) == 1:
        (a,) = sources

        def one(registers: list[Any]) -> None:
            registers[target] = function(registers[a])

        return one
    if len(sources) == 2:
        a, b = sources

        def two(registers: list[Any]) -> None:
            registers[target] = function(registers[a], registers[b])

        return two

    def general(registers: list[Any]) -> None:
        registers[target] = function(*(registers[index] for index in sources))

    return general


@dataclass(slots=True, eq=False)
class Effect:
    """An instruction that looks beyond its own lane.

    Attributes:
        instruction: what it was decoded from.
        run: does the work for the lanes of `state.mask`, writes the targets, tracks poison.
        sources: register numbers, for liveness.
        targets: register numbers.
        guard: as in `Elementwise`.
        kills: as in `Elementwise`.
        fast: a form for when every lane runs and no operand is undefined, if there is one.
        touched: sources and targets.
    """

    instruction: Instruction
    run: Callable[[State], None]
    sources: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    guard: tuple[int, bool] | None = None
    kills: tuple[int, ...] = ()
    fast: Callable[[list[Any]], None] | None = None
    touched: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Collect the registers touched."""
        self.touched = frozenset(self.sources) | frozenset(self.targets)

    def execute(self, state: State) -> None:
        """Run it."""
        self.run(state)


Operation: TypeAlias = Elementwise | Effect
