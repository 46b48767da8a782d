"""The result of a run as text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import astuple

from rich.console import Console
from rich.table import Table

from exactness.quality.legs import DEFAULT, LEGS
from exactness.quality.result import Result
from exactness.quality.statistics import Comparison

_WIDE = 170


def text(result: Result) -> str:
    """The report."""
    stream = io.StringIO()
    console = Console(file=stream, width=_WIDE, force_terminal=False)
    for line in header(result):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for table in (legs(result), norms(result)):
        console.print(table)
    for line in last_lines(result):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def header(result: Result) -> Iterator[str]:
    """What was scored, where and how."""
    s, env = result.setting, result.environment
    yield f"perplexity A/B of {s.model} ({s.dtype}, SHA-256 {s.model_sha256[:12]})"
    of = f"{'' if s.text_complete else 'at least '}{s.text_tokens:,}"
    yield (
        f"text {s.text}: {s.tokens:,} of {of} tokens, context {s.context}, stride "
        f"{s.stride} (SHA-256 {s.text_sha256[:12]}); logits kept in f32, figures in f64"
    )
    machine = env["gpu"] if s.device == "cuda" else f"{env['cpu']}, {env['cores']} cores"
    packages = ", ".join(
        f"{name} {env['packages'][name]}"
        for name in ("torch", "triton", "numpy", "transformers", "tokenizers")
        if name in env["packages"]
    )
    yield f"model on {machine}; kernels on {s.kernels}; {packages}; {result.seconds:.0f} s"
    claims = sorted({each.claim for each in result.replaced})
    calls = sum(each.calls for each in result.replaced)
    yield f"replaced {len(result.replaced)} norms by {', '.join(claims)}, {calls:,} calls"


def legs(result: Result) -> Table:
    """Perplexity, and the distance of every leg from the first."""
    table = Table(title="legs beside the default", title_justify="left")
    table.add_column("leg")
    for name in ("perplexity", "ln ratio", "± token", "± block", "KL mean", "median", "99 %"):
        table.add_column(name, justify="right")
    for name in ("99.9 %", "max", "top-1 same", "max |Δlogit|", "first token"):
        table.add_column(name, justify="right")
    table.add_row(DEFAULT.title, f"{result.perplexity:.6f}")
    for leg in LEGS:
        if leg is not DEFAULT:
            table.add_row(leg.title, *_cells(result.comparisons[leg.key]))
    return table


def _cells(c: Comparison) -> Iterator[str]:
    ratio, kl = c.ratio, c.divergence
    yield f"{c.perplexity:.6f}"
    yield "0" if ratio.mean == 0.0 else f"{ratio.mean:+.2e}"
    yield _figure(ratio.by_token)
    yield "—" if ratio.by_block is None else _figure(ratio.by_block)
    yield from (_figure(each) for each in (kl.mean, kl.median, kl.p99, kl.p999, kl.max))
    yield f"{100 * (1 - c.top1_changed):.3f} %"
    yield _figure(c.largest_logit_difference)
    yield "—" if c.first_touched is None else f"{c.first_touched:,}"


def _figure(value: float) -> str:
    """Exactly zero is written as 0."""
    return "0" if value == 0.0 else f"{value:.2e}"


def norms(result: Result) -> Table:
    """The error of every norm against exact arithmetic, of both accumulators."""
    table = Table(title="norms against exact arithmetic, %", title_justify="left")
    for name in ("norm", "×", "calls", "rows", "n", "variant"):
        table.add_column(name)
    for leg in ("default", result.opt_in):
        for name in ("bias", "rms", "max", "error"):
            table.add_column(f"{leg}\n{name}", justify="right")
    for each, found in zip(result.replaced, result.norms, strict=True):
        figures = [*astuple(found.default), *astuple(found.variant)]
        cells = (f"{100 * figure:.4f}" for figure in figures)
        work = (f"{each.calls:,}", f"{each.rows:,}", f"{each.width:,}")
        table.add_row(each.name, each.scale, *work, each.variant or "none", *cells)
    return table


def last_lines(result: Result) -> Iterator[str]:
    """What the columns mean, the controls, the verdict."""
    yield (
        "bias, rms, max: mean, root mean square and largest of the factor by which a row is too "
        "long, less 1; error: length of the difference over that of the exact row, last rounding "
        "included, mean"
    )
    yield "first token: the first whose logits differ at all"
    unused = [each.name for each in result.replaced if not each.calls]
    if unused:
        yield f"never called: {', '.join(unused)}"
    for key, what in (("again", "A/A"), ("chain", "kernel = reference")):
        found = result.comparisons[key]
        same = "exactly zero in every figure, the same bits in every logit"
        differs = f"DIFFERS in {found.logits_differing:,} logits"
        yield f"{what}: {same if found.is_zero else differs}"
    yield f"verdict: {result.verdict.text}"
