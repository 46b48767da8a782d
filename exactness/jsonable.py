"""Comparison results as JSON values.

Patterns become hex strings of the width of their format, formats their names, enums their values,
and what JSON has no number for the strings "inf", "-inf" and "nan".
"""

from __future__ import annotations

import dataclasses
import enum
import math
from pathlib import Path
from typing import Any

from exactness.bits import AnyFormat
from exactness.compare import BUCKETS, BitDiff, Element
from exactness.diff import FileDiff, TensorDiff
from exactness.formats import Format, Integer


def hexadecimal(pattern: int, fmt: AnyFormat) -> str:
    """A pattern in all digits of its format: 0x3f80 is bf16, 0x3f800000 is f32."""
    return f"0x{pattern:0{fmt.bits // 4}x}"


def jsonable(value: Any) -> Any:
    """`value` (a result of this package, or what it is made of) as a JSON value."""
    if isinstance(value, BitDiff):
        return _bit_diff(value)
    if isinstance(value, FileDiff):
        return _file_diff(value)
    if isinstance(value, TensorDiff):
        return {"name": value.name, **_bit_diff(value.diff)}
    if isinstance(value, (Format, Integer)):
        return value.name
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: jsonable(getattr(value, each.name)) for each in dataclasses.fields(value)
        }
    if isinstance(value, (list, tuple)):
        return [jsonable(each) for each in value]
    if isinstance(value, dict):
        return {key: jsonable(each) for key, each in value.items()}
    return value


def _fields(value: Any) -> dict[str, Any]:
    return {each.name: jsonable(getattr(value, each.name)) for each in dataclasses.fields(value)}


def _bit_diff(diff: BitDiff) -> dict[str, Any]:
    elements = {
        each.name: _element(value, diff.actual_format)
        for each in dataclasses.fields(diff)
        if isinstance(value := getattr(diff, each.name), Element)
    }
    labels = (label for label, _, _ in BUCKETS)
    return {
        "verdict": diff.verdict.value,
        "max_ulps": jsonable(diff.max_ulps),
        **_fields(diff),
        **elements,
        "buckets": dict(zip(labels, diff.buckets, strict=True)),
    }


def _element(element: Element, fmt: AnyFormat) -> dict[str, Any]:
    record = _fields(element)
    for side in ("actual_bits", "expected_bits"):
        record[side] = hexadecimal(getattr(element, side), fmt)
    return record


def _file_diff(diff: FileDiff) -> dict[str, Any]:
    first = diff.first_diverging
    return {
        "verdict": diff.verdict.value,
        "first_diverging": None if first is None else first.name,
        "diverging": diff.diverging,
        "elements": diff.elements,
        "mismatches": diff.mismatches,
        **_fields(diff),
    }
