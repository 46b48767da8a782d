"""The benchmark's report as tables and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from exactness.bench.bitcheck import BitCheck
from exactness.bench.cases import Cases
from exactness.bench.compare import CLOCKS, Change
from exactness.bench.launches import Accounting
from exactness.bench.measure import Measurement
from exactness.bench.model import Peaks
from exactness.bench.schema import BenchReport, Compared, Row, State
from exactness.bench.timer import Timing

NOISY = 0.2
"""A spread from which a time is called noisy."""

_NONE = "—"


def _plain(*titles: str, left: int = 2) -> Table:
    """A table whose first columns are names, the others figures."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, title in enumerate(titles):
        table.add_column(title, justify="left" if number < left else "right", no_wrap=True)
    return table


def _us(timing: Timing | None) -> str:
    return _NONE if timing is None else f"{timing.median:.2f}"


def _measured_cells(row: Row, measured: Measurement, peaks: Peaks) -> list[str]:
    graph = measured.best_known
    rate, unit = row.amount.rate(graph.median, peaks)
    times = row.times_copy()
    return [
        _us(measured.event),
        _us(measured.graph),
        f"{graph.spread:.0%}",
        _us(measured.warm),
        _us(measured.host),
        f"{rate:.1f} {unit}",
        f"{row.amount.share(graph.median, peaks):.1%}",
        _NONE if row.copy is None else _us(row.copy.graph),
        _NONE if times is None else f"{times:.2f}",
    ]


def times(report: BenchReport) -> Table:
    """One row a case and shape that was measured."""
    table = _plain(
        *("case", "shape", "event µs", "graph µs", "±", "warm µs", "host µs", "rate"),
        *("roofline", "copy µs", "× copy", "bits"),
    )
    for row in report.rows:
        if row.measured is not None:
            cells = _measured_cells(row, row.measured, report.peaks)
            table.add_row(row.case, row.shape, *cells, _verdict(row.state))
    return table


def _verdict(state: State) -> Text:
    if state is State.WRONG_BITS:
        return Text(state.value, style="bold red")
    return Text("right", style="green")


def against(report: BenchReport) -> Table:
    """One row a comparator."""
    table = _plain(
        *("case", "shape", "against", "event µs", "graph µs", "host µs", "× kernel", "bits"), left=3
    )
    for row in report.rows:
        if row.measured is None:
            continue
        for each in row.against:
            table.add_row(row.case, row.shape, each.name, *_compared_cells(each, row.measured))
    return table


def _compared_cells(each: Compared, kernel: Measurement) -> list[str]:
    measured, ratio = each.measured, each.ratio(kernel)
    if measured is None or ratio is None:
        return [_NONE, _NONE, _NONE, _NONE, each.reason]
    clock = "" if measured.graph and kernel.graph else " (events)"
    times_of_it = [_us(measured.event), _us(measured.graph), _us(measured.host)]
    return [*times_of_it, f"{ratio:.2f}{clock}", bits_of(measured.bits)]


def bits_of(bits: BitCheck) -> str:
    """Whether a comparator gives the baseline's bits."""
    if bits.right:
        return "the baseline's"
    return f"others in {bits.differing:,} of {bits.elements:,}"


def launches(report: BenchReport) -> Table:
    """One row a subject whose launches were counted."""
    table = _plain(
        *("case", "shape", "subject", "launches", "allocations", "uploads", "upload bytes"),
        *("other copies", "note"),
        left=3,
    )
    for row in report.rows:
        for name, each in row.launches.items():
            table.add_row(row.case, row.shape, name, *_account_cells(each))
    return table


def _account_cells(each: Accounting) -> list[str]:
    counts = (
        each.launches,
        each.allocations,
        each.uploads,
        each.upload_bytes,
        each.other_copies,
    )
    return [*(_NONE if count is None else f"{count:g}" for count in counts), each.reason]


def changes(found: Sequence[Change]) -> Table:
    """New time over old time, one row a case and shape."""
    table = _plain("case", "shape", *CLOCKS, "source")
    for change in found:
        ratios = [
            f"{change.ratios[clock]:.3f}" if clock in change.ratios else _NONE for clock in CLOCKS
        ]
        source = "same" if change.same_source else "changed"
        table.add_row(change.case, change.shape, *ratios, source)
    return table


def cases(found: Cases, names: Sequence[str]) -> Table:
    """What can be asked for by these names."""
    table = _plain("case", "claim", "shape", "note", left=4)
    for name in names:
        if name in found.planned:
            table.add_row(name, _NONE, _NONE, f"unsupported: {found.planned[name]}")
            continue
        entry, bench = found.benches[name]
        shape = f"{bench.axis}={','.join(map(str, bench.tokens))}"
        note = f"{bench.large}; needs --include-oe" if bench.large else ""
        table.add_row(name, entry.claim.name, shape, note)
    return table


def header(report: BenchReport) -> Iterator[str]:
    """The machine, its ceilings, and what the columns mean."""
    environment, peaks = report.environment, report.peaks
    packages = environment["packages"]
    versions = ", ".join(f"{name} {version}" for name, version in packages.items())
    yield f"exactness {environment['exactness']} on {report.device}; {versions}"
    yield (
        f"ceilings: {peaks.bandwidth_gbs:.0f} GB/s ({peaks.bandwidth_source}), "
        f"{peaks.bf16_tflops:.0f} bf16 TFLOPS ({peaks.tflops_source}); "
        f"an empty launch in a graph: {report.empty_us:.2f} µs"
    )
    yield (
        "event: one call between events; graph: one of the calls of a graph, cold cache; "
        "warm: the same arguments again; host: issuing one call"
    )


def remarks(report: BenchReport) -> Iterator[str]:
    """What did not run and why, and every difference."""
    for row in report.rows:
        named = " ".join(filter(None, (row.case, row.shape)))
        if row.measured is None:
            yield f"{row.state.value}: {named}: {row.reason}"
            continue
        if row.measured.no_graph:
            yield f"no graph: {named}: {row.measured.no_graph}"
        for text in row.measured.bits.found[:1]:
            yield from f"{row.state.value}: {named}: {text}".splitlines()


def warnings(report: BenchReport) -> Iterator[str]:
    """What makes times doubtful."""
    for row in report.rows:
        if row.measured is not None and row.measured.best_known.spread > NOISY:
            spread = row.measured.best_known.spread
            yield f"{row.case} {row.shape}: half of the times spread over {spread:.0%}"


def last_line(report: BenchReport) -> str:
    """The counts by state."""
    counts = [(state, report.count(state)) for state in State]
    shown = (State.MEASURED, State.WRONG_BITS)
    return ", ".join(f"{count} {state.value}" for state, count in counts if count or state in shown)
