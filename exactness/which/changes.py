"""Single changes of a contract that give the user's bits.

If no contract explains the outputs, such a change says what the port got wrong. If one does, it
says what the outputs are too coarse to exclude. The changes are the semantic mutants of the
reference (another order of summation, a rounding left out, an fma where two roundings belong …)
and the other values of its parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from exactness.arithmetic import Hopper, Value
from exactness.arithmetic.mutants import Mutant, Mutated, survey
from exactness.arithmetic.proofs import proved_equal
from exactness.bits import Bits, decode
from exactness.which.contracts import Finding, Match
from exactness.which.rows import Rows

MOST = 1000
"""Changes tried at most, those of the nearest contract first."""

ROWS = 8
"""Rows on which a change is tried first, where rows are independent."""


@dataclass(frozen=True)
class Change:
    """A contract with one thing changed, which gives the user's bits.

    Attributes:
        contract: name of the contract.
        mutant: the operation that is changed; None where a parameter is.
        parameters: the parameters that are changed.
    """

    contract: str
    mutant: Mutant | None = None
    parameters: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Changes:
    """Single changes that give the user's bits, of `tried` ones.

    Attributes:
        found: the changes, those of the nearest contract first.
        tried: how many were tried, those proved to change nothing left out.
    """

    found: tuple[Change, ...]
    tried: int


def single_changes(matched: Match) -> Changes:
    """Try single changes of the first contract that explains the outputs, or of all if none does.

    Args:
        matched: contracts beside the user's outputs.
    """
    found: list[Change] = []
    tried = 0
    for finding in matched.explaining[:1] or matched.by_distance:
        given = matched.given.outputs(finding.contract.claim)
        rows = Rows.of(finding, ROWS)
        for change in itertools.islice(_changes(finding, rows), MOST - tried):
            tried += 1
            on_rows = _gives(finding, change, rows.arguments, rows.cut(given))
            if on_rows and _gives(finding, change, finding.arguments, given):
                found.append(change)
    return Changes(tuple(found), tried)


def _changes(finding: Finding, rows: Rows) -> Iterator[Change]:
    """The changes of one contract that are not proved to change nothing."""
    contract = finding.contract
    for name, values in contract.claim.inputs.parameters.items():
        others = (value for value in values if value != finding.arguments[name])
        yield from (Change(contract.name, parameters={name: value}) for value in others)
    surveyed = survey(contract.program, [rows.arguments])
    for mutant in surveyed.mutants():
        if proved_equal(surveyed, mutant) is None:
            yield Change(contract.name, mutant)


def _gives(
    finding: Finding, change: Change, arguments: Mapping[str, Any], given: Mapping[str, Bits]
) -> bool:
    """Whether the changed contract gives the user's bits."""
    arithmetic = Hopper() if change.mutant is None else Mutated(change.mutant)
    changed = {**arguments, **(change.parameters or {})}
    try:
        with np.errstate(all="ignore"):
            results = finding.contract.results(arithmetic, changed)
    except (ValueError, IndexError):
        return False  # an index beyond the end, a format that has no such operation
    return all(_same(results[name], bits) for name, bits in given.items())


def _same(result: Any, bits: Bits) -> bool:
    """Equal as bits are; a value that its format does not hold equals none."""
    if isinstance(result, Value):
        if result.format is not bits.format:
            return False
        actual = np.asarray(result.payload)
    else:
        actual = np.asarray(result)
    expected = decode(bits.patterns, bits.format)
    if actual.shape != expected.shape:
        return False
    same = actual == expected
    if expected.dtype.kind == "f":
        same &= np.signbit(actual) == np.signbit(expected)
        same |= np.isnan(actual) & np.isnan(expected)
    return bool(same.all())
