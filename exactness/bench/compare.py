"""A run beside an earlier one on the same GPU: ratios of the times of equal cases."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exactness.bench.schema import read
from exactness.errors import UsageError

CLOCKS = ("graph", "graph_warm", "event", "host")

_VERSIONS = ("torch", "triton")
"""Packages that times depend on."""


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
class Times:
    """What a run measured of one case and shape.

    Attributes:
        source_hash: SHA-256 over kernel, references and shared code.
        medians: µs by clock.
    """

    source_hash: str
    medians: Mapping[str, float]

    def change(self, case: str, shape: str, before: Times) -> Change:
        """This run over an earlier one."""
        common = (clock for clock in CLOCKS if clock in self.medians and clock in before.medians)
        ratios = {clock: self.medians[clock] / before.medians[clock] for clock in common}
        return Change(case, shape, ratios, self.source_hash == before.source_hash)


@dataclass(frozen=True)
class Earlier:
    """What is used of an earlier run.

    Attributes:
        path: its file.
        driver: of its GPU, if it is known.
        packages: their versions.
        times: by case, shape and what else the case was given.
    """

    path: Path
    driver: str | None
    packages: Mapping[str, str]
    times: Mapping[tuple[str, str, str], Times]

    @classmethod
    def load(cls, path: Path, gpu: str) -> Earlier:
        """Read an earlier report.

        Args:
            path: the file.
            gpu: the GPU of this run.

        Raises:
            UsageError: unreadable or damaged, or times of another GPU.
        """
        report = _Field(str(path), read(path))
        device = report["device"].text
        if device != gpu:
            raise UsageError(
                f"--compare: {path} was measured on {device}, this is {gpu}; "
                "times of different GPUs do not compare"
            )
        machine = report["environment"]
        return cls(
            path,
            machine.texts("driver").get("driver"),
            machine["packages"].texts(*_VERSIONS),
            dict(_measured(report["cases"])),
        )

    def warnings(self, environment: Mapping[str, Any]) -> Iterator[str]:
        """What else differs between the two machines and could explain a change."""
        if self.driver != environment.get("driver"):
            yield f"driver {environment.get('driver')}, before {self.driver}"
        for name in _VERSIONS:
            now, then = environment["packages"].get(name), self.packages.get(name)
            if now != then:
                yield f"{name} {now}, before {then}"

    def changes(self, report: Mapping[str, Any]) -> list[Change]:
        """The cases that both runs measured, in the order of the new one.

        Args:
            report: the new run as plain data.
        """
        return [
            now.change(*key[:2], self.times[key])
            for key, now in _measured(_Field("this run", report)["cases"])
            if key in self.times
        ]


@dataclass(frozen=True)
class _Field:
    """A value of a report and where it stands; what it is not, it refuses to be read as."""

    where: str
    value: Any

    def __getitem__(self, name: str) -> _Field:
        found = self.get(name)
        if found is None:
            raise UsageError(f"{self.where}: damaged: {name!r} is missing")
        return found

    def get(self, name: str) -> _Field | None:
        """A field of an object; None if it is not there, or null."""
        value = self._as(dict, "an object").get(name)
        return None if value is None else _Field(f"{self.where}: {name}", value)

    def texts(self, *names: str) -> dict[str, str]:
        """The fields that are there; each must be text."""
        return {name: found.text for name in names if (found := self.get(name)) is not None}

    @property
    def items(self) -> list[_Field]:
        values = self._as(list, "a list")
        return [_Field(f"{self.where}[{i}]", value) for i, value in enumerate(values)]

    @property
    def text(self) -> str:
        text: str = self._as(str, "text")
        return text

    @property
    def time(self) -> float:
        is_number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not (is_number and 0 < self.value <= sys.float_info.max):
            raise self._damaged("a finite number above 0")
        return float(self.value)

    def _as(self, kind: type, accepted: str) -> Any:
        if not isinstance(self.value, kind):
            raise self._damaged(accepted)
        return self.value

    def _damaged(self, accepted: str) -> UsageError:
        return UsageError(f"{self.where}: damaged: not {accepted}")


def _measured(rows: _Field) -> Iterator[tuple[tuple[str, str, str], Times]]:
    """The rows of a report that hold times."""
    for row in rows.items:
        if row.get("latency_ms") is not None:
            key = row["case"].text, row["shape"].text, repr(row["given"].value)
            clocks = {clock: found for clock in CLOCKS if (found := row.get(clock)) is not None}
            medians = {clock: found["median_us"].time for clock, found in clocks.items()}
            yield key, Times(row["source_hash"].text, medians)
