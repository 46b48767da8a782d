"""`exactness verify`: run checks, show the report, say whether all bits were equal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from exactness.catalogue import Entry
from exactness.checks import Check, Outcome
from exactness.checks.bitwise import ExampleCheck
from exactness.errors import UsageError
from exactness.inputs import Example
from exactness.project import Project
from exactness.report.schema import outcome_record, report_file
from exactness.report.terminal import print_report, wide_console
from exactness.session import EXAMPLES, Session, number_of_mutants
from exactness.writing import check_writable


@dataclass(frozen=True)
class Options:
    """What was asked for; see `exactness verify --help`."""

    claims: tuple[str, ...] = ()
    golden: Path | None = None
    device: str = "auto"
    examples: int | None = None
    mutants: str | None = None
    seed: int = 0
    keyword: str = ""
    example: str | None = None
    variant: str | None = None

    def refuse_beside(self, option: str, but: tuple[str, ...]) -> None:
        """Refuse options that mean nothing beside another one.

        Raises:
            UsageError: an option other than those in `but` is not at its default.
        """
        for each in fields(self):
            if each.name not in but and getattr(self, each.name) != each.default:
                name = "-k" if each.name == "keyword" else f"--{each.name}"
                raise UsageError(f"{name} does not go with {option}")


def run(options: Options, project: Path, report_folder: Path | None) -> int:
    """Verify and print; the exit status.

    Raises:
        UsageError: unknown claim, unreadable recording, nothing selected, or a report
            that cannot be written.
    """
    check_writable(report_file(report_folder))
    session = Session.open(
        Project.find(project),
        device=options.device,
        examples=EXAMPLES if options.examples is None else options.examples,
        mutants=number_of_mutants(options.mutants),
        seed=options.seed,
        golden=options.golden,
    )
    checks = _checks(session, options)
    chosen = [check for check in checks if options.keyword in check.id]
    if not chosen:
        raise UsageError(f"-k {options.keyword!r} selects none of {len(checks)} checks")
    console = wide_console()
    outcomes = [outcome_record(outcome) for outcome in run_checks(session, chosen, console)]
    report = session.report(outcomes, deselected=len(checks) - len(chosen))
    print_report(report, console)
    if report_folder is not None:
        console.print(f"report: {report.write(report_folder)}", highlight=False)
    return report.exit_status


def _checks(session: Session, options: Options) -> list[Check]:
    entries = session.context.catalogue.select(options.claims)
    if options.example is not None:
        return [_example(entries, options)]
    if options.variant is not None:
        raise UsageError("--variant needs --example")
    if options.golden is not None:
        return session.replays(entries)
    return [check for entry in entries for check in session.checks(entry)]


def _example(entries: list[Entry], options: Options) -> Check:
    if len(entries) != 1:
        raise UsageError("--example needs exactly one CLAIM")
    claim = entries[0].claim
    variants = {variant.name: variant for variant in claim.variants}
    if options.variant is not None and options.variant not in variants:
        known = ", ".join(variants) or "none"
        raise UsageError(f"claim {claim.name} has no variant {options.variant!r}; it has {known}")
    example = _read_example(options.example or "")
    missing = claim.inputs.tensors.keys() ^ example.tensors.keys()
    if missing:
        raise UsageError(f"--example: claim {claim.name} takes {', '.join(claim.inputs.tensors)}")
    return ExampleCheck(entries[0], example, variants.get(options.variant or ""))


def _read_example(text: str) -> Example:
    try:
        return Example.from_dict(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--example: {error}") from None


def run_checks(session: Session, checks: list[Check], console: Console) -> Iterator[Outcome]:
    """Run checks under a progress bar."""
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("checks", total=len(checks))
        for check in checks:
            progress.update(task, description=f"{check.claim.name}[{check.id}]")
            yield check.run(session.context)
            progress.advance(task)
