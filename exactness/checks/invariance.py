"""A row's bits depend on that row alone: not on its batch, place, layout or run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from exactness.bits import Bits
from exactness.catalogue import Entry
from exactness.checks.base import Check, Context
from exactness.checks.bitwise import runs
from exactness.checks.outcome import Evidence
from exactness.inputs import Example, Layout
from exactness.inputs.patterns import generator, seed_of

BATCH = 257
"""Rows of the whole batch: one more than a power of two at which implementations switch."""

ROWS_ALONE = 6
"""Rows that are also run alone in a default run."""

Select = Callable[[Any], Any]


class InvarianceCheck(Check):
    """Runs the same rows in other company and compares bits."""

    kind = "invariance"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry, "invariance")

    def gather(self, context: Context, evidence: Evidence) -> None:
        """Twice; rows alone; batches of 255 and 256; permuted; other layouts."""
        if not runs(self, context, evidence):
            return
        batched = self._batched()
        if not batched or not self.claim.cases:
            evidence.skip("invariance", f"no case, or no argument whose rows are {self._batch!r}")
            return
        sizes = {**self.claim.cases[0], self._batch: BATCH}
        example = self.claim.inputs.example(self.node_id, family="log_spaced", **sizes)
        whole = self._run(context, example, batched, None)
        again = self._run(context, example, batched, None)
        self._compare(evidence, "run again", again, whole, None)
        for name, select in self._selections(context):
            part = self._run(context, example, batched, select)
            self._compare(evidence, name, part, whole, select)
        for layout in Layout:
            other = self._laid_out(example, layout)
            if other != example:
                changed = self._run(context, other, batched, None)
                self._compare(evidence, layout.value, changed, whole, None)

    def _laid_out(self, example: Example, layout: Layout) -> Example:
        """The tensors that may lie so do, all at once."""
        tensors = self.claim.inputs.tensors
        return Example(
            {
                name: replace(draw, layout=layout) if layout in tensors[name].layouts else draw
                for name, draw in example.tensors.items()
            },
            example.parameters,
        )

    @property
    def _batch(self) -> str:
        return self.claim.batch or next(iter(self.claim.inputs.sizes))

    def _batched(self) -> list[str]:
        """The arguments whose rows are the batch's."""
        tensors = self.claim.inputs.tensors.items()
        return [name for name, tensor in tensors if tensor.dims and tensor.dims[0] == self._batch]

    def _shared_outputs(self) -> set[str]:
        """Outputs that arguments without a row of the batch become: the same in every batch."""
        batched = self._batched()
        return {output for name, output in self.claim.mutates.items() if name not in batched}

    def _selections(self, context: Context) -> Iterator[tuple[str, Select]]:
        rng = generator(seed_of(self.node_id) + context.seed)
        yield "batch of 255", _rows(slice(255))
        yield "batch of 256", _rows(slice(256))
        yield "permuted", _rows(rng.permutation(BATCH))
        alone = {0, BATCH - 1, *map(int, rng.integers(0, BATCH, ROWS_ALONE - 2))}
        for row in sorted(alone):
            yield f"row {row} alone", _rows(slice(row, row + 1))

    def _run(
        self, context: Context, example: Example, batched: list[str], select: Select | None
    ) -> Mapping[str, Bits]:
        arguments = example.arguments(context.machine.device)
        if select is not None:
            for name in batched:
                arguments[name] = select(arguments[name]).clone()
        outputs = context.machine.run(self.claim, arguments)
        return {name: Bits.of(tensor) for name, tensor in outputs.items()}

    def _compare(
        self,
        evidence: Evidence,
        name: str,
        actual: Mapping[str, Bits],
        whole: Mapping[str, Bits],
        select: Select | None,
    ) -> None:
        evidence.cases += 1
        shared = self._shared_outputs()
        for output, tensor in actual.items():
            expected = whole[output]
            if select is not None and output not in shared:
                expected = Bits(np.ascontiguousarray(select(expected.patterns)), expected.format)
            copied = Bits(tensor.patterns.copy(), tensor.format)
            evidence.compare(f"{name} = whole batch", output, name, copied, expected)


def _rows(chosen: slice | np.ndarray) -> Select:
    return lambda x: x[chosen]
