"""`exactness mutants`: the kill matrices of claims, and the witnesses that a search found."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from exactness.catalogue import Entry
from exactness.checks import Check, Outcome, witnesses
from exactness.checks.kernel_mutants import KernelMutantsCheck
from exactness.checks.mutants import MutantsCheck
from exactness.claim import GPU
from exactness.commands.verify import run_checks
from exactness.inputs import Example
from exactness.project import Project
from exactness.report.schema import outcome_record, report_file
from exactness.report.terminal import kill_matrix, print_report, wide_console
from exactness.session import EXAMPLES, Session, number_of_mutants
from exactness.writing import check_writable


def run(
    claims: tuple[str, ...],
    project: Path,
    mutants: str,
    examples: int | None,
    seed: int,
    keep_witnesses: bool,
    report_folder: Path | None,
) -> int:
    """Judge mutants of references and of kernels, and print what became of each; the exit status.

    Raises:
        UsageError: unknown claim, an option out of range, or a file that cannot be written.
    """
    check_writable(report_file(report_folder))
    session = Session.open(
        Project.find(project),
        device="cpu",
        examples=EXAMPLES if examples is None else examples,
        mutants=number_of_mutants(mutants),
        seed=seed,
    )
    entries = session.context.catalogue.select(claims)
    if keep_witnesses:
        check_writable(*(witnesses.path_of(session.project, each.claim.name) for each in entries))
    console = wide_console()
    checks = [check for entry in entries for check in _checks(entry)]
    outcomes = list(run_checks(session, checks, console))
    for outcome in outcomes:
        matrix = kill_matrix(outcome_record(outcome))
        matrix.title = f"{outcome.claim}: {outcome.kind}"
        console.print(matrix)
        if keep_witnesses:
            _keep(session.project, outcome, console)
    report = session.report([outcome_record(outcome) for outcome in outcomes])
    print_report(report, console)
    if report_folder is not None:
        console.print(f"report: {report.write(report_folder)}", highlight=False)
    return report.exit_status


def _checks(entry: Entry) -> list[Check]:
    """What is wrong in a reference, then in what is compiled."""
    compiled = [KernelMutantsCheck(entry)] if entry.claim.runs_on == GPU else []
    return [MutantsCheck(entry), *compiled]


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
