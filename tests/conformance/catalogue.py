"""Finds every conformance program: the ``PROGRAMS`` of the files in ``programs/``."""

from __future__ import annotations

import importlib
from pathlib import Path

from .program import Program

FOLDER = Path(__file__).parent


def load() -> dict[str, Program]:
    """Return all programs by name, in the order of their files.

    Raises:
        ValueError: two programs share a name.
    """
    programs: dict[str, Program] = {}
    for path in sorted((FOLDER / "programs").glob("*.py")):
        module = importlib.import_module(f".programs.{path.stem}", __package__)
        for program in module.PROGRAMS:
            if program.name in programs:
                raise ValueError(f"{path.name}: there are two programs named {program.name!r}")
            programs[program.name] = program
    return programs
