"""Kernels of a catalogue as summations: norms of rows, and products of rows with a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from exactness import bits
from exactness.bits import Bits
from exactness.claim import CPU, Claim
from exactness.formats import Format
from exactness.inputs import dims
from exactness.inputs.spec import IntegerTensor, Tensor
from exactness.machines import Machine, VirtualHopper
from exactness.reveal.errors import RevealError
from exactness.reveal.rowwise import RowKernel

_ELEMENTS = 1 << 17
"""Elements of the rows that one call takes, if the sizes of the claim allow."""


class Kernel(RowKernel):
    """A claim's kernel.

    Attributes:
        claim: whose kernel it is.
        machine: where it runs.
        sizes: the sizes of its arguments.
    """

    def __init__(
        self,
        claim: Claim,
        machine: Machine,
        n: int,
        format_name: str | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        """Choose sizes and formats.

        Args:
            claim: a norm of rows, or a product of rows with a matrix.
            machine: where the kernel runs.
            n: terms of a row.
            format_name: format of the terms; the claim's default if None.
            sizes: sizes that are not to be chosen here.

        Raises:
            RevealError: the claim has no such sum, or does not take these sizes.
        """
        super().__init__()
        self.claim, self.machine, self.n, self.name = claim, machine, n, claim.name
        refused = machine.refuses(claim)
        if refused is not None:
            raise RevealError(f"claim {claim.name}: {refused}")
        squares = "norm" in claim.name
        self._terms = _summed(claim, squares)
        self._formats = self._chosen_formats(format_name)
        self.format = self._format(claim.inputs.tensors[self._terms])
        self.sizes = self._chosen_sizes(dict(sizes or {}))
        self._shape = claim.inputs.tensors[self._terms].shape(self.sizes)
        on_hopper = isinstance(machine, VirtualHopper) and claim.runs_on != CPU
        self.prepare(int(np.prod(self._shape[:-1])), squares=squares, on_hopper=on_hopper)

    def _chosen_formats(self, wanted: str | None) -> dict[str, Format]:
        chosen = {name: values[0] for name, values in self.claim.inputs.formats.items()}
        if wanted is None:
            return chosen
        named = self.claim.inputs.tensors[self._terms].format
        accepted = self.claim.inputs.formats.get(named, ()) if isinstance(named, str) else (named,)
        if wanted not in [fmt.name for fmt in accepted]:
            known = ", ".join(fmt.name for fmt in accepted)
            raise RevealError(
                f"claim {self.claim.name}: terms of {wanted} are not accepted; {known} are"
            )
        for name, values in self.claim.inputs.formats.items():
            chosen[name] = next((fmt for fmt in values if fmt.name == wanted), values[0])
        return chosen

    def _format(self, tensor: Tensor | IntegerTensor) -> Any:
        return self._formats[tensor.format] if isinstance(tensor.format, str) else tensor.format

    def _chosen_sizes(self, sizes: dict[str, int]) -> dict[str, int]:
        """All sizes: those given, the one that makes rows of n terms, many rows, else the least."""
        ranges = self.claim.inputs.sizes
        wrong = [name for name, size in sizes.items() if not _within(size, ranges.get(name))]
        if wrong:
            known = ", ".join(f"{name} {low} to {high}" for name, (low, high) in ranges.items())
            raise RevealError(f"claim {self.claim.name}: size {wrong[0]}: {known} are accepted")
        dim = self.claim.inputs.tensors[self._terms].dims[-1]
        along = min(dims.names(dim), default="")
        low, high = ranges.get(along, (0, 0))
        fitting = [
            k for k in range(low, high + 1) if dims.value(dim, {**sizes, along: k}) == self.n
        ]
        if not fitting or sizes.get(along, fitting[0]) != fitting[0]:
            raise RevealError(
                f"claim {self.claim.name}: rows of {self.n} are not accepted; "
                f"{dim} are, {along} from {low} to {high}"
            )
        first = self.claim.batch or next(iter(ranges))
        most = max(2, min(ranges[first][1], _ELEMENTS // self.n))
        least = {name: max(low, 1) for name, (low, _) in ranges.items()}
        return {**least, first: most, along: fitting[0], **sizes}

    def launch(self, terms: np.ndarray) -> list[Any]:
        """Run the kernel, or its launcher that stores f32."""
        arguments = self.arguments(terms)
        if not self.opened:
            return list(self.machine.run(self.claim, arguments).values())
        unrounded = self.claim.unrounded is not None
        found = self.on_hopper(lambda: self.claim.call(arguments, unrounded=unrounded))
        return list(found.values())

    def arguments(self, terms: np.ndarray) -> dict[str, Any]:
        """What the kernel is called with: the terms, zeros beside them, ones otherwise, eps 0."""
        inputs = self.claim.inputs
        parameters = {**inputs.defaults(), **self.claim.parameters}
        if "eps" in parameters:
            parameters["eps"] = 0.0
        made = {}
        for name, tensor in inputs.tensors.items():
            shape = tensor.shape(self.sizes)
            like_terms = shape == self._shape
            values = np.full(shape, 0.0 if like_terms else 1.0)
            if name == self._terms:
                values = terms.reshape(shape)
            fmt = self._format(tensor)
            made[name] = Bits(bits.encode(values, fmt), fmt).torch(self.machine.device)
        return {**made, **parameters}


def _within(size: int, accepted: tuple[int, int] | None) -> bool:
    return accepted is not None and accepted[0] <= size <= accepted[1]


def _summed(claim: Claim, squares: bool) -> str:
    """The tensor whose last dimension is summed.

    Raises:
        RevealError: none is known to be.
    """
    tensors = {
        name: tensor for name, tensor in claim.inputs.tensors.items() if isinstance(tensor, Tensor)
    }
    for name, tensor in tensors.items():
        if len(tensor.dims) < 2:
            continue
        shared = [
            other
            for other in tensors.values()
            if other is not tensor and len(other.dims) == 2 and other.dims[-1] == tensor.dims[-1]
        ]
        if squares or shared:
            return name
    raise RevealError(
        f"claim {claim.name} has no sum that can be probed: norms of rows (named so) and products "
        "of rows with a matrix [columns, n] have"
    )
