"""Print reports of `exactness bench` as tables in Markdown.

    python scripts/bench_tables.py docs/results/bench-h200.json [more.json …]

One table of times for all files together, then what was compared with, then launches.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from exactness.bench.schema import read

Row = Mapping[str, Any]


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], names: int) -> Iterator[str]:
    """A table whose first columns are names, the others figures."""
    body = list(rows)
    if not body:
        return
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * names}{'---:|' * (len(titles) - names)}"
    for row in body:
        yield f"| {' | '.join(row)} |"
    yield ""


def microseconds(row: Row, clock: str) -> str:
    return f"{row[clock]['median_us']:.2f}" if row.get(clock) else "—"


def number(value: float | None, digits: int = 2) -> str:
    return "—" if value is None else f"{value:.{digits}f}"


def times(rows: Sequence[Row]) -> Iterator[str]:
    titles = ("case", "shape", "event µs", "graph µs", "±", "warm µs", "host µs", "rate")
    titles += ("roofline", "copy µs", "× copy", "bits")
    yield from table(titles, (time_cells(row) for row in rows), 2)


def time_cells(row: Row) -> list[str]:
    floors, graph = row["floors"], row["graph"] or row["event"]
    return [
        f"`{row['case']}`",
        row["shape"],
        *(microseconds(row, clock) for clock in ("event", "graph")),
        f"{graph['spread']:.0%}",
        *(microseconds(row, clock) for clock in ("graph_warm", "host")),
        f"{row['graph_performance']:.1f} {row['unit']}",
        f"{row['graph_peak_share']:.1%}",
        microseconds(floors["copy"], "graph"),
        number(floors["times_copy"]),
        "right" if row["bits"]["right"] else "**WRONG**",
    ]


def against(rows: Sequence[Row]) -> Iterator[str]:
    titles = ("case", "shape", "against", "event µs", "graph µs", "host µs", "× kernel", "bits")
    cells = (compared_cells(row, each) for row in rows for each in row["against"])
    yield from table(titles, cells, 3)


def compared_cells(row: Row, each: Row) -> list[str]:
    names = [f"`{row['case']}`", row["shape"], each["name"]]
    if each["ratio"] is None:
        return [*names, "—", "—", "—", "—", each["reason"]]
    bits = each["bits"]
    others = f"others in {bits['differing']:,} of {bits['elements']:,}"
    on_events = "" if each["graph"] and row["graph"] else " (events)"
    return [
        *names,
        *(microseconds(each, clock) for clock in ("event", "graph", "host")),
        number(each["ratio"]) + on_events,
        "the baseline's" if bits["right"] else others,
    ]


def launches(rows: Sequence[Row]) -> Iterator[str]:
    fields = ("launches", "allocations", "uploads", "upload_bytes", "other_copies")
    titles = ("case", "shape", "subject", *(field.replace("_", " ") for field in fields))
    cells = (
        [f"`{row['case']}`", row["shape"], name, *(number(each[field], 0) for field in fields)]
        for row in rows
        for name, each in row["launches"].items()
    )
    yield from table(titles, cells, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("reports", nargs="+", type=Path)
    rows = [row for path in parser.parse_args().reports for row in read(path)["cases"]]
    measured = [row for row in rows if "latency_ms" in row]
    for part in (times, against, launches):
        print(*part(measured), sep="\n")


if __name__ == "__main__":
    main()
