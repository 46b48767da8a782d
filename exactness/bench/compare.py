"""A run beside an earlier one on the same GPU: ratios of the times of equal cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exactness.bench.schema import read
from exactness.errors import UsageError

CLOCKS = ("graph", "graph_warm", "event", "host")


@dataclass(frozen=True)
class Change:
    """One case and shape in both runs.

    Attributes:
        case: the case.
        shape: its shape.
        ratios: new time over old time, by clock, where both runs have it.
        same_source: kernel, references and shared code have not changed.
    """

    case: str
    shape: str
    ratios: Mapping[str, float]
    same_source: bool


@dataclass(frozen=True)
class Earlier:
    """An earlier run.

    Attributes:
        path: its file.
        report: its content.
    """

    path: Path
    report: Mapping[str, Any]

    @classmethod
    def load(cls, path: Path, gpu: str) -> Earlier:
        """Read an earlier report.

        Args:
            path: the file.
            gpu: the GPU of this run.

        Raises:
            UsageError: unreadable, or times of another GPU.
        """
        report = read(path)
        if report["device"] != gpu:
            raise UsageError(
                f"--compare: {path} was measured on {report['device']}, this is {gpu}; "
                "times of different GPUs do not compare"
            )
        return cls(path, report)

    def warnings(self, environment: Mapping[str, Any]) -> Iterator[str]:
        """What else differs between the two machines and could explain a change."""
        old = self.report["environment"]
        if old.get("driver") != environment.get("driver"):
            yield f"driver {environment.get('driver')}, before {old.get('driver')}"
        for name in ("torch", "triton"):
            now, then = environment["packages"].get(name), old["packages"].get(name)
            if now != then:
                yield f"{name} {now}, before {then}"

    def changes(self, report: Mapping[str, Any]) -> list[Change]:
        """The cases that both runs measured, in the order of the new one.

        Args:
            report: the new run as plain data.
        """
        old = {_key(row): row for row in self.report["cases"] if "latency_ms" in row}
        pairs = [
            (row, old[_key(row)])
            for row in report["cases"]
            if "latency_ms" in row and _key(row) in old
        ]
        return [
            Change(
                row["case"],
                row["shape"],
                _ratios(row, before),
                row["source_hash"] == before["source_hash"],
            )
            for row, before in pairs
        ]


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["case"], row["shape"], repr(row["given"])


def _ratios(row: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, float]:
    return {
        clock: row[clock]["median_us"] / before[clock]["median_us"]
        for clock in CLOCKS
        if row.get(clock) and before.get(clock)
    }
