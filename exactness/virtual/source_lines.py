"""Source positions in PTX text: the `.file` table, and `.loc` lines with their inlining."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from exactness.virtual.instructions import Location

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?', re.MULTILINE)
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(.*)")
_INLINED = re.compile(r"inlined_at\s+(\d+)\s+(\d+)\s+(\d+)")
_CHAIN = re.compile(r"@\[\s*([^\s:\]]+):(\d+):(\d+)")
_COMMENT = re.compile(r'("[^"\n]*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def strip_comments(text: str) -> str:
    """The text with comments blanked; line numbers stay."""

    def blank(match: re.Match[str]) -> str:
        return match[1] or "\n" * match[0].count("\n")

    return _COMMENT.sub(blank, text)


def location_table(text: str) -> tuple[dict[int, str], Mapping[int, Location]]:
    """The file table, and for every PTX line (from 1) the source position in force.

    LLVM writes what a line was inlined at only into the comment after `.loc`; nvcc writes
    `inlined_at` into the directive. Both are read.
    """
    files = {
        int(m[1]): str(PurePosixPath(m[2]) / m[3]) if m[3] else m[2] for m in _FILE.finditer(text)
    }
    by_name = {path.rsplit("/", 1)[-1]: path for path in files.values()}
    table: dict[int, Location] = {}
    known: dict[str, Location | None] = {}
    current: Location | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if ".loc" in line and (match := _LOC.match(line)) is not None:
            key = line.strip()
            if key not in known:
                known[key] = _location(match, files, by_name)
            current = known[key]
        if current is not None:
            table[number] = current
    return files, table


def _location(
    match: re.Match[str], files: Mapping[int, str], by_name: Mapping[str, str]
) -> Location | None:
    if match[2] == "0":
        return None
    outer: Location | None = None
    if (inlined := _INLINED.search(match[4])) is not None:
        outer = Location(_path(files, inlined[1]), int(inlined[2]), int(inlined[3]))
    else:
        for name, line, column in reversed(_CHAIN.findall(match[4])):
            outer = Location(by_name.get(name, name), int(line), int(column), outer)
    return Location(_path(files, match[1]), int(match[2]), int(match[3]), outer)


def _path(files: Mapping[int, str], number: str) -> str:
    return files.get(int(number), f"<file {number}>")
