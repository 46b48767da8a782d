"""`exactness verify NAME --which FILE`: name the contract that explains a kernel's outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from exactness import environment
from exactness.bitdiff import BitDiff
from exactness.errors import UsageError
from exactness.jsonable import jsonable
from exactness.messages import element_text
from exactness.project import Project
from exactness.report.terminal import wide_console
from exactness.session import Session
from exactness.which import (
    Apart,
    Changes,
    Finding,
    Given,
    Match,
    apart,
    match,
    single_changes,
)
from exactness.which.changes import Change
from exactness.writing import check_writable, write_atomically

SCHEMA_VERSION = 1
FILE_NAME = "which.json"

_LISTED = 8
"""Changes shown before the rest is only counted."""

_PHRASES: Mapping[str, str] = {
    "no_rounding": "a rounding left out",
    "toward_zero": "a rounding toward zero",
    "flush_subnormals": "subnormals flushed to zero",
    "reciprocal": "a product with the reciprocal in place of a division",
    "approximate": "the approximate instruction in place of the accurate function",
    "accurate": "the correctly rounded function in place of the approximate instruction",
    "contract_left": "product and sum contracted into an fma",
    "contract_right": "product and sum contracted into an fma",
    "uncontracted": "an fma taken apart into two roundings",
    "wider_accumulator": "a sum accumulated in a wider format",
    "constant_in_f32": "a constant kept in f32",
    "constant_rounded_twice": "a constant rounded twice",
    "nan_kept": "NaN kept where it is dropped",
    "zero_sign_lost": "the sign of zero lost",
    "zero_sign_of_first": "the sign of zero taken from the first operand",
    "drop_last": "the last element left out",
    "double_last": "the last element counted twice",
    "index_plus_one": "an index one too large",
    "index_minus_one": "an index one too small",
    "constant_plus_one": "a constant one too large",
    "left_dropped": "a term left out",
    "right_dropped": "a term left out",
    "boundary": "a comparison off by equality",
    "order": "the sum in another order, {}",
    "32_bits": "an integer cut to 32 bits",
    "64_bits": "64-bit arithmetic that does not wrap",
    "signed": "the remainder of a signed integer",
    "swapped": "two arrays taken for each other",
    "fraction_bits": "products aligned to {} fraction bits",
    "terms_rounded": "products rounded otherwise when they are aligned",
    "step_rounded_otherwise": "the sum of a step rounded otherwise",
    "step": "steps of {} products",
    "descending": "the steps in descending order",
    "two_parts": "the products summed in two parts",
    "bf16": "operands rounded to bf16",
    "fma_chain": "an fma for each product",
    "accumulator_last": "the accumulator added last",
}
"""By the name of a mutation, or the part of it ahead of "=" or of numbers."""

_VALUED = re.compile(r"(?P<stem>[a-z_0-9]+?)(?:=|_(?=[0-9]))(?P<value>.+)")


def run(
    claims: tuple[str, ...],
    file: Path,
    settings: tuple[str, ...],
    distinguish: Path | None,
    project: Path,
    report_folder: Path | None,
    seed: int,
) -> int:
    """Compare, print, and say which contract it is; the exit status.

    Raises:
        UsageError: not one claim, a file that the claim does not take, or one that cannot be
            written.
    """
    report = None if report_folder is None else report_folder / FILE_NAME
    check_writable(distinguish, report)
    if len(claims) != 1:
        raise UsageError("--which needs exactly one CLAIM")
    session = Session.open(Project.find(project), device="cpu")
    matched = match(session.context.catalogue, claims[0], Given.read(file, settings))
    console = wide_console()
    explaining = matched.explaining
    with console.status("looking for what explains it, or tells contracts apart"):
        changes = single_changes(matched)
        between = apart(explaining, seed) if len(explaining) > 1 else None
    console.print(_table(matched))
    for line in _lines(matched, changes, between):
        console.print(line, highlight=False, markup=False)
    if distinguish is not None:
        _distinguish(between, distinguish, console)
    if report is not None:
        _write(report, session.project, matched, changes, between)
        console.print(f"report: {report}", highlight=False)
    return 0 if explaining else 1


def _table(matched: Match) -> Table:
    """One row a contract, in the order in which they were found."""
    rows = Table(box=None, pad_edge=False, header_style="bold")
    rows.add_column("contract", no_wrap=True)
    rows.add_column("result", no_wrap=True)
    for title in ("differ", "of", "max ulp"):
        rows.add_column(title, justify="right", no_wrap=True)
    rows.add_column("first difference")
    for finding in matched.findings:
        rows.add_row(
            finding.contract.name,
            _result(finding),
            f"{finding.mismatches:,}",
            f"{finding.elements:,}",
            f"{finding.max_ulps:g}" if finding.elements else "—",
            _first(finding),
        )
    return rows


def _result(finding: Finding) -> str:
    if not finding.explains:
        return "different"
    return "equal (all NaN)" if all(d.all_nan for d in finding.diffs.values()) else "equal"


def _first(finding: Finding) -> str:
    formats = [_formats(name, diff) for name, diff in finding.diffs.items() if diff.format_differs]
    if formats:
        return formats[0]
    if finding.first is None:
        return "—"
    name, element = finding.first
    return f"{name} {element_text(element, finding.diffs[name].actual_format)}"


def _formats(name: str, diff: BitDiff) -> str:
    return f"{name}: {diff.actual_format.name}, expected {diff.expected_format.name}"


def _lines(matched: Match, changes: Changes, between: Apart | None) -> Iterator[str]:
    """What is said below the table, the verdict last."""
    yield f"outputs compared: {_compared(matched)}; {_parameters(matched)}"
    for left in matched.left_out:
        yield f"not compared: {left.contract.name}: {left.reason}"
    yield from matched.broken
    yield from _change_lines(matched, changes)
    if between is not None:
        yield from _apart_lines(between)
    yield verdict(matched, between)


def _compared(matched: Match) -> str:
    names = dict.fromkeys(name for finding in matched.findings for name in finding.diffs)
    return ", ".join(names)


def _parameters(matched: Match) -> str:
    """Every parameter in use, and whether it was given."""
    used: dict[str, Any] = {}
    for finding in matched.findings:
        used = {**finding.parameters, **used}
    return matched.given.described(used) or "no parameters"


def _change_lines(matched: Match, changes: Changes) -> Iterator[str]:
    found, tried = len(changes.found), changes.tried
    if matched.explaining and found:
        first = matched.explaining[0].contract.name
        yield f"these outputs do not exclude {found} of {tried} single changes of {first}:"
    elif matched.explaining:
        yield f"these outputs exclude all {tried} single changes of the contract"
    elif found:
        yield f"{found} of {tried} single changes of the contracts give these bits:"
    else:
        yield f"none of {tried} single changes of the contracts gives these bits"
    yield from (f"  {phrase(change)}" for change in changes.found[:_LISTED])
    if len(changes.found) > _LISTED:
        yield f"  … and {len(changes.found) - _LISTED} more"


def phrase(change: Change) -> str:
    """A change in words, and its name in the kill matrix."""
    if change.mutant is None:
        values = (change.parameters or {}).items()
        return f"{change.contract} with {', '.join(f'{k}={v}' for k, v in values)}"
    name = change.mutant.mutation.name if change.mutant.mutation else "boundary"
    return f"{change.contract} with {mutation_in_words(name)} ({change.mutant.name})"


def mutation_in_words(name: str) -> str:
    """A mutation in words; its name if there are none for it."""
    valued = _VALUED.fullmatch(name)
    if valued is None or name in _PHRASES:
        return _PHRASES.get(name, name)
    return _PHRASES.get(valued["stem"], name).format(valued["value"])


def _apart_lines(between: Apart) -> Iterator[str]:
    names = [" = ".join(group) for group in between.groups.names]
    if between.drawn is None:
        yield (
            f"no input of these shapes and formats told them apart: {between.elements:,} elements "
            f"of {between.examples} drawn inputs"
        )
    else:
        drawn = ", ".join(between.drawn.names)
        yield f"they part on {drawn} drawn as {between.drawn.family}:"
        for name, differing in zip(names[1:], between.groups.differing[1:], strict=True):
            count = f"{differing:,} of {between.groups.compared:,}"
            yield f"  {name} differs from {names[0]} in {count} elements"
    if between.other_outputs:
        yield f"they differ in {', '.join(between.other_outputs)}, which the file does not hold"


def verdict(matched: Match, between: Apart | None) -> str:
    """One line: explained by one contract, by several or by none."""
    names = ", ".join(finding.contract.name for finding in matched.explaining)
    if between is not None:
        if between.drawn is None:
            return f"explained by several: {names} (for such inputs they may be one contract)"
        return f"explained by several: {names} (these inputs do not tell them apart)"
    if names:
        return f"explained by {names}"
    nearest = matched.by_distance[0]
    differ = f"{nearest.mismatches:,} of {nearest.elements:,} elements differ"
    return f"explained by none; nearest is {nearest.contract.name}: {differ}"


def _distinguish(between: Apart | None, path: Path, console: Console) -> None:
    if between is None or between.drawn is None:
        why = "there are not several to tell apart" if between is None else "none tell them apart"
        console.print(f"{path} not written: {why}", highlight=False)
        return
    between.drawn.write(path)
    console.print(
        f"inputs in {path}: run the kernel on them, add its outputs, and ask again",
        highlight=False,
    )


def _write(
    path: Path, project: Project, matched: Match, changes: Changes, between: Apart | None
) -> None:
    record = {
        "schema_version": SCHEMA_VERSION,
        "environment": environment.collect(project.root).to_dict(),
        "file": str(matched.given.path),
        "asked": matched.asked.name,
        "verdict": verdict(matched, between),
        "explained_by": [finding.contract.name for finding in matched.explaining],
        "nearest": matched.by_distance[0].contract.name,
        "contracts": [_finding(finding) for finding in matched.findings],
        "not_compared": {left.contract.name: left.reason for left in matched.left_out},
        "broken": list(matched.broken),
        "single_changes": _changes(changes),
        "apart": None if between is None else _apart(between),
    }
    write_atomically(path, json.dumps(record, indent=1, allow_nan=False).encode())


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "contract": finding.contract.name,
        "explains": finding.explains,
        "parameters": jsonable(finding.parameters),
        "mismatches": finding.mismatches,
        "outputs": {name: jsonable(diff) for name, diff in finding.diffs.items()},
    }


def _changes(changes: Changes) -> dict[str, Any]:
    found = [
        {
            "contract": change.contract,
            "mutant": None if change.mutant is None else change.mutant.name,
            "parameters": jsonable(change.parameters),
            "text": phrase(change),
        }
        for change in changes.found
    ]
    return {"tried": changes.tried, "found": found}


def _apart(between: Apart) -> dict[str, Any]:
    return {
        "family": None if between.drawn is None else between.drawn.family,
        "groups": jsonable(between.groups),
        "other_outputs": list(between.other_outputs),
        "examples": between.examples,
        "elements": between.elements,
    }
