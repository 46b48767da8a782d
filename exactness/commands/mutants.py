"""`exactness mutants`: the kill matrix of a claim, and the witnesses that a search found."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from exactness.checks import Outcome, witnesses
from exactness.checks.mutants import MutantsCheck
from exactness.commands.verify import run_checks
from exactness.inputs import Example
from exactness.project import Project
from exactness.report.schema import outcome_record
from exactness.report.terminal import kill_matrix, print_report, wide_console
from exactness.session import EXAMPLES, Session, number_of_mutants


def run(
    claims: tuple[str, ...],
    project: Path,
    mutants: str,
    examples: int | None,
    seed: int,
    keep_witnesses: bool,
    report_folder: Path | None,
) -> int:
    """Judge mutants and print what became of each; the exit status.

    Raises:
        UsageError: unknown claim, or an option out of range.
    """
    session = Session.open(
        Project.find(project),
        device="cpu",
        examples=EXAMPLES if examples is None else examples,
        mutants=number_of_mutants(mutants),
        seed=seed,
    )
    entries = session.context.catalogue.select(claims)
    console = wide_console()
    outcomes = list(run_checks(session, [MutantsCheck(entry) for entry in entries], console))
    for outcome in outcomes:
        console.print(kill_matrix(outcome_record(outcome)))
        if keep_witnesses:
            _keep(session.project, outcome, console)
    report = session.report([outcome_record(outcome) for outcome in outcomes])
    print_report(report, console)
    if report_folder is not None:
        console.print(f"report: {report.write(report_folder)}", highlight=False)
    return report.exit_status


def _keep(project: Project, outcome: Outcome, console: Console) -> None:
    """Add what searches found to the claim's witnesses: mutants seen only by luck."""
    found = [
        witnesses.Witness(judgement.mutant, Example.from_json(judgement.witness))
        for judgement in outcome.judgements
        if judgement.witness
    ]
    if found:
        kept = witnesses.load(project, outcome.claim)
        path = witnesses.save(project, outcome.claim, [*kept, *found])
        console.print(f"{len(found)} witnesses of {outcome.claim} kept in {path}", highlight=False)
