"""Proofs over a whole domain: every value of one argument, on given sizes."""

from __future__ import annotations

import math
from dataclasses import replace

from exactness.catalogue import Entry
from exactness.checks.base import Check, Context
from exactness.checks.bitwise import reproduction, runs
from exactness.checks.outcome import Evidence
from exactness.claim import Exhaustive
from exactness.formats import format_named
from exactness.inputs import Example, TensorDraw
from exactness.inputs.grids import domain


class ExhaustiveCheck(Check):
    """Kernel and reference agree on all values of an argument: proved, not only passed."""

    kind = "exhaustive"

    def __init__(self, entry: Entry, exhaustive: Exhaustive) -> None:
        sizes = "-".join(f"{name}={value}" for name, value in exhaustive.sizes.items())
        super().__init__(entry, f"every-{exhaustive.argument}-{sizes}")
        self.exhaustive = exhaustive

    def gather(self, context: Context, evidence: Evidence) -> None:
        """One example that goes through the domain, once for each held second argument."""
        if not runs(self, context, evidence):
            return
        example = self.example()
        count = math.prod(example.tensors[self.exhaustive.argument].shape)
        size = self._domain(example)
        if count % size:
            evidence.problem(
                f"{self.exhaustive.argument} has {count:,} elements; a multiple of its "
                f"{size:,} patterns is needed to go through all of them"
            )
            return
        context.compare_kernel(evidence, self.claim, example)
        times = f", times {count // size} of {', '.join(self._held())}" if self._held() else ""
        evidence.proof = f"all {size:,} values of {self.exhaustive.argument}{times}"
        if evidence.failed:
            evidence.reproduction = reproduction(self, example)

    def example(self) -> Example:
        """The arguments: the grid, and the others held."""
        plain = self.claim.inputs.example(self.node_id, **self.exhaustive.sizes)
        grids = {self.exhaustive.argument: "every_pattern"}
        grids |= dict.fromkeys(self._held(), "held_pattern")
        tensors = {
            name: replace(draw, family=grids[name]) if isinstance(draw, TensorDraw) else draw
            for name, draw in plain.tensors.items()
        }
        return Example(tensors, plain.parameters)

    def _held(self) -> list[str]:
        return [name for name in self.claim.inputs.tensors if name != self.exhaustive.argument]

    def _domain(self, example: Example) -> int:
        return domain(format_named(example.tensors[self.exhaustive.argument].format))
