"""A report on the terminal: the machine, one row a claim, what did not run and why, failures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from exactness.checks.outcome import Status
from exactness.report.schema import ClaimRow, Report

_STYLES = {
    Status.PASSED: "green",
    Status.PROVED: "green",
    Status.FAILED: "bold red",
    Status.ERROR: "bold red",
    Status.NOT_RUN: "yellow",
}

_WIDE = 180
"""Columns given to the table of claims, whatever the terminal has."""

_LISTED = 12
"""Lines of a traceback or reasons shown before the rest is only counted."""


def header(report: Report) -> Iterator[str]:
    """Lines about the machine and what is unusual about the run."""
    environment = report.environment
    packages = ", ".join(f"{k} {v}" for k, v in environment["packages"].items())
    yield f"exactness {environment['exactness']} on {environment['cpu']}; kernels: {report.machine}"
    yield f"python {environment['python']}, {packages}, commit {environment['commit']}"
    for variant in report.variants_on:
        yield f"NOTE: the variant {variant} is switched on by the environment"


def table(report: Report) -> Table:
    """One row a claim."""
    rows = Table(box=None, pad_edge=False, header_style="bold")
    rows.add_column(
        "claim", no_wrap=True, min_width=max((len(r.claim) for r in report.rows), default=5)
    )
    for title in ("checks", "cases", "elements", "max ulp"):
        rows.add_column(title, justify="right", no_wrap=True)
    rows.add_column("result", no_wrap=True)
    for row in report.rows:
        rows.add_row(
            row.claim,
            str(len(row.outcomes)),
            f"{row.cases:,}",
            f"{row.elements:,}",
            f"{row.max_ulps:g}",
            Text(result(row), style=_STYLES[row.status]),
        )
    return rows


def kill_matrix(outcome: Mapping[str, Any]) -> Table:
    """What became of each mutant of a claim."""
    rows = Table(box=None, pad_edge=False, header_style="bold", title=outcome["claim"])
    rows.add_column("mutant", min_width=36)
    rows.add_column("fate")
    rows.add_column("by", min_width=24)
    for title in ("differing", "of", "runs"):
        rows.add_column(title, justify="right")
    for each in outcome["judgements"]:
        before = " (before the last rounding)" if each["before_last_rounding"] else ""
        rows.add_row(
            each["mutant"],
            Text(each["fate"], style="bold red" if each["fate"] == "survived" else ""),
            (each["by"] or each["reason"]) + before,
            f"{each['differing']:,}",
            f"{each['compared']:,}",
            "—" if each["runs"] is None else str(each["runs"]),
        )
    return rows


def mutant_lines(report: Report) -> Iterator[str]:
    """One line a claim: how many mutants were judged and what became of them."""
    for outcome in report.outcomes:
        if outcome["judgements"]:
            fates = [judgement["fate"] for judgement in outcome["judgements"]]
            counts = ", ".join(f"{fates.count(fate)} {fate}" for fate in dict.fromkeys(fates))
            slowest = max((j["runs"] or 0 for j in outcome["judgements"]), default=0)
            power = f"; at most {slowest} runs to see each with 99.9 %" if slowest > 1 else ""
            yield f"mutants: {outcome['claim']}, {outcome['notes'][0]}: {counts}{power}"


def result(row: ClaimRow) -> str:
    """The counts of a claim's checks by status."""
    counts = [(status, row.count(status)) for status in Status]
    return ", ".join(f"{count} {status.value}" for status, count in counts if count)


def failures(report: Report) -> Iterator[str]:
    """Every failed check: the first difference, the message, the line that reproduces it."""
    for outcome in report.outcomes:
        if outcome["status"] in (Status.FAILED.value, Status.ERROR.value):
            yield from failure(outcome)


def failure(outcome: Mapping[str, Any]) -> Iterator[str]:
    """One failed check."""
    yield f"{outcome['status'].upper()} {outcome['claim']}[{outcome['check']}]"
    for mismatch in outcome["mismatches"][:1]:
        yield f"  {mismatch['edge']}, {mismatch['tensor']}, {mismatch['where']}"
        yield from (f"    {line}" for line in mismatch["text"].splitlines())
    others = outcome["mismatches"][1:]
    if others:
        named = ", ".join(sorted({f"{m['tensor']} ({m['edge']})" for m in others}))
        yield f"  also different: {len(others)} more comparisons: {named}"
    lines = outcome["message"].splitlines()
    yield from (f"  {line}" for line in lines[-_LISTED:])
    yield from (f"  {note}" for note in outcome["notes"])
    if outcome["reproduction"]:
        yield f"  reproduce: {outcome['reproduction']}"


def skipped(report: Report) -> Iterator[str]:
    """What was not compared, and why."""
    for row in report.rows:
        for reason, count in row.not_run.items():
            yield f"not run: {row.claim}, {count} × {reason}"
    yield from report.broken
    if report.unclaimed:
        listed = ", ".join(f"{name} ({count})" for name, count in report.unclaimed.items())
        yield f"recorded, without a claim yet: {listed}"


def last_line(report: Report) -> str:
    """The totals, everything that did not run among them."""
    return ", ".join(
        f"{count} {name}"
        for name, count in report.totals.items()
        if count or name in (Status.PASSED.value, Status.FAILED.value, Status.NOT_RUN.value)
    )


def wide_console() -> Console:
    """A console on which no figure of a table is cut short; a narrow terminal wraps its lines."""
    return Console(width=max(Console().width, _WIDE), soft_wrap=True)


def print_whole(table: Table, console: Console) -> None:
    """Print a table that has names and reasons of any length; the console becomes as wide."""
    unbounded = console.options.update_width(sys.maxsize)
    console.width = max(console.width, Measurement.get(console, unbounded, table).maximum)
    console.print(table)


def table_text(report: Report) -> str:
    """The table as text."""
    console = wide_console()
    with console.capture() as captured:
        console.print(table(report))
    return captured.get().rstrip()


def print_report(report: Report, console: Console) -> None:
    """Everything, totals last."""
    for line in header(report):
        console.print(line, highlight=False, markup=False)
    console.print(table(report))
    for line in (*mutant_lines(report), *skipped(report), *failures(report)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print(last_line(report), highlight=False, markup=False)
