"""The same program, wrong at one site.

`Survey` runs a reference and lists its sites with the mutations that make sense there; `Mutated`
runs it with one of them. A mutant hits every occurrence of its site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from exactness.arithmetic import sites
from exactness.arithmetic.base import Operation
from exactness.arithmetic.hopper import Hopper
from exactness.arithmetic.mutations import COMPARISONS, NO_ROUNDING, Mutation, mutations
from exactness.arithmetic.sites import Site
from exactness.arithmetic.value import Value
from exactness.arrays import Array
from exactness.bits import decode, is_nan, unsigned


_COMPARISON = "boundary"


@dataclass(frozen=True)
class Mutant:
    """One wrong version of a reference.

    Attributes:
        site: where it is wrong.
        mutation: how; None for a comparison off by equality.
    """

    site: Site
    mutation: Mutation | None

    @property
    def name(self) -> str:
        """`affine:add(mean) toward_zero`."""
        return f"{self.site.label} {self.mutation.name if self.mutation else _COMPARISON}"


@dataclass
class _Seen:
    """What a survey met at a site.

    Attributes:
        operation: a sample; None for a comparison.
        mutations: by name.
        constants: for each operand the numbers it had as a host constant; None if it was none.
        consumers: sites that took the result.
    """

    operation: Operation | None
    mutations: dict[str, Mutation] = field(default_factory=dict)
    constants: list[set[float | None]] = field(default_factory=list)
    consumers: set[Site] = field(default_factory=set)

    @property
    def adds_zero(self) -> bool:
        """Whether one operand of an addition is the constant 0 in every run."""
        if self.operation is None or self.operation.name not in ("add", "sub"):
            return False
        return any(numbers == {0.0} for numbers in self.constants)

    def meet(self, operation: Operation) -> None:
        """Remember mutations, and which operands are always the same constant."""
        for mutation in mutations(operation):
            self.mutations.setdefault(mutation.name, mutation)
        numbers = [_number(operand) for operand in operation.operands]
        self.constants = self.constants or [set() for _ in numbers]
        for seen, number in zip(self.constants, numbers, strict=True):
            seen.add(number)


def _number(value: Value) -> float | None:
    """The number of a host constant; None for anything else."""
    if value.origin is None or value.origin.name != "constant":
        return None
    return float(value.origin.attributes["number"])


class _Tracked(Hopper):
    """Hopper's arithmetic whose products and constants remember where they come from."""

    def perform(self, operation: Operation) -> Value:
        result = super().perform(operation)
        if operation.name in ("mul", "constant"):
            result.origin = operation
        return result


class Survey(_Tracked):
    """Runs references and collects their mutants; several runs add up."""

    name = "survey"

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[Site, _Seen] = {}
        self._site_of: dict[Operation, Site] = {}

    def perform(self, operation: Operation) -> Value:
        """As Hopper; remembers the site, and whose results it takes."""
        site = sites.current(operation.name)
        self._seen.setdefault(site, _Seen(operation)).meet(operation)
        for operand in operation.operands:
            if operand.origin in self._site_of:
                self._seen[self._site_of[operand.origin]].consumers.add(site)
        result = super().perform(operation)
        result.origin = operation
        self._site_of[operation] = site
        return result

    def perform_comparison(self, name: str, x: Value, y: Value) -> Array:
        """As Hopper; remembers the site."""
        if name in COMPARISONS:
            self._seen.setdefault(sites.current(name), _Seen(None))
        return super().perform_comparison(name, x, y)

    def mutants(self) -> list[Mutant]:
        """Every mutant of every site met, in order of the program."""
        return list(self._mutants())

    def _mutants(self) -> Iterator[Mutant]:
        for site, seen in self._seen.items():
            if seen.operation is None:
                yield Mutant(site, None)
            for mutation in seen.mutations.values():
                yield Mutant(site, mutation)

    def proved_equal(self, mutant: Mutant) -> str | None:
        """Why the mutant cannot be told from the original, or None if it was not proved.

        Where all operands of the operation but one are the same constants in every run, and that
        one has at most 16 bits, both versions are evaluated on all its values.
        """
        seen = self._seen[mutant.site]
        if mutant.mutation is None or seen.operation is None:
            return None
        if mutant.mutation.name.startswith("contract"):
            return self._contraction_is_exact(seen)
        if mutant.mutation.name == "no_rounding" and self._rounded_again(seen):
            return "the result only goes to an addition of 0, which rounds it"
        if "order" in seen.operation.attributes:
            return None
        count = _exhaustively_equal(seen, mutant.mutation)
        return f"equal on all {count:,} inputs of the operation" if count else None

    def _rounded_again(self, seen: _Seen) -> bool:
        """Whether every consumer adds 0 and rounds to the same format."""
        consumers = [self._seen[site] for site in seen.consumers]
        assert seen.operation is not None
        return bool(consumers) and all(
            other.adds_zero and other.operation and other.operation.format is seen.operation.format
            for other in consumers
        )

    def _contraction_is_exact(self, seen: _Seen) -> str | None:
        """A contraction cannot show when 0 is added, or when the product is exact anyway."""
        if seen.adds_zero:
            return "0 is added, so that product and sum round to the same"
        assert seen.operation is not None
        products = [
            self._seen[self._site_of[operand.origin]]
            for operand in seen.operation.operands
            if operand.origin is not None and operand.origin.name == "mul"
        ]
        if all(_exhaustively_equal(product, NO_ROUNDING) for product in products):
            return "the product is exact on all inputs"
        return None


def _exhaustively_equal(seen: _Seen, mutation: Mutation) -> int | None:
    """Number of inputs if one operand varies, has at most 16 bits, and no value of it differs."""
    varying = [i for i, numbers in enumerate(seen.constants) if numbers != _constant(numbers)]
    if seen.operation is None or len(varying) != 1:
        return None
    if seen.operation.operands[varying[0]].format.bits > 16:
        return None
    return _inputs_without_difference(seen.operation, varying[0], mutation)


def _constant(numbers: set[float | None]) -> set[float | None] | None:
    """The set itself if it holds one number, which is not None."""
    return numbers if len(numbers) == 1 and None not in numbers else None


def _inputs_without_difference(
    operation: Operation, index: int, mutation: Mutation
) -> int | None:
    """Number of inputs if original and mutation agree on all of them, else None."""
    arithmetic = _Tracked()
    fmt = operation.operands[index].format
    patterns = np.arange(1 << fmt.bits).astype(unsigned(fmt))
    given = decode(patterns, fmt)
    operands = list(operation.operands)
    operands[index] = Value(arithmetic, given, fmt)
    trial = replace(operation, operands=tuple(operands))
    with np.errstate(all="ignore"):
        wrong = np.broadcast_to(mutation.perform(arithmetic, trial), given.shape)
        right = np.broadcast_to(arithmetic.perform(trial).payload, given.shape)
    same = (wrong == right) & (np.signbit(wrong) == np.signbit(right))
    same |= np.isnan(wrong) & np.isnan(right)
    return int(np.sum(~is_nan(patterns, fmt))) if bool(same.all()) else None


class Mutated(_Tracked):
    """Hopper's arithmetic with one mutant at work.

    Attributes:
        hits: how often the mutant was met.
    """

    name = "mutated"

    def __init__(self, mutant: Mutant) -> None:
        super().__init__()
        self.mutant = mutant
        self.hits = 0

    def perform(self, operation: Operation) -> Value:
        """As Hopper, but wrong at the mutant's site."""
        mutation = self.mutant.mutation
        if mutation is None or not self._is_here(operation.name):
            return super().perform(operation)
        self.hits += 1
        # The mutation may itself perform the original operation: that one is left alone.
        inner = _Tracked()
        with np.errstate(all="ignore"):
            payload = mutation.perform(inner, operation)
        result = Value(self, payload, operation.format, payload)
        if operation.name in ("mul", "constant"):
            result.origin = operation
        return result

    def perform_comparison(self, name: str, x: Value, y: Value) -> Array:
        """As Hopper, but off by equality at the mutant's site."""
        if self.mutant.mutation is None and name in COMPARISONS and self._is_here(name):
            self.hits += 1
            name = COMPARISONS[name]
        return super().perform_comparison(name, x, y)

    def _is_here(self, operation: str) -> bool:
        site = self.mutant.site
        return operation == site.operation and sites.current(operation) == site


def survey(program: Callable[..., Any], runs: list[Mapping[str, Any]]) -> Survey:
    """Run a reference on several sets of arguments and collect its mutants."""
    surveyor = Survey()
    for arguments in runs:
        surveyor.run(program, arguments)
    return surveyor


