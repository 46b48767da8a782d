"""Declarations in PTX text: variables, parameters, launch bounds.

Source: PTX ISA 9.0, sections 5.1 to 5.4 and 11.4.
"""

from __future__ import annotations

import re

from exactness.virtual.instructions import Param, Variable
from exactness.virtual.literals import initial_bytes, integer, type_bytes

VARIABLE = re.compile(
    r"((?:\.(?:extern|visible|weak|common)\s+)*)\.(shared|local|global|const)\s+"
    r"(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+(\d+)\s+)?(?:\.(v[248])\s+)?\.([a-z]\w*)\s+([\w$]+)"
    r"\s*((?:\[\s*\w*\s*\])*)\s*(?:=\s*(.*?))?\s*;",
    re.DOTALL,
)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s*(\.ptr)?(?:\s+\.(?:global|shared|const|local))?"
    r"(?:\s*\.align\s+(\d+))?\s+([\w$]+)\s*(?:\[\s*(\d+)\s*\])?"
)


def read_variable(match: re.Match[str]) -> Variable:
    """A variable declaration; several dimensions multiply, `[]` gives size 0."""
    element = type_bytes(match[5]) * int((match[4] or "v1")[1:])
    size = element
    for dimension in re.findall(r"\[\s*(\w*)\s*\]", match[7]):
        size *= integer(dimension) if dimension else 0
    initial = initial_bytes(match[8], match[5]) if match[8] else None
    relocated = bool(match[8]) and initial is None
    return Variable(match[6], match[2], int(match[3] or element), size, initial, relocated)


def _param(match: re.Match[str]) -> Param:
    size = type_bytes(match[2])
    align = int(match[1]) if match[1] else size
    return Param(match[5], match[2], size * int(match[6] or 1), align, bool(match[3]))


def read_params(text: str) -> tuple[Param, ...]:
    """The parameters of a kernel or a device function, in order."""
    return tuple(_param(match) for match in _PARAM.finditer(text))


def read_dimensions(text: str | None) -> tuple[int, int, int] | None:
    """Up to three dimensions, the missing ones 1; None if there is no text."""
    if text is None:
        return None
    values = [int(part) for part in text.replace(",", " ").split()]
    x, y, z = ([*values, 1, 1, 1])[:3]
    return x, y, z
