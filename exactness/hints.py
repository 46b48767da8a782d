"""What the pattern of the differences suggests: the words that follow a report.

Each rule looks at one kind of fault that people who fuse kernels meet, and says nothing unless
the comparison shows it.
"""

from __future__ import annotations

from collections.abc import Callable

from exactness.bitdiff import BitDiff, LineCounts, Verdict
from exactness.formats import Format
from exactness.ulp import spacing

FEW_ULPS = 100
"""Up to here a distance in ulps can be taken at its word, however small the values."""


def hints(diff: BitDiff) -> list[str]:
    """What the pattern of the differences suggests; empty if nothing stands out."""
    return [text for rule in _RULES if (text := rule(diff))]


def _vacuous(diff: BitDiff) -> str | None:
    if diff.verdict is not Verdict.VACUOUS:
        return None
    if diff.same_memory:
        return "a tensor equals itself: compare copies made before the kernel could write"
    return "an empty comparison shows nothing: check shape and dtype instead"


def _same_memory(diff: BitDiff) -> str | None:
    if diff.same_memory and diff.mismatches:
        return "actual and expected overlap in memory: one may have overwritten the other"
    return None


def _all_nan(diff: BitDiff) -> str | None:
    return "all NaN: both tensors hold nothing else" if diff.all_nan else None


def _nan(diff: BitDiff) -> str | None:
    if not diff.nan_mismatches:
        return None
    return f"NaN against a number in {_elements(diff.nan_mismatches)}: never small"


def _sign_of_zero(diff: BitDiff) -> str | None:
    count = diff.zero_sign_differences
    if not count or not diff.zero_signs:
        return None
    every = "every mismatch is a" if count == diff.mismatches else f"{count} mismatches are a"
    return f"sign of zero: {every} −0 against +0, which compare equal as numbers"


def _flushed(diff: BitDiff) -> str | None:
    if not diff.flushed:
        return None
    rest = diff.maximum_unflushed
    return (
        f"subnormal flushed: {_elements(diff.flushed)} zero against a subnormal number "
        f"(flush to zero?); apart from these the largest distance is "
        f"{0 if rest is None else rest.ulps} ulp"
    )


def _infinity(diff: BitDiff) -> str | None:
    if not diff.infinity_mismatches:
        return None
    return f"infinity against another number in {_elements(diff.infinity_mismatches)}: overflow?"


def _payload(diff: BitDiff) -> str | None:
    if not (diff.nan_payloads and diff.payload_differences):
        return None
    return f"NaN patterns differ in {_elements(diff.payload_differences)}"


def _cancellation(diff: BitDiff) -> str | None:
    """Distances that are large only because the values are near zero."""
    worst, fmt = diff.maximum_unflushed, diff.actual_format
    if worst is None or not isinstance(fmt, Format) or diff.magnitude is None:
        return None
    if worst.ulps is None or worst.ulps <= FEW_ULPS or worst.difference is None:
        return None
    ulp = spacing(diff.magnitude, fmt)
    if worst.difference <= ulp:
        return (
            f"cancellation: near zero, ulps mislead; the largest distance is a difference of "
            f"{worst.difference:.6g} where one ulp of the largest magnitude is {ulp:.6g}"
        )
    if 0.0 in (worst.actual, worst.expected):
        return "near zero, ulps mislead: the largest distance is a zero against a number"
    return None


def _opposite(diff: BitDiff) -> str | None:
    worst = diff.maximum
    if worst is None or worst.actual != -worst.expected or worst.actual == 0:
        return None
    return "opposite signs of equal magnitude at the maximum: a sign was lost or added"


def _one_row(diff: BitDiff) -> str | None:
    return _one_line(diff.rows, diff, "row", "rows")


def _one_column(diff: BitDiff) -> str | None:
    return _one_line(diff.columns, diff, "column", "columns")


def _one_line(lines: LineCounts | None, diff: BitDiff, word: str, words: str) -> str | None:
    """All mismatches in one row or column, or in the last ones (a tail)."""
    if lines is None or lines.total < 2 or diff.mismatches < 2 or lines.first is None:
        return None
    if lines.differing == 1:
        where = "the tail" if lines.first == lines.total - 1 else "one"
        return f"{where} {word}: all mismatches are in {word} {lines.first} of {lines.total}"
    assert lines.last is not None
    whole = lines.last - lines.first + 1 == lines.differing
    if whole and lines.first > 0 and lines.last == lines.total - 1:
        return f"tail {words}: all mismatches are in {words} {lines.first} to {lines.last}"
    return None


_RULES: tuple[Callable[[BitDiff], str | None], ...] = (
    _vacuous,
    _same_memory,
    _all_nan,
    _nan,
    _sign_of_zero,
    _payload,
    _flushed,
    _infinity,
    _cancellation,
    _opposite,
    _one_row,
    _one_column,
)


def _elements(count: int) -> str:
    return "1 element" if count == 1 else f"{count} elements"
