"""Put comparison results into words.

`summary` is one line; `report` adds the table of ulp distances, the places and what they suggest;
`file_report` does the same for two files, showing the first diverging tensor in full.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from exactness.bits import AnyFormat
from exactness.compare import BUCKETS, BitDiff, Element, LineCounts, Verdict
from exactness.diff import FileDiff, TensorDiff
from exactness.formats import Format
from exactness.hints import hints
from exactness.jsonable import hexadecimal

LISTED = 10
"""How many names or tensors a report of two files lists before it only counts."""


def summary(diff: BitDiff, *, name: str = "actual") -> str:
    """One line: what differs, by how much at most, where first."""
    if diff.shape_differs:
        return f"{name}: shape {_shape(diff.actual_shape)}, expected {_shape(diff.expected_shape)}"
    if diff.format_differs:
        return f"{name}: format {diff.actual_format.name}, expected {diff.expected_format.name}"
    if diff.same_memory:
        return f"{name}: vacuous, actual and expected share memory: {_size(diff)}"
    if diff.elements == 0:
        return f"{name}: vacuous, no elements to compare: {_size(diff)}"
    if diff.mismatches == 0:
        note = " (all NaN)" if diff.all_nan else ""
        return f"{name}: all {diff.elements} elements equal{note}, largest {_largest(diff)}: " + (
            _size(diff)
        )
    assert diff.first is not None
    return (
        f"{name}: {diff.mismatches} of {diff.elements} elements differ, "
        f"largest {_largest(diff)}, first at {_index(diff.first.index)}: {_size(diff)}"
    )


def _size(diff: BitDiff) -> str:
    return f"{diff.expected_format.name} {_shape(diff.expected_shape)}"


def _largest(diff: BitDiff) -> str:
    if diff.nan_mismatches:
        return "NaN against a number"
    if diff.max_ulps == 0 and diff.mismatches:
        sign = diff.zero_signs and diff.zero_sign_differences
        return f"0 ulp ({'sign of zero' if sign else 'NaN pattern'})"
    return _ulps(int(diff.max_ulps))


def report(diff: BitDiff, *, name: str = "actual") -> str:
    """All that is known about a comparison, in lines.

    Args:
        diff: the comparison.
        name: what to call the tensor.
    """
    lines = [summary(diff, name=name)]
    if diff.elements:
        lines += [f"  {line}" for line in (*_table(diff), *_places(diff), *_scale(diff))]
    lines += [f"  hint: {hint}" for hint in hints(diff)]
    return "\n".join(lines)


def _table(diff: BitDiff) -> Iterator[str]:
    cells = [
        (label, str(count)) for (label, _, _), count in zip(BUCKETS, diff.buckets, strict=True)
    ]
    widths = [max(len(label), len(count)) for label, count in cells]
    for head, row in (("ulp", 0), ("elements", 1)):
        texts = (cell[row].rjust(width) for cell, width in zip(cells, widths, strict=True))
        yield f"{head:<10}{'  '.join(texts)}"
    apart = {
        "NaN against a number": diff.nan_mismatches,
        "both NaN": diff.nan_pairs,
        "NaN pattern differs": diff.payload_differences,
        "sign of zero": diff.zero_sign_differences,
        "subnormal flushed": diff.flushed,
        "infinity against another number": diff.infinity_mismatches,
    }
    counted = [f"{label} {count}" for label, count in apart.items() if count]
    yield f"{'apart':<10}{', '.join(counted) or 'no NaN, zero sign, flush or infinity'}"


def _places(diff: BitDiff) -> Iterator[str]:
    fmt = diff.actual_format
    shown: dict[str, Element | None] = {
        "first": diff.first,
        "NaN": diff.first_nan,
        "maximum": diff.maximum,
        "unflushed": diff.maximum_unflushed if diff.flushed else None,
        "abs": diff.largest_difference,
    }
    seen: dict[Element, str] = {}
    for label, element in shown.items():
        if element is None:
            continue
        if any(element.index == other.index for other in seen):
            yield f"{label:<10}{_index(element.index)}, as above"
        else:
            yield f"{label:<10}{element_text(element, fmt)}"
        seen[element] = label
    for label, lines in (("rows", diff.rows), ("columns", diff.columns)):
        if lines is not None and lines.differing:
            yield f"{label:<10}{_line_counts(lines, diff, label)}"


def element_text(element: Element, fmt: AnyFormat) -> str:
    """One pair of elements: index, patterns, values, distance, difference."""
    sides = (
        f"{side} {hexadecimal(bits, fmt)} ({value_text(value, fmt)})"
        for side, bits, value in (
            ("actual", element.actual_bits, element.actual),
            ("expected", element.expected_bits, element.expected),
        )
    )
    distance = "NaN against a number"
    if element.ulps is not None and element.difference is not None:
        distance = f"{_ulps(element.ulps)}, |difference| {element.difference:.9g}"
    elif element.actual != element.actual and element.expected != element.expected:
        distance = "both NaN"
    return f"{_index(element.index)}: {', '.join(sides)}, {distance}"


def value_text(value: float, fmt: AnyFormat) -> str:
    """A value in the fewest digits that tell it apart in its carrier."""
    narrow = isinstance(fmt, Format) and fmt.bits <= 32
    return str(np.float32(value)) if narrow else str(value)


def _line_counts(lines: LineCounts, diff: BitDiff, label: str) -> str:
    def place(line: int) -> str:
        leading = diff.actual_shape[:-1]
        if label == "columns" or len(leading) == 1:
            return str(line)
        return _index(tuple(int(i) for i in np.unravel_index(line, leading)))

    worst = ", ".join(f"{place(line)} ({count})" for line, count in lines.worst)
    more = ", …" if lines.differing > len(lines.worst) else ""
    return f"{lines.differing} of {lines.total} hold mismatches: {worst}{more}"


def _scale(diff: BitDiff) -> Iterator[str]:
    parts = []
    if diff.median is not None and diff.p99 is not None:
        parts.append(f"median {_ulps(diff.median)}, p99 {_ulps(diff.p99)}")
    if diff.magnitude is not None:
        parts.append(f"largest finite magnitude {value_text(diff.magnitude, diff.actual_format)}")
    if diff.nonfinite:
        parts.append(f"{diff.nonfinite} with an infinity or NaN")
    if parts:
        yield f"{'overall':<10}{', '.join(parts)}"


def file_report(diff: FileDiff) -> str:
    """The comparison of two files, in lines: the first diverging tensor in full."""
    if diff.same_file:
        return f"{diff.actual} and {diff.expected} are the same file: nothing was compared"
    lines = [_file_summary(diff)]
    first = diff.first_diverging
    if first is not None:
        lines += ["first diverging tensor:", report(first.diff, name=first.name)]
        lines += _list("also differ", [each for each in diff.tensors if _later(each, first)])
    lines += _names("only in expected", diff.missing) + _names("only in actual", diff.extra)
    lines += _names("not tensors, not compared", diff.skipped)
    vacuous = [each.name for each in diff.tensors if each.diff.verdict is Verdict.VACUOUS]
    lines += _names("empty, nothing shown", tuple(vacuous))
    for stale in diff.stale:
        lines += _names(f"dump not live? equal bits in {stale.path}", stale.names)
    return "\n".join(lines)


def _file_summary(diff: FileDiff) -> str:
    counts = f"{len(diff.tensors)} tensors, {diff.elements} elements compared"
    if diff.verdict is Verdict.VACUOUS:
        return f"vacuous: {counts}"
    if diff.verdict is Verdict.EQUAL:
        return f"equal: {counts}, all bits the same"
    names = f", {len(diff.missing)} missing, {len(diff.extra)} extra" * bool(
        diff.missing or diff.extra
    )
    return (
        f"different: {diff.diverging} of {len(diff.tensors)} tensors, "
        f"{diff.mismatches} of {diff.elements} elements{names}"
    )


def _later(tensor: TensorDiff, first: TensorDiff) -> bool:
    return tensor is not first and tensor.diff.verdict is Verdict.DIFFERENT


def _list(title: str, tensors: list[TensorDiff]) -> list[str]:
    if not tensors:
        return []
    lines = [f"  {summary(each.diff, name=each.name)}" for each in tensors[:LISTED]]
    return [f"{title} ({len(tensors)}):", *lines, *["  …"] * (len(tensors) > LISTED)]


def _names(title: str, names: tuple[str, ...]) -> list[str]:
    if not names:
        return []
    more = ", …" if len(names) > LISTED else ""
    return [f"{title} ({len(names)}): {', '.join(names[:LISTED])}{more}"]


def _index(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _ulps(count: int) -> str:
    return f"{count} ulp"
