"""Arguments that kernels are tried on: a claim's cases, recorded ones, larger ones for a search."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from exactness.bits import Bits
from exactness.catalogue import Entry
from exactness.checks import planting
from exactness.checks.base import Context
from exactness.checks.bitwise import drawn_examples
from exactness.checks.compiled import Trial
from exactness.checks.golden import GoldenCheck
from exactness.formats import format_named
from exactness.inputs import Example, Tensor
from exactness.inputs.draws import Draw, TensorDraw
from exactness.inputs.patterns import FAMILIES, generator, seed_of

TRIAL_FAMILIES = ("log_spaced", "ties", "any_finite", "specials")
"""What the claim's cases are filled with; a search goes through all families."""

FAMILY_NAMES = tuple(FAMILIES)

RECORDED_ELEMENTS = 1 << 16
RECORDED_CASES = 3
"""Recorded cases that are tried: the smallest, of at most so many elements."""

_DRAWN = 5
"""Examples that stand in for the cases of a claim without any."""

SEARCH_ELEMENTS = 1 << 16
"""Elements of the arguments of one run of a search."""

OTHER_PARAMETERS = 6
"""Other choices of parameters that are tried near a trial."""


class Trials:
    """The trials of a claim, cheapest first within each family."""

    def __init__(self, entry: Entry, node_id: str, context: Context) -> None:
        self._entry, self._node_id, self._context = entry, node_id, context
        self._claim = entry.claim

    def first(self) -> Iterator[Trial]:
        """Every case of the claim once, and small recorded cases: all programs are among them."""
        yield from self._cases(TRIAL_FAMILIES[0])
        yield from self._recorded()

    def others(self) -> Iterator[Trial]:
        """The cases of the claim in further families."""
        for family in TRIAL_FAMILIES[1:]:
            yield from self._cases(family)

    def search(self, trial: Trial) -> Iterator[Trial]:
        """Without end: arguments like those of a trial, larger, from ever new seeds.

        Three of four have rows that few neighbours dominate: a fault in a partial sum is one of the
        whole sum only where the rest does not outweigh it.
        """
        for number in itertools.count(1):
            label = f"search {number}"
            seed = f"{self._node_id}/{label}/{self._context.seed}"
            if trial.like is None:
                strategy = self._claim.inputs.strategy()
                for example in drawn_examples(strategy, 1, seed_of(seed)):
                    yield self._of(label, example)
            elif number % 4:
                make = functools.partial(planting.with_dominant_blocks, trial.like(seed), seed)
                yield self._made(f"{label}, dominated rows", make)
            else:
                yield self._of(label, trial.like(seed))

    def near(self, trial: Trial, places: np.ndarray) -> Iterator[Trial]:
        """Arguments made of a trial's rows in which a fault changed something, varied.

        Once with the parameters of the trial, then with others.

        Args:
            trial: the trial.
            places: where in the grid it did, from 0 to 1, 1-D: taken as where in the batch.
        """
        batch = self._claim.batch or next(iter(self._claim.inputs.sizes))
        tensors = self._claim.inputs.tensors.items()
        batched = [name for name, tensor in tensors if tensor.dims[:1] == (batch,)]
        for number, parameters in enumerate(self._parameters(trial)):
            given = {**trial.arguments, **parameters}
            seed = f"{self._node_id}/{trial.label}/{number}/{self._context.seed}"
            make = functools.partial(planting.with_rows_like, given, batched, places, seed)
            yield self._made(f"{trial.label}, rows like those it changed", make)

    def _parameters(self, trial: Trial) -> Iterator[dict[str, Any]]:
        """Those of a trial, then some of the other choices of the claim."""
        choices = self._claim.inputs.parameters
        names = [name for name in choices if name in trial.arguments]
        own = {name: trial.arguments[name] for name in names}
        every = [
            dict(zip(names, values, strict=True))
            for values in itertools.product(*(choices[name] for name in names))
        ]
        others = [chosen for chosen in every if chosen != own]
        rng = generator(seed_of(f"{self._node_id}/{trial.label}"))
        yield own
        yield from (others[index] for index in rng.permutation(len(others))[:OTHER_PARAMETERS])

    def planted(self, trial: Trial, values: Mapping[int, np.ndarray]) -> Iterator[Trial]:
        """Arguments like a trial's, once for each float tensor with planted values.

        Args:
            trial: gives the sizes.
            values: width of a pattern, 16 or 32 bits, to patterns, 1-D. Those of 32 bits are f32,
                and are planted as far as the tensor's format holds them.
        """
        if trial.like is None:
            return
        example = trial.like(f"{self._node_id}/planted")
        for name, draw in example.tensors.items():
            if isinstance(draw, TensorDraw):
                chosen = planting.fitting(values, format_named(draw.format))
                make = functools.partial(planting.with_values, example, name, chosen)
                if chosen.size:
                    yield self._made(f"values planted in {name}", make)

    def _cases(self, family: str) -> Iterator[Trial]:
        inputs = self._claim.inputs
        trials = []
        for case in self._claim.cases:
            seed = f"{self._node_id}/{case}/{family}/{self._context.seed}"
            example = inputs.example(seed, family=family, **case)
            name = "-".join(f"{name}={value}" for name, value in case.items())
            like = functools.partial(self._like_case, case)
            trials.append((_elements(example), self._of(f"{name} {family}", example, like)))
        if not self._claim.cases:
            seed_number = seed_of(f"{self._node_id}/{family}") + self._context.seed
            for example in drawn_examples(inputs.strategy(), _DRAWN, seed_number):
                trials.append((_elements(example), self._of(f"drawn {example.label}", example)))
        for elements, trial in sorted(trials, key=lambda pair: pair[0]):
            if elements:
                yield trial

    def _recorded(self) -> Iterator[Trial]:
        """The smallest recorded cases."""
        found = []
        for case in self._context.golden.cases(tuple(self._claim.golden)):
            golden = GoldenCheck(self._entry, case)
            arguments = golden.arguments(case.load())
            size = sum(bits.patterns.size for bits in arguments.values() if isinstance(bits, Bits))
            if 0 < size <= RECORDED_ELEMENTS:
                found.append((size, golden.id, arguments))
        for _, label, arguments in sorted(found, key=lambda item: item[:2])[:RECORDED_CASES]:
            floats = all(isinstance(t, Tensor) for t in self._claim.inputs.tensors.values())
            like = functools.partial(self._like_recorded, arguments) if floats else None
            yield self._made(label, _tensors(arguments), like)

    def _of(
        self, label: str, example: Example, like: Callable[[str], Example] | None = None
    ) -> Trial:
        return self._made(label, functools.partial(example.arguments, "cpu"), like)

    def _made(
        self,
        label: str,
        make: Callable[[], Mapping[str, Any]],
        like: Callable[[str], Example] | None = None,
    ) -> Trial:
        return Trial(label, self._claim, make, self._context, like)

    def _like_case(self, case: Mapping[str, Any], seed: str) -> Example:
        """A case with more rows, filled with some family, its other parameters chosen anew."""
        rng = generator(seed_of(seed))
        inputs = self._claim.inputs
        family = FAMILY_NAMES[rng.integers(len(FAMILY_NAMES))]
        chosen = {
            name: values[rng.integers(len(values))] for name, values in inputs.parameters.items()
        }
        return inputs.example(seed, family=family, **{**chosen, **self._enlarged(case)})

    def _like_recorded(self, arguments: Mapping[str, Any], seed: str) -> Example:
        """The shapes and parameters of a recorded case, float tensors filled anew."""
        rng = generator(seed_of(seed))
        draws: dict[str, Draw] = {}
        for name, bits in arguments.items():
            if isinstance(bits, Bits):
                tensor = self._claim.inputs.tensors[name]
                assert isinstance(tensor, Tensor)
                families = tensor.families or FAMILY_NAMES
                family = families[rng.integers(len(families))]
                shape = bits.patterns.shape
                draws[name] = TensorDraw(bits.format.name, shape, family, seed_of(seed + name))
        rest = {n: value for n, value in arguments.items() if not isinstance(value, Bits)}
        return Example(draws, rest)

    def _enlarged(self, sizes: Mapping[str, Any]) -> dict[str, Any]:
        """More rows, multiples of the case's, up to the claim's limits."""
        inputs = self._claim.inputs
        leading = {
            tensor.dims[0]
            for tensor in inputs.tensors.values()
            if len(tensor.dims) > 1 and tensor.dims[0] in inputs.sizes
        }
        batch = self._claim.batch or next(iter(inputs.sizes))
        larger = dict(sizes)
        for name in dict.fromkeys((batch, *sorted(map(str, leading)))):
            elements = _elements(inputs.example("", **larger))
            most = inputs.largest(name, larger) // max(larger[name], 1)
            times = max(1, min(most, SEARCH_ELEMENTS // max(elements, 1)))
            larger[name] = larger[name] * times
        return larger


def _tensors(arguments: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
    return lambda: {
        name: value.torch("cpu") if isinstance(value, Bits) else value
        for name, value in arguments.items()
    }


def _elements(example: Example) -> int:
    return sum(math.prod(draw.shape) for draw in example.tensors.values())
