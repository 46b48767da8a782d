"""The pytest plugin: hooks that delegate.

Loaded in every project where exactness is installed, so it imports nothing heavy; the work is in
`exactness.collection`, imported when a kernel file is met.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exactness.errors import UsageError
from exactness.project import Project

if TYPE_CHECKING:
    from exactness.session import Session

KEY = "exactness"
"""Under this name an item leaves its outcome in `user_properties`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the bitwise checks."""
    group = parser.getgroup("exactness", "bit-exact checks of kernels")
    group.addoption(
        "--exactness-device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="where kernels run: a GPU if there is one (auto), the virtual Hopper (cpu), a GPU",
    )
    group.addoption(
        "--exactness-examples", type=int, metavar="N", help="Hypothesis examples of a check"
    )
    group.addoption(
        "--exactness-mutants",
        metavar="N|all",
        help="mutants of a claim's reference, and faults of its kernel, that are judged; a sample "
        "unless asked for all",
    )
    group.addoption(
        "--exactness-seed", type=int, default=0, metavar="N", help="added to every seed"
    )
    group.addoption(
        "--exactness-report", type=Path, metavar="DIR", help="write report.json into this folder"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; in a project with a catalogue, the hooks that collect it."""
    config.addinivalue_line("markers", "bitexact: compares bits of a kernel of the catalogue")
    try:
        project = Project.find(config.rootpath)
    except UsageError:
        return
    config.pluginmanager.register(_Hooks(config, project), "exactness-hooks")


_GOOD = ("passed", "proved for all inputs")


class _Hooks:
    """The hooks of a project with a catalogue; the engine is imported when it is needed."""

    def __init__(self, config: pytest.Config, project: Project) -> None:
        self._config, self._project = config, project
        self._outcomes: list[dict[str, Any]] = []
        self._deselected = 0

    @functools.cached_property
    def _session(self) -> Session:
        from exactness.collection import open_session

        return open_session(self._config, self._project)

    @property
    def _reports(self) -> bool:
        """Workers of pytest-xdist send their outcomes; only the controller reports."""
        return not hasattr(self._config, "workerinput")

    def pytest_report_header(self) -> str:
        """Where kernels will run."""
        from exactness.machines import choose

        machine = choose(self._config.getoption("exactness_device"))
        return f"exactness: kernels run on {machine.name}, catalogue {self._project.kernels}"

    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> pytest.Collector | None:
        """Kernel files are collected directly."""
        if file_path.suffix != ".py" or file_path.name.startswith("_"):
            return None
        if file_path.parent != self._project.kernels:
            return None
        from exactness.collection import KernelFile

        file: pytest.Collector = KernelFile.from_parent(
            parent, path=file_path, exactness=self._session
        )
        return file

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Checks left out by -k, -m or --lf are counted."""
        self._deselected += sum(item.get_closest_marker("bitexact") is not None for item in items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather the outcomes that items leave in their reports."""
        if report.when == "call":
            properties: list[tuple[str, Any]] = report.user_properties
            self._outcomes += [value for key, value in properties if key == KEY]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A run that was asked for bitwise checks and made none has not passed."""
        asked = "bitexact" in (self._config.getoption("markexpr", "") or "")
        passed = any(outcome["status"] in _GOOD for outcome in self._outcomes)
        collecting = self._config.getoption("collectonly", False)
        if self._reports and asked and not passed and not collecting and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """One row a claim, what did not run and why, totals last."""
        if self._reports and self._outcomes:
            from exactness.collection import summarize

            report = self._session.report(self._outcomes, self._deselected)
            summarize(report, terminalreporter, self._config.getoption("exactness_report"))
