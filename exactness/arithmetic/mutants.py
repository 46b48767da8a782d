"""The same program, wrong at one site.

`Survey` runs a reference and lists its sites with the mutations that make sense there; `Mutated`
runs it with one of them. A mutant hits every occurrence of its site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from exactness.arithmetic import sites
from exactness.arithmetic.base import Operation
from exactness.arithmetic.hopper import Hopper
from exactness.arithmetic.integers import Word, WordOperation
from exactness.arithmetic.mutations import COMPARISONS, ZERO_SIGN_LOST, Mutation, mutations
from exactness.arithmetic.sites import Site
from exactness.arithmetic.value import PLAIN, Value
from exactness.arithmetic.word_mutations import WordMutation, word_mutations
from exactness.arrays import Array

_COMPARISON = "boundary"


@dataclass(frozen=True)
class Mutant:
    """One wrong version of a reference.

    Attributes:
        site: where it is wrong.
        mutation: how; None for a comparison off by equality.
    """

    site: Site
    mutation: Mutation | WordMutation | None

    @property
    def name(self) -> str:
        """`affine:add(mean) toward_zero`."""
        return f"{self.site.label} {self.mutation.name if self.mutation else _COMPARISON}"


@dataclass
class Seen:
    """What a survey met at a site.

    Attributes:
        operation: a sample; None for a comparison.
        mutations: by name.
        constants: for each operand the numbers it had as a host constant; None if it was none.
        consumers: the operations that took the result, by site; None stands for an output or a
            comparison.
    """

    operation: Operation | WordOperation | None
    mutations: dict[str, Mutation | WordMutation] = field(default_factory=dict)
    constants: list[set[float | None]] = field(default_factory=list)
    consumers: set[Site | None] = field(default_factory=set)

    def meet(self, found: Iterable[Mutation | WordMutation], numbers: list[float | None]) -> None:
        """Remember mutations, and which operands are always the same constant."""
        for mutation in found:
            self.mutations.setdefault(mutation.name, mutation)
        self.constants = self.constants or [set() for _ in numbers]
        for seen, number in zip(self.constants, numbers, strict=True):
            seen.add(number)


def source_of(value: Value) -> Operation | None:
    """The operation that computed a value, seen through indexing and reshapes."""
    origin = value.origin
    while origin is not None and origin.name == PLAIN:
        origin = origin.operands[0].origin
    return origin


def number_of(value: Value) -> float | None:
    """The number of a host constant; None for anything else."""
    source = source_of(value)
    if source is None or source.name != "constant":
        return None
    return float(source.attributes["number"])


class Tracked(Hopper):
    """Hopper's arithmetic whose products and constants remember where they come from."""

    def perform(self, operation: Operation) -> Value:
        """As Hopper."""
        result = super().perform(operation)
        if operation.name in ("mul", "constant"):
            result.origin = operation
        return result


class Survey(Tracked):
    """Runs references and collects their mutants; several runs add up.

    Attributes:
        seen: what was met, by site, in order of the program.
    """

    name = "survey"

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[Site, Seen] = {}
        self._site_of: dict[Operation | WordOperation, Site] = {}

    def run(self, program: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """As Hopper; remembers what the outputs are made of."""
        result = super().run(program, arguments)
        for value in result if isinstance(result, tuple) else (result,):
            if isinstance(value, Value):
                self._consume(value, None)
                self._note_negative_zeros(value)
        return result

    def _note_negative_zeros(self, output: Value) -> None:
        site = self.site_of(output)
        if site is not None and bool(((output.payload == 0) & np.signbit(output.payload)).any()):
            self.seen[site].mutations.setdefault(ZERO_SIGN_LOST.name, ZERO_SIGN_LOST)

    def perform(self, operation: Operation) -> Value:
        """As Hopper; remembers the site, and whose results it takes."""
        site = sites.current(operation.name)
        seen = self.seen.setdefault(site, Seen(operation))
        numbers = [number_of(operand) for operand in operation.operands]
        seen.meet(mutations(operation, seen.mutations), numbers)
        for operand in operation.operands:
            self._consume(operand, site)
        result = super().perform(operation)
        result.origin = operation
        self._site_of[operation] = site
        return result

    def perform_words(self, operation: WordOperation) -> tuple[Array, ...]:
        """As Hopper; remembers the site, and whose results it takes."""
        site = sites.current(operation.name)
        seen = self.seen.setdefault(site, Seen(operation))
        seen.meet(word_mutations(operation), [operand.number for operand in operation.operands])
        for operand in operation.operands:
            self._consume(operand, site)
        self._site_of[operation] = site
        return super().perform_words(operation)

    def leave(self, word: Word) -> Array:
        """As Hopper; what becomes of a plain array is not known."""
        self._consume(word, None)
        return super().leave(word)

    def perform_comparison(self, name: str, x: Value | Word, y: Value | Word) -> Array:
        """As Hopper; remembers the site."""
        self._consume(x, None)
        self._consume(y, None)
        if name in COMPARISONS:
            self.seen.setdefault(sites.current(name), Seen(None))
        return super().perform_comparison(name, x, y)

    def site_of(self, value: Value | Word) -> Site | None:
        """Where a value or a word was computed; None for an input."""
        source = value.origin if isinstance(value, Word) else source_of(value)
        return None if source is None else self._site_of.get(source)

    def _consume(self, value: Value | Word, consumer: Site | None) -> None:
        site = self.site_of(value)
        if site is not None:
            self.seen[site].consumers.add(consumer)

    def mutants(self) -> list[Mutant]:
        """Every mutant of every site met, in order of the program."""
        return list(self._mutants())

    def _mutants(self) -> Iterator[Mutant]:
        for site, seen in self.seen.items():
            if seen.operation is None:
                yield Mutant(site, None)
            for mutation in seen.mutations.values():
                yield Mutant(site, mutation)


class Mutated(Tracked):
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
        if not isinstance(mutation, Mutation) or not self._is_here(operation.name):
            return super().perform(operation)
        self.hits += 1
        # The mutation may itself perform the original operation: that one is left alone.
        inner = Tracked()
        with np.errstate(all="ignore"):
            payload = mutation.perform(inner, operation)
        result = Value(self, payload, operation.format, payload)
        if operation.name in ("mul", "constant"):
            result.origin = operation
        return result

    def perform_words(self, operation: WordOperation) -> tuple[Array, ...]:
        """As Hopper, but wrong at the mutant's site."""
        mutation = self.mutant.mutation
        if not isinstance(mutation, WordMutation) or not self._is_here(operation.name):
            return super().perform_words(operation)
        self.hits += 1
        return mutation.perform(operation)

    def outside(self, index: Array, mask: Array, rows: int) -> tuple[Array, Array]:
        """What a wrong program reads outside of a table: some other row of it."""
        return (index % rows, mask) if rows else (index, mask & False)

    def perform_comparison(self, name: str, x: Value | Word, y: Value | Word) -> Array:
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
