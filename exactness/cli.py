"""The command line: verify, mutants, bench, diff, reveal, record, ppl, list, env.

Exit status: 0 equal, 1 different, 2 usage or unreadable, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

import exactness
from exactness.errors import INTERRUPTED, UsageError

R = TypeVar("R")

_PATH = click.Path(path_type=Path)


class _OneLine(click.ClickException):
    """A usage error: one line on stderr."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print it."""
        line = " ".join(map(str.strip, self.message.splitlines()))
        click.echo(f"exactness: {line}", file=file, err=True)


class _Stopped(_OneLine):
    """Ctrl-C."""

    exit_code = INTERRUPTED


@contextmanager
def _one_line() -> Iterator[None]:
    """Usage errors of the engine and of click alike; a call without arguments shows the help."""
    try:
        yield
    except KeyboardInterrupt:
        raise _Stopped("stopped") from None
    except UsageError as error:
        raise _OneLine(str(error)) from None
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # from click 8.2 on
            raise
        message = error.format_message().rstrip(".")
        command = error.ctx.command_path if error.ctx else "exactness"
        raise _OneLine(f"{message}; {command} --help shows what is accepted") from None


class _Group(click.Group):
    """Commands whose usage errors are one line each, with exit status 2."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _one_line():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _one_line():
            return super().invoke(ctx)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(exactness.__version__, prog_name="exactness")
def main() -> None:
    """Bit-exact verification of fused GPU kernels, with the H200's bits on any CPU."""


def _project_option(function: Callable[..., R]) -> Callable[..., R]:
    return click.option(
        "--project",
        type=_PATH,
        default=Path(),
        help="Folder at or below the pyproject.toml with [tool.exactness]; default: here.",
    )(function)


@main.command()
@click.argument("claims", nargs=-1, metavar="[CLAIM]...")
@click.option("--golden", type=_PATH, help="Replay this recording file alone.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    help="Where kernels run: a GPU if there is one, the virtual Hopper, a GPU.",
)
@click.option("--examples", type=int, help="Hypothesis examples of a check.")
@click.option("--mutants", metavar="N|all", help="Mutants of a claim that are judged.")
@click.option("--seed", type=int, default=0, help="Added to every seed.")
@click.option("-k", "keyword", default="", help="Only checks whose id contains this text.")
@click.option("--report", type=_PATH, help="Write report.json into this folder.")
@click.option("--example", help="Replay one printed example (JSON).")
@click.option("--variant", help="With --example: the opt-in variant.")
@click.option(
    "--which", type=_PATH, help="Name the contract that explains this file of inputs and outputs."
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="With --which: a parameter."
)
@click.option(
    "--distinguish", type=_PATH, help="With --which: write inputs that tell contracts apart."
)
@_project_option
def verify(
    claims: tuple[str, ...],
    golden: Path | None,
    device: str,
    examples: int | None,
    mutants: str | None,
    seed: int,
    keyword: str,
    report: Path | None,
    example: str | None,
    variant: str | None,
    which: Path | None,
    settings: tuple[str, ...],
    distinguish: Path | None,
    project: Path,
) -> None:
    """Check CLAIMs (all if none are named): recordings, references and kernels, bit by bit."""
    from exactness.commands import verify as command

    options = command.Options(
        claims, golden, device, examples, mutants, seed, keyword, example, variant
    )
    if which is not None:
        from exactness.commands import which as naming

        options.refuse_beside("--which", but=("claims", "seed"))
        sys.exit(naming.run(claims, which, settings, distinguish, project, report, seed))
    if settings or distinguish is not None:
        raise UsageError("--set and --distinguish need --which")
    sys.exit(command.run(options, project, report))


@main.command()
@click.argument("claims", nargs=-1, metavar="[CLAIM]...")
@click.option("--mutants", default="all", metavar="N|all", help="How many; default: all.")
@click.option("--examples", type=int, help="Hypothesis examples of a default run.")
@click.option("--seed", type=int, default=0, help="Added to every seed.")
@click.option("--keep-witnesses", is_flag=True, help="Write the inputs that a search found.")
@click.option("--report", type=_PATH, help="Write report.json into this folder.")
@_project_option
def mutants(
    claims: tuple[str, ...],
    mutants: str,
    examples: int | None,
    seed: int,
    keep_witnesses: bool,
    report: Path | None,
    project: Path,
) -> None:
    """Show the kill matrix of CLAIMs: would the checks notice each wrong arithmetic?"""
    from exactness.commands import mutants as command

    sys.exit(command.run(claims, project, mutants, examples, seed, keep_witnesses, report))


@main.command()
@click.option("--cases", metavar="A,B", help="Only these cases; default: all.")
@click.option("--list-cases", is_flag=True, help="List the cases and stop; needs no GPU.")
@click.option("--tokens", metavar="N,M", help="Numbers of tokens, as 1,32,128,512.")
@click.option("--attention-seq-lens", metavar="N,M", help="Lengths of a sequence, as 2048,4096.")
@click.option("--attention-impl", default="triton", help="Implementation of attention.")
@click.option("--include-oe", is_flag=True, help="Also cases with 16 GiB of tables.")
@click.option("--warmup", type=int, default=25, help="Calls before the first that counts.")
@click.option("--repeat", type=int, default=100, help="Calls and replays that count.")
@click.option("--seed", type=int, default=0, help="Added to every seed.")
@click.option("--peak-bandwidth-gbs", type=float, help="Memory bandwidth; default: measured.")
@click.option("--peak-bf16-tflops", type=float, help="bf16 matrix rate; default: measured.")
@click.option("--against", metavar="A,B", help="Comparators: chain, compile, torch, liger.")
@click.option("--launches", is_flag=True, help="Count launches, allocations and uploads.")
@click.option("--report", type=_PATH, help="Write the result as JSON to this file.")
@click.option("--compare", type=_PATH, help="Show ratios to an earlier report of this GPU.")
@click.option("--strict", is_flag=True, help="An unsupported case exits with 1.")
@_project_option
def bench(project: Path, list_cases: bool, **given: Any) -> None:
    """Time the kernels of the catalogue on this GPU, their bits checked in the same run."""
    from exactness.commands import bench as command

    options = command.Options.of(given)
    if list_cases:
        sys.exit(command.list_cases(options.selection.names, project))
    sys.exit(command.run(options, project))


@main.command()
@click.argument("actual", type=_PATH)
@click.argument("expected", type=_PATH)
@click.option("--report", type=_PATH, help="Write the result as JSON to this file.")
@click.option("--ignore-zero-sign", is_flag=True, help="+0 equals −0.")
@click.option("--nan-payloads", is_flag=True, help="NaN of different patterns differ.")
def diff(
    actual: Path, expected: Path, report: Path | None, ignore_zero_sign: bool, nan_payloads: bool
) -> None:
    """Compare two files of tensors (.safetensors .npz .npy .pt) bit by bit, by name."""
    from exactness import messages
    from exactness.compare import Verdict
    from exactness.diff import diff_files
    from exactness.jsonable import jsonable
    from exactness.writing import check_writable, write_atomically

    check_writable(report)
    found = diff_files(actual, expected, zero_signs=not ignore_zero_sign, nan_payloads=nan_payloads)
    click.echo(messages.file_report(found))
    if report is not None:
        record = {"schema_version": 1, **jsonable(found)}
        write_atomically(report, json.dumps(record, indent=1, allow_nan=False).encode())
    sys.exit(0 if found.verdict is Verdict.EQUAL else 1)


@main.command()
@click.argument("claim")
@click.option("--out", type=_PATH, help="The file; default: <golden>/<claim>.safetensors.")
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), help="Where the baseline runs; default: a GPU."
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option(
    "--family", "families", multiple=True, metavar="NAME", help="Family of values; default: normal."
)
@_project_option
def record(
    claim: str,
    out: Path | None,
    device: str | None,
    force: bool,
    families: tuple[str, ...],
    project: Path,
) -> None:
    """Run CLAIM's baseline on this machine with seeded inputs and write its golden file."""
    from exactness.commands import record as command

    sys.exit(command.run(claim, project, out, device, force, families))


@main.command()
@click.argument("target")
@click.option("--n", type=click.IntRange(1), default=32, show_default=True, help="Terms.")
@click.option("--against", metavar="OTHER", help="Compare: a target, a named order, a .json file.")
@click.option(
    "--kind",
    type=click.Choice(["sum", "mean", "rows", "dot", "linear", "matmul", "norm"]),
    help="What TARGET takes; default: from its name.",
)
@click.option("--format", "fmt", help="Format of the terms; default: f32, or the claim's.")
@click.option("--rows", type=int, default=1, help="Rows that one call takes.")
@click.option("--columns", type=int, default=1, help="Columns of linear or matmul.")
@click.option("--size", "sizes", multiple=True, metavar="NAME=NUMBER", help="A size of a claim.")
@click.option("--confirm", type=int, default=0, metavar="N", help="Then replay N random rows.")
@click.option("--args", default="x,out,n", show_default=True, help="Arguments of a PTX entry.")
@click.option("--grid", default="rows", show_default=True, help="Blocks of a PTX entry.")
@click.option("--block", default="256", show_default=True, help="Threads of its blocks.")
@click.option("--shared", type=int, default=0, help="Bytes of its dynamic shared memory.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto")
@click.option("--lines", type=int, default=60, help="Lines of the drawing; 0: all.")
@click.option("--dot", type=_PATH, help="Write the tree for Graphviz.")
@click.option("--svg", type=_PATH, help="Write a picture.")
@click.option("--json", "json_file", type=_PATH, help="Write the tree as JSON.")
@_project_option
def reveal(
    target: str,
    n: int,
    against: str | None,
    kind: str | None,
    fmt: str | None,
    rows: int,
    columns: int,
    sizes: tuple[str, ...],
    confirm: int,
    args: str,
    grid: str,
    block: str,
    shared: int,
    device: str,
    lines: int,
    dot: Path | None,
    svg: Path | None,
    json_file: Path | None,
    project: Path,
) -> None:
    """Show in which order TARGET adds.

    TARGET is a claim, a callable as numpy.sum or module:function, or an entry as file.ptx:name.
    """
    from exactness.commands import reveal as command

    launch = (args, grid, block, shared)
    options = command.Options(n, kind, fmt, rows, columns, device, sizes, confirm, lines, *launch)
    sys.exit(command.run(target, against, options, command.Files(dot, svg, json_file), project))


@main.command()
@click.option("--model", help="A folder or hub name; default: the small model that ships.")
@click.option(
    "--patch",
    "patches",
    multiple=True,
    metavar="PATTERN=CLAIM[:VARIANT]",
    help="Norms to replace; default: those of queries and keys, by qnorm.",
)
@click.option("--text", type=_PATH, help="The text to score; default: the one that ships.")
@click.option("--context", type=click.IntRange(1), help="Tokens of a window.")
@click.option("--stride", type=click.IntRange(1), help="Between windows; default: the context.")
@click.option("--max-tokens", type=int, default=65536, show_default=True, help="At most.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto")
@click.option(
    "--report",
    type=_PATH,
    default=Path("ppl"),
    show_default=True,
    help="Folder for the report, and for finished chunks while it runs.",
)
@click.option("--resume", is_flag=True, help="Go on with the run that was stopped.")
@_project_option
def ppl(report: Path, project: Path, **given: Any) -> None:
    """Compare the perplexity of a model with the opt-in arithmetic and without it."""
    from exactness.commands import ppl as command

    sys.exit(command.run(command.Options(**given), project, report))


@main.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@_project_option
def list_claims(as_json: bool, project: Path) -> None:
    """List the claims of the catalogue."""
    from exactness.commands import listing

    sys.exit(listing.run(project, as_json))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def env(as_json: bool) -> None:
    """Show the machine and the software that results would carry."""
    from exactness import environment

    found = environment.collect(Path()).to_dict()
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {item}" for key, item in value.items())
        click.echo(f"{name:12} {'—' if value in (None, '') else value}")
    if environment.subnormals_are_flushed():
        click.echo("WARNING: this process flushes subnormals; no reference is right here")
