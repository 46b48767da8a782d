"""A few rows of a user's tensors, where a contract's rows are independent of each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from exactness.bits import Bits
from exactness.inputs import Inputs
from exactness.inputs import dims as dimensions
from exactness.which.contracts import Finding


@dataclass(frozen=True)
class Rows:
    """Arguments cut to some rows of the batch.

    Attributes:
        arguments: the arguments, tensors of the batch cut.
        chosen: which rows; None if all stay.
        total: how many there are.
    """

    arguments: Mapping[str, Any]
    chosen: np.ndarray | None
    total: int

    @classmethod
    def of(cls, finding: Finding, most: int) -> Rows:
        """At most `most` rows of a contract's arguments, rows that differ among them.

        A tensor whose extent depends on the batch in another way than by its first dimension
        forbids to cut.
        """
        claim, arguments = finding.contract.claim, finding.arguments
        batch = claim.batch or next(iter(claim.inputs.sizes), "")
        batched = _batched(claim.inputs, batch)
        shapes = [arguments[name].shape for name in batched]
        shapes += [diff.expected_shape for diff in finding.diffs.values()]
        extents = {shape[:1] for shape in shapes}
        if not batched or len(extents) != 1 or max(extents) <= (most,):
            return cls(arguments, None, 0)
        ((total,),) = extents
        chosen = _chosen(finding, total, most)
        cut = {name: _cut(arguments[name], chosen) for name in batched}
        return cls({**arguments, **cut}, chosen, total)

    def cut(self, tensors: Mapping[str, Bits]) -> dict[str, Bits]:
        """The same rows of outputs."""
        if self.chosen is None:
            return dict(tensors)
        return {name: _cut(bits, self.chosen) for name, bits in tensors.items()}


def _batched(inputs: Inputs, batch: str) -> list[str]:
    """The tensors that the batch runs along; none if it enters a shape in another way."""
    batched = []
    for name, tensor in inputs.tensors.items():
        used = [dim for dim in tensor.dims if batch in dimensions.names(dim)]
        if used and (used != [batch] or tensor.dims[0] != batch):
            return []
        batched += [name] if used else []
    return batched


def _chosen(finding: Finding, total: int, most: int) -> np.ndarray:
    """Half of them rows with the most differences, the others spread evenly."""
    worst: list[int] = []
    for diff in finding.diffs.values():
        if diff.rows is not None:
            inner = max(diff.rows.total // total, 1)
            worst += [line // inner for line, _ in diff.rows.worst]
    spread = np.linspace(0, total - 1, most).astype(int).tolist()
    distinct = dict.fromkeys([*worst[: most // 2], *spread])
    return np.sort(np.array(list(distinct)[:most]))


def _cut(bits: Bits, chosen: np.ndarray) -> Bits:
    return Bits(np.ascontiguousarray(bits.patterns[chosen]), bits.format)
