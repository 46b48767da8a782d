"""pytest's view of the catalogue: kernel files, their checks as items, the summary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exactness.checks import GOOD, Check, Status
from exactness.errors import UsageError
from exactness.project import Project
from exactness.pytest_plugin import KEY
from exactness.report import terminal
from exactness.report.schema import Report, outcome_record, report_file
from exactness.session import EXAMPLES, Session, number_of_mutants
from exactness.writing import check_writable


def open_session(config: pytest.Config, project: Project) -> Session:
    """The session that the options ask for.

    Raises:
        pytest.UsageError: an option cannot be fulfilled; pytest exits with status 4.
    """
    examples = config.getoption("exactness_examples")
    mutants = config.getoption("exactness_mutants")
    try:
        check_writable(report_file(config.getoption("exactness_report")))
        return Session.open(
            project,
            device=config.getoption("exactness_device"),
            examples=EXAMPLES if examples is None else examples,
            mutants=number_of_mutants(mutants),
            seed=config.getoption("exactness_seed"),
        )
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


class KernelFile(pytest.File):
    """A kernel file: its items are the checks of its claims."""

    def __init__(self, *, exactness: Session, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.exactness = exactness

    def collect(self) -> Iterator[pytest.Item]:
        """One item a check.

        Raises:
            pytest.Collector.CollectError: recordings cannot be read.
        """
        try:
            for entry in self.exactness.context.catalogue.load(self.path):
                for check in self.exactness.checks(entry):
                    name = f"{entry.claim.name}[{check.id}]"
                    # As text, so that pytest splits the bracket off the id as it does on --lf.
                    nodeid = f"{self.nodeid}::{name}"
                    yield CheckItem.from_parent(self, name=name, nodeid=nodeid, check=check)
        except UsageError as error:
            raise self.CollectError(str(error)) from None


class CheckFailedError(Exception):
    """A check that failed; carries its outcome as plain data."""

    def __init__(self, record: dict[str, Any]) -> None:
        super().__init__(record["check"])
        self.record = record


class CheckItem(pytest.Item):
    """One check of one claim."""

    def __init__(self, *, check: Check, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.check = check
        self.add_marker("bitexact")

    def runtest(self) -> None:
        """Run the check; leave its outcome for the report."""
        assert isinstance(self.parent, KernelFile)
        outcome = self.check.run(self.parent.exactness.context)
        record = outcome_record(outcome)
        self.user_properties.append((KEY, record))
        if outcome.status is Status.NOT_RUN:
            pytest.skip("; ".join(outcome.not_run))
        if outcome.status not in GOOD:
            raise CheckFailedError(record)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The report of the check in place of a traceback."""
        if isinstance(excinfo.value, CheckFailedError):
            return "\n".join(terminal.failure(excinfo.value.record))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[os.PathLike[str], int | None, str]:
        """Where pytest says the item stands."""
        return self.path, None, self.name


def summarize(report: Report, reporter: Any, folder: Path | None) -> None:
    """The table of claims, what did not run and why, totals last; the JSON if asked for."""
    reporter.section("exactness")
    for line in terminal.header(report):
        reporter.line(line)
    reporter.line(terminal.table_text(report))
    for line in (*terminal.mutant_lines(report), *terminal.skipped(report)):
        reporter.line(line)
    if folder is not None:
        reporter.line(f"report: {report.write(folder)}")
    reporter.line(f"bitexact: {terminal.last_line(report)}")
