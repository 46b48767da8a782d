"""`exactness bench`: time the kernels of the catalogue on this GPU, with their bits checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from exactness import environment
from exactness.bench import tables
from exactness.bench.against import check_names
from exactness.bench.cases import Case, Cases, Selection, Unsupported, names, numbers
from exactness.bench.compare import Earlier
from exactness.bench.device import Cuda, Device
from exactness.bench.floors import peaks
from exactness.bench.measure import Effort
from exactness.bench.runner import Request, Runner
from exactness.bench.schema import BenchReport, Row
from exactness.catalogue import Catalogue
from exactness.errors import UsageError
from exactness.project import Project
from exactness.report.terminal import print_whole, wide_console
from exactness.writing import check_writable


@dataclass(frozen=True)
class Options:
    """What was asked for; see `exactness bench --help`."""

    selection: Selection = field(default_factory=Selection)
    request: Request = field(default_factory=Request)
    peak_bandwidth_gbs: float | None = None
    peak_bf16_tflops: float | None = None
    report: Path | None = None
    compare: Path | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        """Refuse repeats and rates that measure nothing.

        Raises:
            UsageError: an option is out of its range.
        """
        effort = self.request.effort
        if self.request.seed < 0:
            raise UsageError(f"--seed {self.request.seed}: from 0 up is accepted")
        if effort.warmup < 0 or effort.repeat < 1:
            raise UsageError(
                f"--warmup {effort.warmup}, --repeat {effort.repeat}: from 0 up and from 1 up "
                "are accepted"
            )
        for option, value in (
            ("--peak-bandwidth-gbs", self.peak_bandwidth_gbs),
            ("--peak-bf16-tflops", self.peak_bf16_tflops),
        ):
            if value is not None and not 0 < value < float("inf"):
                raise UsageError(f"{option}: {value} is not accepted; a number above 0 is")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """From the options of the command line, by name.

        Raises:
            UsageError: an option is out of its range.
        """
        selection = Selection(
            names=names(given["cases"], "--cases"),
            tokens=numbers(given["tokens"], "--tokens"),
            sequences=numbers(given["attention_seq_lens"], "--attention-seq-lens"),
            attention=given["attention_impl"],
            large=given["include_oe"],
        )
        effort = Effort(given["warmup"], given["repeat"])
        against = names(given["against"], "--against")
        request = Request(effort, given["seed"], against, given["launches"])
        kept = ("peak_bandwidth_gbs", "peak_bf16_tflops", "report", "compare", "strict")
        return cls(selection, request, **{name: given[name] for name in kept})

    def recorded(self) -> dict[str, object]:
        """The options that shape the result, by name, as the report holds them; no paths."""
        selection, request = self.selection, self.request
        return {
            "cases": list(selection.names),
            "tokens": list(selection.tokens),
            "attention_seq_lens": list(selection.sequences),
            "attention_impl": selection.attention,
            "include_oe": selection.large,
            "warmup": request.effort.warmup,
            "repeat": request.effort.repeat,
            "seed": request.seed,
            "peak_bandwidth_gbs": self.peak_bandwidth_gbs,
            "peak_bf16_tflops": self.peak_bf16_tflops,
            "against": list(request.against),
            "launches": request.launches,
            "strict": self.strict,
        }


def list_cases(wanted: Sequence[str], project: Path) -> int:
    """Print these cases, all if none is named; needs no GPU.

    Raises:
        UsageError: a name is unknown; there is no project, or its files cannot be read.
    """
    found = Cases.of(Catalogue(Project.find(project)))
    print_whole(tables.cases(found, found.named(wanted)), wide_console())
    for message in found.broken:
        Console(stderr=True, soft_wrap=True).print(f"warning: {message}", markup=False)
    return 0


def run(options: Options, project: Path, device: Device | None = None) -> int:
    """Measure and print; the exit status.

    Args:
        options: what was asked for.
        project: a folder at or below the project.
        device: the machine; this one's GPU if None.

    Raises:
        UsageError: no GPU, an unknown name, an earlier report that does not compare, or a report
            that cannot be written.
    """
    check_writable(options.report)
    found = Project.find(project)
    catalogue = Catalogue(found)
    cases = Cases.of(catalogue)
    selected = cases.select(options.selection)
    check_names(cases, options.request.against)
    device = device or Cuda()
    earlier = Earlier.load(options.compare, device.name) if options.compare else None
    console, errors = wide_console(), Console(stderr=True, soft_wrap=True)
    ceilings = peaks(device, options.peak_bandwidth_gbs, options.peak_bf16_tflops)
    runner = Runner(catalogue, device, options.request)
    rows = list(_rows(runner, selected, errors))
    report = BenchReport(
        environment=environment.collect(found.root).to_dict(),
        device=device.name,
        peaks=ceilings,
        empty_us=runner.floors.empty.median,
        options=options.recorded(),
        rows=rows,
    )
    _print(report, earlier, console, errors)
    if options.report is not None:
        report.write(options.report)
        console.print(f"report: {options.report}", highlight=False, soft_wrap=True)
    return report.exit_status(strict=options.strict)


def _rows(
    runner: Runner, selected: Sequence[Case | Unsupported], console: Console
) -> Iterator[Row]:
    """Measure under a progress bar."""
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("bench", total=len(selected))
        for case in selected:
            shape = f" {case.shape}" if isinstance(case, Case) else ""
            progress.update(task, description=f"{case.name}{shape}")
            yield runner.run(case)
            progress.advance(task)


def _print(report: BenchReport, earlier: Earlier | None, console: Console, errors: Console) -> None:
    """Tables on stdout, warnings on stderr, the counts last."""
    for line in tables.header(report):
        console.print(line, highlight=False, markup=False)
    for table in (tables.times(report), tables.against(report), tables.launches(report)):
        if table.row_count:
            print_whole(table, console)
    warnings = list(tables.warnings(report))
    if earlier is not None:
        console.print(f"new time over that of {earlier.path}", highlight=False, soft_wrap=True)
        print_whole(tables.changes(earlier.changes(report.to_dict())), console)
        warnings += earlier.warnings(report.environment)
    for line in tables.remarks(report):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for warning in warnings:
        errors.print(f"warning: {warning}", highlight=False, markup=False)
    console.print(tables.last_line(report), highlight=False, markup=False)
