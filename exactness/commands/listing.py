"""`exactness list`: the claims of the catalogue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.table import Table

from exactness.catalogue import Catalogue, Entry
from exactness.golden import GoldenStore
from exactness.project import Project
from exactness.report.terminal import print_whole, wide_console


def run(project: Path, as_json: bool) -> int:
    """Print the claims; the exit status.

    Raises:
        UsageError: there is no project, or its files cannot be read.
    """
    found = Project.find(project)
    catalogue = Catalogue(found)
    golden = GoldenStore.of_folder(found.golden)
    rows = [_row(entry, found, golden) for entry in catalogue.select(())]
    console = wide_console()
    if as_json:
        console.print(json.dumps({"schema_version": 1, "claims": rows}, indent=1), markup=False)
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("claim", "kernel", "reference", "recorded cases", "variants", "baseline"):
        table.add_column(title)
    for row in rows:
        table.add_row(
            row["claim"],
            row["kernel"],
            row["reference"],
            str(len(row["recorded_cases"])),
            ", ".join(row["variants"]) or "—",
            row["baseline"] or "—",
        )
    print_whole(table, console)
    return 0


def _row(entry: Entry, project: Project, golden: GoldenStore) -> dict[str, Any]:
    claim = entry.claim
    return {
        "claim": claim.name,
        "kernel": str(entry.file.relative_to(project.root)),
        "reference": claim.reference,
        "recorded_cases": [case.key for case in golden.cases(tuple(claim.golden))],
        "variants": [variant.name for variant in claim.variants],
        "baseline": claim.baseline,
        "runs_on": claim.runs_on,
        "order": claim.order,
        "bench": [bench.name for bench in claim.bench],
    }
