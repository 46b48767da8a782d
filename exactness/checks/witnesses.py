"""Witnesses: inputs on which a mutant differs, kept so that the next run kills it at once.

`<golden>/witnesses/<claim>.json` holds them as examples; they are inputs only, so nothing of our
own reference or kernel is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from exactness.errors import UsageError
from exactness.inputs import Example
from exactness.project import Project
from exactness.writing import write_atomically

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Witness:
    """An example and the mutant it was found for."""

    mutant: str
    example: Example


def path_of(project: Project, claim: str) -> Path:
    """Where a claim's witnesses are kept."""
    return project.golden / "witnesses" / f"{claim}.json"


def load(project: Project, claim: str) -> list[Witness]:
    """The witnesses of a claim; none if there is no file.

    Raises:
        UsageError: the file is not what it should be.
    """
    path = path_of(project, claim)
    if not path.is_file():
        return []
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema version {data['schema_version']}")
        return [
            Witness(entry["mutant"], Example.from_dict(entry["example"]))
            for entry in data["witnesses"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: not a file of witnesses: {error}; delete it") from None


def save(project: Project, claim: str, witnesses: Iterable[Witness]) -> Path:
    """Write a claim's witnesses, sorted by mutant; the last one of a mutant stays."""
    kept = {witness.mutant: witness for witness in witnesses}
    data = {
        "schema_version": SCHEMA_VERSION,
        "claim": claim,
        "witnesses": [
            {"mutant": name, "example": json.loads(kept[name].example.to_json())}
            for name in sorted(kept)
        ],
    }
    path = path_of(project, claim)
    write_atomically(path, (json.dumps(data, indent=1) + "\n").encode())
    return path
