"""What a check found: data that reports are views of."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from exactness.checks.sensitivity import Judgement
from exactness.compare import BitDiff, Verdict, compare


class Status(enum.Enum):
    """How a check ended."""

    PASSED = "passed"
    PROVED = "proved for all inputs"
    """Passed, and the inputs were all there are."""
    FAILED = "failed"
    ERROR = "error"
    """An exception: neither a match nor a mismatch."""
    NOT_RUN = "not run"
    """Nothing was compared; the reason is said and counted."""


GOOD = (Status.PASSED, Status.PROVED)


@dataclass(frozen=True)
class Mismatch:
    """A comparison that failed.

    Attributes:
        edge: what was compared with what, as "kernel = reference".
        tensor: the output or intermediate.
        where: the case or example.
        diff: the comparison.
    """

    edge: str
    tensor: str
    where: str
    diff: BitDiff


@dataclass(frozen=True)
class Outcome:
    """The result of one check.

    Attributes:
        claim: name of the claim.
        check: the check's id within it, as "golden-7x96_rn".
        kind: "golden", "case", "property", "variant" ….
        status: how it ended.
        machine: what ran the kernel.
        cases: recorded cases or examples compared.
        elements: elements compared, over all edges.
        edges: elements by edge.
        max_ulps: the largest distance seen; 0 when equal, infinite for a NaN against a number.
        mismatches: failed comparisons, first diverging first.
        message: why it failed or what went wrong; empty when passed.
        reproduction: one line that shows the failure again.
        not_run: edges that could not be compared, with the reason.
        vacuous: comparisons of empty tensors.
        judgements: what became of mutants.
        proof: the domain that was gone through completely; empty if none.
        notes: further findings.
        seconds: duration.
    """

    claim: str
    check: str
    kind: str
    status: Status
    machine: str = ""
    cases: int = 0
    elements: int = 0
    edges: dict[str, int] = field(default_factory=dict)
    max_ulps: float = 0
    mismatches: tuple[Mismatch, ...] = ()
    message: str = ""
    reproduction: str = ""
    not_run: tuple[str, ...] = ()
    vacuous: int = 0
    judgements: tuple[Judgement, ...] = ()
    proof: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


class Evidence:
    """Collects comparisons while a check runs."""

    def __init__(self) -> None:
        self.cases = 0
        self.edges: dict[str, int] = {}
        self.max_ulps: float = 0
        self.vacuous = 0
        self.judgements: list[Judgement] = []
        self.mismatches: list[Mismatch] = []
        self.problems: list[str] = []
        self.not_run: dict[str, None] = {}
        self.notes: dict[str, None] = {}
        self.reproduction = ""
        self.proof = ""

    def compare(self, edge: str, tensor: str, where: str, actual: Any, expected: Any) -> bool:
        """Compare two tensors bit by bit; returns whether they are equal (or empty)."""
        diff = compare(actual, expected)
        self.edges[edge] = self.edges.get(edge, 0) + diff.elements
        self.max_ulps = max(self.max_ulps, diff.max_ulps)
        if diff.verdict is Verdict.DIFFERENT or diff.same_memory:
            self.mismatches.append(Mismatch(edge, tensor, where, diff))
            return False
        self.vacuous += diff.verdict is Verdict.VACUOUS
        return True

    def skip(self, edge: str, reason: str) -> None:
        """An edge that cannot be compared here."""
        self.not_run[f"{edge}: {reason}"] = None

    def note(self, text: str) -> None:
        """A finding that does not decide."""
        self.notes[text] = None

    def problem(self, text: str) -> None:
        """A failure that is not a difference of bits."""
        self.problems.append(text)

    @property
    def failed(self) -> bool:
        """Whether anything differed or was wrong."""
        return bool(self.mismatches or self.problems)

    @property
    def status(self) -> Status:
        """Passed only if something was compared."""
        if self.failed:
            return Status.FAILED
        if not sum(self.edges.values()):
            return Status.NOT_RUN
        return Status.PROVED if self.proof else Status.PASSED

    @property
    def passed(self) -> bool:
        """Whether everything compared was equal."""
        return self.status in GOOD
