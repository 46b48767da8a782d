"""The contracts that take a user's tensors, and how their outputs compare with the user's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from exactness.arithmetic import Hopper
from exactness.arithmetic.base import Arithmetic
from exactness.bits import Bits
from exactness.catalogue import Catalogue, Entry
from exactness.checks.base import bits_of
from exactness.claim import Claim, Variant
from exactness.compare import BitDiff, Element, Verdict, compare
from exactness.errors import UsageError
from exactness.which.fit import Misfit
from exactness.which.given import Given, parameters_of

_REFUSALS = (ValueError, TypeError, IndexError, KeyError, AttributeError)
"""What a reference raises on arguments of a rank or kind that it was not written for."""


@dataclass(frozen=True)
class Contract:
    """What a claim, or an opt-in variant of it, promises: a reference.

    Attributes:
        entry: the claim and its file.
        program: the reference.
        variant: the variant; None for the claim itself.
    """

    entry: Entry
    program: Callable[..., Any]
    variant: Variant | None = None

    @property
    def claim(self) -> Claim:
        """The claim."""
        return self.entry.claim

    @property
    def name(self) -> str:
        """`qnorm`, or `qnorm f32_acc` for a variant."""
        return f"{self.claim.name} {self.variant.name}" if self.variant else self.claim.name

    def results(self, arithmetic: Arithmetic, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What the reference gives in some arithmetic, by the names of the outputs.

        Raises:
            TypeError: it returned another number of results than the claim names.
        """
        result = arithmetic.run(self.program, arguments)
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(self.claim.output_names):
            raise TypeError(
                f"reference {self.claim.reference} returned {len(results)} results; "
                f"the claim names {', '.join(self.claim.output_names)}"
            )
        return dict(zip(self.claim.output_names, results, strict=True))

    def outputs(self, arguments: Mapping[str, Any]) -> dict[str, Bits]:
        """The contract's bits, by the names of the outputs."""
        results = self.results(Hopper(), arguments)
        return {name: bits_of(result) for name, result in results.items()}


@dataclass(frozen=True)
class Finding:
    """A contract beside the user's outputs.

    Attributes:
        contract: the contract.
        arguments: what its reference was given.
        diffs: the user's output as actual, the contract's as expected, by name.
    """

    contract: Contract
    arguments: Mapping[str, Any]
    diffs: Mapping[str, BitDiff]

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that are not tensors."""
        tensors = self.contract.claim.inputs.tensors
        return {name: value for name, value in self.arguments.items() if name not in tensors}

    @property
    def explains(self) -> bool:
        """Whether every output has the contract's bits."""
        return all(diff.verdict is not Verdict.DIFFERENT for diff in self.diffs.values())

    @property
    def elements(self) -> int:
        """Elements of the outputs."""
        return sum(math.prod(diff.expected_shape) for diff in self.diffs.values())

    @property
    def mismatches(self) -> int:
        """Elements that differ; an output in another format differs in all of them."""
        return sum(
            math.prod(diff.expected_shape) if diff.format_differs else diff.mismatches
            for diff in self.diffs.values()
        )

    @property
    def max_ulps(self) -> float:
        """The largest distance."""
        return max(diff.max_ulps for diff in self.diffs.values())

    @property
    def first(self) -> tuple[str, Element] | None:
        """The first difference and the output that has it."""
        for name, diff in self.diffs.items():
            if diff.first is not None:
                return name, diff.first
        return None

    @property
    def distance(self) -> tuple[float, float]:
        """What makes one contract nearer than another: the share that differs, then by how much."""
        return self.mismatches / max(self.elements, 1), self.max_ulps


@dataclass(frozen=True)
class LeftOut:
    """A contract of the same kernel file that cannot be compared, and why."""

    contract: Contract
    reason: str


@dataclass(frozen=True)
class Match:
    """How every contract in question compares with a user's outputs.

    Attributes:
        given: the user's file.
        asked: the claim that was named.
        findings: contracts compared: the claim's, those of its kernel file, the others.
        left_out: contracts of that file that were not.
        broken: kernel files that could not be imported.
    """

    given: Given
    asked: Claim
    findings: tuple[Finding, ...]
    left_out: tuple[LeftOut, ...]
    broken: tuple[str, ...] = ()

    @property
    def explaining(self) -> tuple[Finding, ...]:
        """The contracts whose bits the outputs have."""
        return tuple(finding for finding in self.findings if finding.explains)

    @property
    def by_distance(self) -> list[Finding]:
        """All contracts, the nearest first."""
        return sorted(self.findings, key=lambda finding: finding.distance)


def match(catalogue: Catalogue, name: str, given: Given) -> Match:
    """Compare a user's outputs with every contract that could have given them.

    Those are the claims, and their variants, that take the file's tensors and leave no more of
    them unnamed than the claim asked for does: for a file with a `residual`, norms that add one
    are among them, whichever norm was asked for.

    Args:
        catalogue: the claims.
        name: the claim asked for, which must take the file.
        given: the user's file.

    Raises:
        UsageError: unknown claim; the file does not hold what it takes, or none of its outputs,
            or outputs of another shape or without elements; a setting that no contract has.
    """
    (asked,) = catalogue.select((name,))
    _check_settings(given, catalogue, asked.claim)
    first, *others = _in_question(catalogue, asked)
    try:
        findings = [_finding(first, given)]
    except Misfit as misfit:
        raise UsageError(f"{given.path}: claim {name}: {misfit}") from None
    if not findings[0].elements:
        names = ", ".join(findings[0].diffs)
        raise UsageError(f"{given.path}: {names}: no elements, nothing to explain")
    left_out: list[LeftOut] = []
    for contract in others:
        try:
            _check_names(contract.claim, asked.claim, given)
            findings.append(_finding(contract, given))
        except Misfit as misfit:
            if contract.entry.file == asked.file:
                left_out.append(LeftOut(contract, str(misfit)))
    broken = tuple(catalogue.broken.values())
    return Match(given, asked.claim, tuple(findings), tuple(left_out), broken)


def _in_question(catalogue: Catalogue, asked: Entry) -> list[Contract]:
    """All contracts: of the claim asked for, of its kernel file, of the others."""

    def distance(entry: Entry) -> tuple[bool, bool]:
        return entry is not asked, entry.file != asked.file

    entries = sorted(catalogue.entries, key=distance)
    return [contract for entry in entries for contract in _contracts(catalogue, entry)]


def _contracts(catalogue: Catalogue, entry: Entry) -> list[Contract]:
    variants = (None, *entry.claim.variants)
    addresses = [(variant or entry.claim).reference for variant in variants]
    programs = map(catalogue.reference, addresses)
    return [Contract(entry, p, v) for p, v in zip(programs, variants, strict=True)]


def _check_settings(given: Given, catalogue: Catalogue, claim: Claim) -> None:
    known = {name for entry in catalogue.entries for name in parameters_of(entry.claim)}
    unknown = [name for name in given.said if name not in known]
    if unknown:
        own = ", ".join(parameters_of(claim)) or "none"
        raise UsageError(f"--set {unknown[0]}: no such parameter; {claim.name} has {own}")


def _check_names(claim: Claim, asked: Claim, given: Given) -> None:
    unused = sorted(given.unnamed(claim) - given.unnamed(asked))
    if unused:
        raise Misfit(f"does not name {', '.join(unused)}")


def _finding(contract: Contract, given: Given) -> Finding:
    """A contract's outputs beside the user's.

    Raises:
        Misfit: the contract does not take the user's tensors, or gives others.
    """
    arguments = given.arguments(contract.claim)
    actual = given.outputs(contract.claim)
    if not actual:
        names = ", ".join(contract.claim.output_names)
        raise Misfit(
            f"the file holds none of the outputs ({names}); it has {', '.join(given.file)}"
        )
    try:
        expected = contract.outputs(arguments)
    except _REFUSALS as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise Misfit(f"its reference does not take these tensors: {what}") from error
    diffs = {name: compare(bits, expected[name]) for name, bits in actual.items()}
    finding = Finding(contract, arguments, diffs)
    for name, bits in actual.items():
        if bits.shape != expected[name].shape:
            shapes = list(bits.shape), list(expected[name].shape)
            used = given.described(finding.parameters)
            advice = f" with {used}; --set NAME=VALUE says otherwise" if used else ""
            raise Misfit(
                f"{name}: shape {shapes[0]} in the file; the contract gives {shapes[1]}{advice}"
            )
    return finding
