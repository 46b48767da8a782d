"""Why a mutant cannot be told from the original: rules that are checked, not believed.

A rule looks at what a survey met at the mutant's site and at its neighbours, and either gives a
reason or nothing. Whatever no rule explains must be killed by an input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from exactness.arithmetic.base import Operation
from exactness.arithmetic.hopper import SPECIAL
from exactness.arithmetic.integers import WordOperation
from exactness.arithmetic.mutants import (
    Mutant,
    Seen,
    Survey,
    Tracked,
    number_of,
    source_of,
)
from exactness.arithmetic.mutations import NO_ROUNDING, Mutation
from exactness.arithmetic.value import Value
from exactness.arithmetic.word_mutations import RING, WIDER, WordMutation
from exactness.bits import decode, is_nan, unsigned
from exactness.rounding import host_constant

Rule: TypeAlias = Callable[[Survey, Seen, Operation, Mutation], str | None]

_ROUNDINGS = ("no_rounding", "toward_zero")


def proved_equal(survey: Survey, mutant: Mutant) -> str | None:
    """The first reason that applies, or None."""
    seen, mutation = survey.seen[mutant.site], mutant.mutation
    if isinstance(mutation, WordMutation):
        return _wrapped_again(survey, seen, mutation)
    if mutation is None or not isinstance(seen.operation, Operation):
        return None
    for rule in _RULES:
        reason = rule(survey, seen, seen.operation, mutation)
        if reason is not None:
            return reason
    return None


def _wrapped_again(survey: Survey, seen: Seen, mutation: WordMutation) -> str | None:
    """Sums, differences and products modulo 2^n do not depend on what their operands hold above."""
    if mutation.name != WIDER or seen.operation is None:
        return None
    for site in seen.consumers:
        consumer = None if site is None else survey.seen[site].operation
        if not isinstance(consumer, WordOperation) or consumer.name not in RING:
            return None
        if consumer.format.bits > seen.operation.format.bits:
            return None
    return "the result only goes to sums, differences and products, which wrap it again"


def _keeps_its_operand(seen: Seen | None) -> bool:
    """Whether the operation adds 0, or multiplies or divides by 1, in every run."""
    if seen is None or seen.operation is None:
        return False
    name, constants = seen.operation.name, seen.constants
    if name == "add":
        return {0.0} in constants
    if name == "mul":
        return {1.0} in constants
    return name in ("sub", "div") and constants[1] == {0.0 if name == "sub" else 1.0}


def _identity(survey: Survey, seen: Seen, operation: Operation, mutation: Mutation) -> str | None:
    if mutation.name in _ROUNDINGS and _keeps_its_operand(seen):
        return "adding 0 or multiplying by 1 is exact, whatever the rounding"
    return None


def _rounded_again(
    survey: Survey, seen: Seen, operation: Operation, mutation: Mutation
) -> str | None:
    if mutation.name != NO_ROUNDING.name or not seen.consumers:
        return None
    for site in seen.consumers:
        consumer = None if site is None else survey.seen[site]
        if consumer is None or consumer.operation is None:
            return None
        if consumer.operation.name == "dot":
            continue  # Each operand is in a register of its own format.
        if consumer.operation.format is not operation.format:
            return None
        if not (_keeps_its_operand(consumer) or consumer.operation.name in SPECIAL):
            return None
    return (
        "the result only goes to operations that round it anyway: adding 0, multiplying by 1, "
        "special functions, tensor cores"
    )


def _exact_product(
    survey: Survey, seen: Seen, operation: Operation, mutation: Mutation
) -> str | None:
    """A contraction cannot show when 0 is added, or when the product is exact anyway."""
    if not mutation.name.startswith("contract"):
        return None
    if _keeps_its_operand(seen):
        return "0 is added, so that product and sum round to the same"
    product = operation.operands[0 if mutation.name.endswith("left") else 1]
    site = survey.site_of(product)
    factors = None if site is None else survey.seen[site]
    if _keeps_its_operand(factors):
        return "the product is with 1 and therefore exact"
    if factors is not None and _exhaustively_equal(factors, NO_ROUNDING):
        return "the product is exact on all inputs"
    return None


def _exhaustive(survey: Survey, seen: Seen, operation: Operation, mutation: Mutation) -> str | None:
    if mutation.name.startswith("contract") or {"order", "index"} & set(operation.attributes):
        return None
    count = _exhaustively_equal(seen, mutation)
    return f"equal on all {count:,} inputs of the operation" if count else None


def _absorbed(survey: Survey, seen: Seen, operation: Operation, mutation: Mutation) -> str | None:
    """Flushing a subnormal operand cannot show beside a constant that absorbs it.

    The sum with the largest subnormal of either sign rounds to the constant, so by monotonicity
    every subnormal does; and no sum with it is subnormal but zero, since all its results are
    multiples of a normal number.
    """
    if mutation.name != "flush_subnormals":
        return None
    if _absorbs(seen):
        return "every subnormal operand is absorbed by the constant it is added to"
    consumers = [survey.seen.get(site) if site else None for site in seen.consumers]
    shrinks = operation.name == "mul" and any(
        all(number is not None and abs(number) <= 1.0 for number in numbers)
        for numbers in seen.constants
    )
    if shrinks and consumers and all(_absorbs(consumer) for consumer in consumers):
        return "the result of a subnormal operand is absorbed by the constant it is added to"
    return None


def _absorbs(seen: Seen | None) -> bool:
    """Whether a constant is added in every run beside which no subnormal shows."""
    if seen is None or not isinstance(seen.operation, Operation):
        return False
    if seen.operation.name not in ("add", "sub"):
        return False
    fmt = seen.operation.format
    least = fmt.smallest_normal * 2.0 ** (fmt.precision + 1)
    return any(
        all(number is not None and abs(number) >= least for number in numbers)
        for numbers in seen.constants
    )


def _never_nan(survey: Survey, seen: Seen, operation: Operation, mutation: Mutation) -> str | None:
    if mutation.name != "nan_kept" or operation.name not in ("minimum", "maximum"):
        return None
    if all(_cannot_be_nan(operand) for operand in operation.operands):
        return "no operand can be NaN: each is a constant or was clamped by one"
    return None


def _no_zeros(survey: Survey, seen: Seen, operation: Operation, mutation: Mutation) -> str | None:
    if mutation.name != "zero_sign_of_first":
        return None
    fmt = operation.format
    if any(
        all(number is not None and host_constant(number, fmt) != 0.0 for number in numbers)
        for numbers in seen.constants
    ):
        return "one operand is a constant other than 0, so that no two zeros meet"
    return None


def _cannot_be_nan(value: Value) -> bool:
    number = number_of(value)
    if number is not None:
        return not math.isnan(number)
    source = source_of(value)
    if source is None or source.name not in ("minimum", "maximum"):
        return False
    return any(_cannot_be_nan(operand) for operand in source.operands)


_RULES: Sequence[Rule] = (
    _identity,
    _rounded_again,
    _exact_product,
    _absorbed,
    _never_nan,
    _no_zeros,
    _exhaustive,
)


def _exhaustively_equal(seen: Seen, mutation: Mutation) -> int | None:
    """Number of inputs if one operand varies, has at most 16 bits, and no value of it differs."""
    if not isinstance(seen.operation, Operation):
        return None
    varying = [i for i, numbers in enumerate(seen.constants) if len(numbers) > 1 or None in numbers]
    if len(varying) != 1 or seen.operation.operands[varying[0]].format.bits > 16:
        return None
    return _inputs_without_difference(seen.operation, varying[0], mutation)


def _inputs_without_difference(operation: Operation, index: int, mutation: Mutation) -> int | None:
    """Number of inputs if original and mutation agree on all of them, else None."""
    arithmetic = Tracked()
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
