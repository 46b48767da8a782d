#!/usr/bin/env python
"""Record what the conformance programs compute on this machine's GPU.

    python scripts/record_conformance.py h200.safetensors --summary h200.json
    python scripts/record_conformance.py replay.safetensors --device virtual

Writes the outputs of every program that ran, lists those that did not, and exits with 1 if there
are any. With ``--device virtual`` the same programs run on the virtual Hopper, without a GPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from conformance_programs import mounted


def execute(name: str, device: str) -> Any:
    """Run one program; called in a worker process."""
    program = mounted("catalogue").load()[name]
    return mounted("recording").execute(program, device)


def run_all(names: Sequence[str], device: str, jobs: int, *, isolated: bool = False) -> list[Any]:
    """Run the programs in ``jobs`` processes; ``isolated`` gives each a process of its own."""
    context = multiprocessing.get_context("spawn")
    tasks = 1 if isolated else None
    outcome = mounted("recording").Outcome
    done = []
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=tasks) as pool:
        waiting = {name: pool.submit(execute, name, device) for name in names}
        for name, future in waiting.items():
            try:
                done.append(future.result())
            except Exception as exception:  # the process itself died
                done.append(outcome(name, {}, "", 0.0, f"{type(exception).__name__}: {exception}"))
    return done


def record(names: Sequence[str], device: str, jobs: int) -> list[Any]:
    """Run the programs, and those that fail once more, alone.

    A GPU error is sticky: it fails every later program of its process as well.
    """
    outcomes = {outcome.name: outcome for outcome in run_all(names, device, jobs)}
    failed = [name for name, outcome in outcomes.items() if outcome.error]
    if failed and device == "cuda":
        again = run_all(failed, device, jobs, isolated=True)
        outcomes |= {outcome.name: outcome for outcome in again}
    return [outcomes[name] for name in names]


def summarize(
    outcomes: Sequence[Any], environment: dict[str, str], seconds: float
) -> dict[str, Any]:
    """Return the JSON summary: environment, counts, failures and the slowest programs."""
    slowest = sorted(outcomes, key=lambda outcome: -outcome.seconds)[:10]
    return {
        "environment": environment,
        "programs": len(outcomes),
        "recorded": sum(not outcome.error for outcome in outcomes),
        "elements": sum(bits.size for outcome in outcomes for bits in outcome.outputs.values()),
        "seconds": round(seconds, 1),
        "failures": {outcome.name: outcome.error for outcome in outcomes if outcome.error},
        "slowest": {outcome.name: round(outcome.seconds, 2) for outcome in slowest},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path, help="the .safetensors file to write")
    parser.add_argument("--summary", type=Path, help="a JSON file to write as well")
    parser.add_argument("--device", choices=("cuda", "virtual"), default="cuda")
    parser.add_argument("--jobs", type=int, default=8, help="processes (default 8)")
    parser.add_argument("--only", default="", metavar="REGEX", help="programs whose name matches")
    options = parser.parse_args(arguments)

    start = time.perf_counter()
    recording, programs = mounted("recording"), mounted("catalogue").load()
    names = [name for name in programs if re.search(options.only, name)]
    environment = recording.environment(options.device)
    outcomes = record(names, options.device, options.jobs)
    recording.write(options.output, outcomes, programs, environment)
    summary = summarize(outcomes, environment, time.perf_counter() - start)
    text = json.dumps(summary, indent=1)
    if options.summary:
        options.summary.write_text(text + "\n")
    print(text)
    return 1 if summary["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
