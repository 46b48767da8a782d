"""Deliberately wrong outputs and inputs: each must be noticed, at its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from exactness import bits
from exactness.bits import Bits, decode, ordered_keys, unsigned
from exactness.catalogue import Entry
from exactness.checks.base import Check, Context
from exactness.checks.bitwise import runs
from exactness.checks.outcome import Evidence
from exactness.compare import BitDiff, Verdict, compare
from exactness.formats import Format, Integer, f16, f32
from exactness.inputs.patterns import generator, seed_of
from exactness.machines import poisoned_memory


@dataclass(frozen=True)
class Control:
    """One wrong tensor beside the right one, and how a comparison has to report it.

    Attributes:
        name: what is wrong.
        actual: the wrong tensor.
        expected: the right one.
        noticed: whether a comparison reports it rightly.
    """

    name: str
    actual: Bits
    expected: Bits
    noticed: Callable[[BitDiff], bool]


class ControlsCheck(Check):
    """The un-mutated outputs are equal; every wrong version of them is reported as what it is."""

    kind = "controls"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry, "controls")

    def gather(self, context: Context, evidence: Evidence) -> None:
        """Plant faults into the outputs and inputs of the claim's first case."""
        if not runs(self, context, evidence):
            return
        if not self.claim.cases:
            evidence.skip("controls", "the claim has no cases")
            return
        example = self.claim.inputs.example(self.node_id, **self.claim.cases[0])
        expected = context.reference(self.claim, example.arguments("cpu")).outputs
        arguments = example.arguments(context.machine.device)
        actual = context.machine.run(self.claim, arguments)
        rng = generator(seed_of(self.node_id) + context.seed)
        for name, tensor in actual.items():
            evidence.compare("output = reference", name, example.label, tensor, expected[name])
            right = Bits.of(tensor)
            self._try(evidence, name, controls(_owned(right), rng))
        for name, draw in example.tensors.items():
            right = _owned(Bits.of(draw.tensor("cpu")))
            if right.patterns.size:
                self._try(evidence, f"input {name}", _one_step(right, "modified", (0,), 0))
        self._try_poison(evidence)

    def _try(self, evidence: Evidence, tensor: str, planted: Iterator[Control]) -> None:
        for control in planted:
            diff = compare(control.actual, control.expected)
            evidence.cases += 1
            if diff.verdict is not Verdict.DIFFERENT or not control.noticed(diff):
                evidence.problem(f"control not noticed: {tensor}, {control.name}")

    def _try_poison(self, evidence: Evidence) -> None:
        """Memory that a kernel is given without its writing it holds no plausible number."""
        import torch

        with poisoned_memory():
            fresh = [
                torch.empty(3),
                torch.empty_like(torch.zeros(3)),
                torch.zeros(1).new_empty(3),
            ]
        evidence.cases += 1
        if not all(bool(torch.isnan(tensor).all()) for tensor in fresh):
            evidence.problem("control not noticed: an unwritten element is not poisoned")


def _owned(tensor: Bits) -> Bits:
    return Bits(np.array(tensor.patterns, copy=True, order="C"), tensor.format)


def controls(right: Bits, rng: np.random.Generator) -> Iterator[Control]:
    """Every wrong version of an output."""
    count = right.patterns.size
    if not count:
        return
    last_column = right.shape[-1] - 1 if right.shape else 0
    places = {
        "first element": 0,
        "last element": count - 1,
        "tail of the first row": last_column,
        "random element": int(rng.integers(count)),
    }
    for name, index in places.items():
        yield from _one_step(right, f"one ulp in the {name}", (index,), index)
    if isinstance(right.format, Format):
        yield from _special(right, right.format, int(rng.integers(count)))
    yield from _swapped_rows(right)
    yield from _other_kind(right)


def _one_step(right: Bits, name: str, places: tuple[int, ...], index: int) -> Iterator[Control]:
    """One step of the number line at an element; defined for every pattern."""
    wrong = right.patterns.copy()
    for place in places:
        wrong.flat[place] = _stepped(right.patterns.flat[place], right.format)
    at = tuple(int(i) for i in np.unravel_index(index, right.shape))

    def noticed(diff: BitDiff) -> bool:
        return diff.mismatches == 1 and diff.first is not None and diff.first.index == at

    yield Control(name, Bits(wrong, right.format), right, noticed)


def _stepped(pattern: Any, fmt: Format | Integer) -> Any:
    """A neighbour: one magnitude up, or down from infinity; 1 for NaN; ±1 for integers."""
    kind = unsigned(fmt).type
    if isinstance(fmt, Integer):
        return kind(pattern ^ 1)
    one = np.array([pattern], unsigned(fmt))
    if bits.is_nan(one, fmt)[0]:
        return kind(fmt.bias << (fmt.fraction_bits + fmt.padding))
    unit = 1 << fmt.padding
    up = np.array([int(pattern) + unit], np.uint64).astype(unsigned(fmt))
    if bits.is_nan(up, fmt)[0] or bits.is_infinity(one, fmt)[0]:
        return kind(int(pattern) - unit)
    assert abs(int(ordered_keys(up, fmt)[0]) - int(ordered_keys(one, fmt)[0])) == 1
    return up[0]


def _special(right: Bits, fmt: Format, index: int) -> Iterator[Control]:
    sign = unsigned(fmt).type(1 << (fmt.bits - 1))
    zero, minus_zero = right.patterns.copy(), right.patterns.copy()
    zero.flat[index], minus_zero.flat[index] = 0, sign
    yield Control(
        "−0 for +0",
        Bits(minus_zero, fmt),
        Bits(zero, fmt),
        lambda diff: diff.zero_sign_differences == diff.mismatches == 1,
    )
    nan, number = right.patterns.copy(), right.patterns.copy()
    nan.flat[index], number.flat[index] = fmt.nan_pattern, 0
    yield Control(
        "NaN for a number",
        Bits(nan, fmt),
        Bits(number, fmt),
        lambda diff: diff.nan_mismatches == diff.mismatches == 1,
    )
    yield Control(
        "a number for NaN",
        Bits(number, fmt),
        Bits(nan, fmt),
        lambda diff: diff.nan_mismatches == diff.mismatches == 1,
    )


def _swapped_rows(right: Bits) -> Iterator[Control]:
    """The first row and the first one that differs from it change places."""
    if right.patterns.ndim < 2:
        return
    rows = right.patterns.reshape(-1, right.shape[-1])
    values = decode(rows, right.format)
    both_nan = (values != values) & (values[0] != values[0])
    other = np.flatnonzero(((rows != rows[0]) & ~both_nan).any(axis=1))
    if not other.size:
        return
    place = int(other[0])
    wrong = rows.copy()
    wrong[[0, place]] = rows[[place, 0]]

    def noticed(diff: BitDiff) -> bool:
        lines = diff.rows
        return (
            lines is not None and lines.differing == 2 and (lines.first, lines.last) == (0, place)
        )

    yield Control(
        "two rows swapped", Bits(wrong.reshape(right.shape), right.format), right, noticed
    )


def _other_kind(right: Bits) -> Iterator[Control]:
    flat = Bits(right.patterns.reshape(1, *right.shape), right.format)
    yield Control("another shape", flat, right, lambda diff: diff.shape_differs)
    if isinstance(right.format, Format):
        other = f32 if right.format is not f32 else f16
        wrong = Bits(np.zeros(right.shape, unsigned(other)), other)
        yield Control("another dtype", wrong, right, lambda diff: diff.format_differs)
