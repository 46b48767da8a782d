"""Whether timed outputs have the reference's bits; the comparison stays on the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from exactness import messages
from exactness.compare import Verdict, compare
from exactness.machines import poisoned_memory

_WRITTEN = 3
"""Differences that a report describes; the others are counted."""

_INTEGERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


@dataclass
class BitCheck:
    """What was compared, and every difference.

    Attributes:
        elements: elements compared.
        differing: elements that differ.
        found: when, in which output and how.
    """

    elements: int = 0
    differing: int = 0
    found: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Whether something was compared and nothing differs."""
        return self.elements > 0 and not self.found

    def add(self, when: str, actual: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
        """Compare named outputs.

        Args:
            when: for the report.
            actual: what the kernel gave.
            expected: what the reference gave.
        """
        for name, wanted in expected.items():
            self.elements += int(wanted.numel())
            if same_patterns(actual[name], wanted):
                continue
            diff = compare(actual[name], wanted)
            if diff.verdict is Verdict.DIFFERENT:
                self.differing += diff.mismatches or int(wanted.numel())
                text = messages.report(diff, name=name)
                self.found.append(f"{when}: {text}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "right": self.right,
            "elements": self.elements,
            "differing": self.differing,
            "comparisons_differing": len(self.found),
            "differences": self.found[:_WRITTEN],
        }


def same_patterns(actual: Any, expected: Any) -> bool:
    """Whether two tensors have one dtype, one shape and the same patterns, NaN included."""
    import torch

    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    if actual.dtype is torch.bool:
        return torch.equal(actual, expected)
    integer = getattr(torch, _INTEGERS[actual.element_size()])
    return torch.equal(actual.view(integer), expected.view(integer))


def poison(outputs: Mapping[str, Any]) -> None:
    """Overwrite outputs, so that an element which the next call does not write shows."""
    import torch

    with poisoned_memory():
        for tensor in outputs.values():
            tensor.copy_(torch.empty_like(tensor))
