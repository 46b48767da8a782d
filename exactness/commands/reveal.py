"""`exactness reveal`: the order in which a callable adds, drawn and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from exactness import environment
from exactness.errors import UsageError
from exactness.machines import choose
from exactness.reveal import Shape, Summation, Tree, drawing, known, parting, reveal, stored
from exactness.reveal.confirmation import accumulator
from exactness.reveal.errors import RevealError
from exactness.reveal.parting import parting_text
from exactness.reveal.targets import format_for, target
from exactness.writing import check_writable, write_atomically


@dataclass(frozen=True)
class Options:
    """What was asked for; see `exactness reveal --help`."""

    n: int
    kind: str | None = None
    format: str | None = None
    rows: int = 1
    columns: int = 1
    device: str = "auto"
    sizes: tuple[str, ...] = ()
    confirm: int = 0
    lines: int = 60
    arguments: str = "x,out,n"
    grid: str = "rows"
    block: str = "256"
    shared: int = 0


@dataclass(frozen=True)
class Files:
    """What to write, if anything."""

    dot: Path | None = None
    svg: Path | None = None
    json: Path | None = None


def run(address: str, against: str | None, options: Options, files: Files, project: Path) -> int:
    """Reveal, print and compare; the exit status.

    Raises:
        UsageError: the callable cannot be had, or shows no order; a file cannot be written.
    """
    check_writable(files.dot, files.svg, files.json)
    expected = None if against is None else _other(against, options, project)
    summation = _summation(address, options, project)
    tree = reveal(summation)
    calls = summation.calls
    click.echo(_headline(tree, summation, calls))
    if options.confirm:
        fmt = accumulator(summation, tree, options.confirm)
        click.echo(f"confirmed on {options.confirm} random rows, added in {fmt.name}")
    found = None if expected is None else parting(tree, expected)
    if against is None:
        click.echo(_shortened(drawing.text(tree), options.lines))
    elif found is None:
        click.echo(f"the same tree as {against}")
    else:
        click.echo(parting_text(found, address, against))
    _write(tree, summation, files)
    return 0 if found is None else 1


def _other(against: str, options: Options, project: Path) -> Tree:
    """What `--against` names: a file, an order, or something to probe."""
    if against.endswith(".json"):
        tree = stored.load(Path(against))
    elif against.partition(":")[0] in known.WORDS:
        tree = known.named(against, options.n)
    else:
        tree = reveal(_summation(against, options, project))
    if tree.n != options.n:
        raise RevealError(f"{against} has {tree.n} terms, not {options.n}; --n {tree.n}")
    return tree


def _summation(address: str, options: Options, project: Path) -> Summation:
    machine = choose(options.device)
    if address.isidentifier():
        return _kernel(address, options, project)
    # NumPy's functions and PTX entries run on the CPU, whatever there is beside it.
    hosted = address.startswith(("numpy", "math")) or ".ptx:" in address
    device = "cpu" if hosted and options.device == "auto" else machine.device
    fmt = format_for(options.format)
    shape = Shape(options.n, fmt, options.rows, options.columns, device)
    if ".ptx:" in address:
        return _entry(address, shape, options)
    return target(address, shape, options.kind)


def _entry(address: str, shape: Shape, options: Options) -> Summation:
    from exactness.reveal.entries import Call, PTXEntry

    how = Call(
        tuple(options.arguments.split(",")),
        tuple(options.grid.split(",")),
        tuple(options.block.split(",")),
        options.shared,
    )
    return PTXEntry(address, shape, how, options.kind)


def _kernel(name: str, options: Options, project: Path) -> Summation:
    from exactness.catalogue import Catalogue
    from exactness.project import Project
    from exactness.reveal.claims import Kernel

    (entry,) = Catalogue(Project.find(project)).select((name,))
    machine = choose(options.device)
    return Kernel(entry.claim, machine, options.n, options.format, _sizes(options.sizes))


def _sizes(given: tuple[str, ...]) -> Mapping[str, int]:
    sizes = {}
    for text in given:
        name, _, number = text.partition("=")
        if not number.isdecimal():
            raise UsageError(f"--size {text!r}: NAME=NUMBER is accepted")
        sizes[name] = int(number)
    return sizes


def _headline(tree: Tree, summation: Summation, calls: int) -> str:
    names = known.recognized(tree)
    called = f"in the order {' = '.join(names)}" if names else "in an order without a name"
    fused = f", up to {tree.widest} operands at once" if tree.widest > 2 else ""
    probes = "" if summation.probes == calls else f" for {summation.probes} probes"
    return (
        f"{summation.name} adds {tree.n} {summation.format.name} terms {called}\n"
        f"{len(tree.children)} additions{fused}, depth {tree.depth}; {calls} calls{probes}"
    )


def _write(tree: Tree, summation: Summation, files: Files) -> None:
    title = f"{summation.name}, {tree.n} {summation.format.name} terms"
    if files.dot is not None:
        write_atomically(files.dot, drawing.dot(tree, title).encode())
    if files.svg is not None:
        write_atomically(files.svg, drawing.svg(tree, title).encode())
    if files.json is not None:
        found = stored.record(tree, summation, environment.collect())
        write_atomically(files.json, stored.text(found).encode())


def _shortened(text: str, most: int) -> str:
    lines = text.splitlines()
    if not 0 < most < len(lines):
        return text
    left = len(lines) - most
    return "\n".join([*lines[:most], f"… {left} more lines: --lines 0 shows all, --svg draws them"])
