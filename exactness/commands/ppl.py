"""`exactness ppl`: does an opt-in arithmetic change a model's perplexity by more than noise?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from exactness.errors import INTERRUPTED, UsageError
from exactness.project import Project
from exactness.quality import charts, words
from exactness.quality.legs import LEGS, REORDERED, VARIANT, Leg
from exactness.quality.models import LanguageModel
from exactness.quality.patches import Patch
from exactness.quality.result import Result
from exactness.quality.run import MOST, Request, Run
from exactness.quality.store import Store
from exactness.writing import check_writable, write_atomically

REPORT = "report.json"
PICTURES = ("token-differences.svg", "kl-divergence.svg", "norm-errors.svg")
FILES = (*PICTURES, "report.txt", REPORT)
"""What a run leaves, in the order in which it is written."""

PREVIOUS = "previous-"
"""Goes before the names of what an earlier run left."""


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
        UsageError: the model, the text, a patch or a size cannot be used, or a file not written.
    """
    check_writable(*(folder / f"{prefix}{name}" for prefix in ("", PREVIOUS) for name in FILES))
    console = Console(stderr=True)
    try:
        prepared = _prepared(options, project)
        identity = prepared.identity
        store = Store.resume(folder, identity) if options.resume else _begun(folder, identity)
    except KeyboardInterrupt:
        console.print("stopped: nothing was scored")
        return INTERRUPTED
    if store.discarded:
        console.print(store.discarded)
    try:
        return _finished(prepared, store, console)
    except KeyboardInterrupt:
        left = len(prepared.missing(store))
        done = prepared.windows.chunks - left
        console.print(f"stopped: chunks kept: {done}, left: {left}; --resume goes on")
        return INTERRUPTED


def _prepared(options: Options, project: Path) -> Run:
    """Everything that a run needs, loaded and checked."""
    try:
        catalogue = Catalogue(Project.find(project))
    except UsageError as error:
        raise UsageError(f"{error}; or name a checkout of exactness by --project") from None
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
    return Run(request, model, catalogue, machine)


def _begun(folder: Path, identity: Mapping[str, Any]) -> Store:
    """A new run; the report of an earlier one is put aside, so that it is not taken for this."""
    store = Store.begin(folder, identity)
    for name in FILES:
        with suppress(FileNotFoundError):
            (folder / name).replace(folder / f"{PREVIOUS}{name}")
    return store


def _finished(prepared: Run, store: Store, console: Console) -> int:
    """Score what is left, print and write; the exit status."""
    started = time.perf_counter()
    with _progress(console, prepared, store) as step:
        prepared.chunks(store, step)
    result = prepared.result(store, time.perf_counter() - started)
    print(words.text(result))
    for name, text in _files(result).items():
        write_atomically(store.folder / name, text.encode())
    store.clear()
    print(f"report: {store.folder / REPORT}, report.txt and three .svg beside it")
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


def _files(result: Result) -> dict[str, str]:
    """The report and its pictures, by the name of the file."""
    series, opt_in = result.series, result.opt_in
    divergence = {
        opt_in: series.divergence[VARIANT.key],
        REORDERED.title: series.divergence[REORDERED.key],
    }
    texts = (
        charts.token_differences(series.difference, opt_in),
        charts.divergences(divergence),
        charts.norm_errors(result.norms, opt_in),
        words.text(result) + "\n",
        result.to_json(),
    )
    return dict(zip(FILES, texts, strict=True))
