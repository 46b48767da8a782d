"""The report as one object: JSON first, everything else is a view of it.

`Report.to_dict` is what is written to `report.json`; `schema_version` changes when a field
changes its meaning or goes away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exactness import messages
from exactness.checks.outcome import GOOD, Outcome, Status
from exactness.environment import Environment
from exactness.jsonable import jsonable
from exactness.writing import write_atomically

SCHEMA_VERSION = 1
FILE_NAME = "report.json"


def report_file(folder: Path | None) -> Path | None:
    """The report in a folder, if one was asked for."""
    return None if folder is None else folder / FILE_NAME


@dataclass(frozen=True)
class ClaimRow:
    """One claim in a report, summed over its checks."""

    claim: str
    outcomes: Sequence[Mapping[str, Any]]

    def count(self, status: Status) -> int:
        """Number of checks that ended so."""
        return sum(outcome["status"] == status.value for outcome in self.outcomes)

    @property
    def status(self) -> Status:
        """The worst of its checks; NOT_RUN only if none ran."""
        for status in (Status.ERROR, Status.FAILED):
            if self.count(status):
                return status
        return Status.PASSED if any(map(self.count, GOOD)) else Status.NOT_RUN

    @property
    def cases(self) -> int:
        """Recorded cases and examples compared."""
        return sum(outcome["cases"] for outcome in self.outcomes)

    @property
    def elements(self) -> int:
        """Elements compared, over all edges."""
        return sum(outcome["elements"] for outcome in self.outcomes)

    @property
    def max_ulps(self) -> float:
        """The largest distance seen."""
        return max((float(outcome["max_ulps"]) for outcome in self.outcomes), default=0)

    @property
    def not_run(self) -> dict[str, int]:
        """What was not compared, and how often."""
        counts: dict[str, int] = {}
        for outcome in self.outcomes:
            for reason in outcome["not_run"]:
                counts[reason] = counts.get(reason, 0) + 1
        return counts


@dataclass(frozen=True)
class Report:
    """A run of checks.

    Attributes:
        environment: where it ran.
        machine: what ran the kernels.
        outcomes: one a check, as plain data.
        variants_on: opt-in variants that the environment switches on.
        sources: claim to the SHA-256 of its kernel and reference files.
        broken: messages about kernel files that could not be imported.
        unclaimed: prefixes of recordings that no claim of the catalogue names.
        deselected: checks that were left out on request.
    """

    environment: Mapping[str, Any]
    machine: str
    outcomes: Sequence[Mapping[str, Any]]
    variants_on: Sequence[str] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    broken: Sequence[str] = ()
    unclaimed: Mapping[str, int] = field(default_factory=dict)
    deselected: int = 0

    @classmethod
    def of(
        cls, environment: Environment, machine: str, outcomes: Iterable[Outcome], **rest: Any
    ) -> Report:
        """A report of outcomes."""
        return cls(environment.to_dict(), machine, [outcome_record(o) for o in outcomes], **rest)

    @property
    def rows(self) -> list[ClaimRow]:
        """The claims, in the order in which they ran."""
        grouped: dict[str, list[Mapping[str, Any]]] = {}
        for outcome in self.outcomes:
            grouped.setdefault(outcome["claim"], []).append(outcome)
        return [ClaimRow(claim, outcomes) for claim, outcomes in grouped.items()]

    @property
    def totals(self) -> dict[str, int]:
        """Checks by status, and edges that were not compared."""
        counts = {status.value: 0 for status in Status}
        for outcome in self.outcomes:
            counts[outcome["status"]] += 1
        edges = sum(len(outcome["not_run"]) for outcome in self.outcomes)
        vacuous = sum(outcome["vacuous"] for outcome in self.outcomes)
        return {
            **counts,
            "edges not run": edges,
            "vacuous comparisons": vacuous,
            "deselected": self.deselected,
        }

    @property
    def exit_status(self) -> int:
        """0 if something passed and nothing failed, else 1."""
        totals = self.totals
        bad = totals[Status.FAILED.value] + totals[Status.ERROR.value]
        return 0 if any(totals[status.value] for status in GOOD) and not bad else 1

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "schema_version": SCHEMA_VERSION,
            "environment": dict(self.environment),
            "machine": self.machine,
            "variants_on": list(self.variants_on),
            "sources": dict(self.sources),
            "totals": self.totals,
            "broken": list(self.broken),
            "recordings_without_claim": dict(self.unclaimed),
            "checks": [dict(outcome) for outcome in self.outcomes],
        }

    def write(self, folder: Path) -> Path:
        """Write `report.json` into `folder`, whole or not at all.

        Raises:
            UsageError: it cannot be written.
        """
        path = folder / FILE_NAME
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        write_atomically(path, text.encode())
        return path


def outcome_record(outcome: Outcome) -> dict[str, Any]:
    """An outcome as plain data; each mismatch carries its report as text."""
    record: dict[str, Any] = jsonable(outcome)
    for data, mismatch in zip(record["mismatches"], outcome.mismatches, strict=True):
        data["text"] = messages.report(mismatch.diff, name=mismatch.tensor)
    return record
