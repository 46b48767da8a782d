"""The command line: verify, diff, record, list, env.

Exit status: 0 equal, 1 different, 2 usage or unreadable.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

import exactness
from exactness.errors import UsageError

R = TypeVar("R")

_PATH = click.Path(path_type=Path)


class _Group(click.Group):
    """Turns a usage error of the engine into one line and exit status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:
            click.echo(f"exactness: {error}", err=True)
            ctx.exit(2)


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
    project: Path,
) -> None:
    """Check CLAIMs (all if none are named): recordings, references and kernels, bit by bit."""
    from exactness.commands import verify as command

    options = command.Options(
        claims, golden, device, examples, mutants, seed, keyword, example, variant
    )
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
    from exactness.writing import write_atomically

    found = diff_files(
        actual, expected, zero_signs=not ignore_zero_sign, nan_payloads=nan_payloads
    )
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
@_project_option
def record(claim: str, out: Path | None, device: str | None, force: bool, project: Path) -> None:
    """Run CLAIM's baseline on this machine with seeded inputs and write its golden file."""
    from exactness.commands import record as command

    sys.exit(command.run(claim, project, out, device, force))


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
