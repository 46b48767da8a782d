"""Ways to get an operation on words wrong: another width, a lost term, operands exchanged."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from exactness.arithmetic.integers import ENTER, Word, WordOperation, wrapped
from exactness.arrays import Array
from exactness.formats import INTEGERS

Perform: TypeAlias = Callable[[WordOperation], tuple[Array, ...]]

RING = ("add", "sub", "mul", ENTER)
"""Operations whose wrapped result follows from their wrapped operands."""

WIDER = "64_bits"
"""The result of 64-bit arithmetic, not wrapped."""


@dataclass(frozen=True)
class WordMutation:
    """A wrong way to perform an operation on words.

    Attributes:
        name: what is wrong, as "64_bits" or "right_dropped".
        perform: the payloads of the wrong results.
    """

    name: str
    perform: Perform


def word_mutations(operation: WordOperation) -> Iterator[WordMutation]:
    """The mutations that make sense for an operation met in a run.

    Those of a width only where a result at hand does not fit.
    """
    name = operation.name
    if name in RING and _differs(operation, WordOperation.unwrapped):
        yield WordMutation(WIDER, WordOperation.unwrapped)
    if name == ENTER:
        yield from _entering(operation)
    if name in ("add", "sub"):
        for index, side in enumerate(("left", "right")):
            yield WordMutation(f"{side}_dropped", _without(index))
    if name == "mod" and _differs(operation, _signed_remainder):
        yield WordMutation("signed", _signed_remainder)
    for index, operand in enumerate(operation.operands):
        if operand.number is not None:
            yield WordMutation("constant_plus_one", _one_more(index))


def _differs(operation: WordOperation, perform: Perform) -> bool:
    pairs = zip(operation.perform(), perform(operation), strict=True)
    return any(bool((right != wrong).any()) for right, wrong in pairs)


def _entering(operation: WordOperation) -> Iterator[WordMutation]:
    """Cut to 32 bits, or one array taken for another."""
    if operation.format.bits == 64 and any(word.format.bits == 64 for word in operation.operands):
        yield WordMutation("32_bits", _cut)
    for i, j in itertools.combinations(range(len(operation.operands)), 2):
        if operation.operands[i].payload.shape == operation.operands[j].payload.shape:
            yield WordMutation(f"swapped_{i}_{j}", _swapped(i, j))


def _cut(operation: WordOperation) -> tuple[Array, ...]:
    """Through int32."""
    return tuple(wrapped(result, INTEGERS["i32"]) for result in operation.perform())


def _swapped(i: int, j: int) -> Perform:
    def perform(operation: WordOperation) -> tuple[Array, ...]:
        results = list(operation.perform())
        results[i], results[j] = results[j], results[i]
        return tuple(results)

    return perform


def _with(operation: WordOperation, index: int, payload: Array) -> tuple[Array, ...]:
    """The operation with another operand."""
    operands = list(operation.operands)
    old = operands[index]
    operands[index] = Word(old.arithmetic, payload, old.format)
    return replace(operation, operands=tuple(operands)).perform()


def _without(index: int) -> Perform:
    return lambda operation: _with(operation, index, operation.operands[index].payload * 0)


def _one_more(index: int) -> Perform:
    return lambda operation: _with(operation, index, operation.operands[index].payload + 1)


def _signed_remainder(operation: WordOperation) -> tuple[Array, ...]:
    """The dividend read as signed, its remainder with the dividend's sign, as in C."""
    dividend, divisor = (operand.payload for operand in operation.operands)
    signed = wrapped(dividend, INTEGERS[f"i{operation.format.bits}"])
    size = abs(signed) % divisor
    return (size - 2 * size * (signed < 0),)
