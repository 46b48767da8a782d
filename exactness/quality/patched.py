"""A norm of a model, computed as a claim says: by its kernel, or by its reference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from exactness import arrays
from exactness.arithmetic import Arithmetic, Exact, Hopper
from exactness.arrays import Array
from exactness.bits import format_of
from exactness.claim import Claim, Variant
from exactness.errors import UsageError
from exactness.formats import Format
from exactness.inputs import Tensor as TensorSpec
from exactness.machines import Machine
from exactness.quality.legs import How, Leg
from exactness.quality.norms import Function, Norm
from exactness.rounding import round_to

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 512
"""Rows that a reference takes at once on a CPU: they stay in its cache."""


@dataclass(eq=False)
class Patched:
    """A norm and the claim that computes it.

    Attributes:
        norm: the norm.
        claim: takes `x`, and `weight` if it multiplies by one.
        machine: runs the kernel; None: its reference stands for it.
        reference: the reference of the default.
        variant: the opt-in variant of the second leg, or None.
        variant_reference: its reference; the default's if there is no variant.
        calls: calls so far, in all legs.
        rows_seen: rows of these calls.
        elements_seen: elements of these rows.
    """

    norm: Norm
    claim: Claim
    machine: Machine | None
    reference: Callable[..., Any]
    variant: Variant | None
    variant_reference: Callable[..., Any]
    calls: int = 0
    rows_seen: int = 0
    elements_seen: int = 0

    def function(self, leg: Leg) -> Function:
        """What computes the norm in a leg."""

        def counted(x: Tensor) -> Tensor:
            self.calls += 1
            self.rows_seen += x.numel() // max(x.shape[-1], 1)
            self.elements_seen += x.numel()
            return self.normalised(x, leg)

        return counted

    @property
    def work(self) -> tuple[int, int, int]:
        """Calls, rows and elements so far."""
        return self.calls, self.rows_seen, self.elements_seen

    def normalised(self, x: Tensor, leg: Leg) -> Tensor:
        """The norm of a tensor as a leg computes it, in the dtype and shape of `x`."""
        return self.finished(self.computed(self.rows(x), leg), x)

    def rows(self, x: Tensor) -> Tensor:
        """The tensor in the rank that the claim takes, contiguous.

        Raises:
            UsageError: the claim does not take this dtype.
        """
        spec = self.claim.inputs.tensors["x"]
        of = spec.format
        accepted = self.claim.inputs.formats[of] if isinstance(of, str) else (of,)
        if _format(x) not in accepted:
            names = ", ".join(each.name for each in accepted)
            raise UsageError(
                f"{self.norm.name} is given {x.dtype}; claim {self.claim.name} takes {names}"
            )
        lead = x.shape[-2:-1] if len(spec.dims) == 3 else ()
        return x.reshape(-1, *lead, x.shape[-1]).contiguous()

    def computed(self, rows: Tensor, leg: Leg) -> Array:
        """The claim's first output: f32 or bf16 tensor, f64 in exact arithmetic."""
        variant = self.variant if leg.opt_in else None
        if leg.how is How.KERNEL and self.machine is not None:
            results = self.machine.run(self.claim, self._arguments(rows), variant)
            return results[self.claim.outputs[0]]
        reference = self.variant_reference if leg.opt_in else self.reference
        arithmetic = Exact if leg.how is How.EXACT else Hopper
        order = _other_order(rows.shape[-1]) if leg.how is How.REORDERED else None
        if rows.is_cuda:
            return self._program(reference, arithmetic(), rows, order)
        starts = range(0, max(len(rows), 1), BLOCK)
        parts = (rows[start : start + BLOCK] for start in starts)
        blocks = [self._program(reference, arithmetic(), part, order) for part in parts]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def _program(
        self,
        reference: Callable[..., Any],
        arithmetic: Arithmetic,
        rows: Tensor,
        order: np.ndarray | None,
    ) -> Array:
        """Run the reference, if asked for with the elements of all rows in another order."""
        arguments = self._arguments(rows, order)
        result = arithmetic.run(reference, arguments)
        first = result[0] if isinstance(result, tuple) else result
        if order is None:
            return first.payload
        back = arrays.index_array(first.payload, np.argsort(order))
        return first.payload[..., back]

    def _arguments(self, rows: Tensor, order: np.ndarray | None = None) -> dict[str, Any]:
        import torch

        def ordered(x: Tensor) -> Tensor:
            return x if order is None else x[..., torch.as_tensor(order, device=x.device)]

        arguments = {**self.claim.parameters, "x": ordered(rows), "eps": self.norm.eps}
        if "weight" in self.claim.inputs.tensors and self.norm.weight is not None:
            arguments["weight"] = ordered(self.norm.weight.detach().to(rows.dtype))
        return arguments

    def finished(self, computed: Array, x: Tensor) -> Tensor:
        """Multiply by the weight if the claim did not, round once, in the shape of `x`."""
        rounded = _tensor(round_to(self.scaled(computed, x), _format(x)))
        return rounded.to(x.dtype).reshape(x.shape)

    def scaled(self, computed: Array, x: Tensor) -> Array:
        """The result times the weight if the claim did not, in f32 or f64, not rounded further."""
        import torch

        wide = _tensor(computed)
        wide = wide if wide.dtype == torch.float64 else wide.float()
        if "weight" not in self.claim.inputs.tensors:
            factor = self.norm.scale.factor(self.norm.weight, wide.dtype)
            wide = wide if factor is None else wide * factor
        return wide if x.is_cuda else wide.numpy()


def _format(x: Tensor) -> Format:
    found = format_of(x)
    if not isinstance(found, Format):
        raise TypeError(f"x: {x.dtype} is not a float format")
    return found


def _tensor(array: Array) -> Tensor:
    import torch

    return torch.from_numpy(np.ascontiguousarray(array)) if arrays.is_numpy(array) else array


@functools.lru_cache(maxsize=16)
def _other_order(n: int) -> np.ndarray:
    """A drawn permutation of n elements."""
    return np.random.default_rng(n).permutation(n)


def check_claim(claim: Claim) -> None:
    """Refuse a claim that is not a norm of rows.

    Raises:
        UsageError: it takes other arguments than `x`, `eps` and `weight`.
    """
    tensors = claim.inputs.tensors
    is_norm = {"x"} <= tensors.keys() <= {"x", "weight"}
    is_norm = is_norm and claim.inputs.parameters.keys() == {"eps"}
    if not is_norm or not all(isinstance(spec, TensorSpec) for spec in tensors.values()):
        taken = ", ".join([*tensors, *claim.inputs.parameters])
        raise UsageError(f"claim {claim.name} takes {taken}; a norm takes x, eps, perhaps weight")
