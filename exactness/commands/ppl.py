"""`exactness ppl`: does an opt-in arithmetic change a model's perplexity by more than noise?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from exactness import machines
from exactness.catalogue import Catalogue
from exactness.errors import UsageError
from exactness.project import Project
from exactness.quality import charts, words
from exactness.quality.legs import LEGS, REORDERED, VARIANT, Leg
from exactness.quality.models import LanguageModel
from exactness.quality.patches import Patch
from exactness.quality.result import Result
from exactness.quality.run import MOST, Request, Run
from exactness.quality.store import Store
from exactness.writing import write_atomically

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


@dataclass(frozen=True)
class Options:
    """What was asked for; see `exactness ppl --help`."""

    model: str | None = None
    patches: tuple[str, ...] = ()
    text: Path | None = None
    context: int | None = None
    stride: int | None = None
    max_tokens: int = MOST
    device: str = "auto"
    resume: bool = False


def run(options: Options, project: Path, folder: Path) -> int:
    """Score, print and write; the exit status.

    Args:
        options: what was asked for.
        project: a folder at or below the project whose claims replace the norms.
        folder: gets the report, and the chunks while the run lasts.

    Raises:
        UsageError: the model, the text, a patch or a size cannot be used.
    """
    catalogue = Catalogue(Project.find(project))
    patches = tuple(Patch.parse(text) for text in options.patches)
    machine = machines.choose(options.device)
    model = opened(options.model, machine.device)
    request = Request(
        options.text or _shipped_text(),
        options.context,
        options.stride,
        options.max_tokens,
        patches,
    )
    prepared = Run(request, model, catalogue, machine)
    start = Store.resume if options.resume else Store.begin
    store = start(folder, prepared.identity)
    console = Console(stderr=True)
    try:
        started = time.perf_counter()
        with _progress(console, prepared, store) as step:
            prepared.chunks(store, step)
        result = prepared.result(store, time.perf_counter() - started)
    except KeyboardInterrupt:
        left = len(prepared.missing(store))
        done = prepared.windows.chunks - left
        console.print(f"stopped: {done} chunks are kept, {left} are left; --resume goes on")
        return INTERRUPTED
    _write(result, folder)
    store.clear()
    print(words.text(result))
    print(f"report: {folder / 'report.json'}, report.txt and three .svg beside it")
    return result.exit_status


def opened(name: str | None, device: str) -> LanguageModel:
    """The model: the shipped one, a file like it, or one that transformers loads.

    Raises:
        UsageError: torch or transformers is missing, or the model cannot be loaded.
    """
    try:
        import torch  # noqa: F401
    except ImportError:
        raise UsageError("ppl needs torch; pip install 'exactness[torch]' brings it") from None
    from exactness.quality.shipped import WEIGHTS, ByteModel

    if name is None or name.endswith(".safetensors"):
        return ByteModel.open(Path(name or WEIGHTS), device)
    from exactness.quality.hub import HubModel

    return HubModel.open(name, device)


def _shipped_text() -> Path:
    from exactness.quality.shipped import TEXT

    return TEXT


@contextmanager
def _progress(console: Console, run: Run, store: Store) -> Iterator[Callable[[Leg], None]]:
    """A bar of the legs that are left, with the time that they will take."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    total = run.windows.chunks * len(LEGS)
    done = total - len(run.missing(store)) * len(LEGS)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("ppl", total=total, completed=done)

        def step(leg: Leg) -> None:
            progress.update(task, advance=1, description=leg.key)

        yield step


def _write(result: Result, folder: Path) -> None:
    """The report and its pictures."""
    series, opt_in = result.series, result.opt_in
    divergence = {
        opt_in: series.divergence[VARIANT.key],
        REORDERED.title: series.divergence[REORDERED.key],
    }
    pictures = {
        "token-differences.svg": charts.token_differences(series.difference, opt_in),
        "kl-divergence.svg": charts.divergences(divergence),
        "norm-errors.svg": charts.norm_errors(result.norms, opt_in),
        "report.txt": words.text(result) + "\n",
    }
    for name, text in pictures.items():
        write_atomically(folder / name, text.encode())
    result.write(folder / "report.json")
