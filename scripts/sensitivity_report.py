"""The kill matrices of every claim, and runs with other seeds, in parallel.

    python scripts/sensitivity_report.py result.json [--jobs 16] [--seeds 50 --seeded qnorm]

Judges all mutants of every claim's reference and of its compiled kernel, then verifies the claims
named by `--seeded` once for each seed: a false alarm is a check that fails under some seed. Writes
one JSON file with the machine in it. Exit status 1 if a mutant survives or a seeded run fails.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from exactness import environment
from exactness.catalogue import Entry
from exactness.checks.base import Check
from exactness.checks.kernel_mutants import KernelMutantsCheck
from exactness.checks.mutants import MutantsCheck
from exactness.project import Project
from exactness.report.schema import outcome_record
from exactness.session import Session
from exactness.writing import write_atomically

ROOT = Path(__file__).resolve().parents[1]


def judged(task: tuple[str, Callable[[Entry], Check]]) -> dict[str, Any]:
    """All mutants of one claim's reference, or of its kernel."""
    claim, check = task
    session = Session.open(Project.find(ROOT), device="cpu", mutants=None)
    (entry,) = session.context.catalogue.select((claim,))
    return outcome_record(check(entry).run(session.context))


def seeded(task: tuple[str, int]) -> dict[str, Any]:
    """All checks of one claim under one seed; what did not pass is kept whole."""
    claim, seed = task
    session = Session.open(Project.find(ROOT), device="cpu", seed=seed)
    (entry,) = session.context.catalogue.select((claim,))
    records = [outcome_record(c.run(session.context)) for c in session.checks(entry)]
    bad = [r for r in records if r["status"] in ("failed", "error")]
    elements = sum(r["elements"] for r in records)
    return {"claim": claim, "seed": seed, "checks": len(records), "elements": elements, "bad": bad}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path)
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--seeded", default="qnorm", help="claims, separated by commas")
    options = parser.parse_args()
    claims = [e.claim.name for e in Session.open(Project.find(ROOT), device="cpu").entries]
    tasks = [(c, s) for c in options.seeded.split(",") for s in range(1, options.seeds + 1)]
    started = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        every = [(c, check) for c in claims for check in (MutantsCheck, KernelMutantsCheck)]
        matrices = [pool.submit(judged, task) for task in every]
        runs = [pool.submit(seeded, task) for task in tasks]
        mutants = [future.result() for future in matrices]
        seeds = [future.result() for future in runs]
    result = {
        "schema_version": 1,
        "environment": environment.collect(ROOT).to_dict(),
        "seconds": round(time.perf_counter() - started, 1),
        "jobs": options.jobs,
        "mutants": mutants,
        "seeded_runs": seeds,
    }
    text = json.dumps(result, indent=1, allow_nan=False)
    write_atomically(options.result, text.encode())
    return report(mutants, seeds)


def report(mutants: list[dict[str, Any]], seeds: list[dict[str, Any]]) -> int:
    """Print a line a kill matrix; the exit status."""
    for record in mutants:
        fates = [judgement["fate"] for judgement in record["judgements"]]
        counts = ", ".join(f"{fates.count(fate)} {fate}" for fate in sorted(set(fates)))
        title = f"{record['claim']}: {record['kind']}"
        print(f"{title:50} {record['status']:8} {len(fates):4} judged: {counts}")
        for judgement in record["judgements"]:
            if judgement["fate"] == "survived":
                print(f"    survives: {judgement['mutant']}")
    alarms = [(run["claim"], run["seed"]) for run in seeds if run["bad"]]
    print(f"{len(seeds)} seeded runs, {len(alarms)} with a failure {alarms or ''}")
    bad = [record for record in mutants if record["status"] in ("failed", "error")]
    return 1 if alarms or bad else 0


if __name__ == "__main__":
    sys.exit(main())
