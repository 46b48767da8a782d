"""Watch whether an edit of a kernel makes a difference while it runs.

It is looked for where the edit first counts: at the edited instruction, or behind the conversion to
16 bits that alone reads its result; for a constant that is moved into a register, at the
instructions that read that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from exactness.virtual import analysis
from exactness.virtual.edited import Before, EditedKernel, narrowing, replaced
from exactness.virtual.instructions import Entry, Instruction
from exactness.virtual.operation import Effect, Elementwise, Operation
from exactness.virtual.program import Program
from exactness.virtual.state import Bits, State

_PLACES = 256
"""Lanes of which an execution notes the place."""


@dataclass
class Observation:
    """Executions of edited instructions by single threads.

    Attributes:
        executed: how many there were.
        differing: in how many the edit changed the result.
        subnormal: in how many of these the result was an f32 below 2^-125, right or wrong: its last
            place is that of subnormals.
        places: where in the grid it changed by more than that, from 0 to 1; a sample, 1-D each.
    """

    executed: int = 0
    differing: int = 0
    subnormal: int = 0
    places: list[Bits] = field(default_factory=list)

    @property
    def telling(self) -> int:
        """In how many executions the result changed by more than the last place of subnormals."""
        return self.differing - self.subnormal

    def note(self, lanes: Bits, state: State) -> None:
        """Note where in the grid some lanes are."""
        found = np.flatnonzero(lanes)
        if found.size:
            found = found[:: -(-found.size // _PLACES)]
            threads = math.prod(state.grid) * state.threads
            self.places.append((found + state.first_block * state.threads) / threads)


def watching(
    observation: Observation, before: Callable[[Entry, Entry], Before] = replaced
) -> Callable[[Entry, Entry], Program]:
    """For `Editing`: decode an edited kernel so that every run adds to `observation`.

    Args:
        observation: is added to.
        before: from the original and the edited kernel, what edited instructions were.
    """

    def watch(original: Entry, edited: Entry) -> Program:
        graph = EditedKernel(edited, before(original, edited))
        watched = {id(pair.edited): pair for pair in _pairs(graph)}
        for block in graph.program.blocks:
            block.operations = [
                _observed(watched[id(operation)], graph, observation)
                if id(operation) in watched
                else operation
                for operation in block.operations
            ]
        analysis.liveness(graph.program)
        return graph.program

    return watch


@dataclass(frozen=True, slots=True)
class _Pair:
    """An operation that can show the edit, and how it was before.

    Attributes:
        edited: the operation.
        original: gives its result without the edit, from the same registers' values.
        sources: the registers that `original` reads.
    """

    edited: Elementwise
    original: Callable[..., Any]
    sources: tuple[int, ...]


def _pairs(graph: EditedKernel) -> Iterator[_Pair]:
    """The operations at which the edit is looked for."""
    for operation in list(graph.operations()):
        before = graph.originals.get(id(operation))
        if before is None or not isinstance(operation, Elementwise):
            continue
        constant = graph.constant(before)
        readers = graph.readers.get(operation.targets[0], [])
        if constant is not None and all(isinstance(r, Elementwise) for r in readers):
            for reader in readers:
                assert isinstance(reader, Elementwise)
                yield _with_constant(reader, operation.targets[0], constant)
        else:
            yield _Pair(operation, before.function, before.sources)


def _with_constant(reader: Elementwise, register: int, constant: Bits) -> _Pair:
    """An operation as it is with the unperturbed constant in a register."""

    def original(*values: Bits) -> Any:
        pairs = zip(reader.sources, values, strict=True)
        return reader.function(*(constant if n == register else value for n, value in pairs))

    return _Pair(reader, original, reader.sources)


def _observed(pair: _Pair, graph: EditedKernel, observation: Observation) -> Operation:
    """The operation, counting on its way where it differs from what it was."""
    edited = pair.edited
    behind = _conversions(graph, edited)
    is_f32 = behind == (_same,) and _gives_f32(edited.instruction)

    def run(state: State) -> None:
        actual = edited.function(*(state.value(n) for n in edited.sources))
        expected = pair.original(*(state.value(n) for n in pair.sources))
        differs: Bits = np.zeros((1, 1), np.bool_)
        for convert in behind:
            differs = differs | (convert(actual) != convert(expected))
        lanes = np.broadcast_to(differs, state.shape) & _running(state)
        tiny = lanes & _are_tiny(actual, expected) if is_f32 else np.zeros_like(lanes)
        observation.executed += state.count(state.mask)
        observation.differing += int(np.count_nonzero(lanes))
        observation.subnormal += int(np.count_nonzero(tiny))
        observation.note(lanes & ~tiny, state)
        edited.execute(state)

    sources = tuple(dict.fromkeys((*edited.sources, *pair.sources)))
    return Effect(edited.instruction, run, sources, edited.targets, edited.guard)


def _gives_f32(instruction: Instruction) -> bool:
    """Whether the result is an f32 number; comparisons of f32 and conversions of it give others."""
    opcodes = ("add", "sub", "mul", "fma", "div", "sqrt", "rcp", "rsqrt", "ex2")
    return instruction.opcode in opcodes and instruction.modifiers[-1] == "f32"


def _are_tiny(*patterns: Bits) -> Bits:
    """Whether f32 patterns are all of numbers whose last place is 2^-149, below 2^-125."""
    limit = np.uint32(0x01000000)
    return np.logical_and.reduce([(bits & np.uint32(0x7FFFFFFF)) < limit for bits in patterns])


def _running(state: State) -> Bits:
    return np.True_ if state.mask is None else np.broadcast_to(state.mask, state.shape)


def _conversions(graph: EditedKernel, operation: Elementwise) -> Sequence[Callable[[Bits], Bits]]:
    """The conversions to 16 bits that alone read a result, else the result as it is."""
    readers = graph.readers.get(operation.targets[0], [])
    found = [convert for reader in readers if (convert := narrowing(reader)) is not None]
    alone = len(found) == len(readers) and graph.is_single(operation.targets[0])
    return found if found and alone else (_same,)


def _same(bits: Bits) -> Bits:
    return bits
