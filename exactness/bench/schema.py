"""The benchmark's report as one object: JSON first, the tables are views of it.

The fields of a row that the original benchmark has (`kernel`, `source`, `shape`, `latency_ms`,
`performance`, `peak_share`) keep its meaning: they come from events around one call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from exactness.bench.floors import Copy
from exactness.bench.launches import Accounting
from exactness.bench.measure import Measurement
from exactness.bench.model import Amount, Peaks
from exactness.errors import UsageError
from exactness.jsonable import jsonable
from exactness.writing import write_atomically

SCHEMA_VERSION = 1
KIND = "bench"


class State(Enum):
    """How a row ended."""

    MEASURED = "measured"
    WRONG_BITS = "WRONG BITS"
    ERROR = "error"
    UNSUPPORTED = "unsupported"
    ON_REQUEST = "on request"


@dataclass(frozen=True)
class Compared:
    """A comparator's measurement, or why there is none.

    Attributes:
        name: the comparator.
        measured: its times, and whether its bits are the baseline's.
        reason: why it was not measured.
    """

    name: str
    measured: Measurement | None = None
    reason: str = ""

    def ratio(self, kernel: Measurement) -> float | None:
        """Its time over the kernel's, on the same clock: graphs if both have one."""
        if self.measured is None:
            return None
        if self.measured.graph is not None and kernel.graph is not None:
            return self.measured.graph.median / kernel.graph.median
        return self.measured.event.median / kernel.event.median

    def to_dict(self, kernel: Measurement) -> dict[str, Any]:
        """Plain data."""
        ratio = self.ratio(kernel)
        times = self.measured.to_dict() if self.measured else {}
        return {"name": self.name, "ratio": ratio, "reason": self.reason, **times}


@dataclass(frozen=True)
class Row:
    """One case at one shape.

    Attributes:
        case: its name.
        state: how it ended.
        shape: tokens or length of the sequence, as text.
        reason: why it was not measured.
        claim: the claim.
        kernel: name of the function.
        source: file of the implementation, from the project's root.
        source_hash: SHA-256 over the kernel, its references and shared code.
        given: sizes, parameters and formats.
        amount: logical bytes and operations.
        measured: the kernel's times and bits.
        copy: the floor of as many bytes.
        against: comparators.
        launches: by subject.
    """

    case: str
    state: State
    shape: str = ""
    reason: str = ""
    claim: str = ""
    kernel: str = ""
    source: str = ""
    source_hash: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    amount: Amount = field(default_factory=lambda: Amount(0))
    measured: Measurement | None = None
    copy: Copy | None = None
    against: Sequence[Compared] = ()
    launches: Mapping[str, Accounting] = field(default_factory=dict)

    def times_copy(self) -> float | None:
        """The kernel's time in a graph over that of a copy of as many bytes."""
        if self.measured is None or self.measured.graph is None or self.copy is None:
            return None
        return self.measured.graph.median / self.copy.graph.median

    def to_dict(self, peaks: Peaks) -> dict[str, Any]:
        """Plain data."""
        record: dict[str, Any] = {
            "case": self.case,
            "state": self.state.value,
            "shape": self.shape,
            "reason": self.reason,
            "claim": self.claim,
            "kernel": self.kernel,
            "source": self.source,
            "source_hash": self.source_hash,
            "given": jsonable(dict(self.given)),
            "bytes": self.amount.bytes,
            "flops": self.amount.flops,
        }
        if self.measured is None:
            return record
        record |= _rates(self.amount, self.measured, peaks)
        record |= self.measured.to_dict()
        record["floors"] = {
            "roofline_us": self.amount.roofline_us(peaks),
            "copy": self.copy and self.copy.to_dict(),
            "times_copy": self.times_copy(),
        }
        record["against"] = [each.to_dict(self.measured) for each in self.against]
        record["launches"] = {name: each.to_dict() for name, each in self.launches.items()}
        return record


def _rates(amount: Amount, measured: Measurement, peaks: Peaks) -> dict[str, Any]:
    event, graph = measured.event.median, measured.best_known.median
    performance, unit = amount.rate(event, peaks)
    return {
        "latency_ms": event / 1e3,
        "performance": performance,
        "unit": unit,
        "peak_share": amount.share(event, peaks),
        "graph_performance": amount.rate(graph, peaks)[0],
        "graph_peak_share": amount.share(graph, peaks),
    }


@dataclass(frozen=True)
class BenchReport:
    """A run of the benchmark.

    Attributes:
        environment: machine and software.
        device: name of the GPU.
        peaks: the two ceilings.
        empty_us: an empty launch in a graph.
        options: those of the command line, by name.
        rows: one a case and shape.
    """

    environment: Mapping[str, Any]
    device: str
    peaks: Peaks
    empty_us: float
    options: Mapping[str, Any]
    rows: Sequence[Row]

    def count(self, state: State) -> int:
        """Rows that ended so."""
        return sum(row.state is state for row in self.rows)

    def exit_status(self, *, strict: bool) -> int:
        """1 if bits are wrong or something failed, or if strict and a case is unsupported."""
        bad = self.count(State.WRONG_BITS) + self.count(State.ERROR)
        return 1 if bad or (strict and self.count(State.UNSUPPORTED)) else 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "environment": dict(self.environment),
            "device": self.device,
            "peaks": jsonable(self.peaks),
            "empty_launch_us": self.empty_us,
            "options": dict(self.options),
            "cases": [row.to_dict(self.peaks) for row in self.rows],
        }

    def write(self, path: Path) -> None:
        """Write the JSON to `path`, whole or not at all.

        Raises:
            UsageError: it cannot be written.
        """
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        write_atomically(path, text.encode())


def read(path: Path) -> dict[str, Any]:
    """A report as it was written.

    Raises:
        UsageError: the file cannot be read, or is no report of this schema.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise UsageError(f"{path}: no report of exactness bench")
    if data.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"{path}: schema_version {data.get('schema_version')!r} is not accepted; "
            f"{SCHEMA_VERSION} is"
        )
    return data
