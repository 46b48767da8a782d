"""Assertions for users' own tests."""

from __future__ import annotations

from typing import Any

from exactness.compare import Verdict, compare
from exactness.messages import report

__all__ = ["assert_equal_bits"]


def assert_equal_bits(
    actual: Any,
    expected: Any,
    *,
    name: str = "actual",
    zero_signs: bool = True,
    nan_payloads: bool = False,
) -> None:
    """Assert that two tensors have the same shape, format and bits. There is no tolerance.

    Args:
        actual: NumPy array, torch tensor (any device) or `Bits`, of any shape.
        expected: the same; nothing is converted or broadcast.
        name: what the report calls the tensor.
        zero_signs: +0 and −0 are a mismatch.
        nan_payloads: NaN with different patterns are a mismatch; else a NaN is a NaN.

    Raises:
        AssertionError: they differ, or nothing was shown (no elements, or the same memory
            twice); the message is the report.
        TypeError: an argument is not a dense tensor of a known dtype.
        ValueError: tf32 patterns with padding bits set.
    """
    __tracebackhide__ = True
    diff = compare(actual, expected, zero_signs=zero_signs, nan_payloads=nan_payloads)
    if diff.verdict is not Verdict.EQUAL:
        raise AssertionError(report(diff, name=name))
