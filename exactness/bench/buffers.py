"""Sets of arguments on the device, and the outputs that the reference gives for them.

A benchmark needs several sets: in a graph each call has its own, so that the cache in front of
the memory does not hold what the next call reads, and a kernel that answers from memory of an
earlier call is found out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exactness.arithmetic import Value
from exactness.arithmetic.hopper import Hopper
from exactness.bench.cases import Case
from exactness.bits import TORCH_NAMES, Bits, from_payload, is_torch
from exactness.claim import Claim
from exactness.inputs import IntegerTensor, Tensor, TensorDraw
from exactness.inputs.patterns import seed_of

SHARED_BYTES = 1 << 30
"""A tensor from this size on is the same in all sets: no cache holds a useful part of it."""

FAMILY = "normal"
"""What tensors are filled with where they accept it."""


@dataclass(frozen=True)
class ArgumentSet:
    """Arguments of one call.

    Attributes:
        arguments: keyword arguments, tensors on the device.
        kept: copies of those that the kernel mutates.
        expected: the outputs of the reference, on the device.
    """

    arguments: Mapping[str, Any]
    kept: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, Any] = field(default_factory=dict)

    def restore(self) -> None:
        """Undo what a kernel has mutated."""
        for name, copy in self.kept.items():
            self.arguments[name].copy_(copy)


def set_bytes(case: Case) -> int:
    """Memory of one set, with the copies, expected and actual outputs, roughly."""
    own = sum(size for size in _tensor_bytes(case).values() if size < SHARED_BYTES)
    return 2 * max(own, case.amount.bytes)


def _tensor_bytes(case: Case) -> dict[str, int]:
    return {
        name: math.prod(tensor.shape(case.sizes)) * _format(case, tensor).bits // 8
        for name, tensor in case.inputs.tensors.items()
    }


def _format(case: Case, tensor: Tensor | IntegerTensor) -> Any:
    if not isinstance(tensor.format, str):
        return tensor.format
    chosen = case.formats[tensor.format]
    return next(fmt for fmt in case.inputs.formats[tensor.format] if fmt.name == chosen)


def draw_sets(
    case: Case, program: Callable[..., Any], count: int, place: str, seed: int
) -> list[ArgumentSet]:
    """Sets of arguments of different values, with what the reference gives for each.

    Args:
        case: the case.
        program: the reference.
        count: how many.
        place: the torch device.
        seed: added to every seed.
    """
    claim = case.entry.claim
    large = {name for name, size in _tensor_bytes(case).items() if size >= SHARED_BYTES}
    shared = {name: _drawn(case, name, place, seed) for name in sorted(large)}
    sets = []
    for number in range(count):
        tensors = {
            name: shared[name] if name in shared else _drawn(case, name, place, seed, number)
            for name in case.inputs.tensors
        }
        arguments = {**tensors, **case.parameters}
        kept = {name: arguments[name].clone() for name in claim.mutates}
        sets.append(ArgumentSet(arguments, kept, expected(claim, program, arguments, place)))
    return sets


def _drawn(case: Case, name: str, place: str, seed: int, number: int = 0) -> Any:
    """One tensor, drawn where it is needed: large ones would take minutes on the host."""
    import torch

    tensor = case.inputs.tensors[name]
    shape, fmt = tensor.shape(case.sizes), _format(case, tensor)
    start = seed_of(f"{case.name}/{case.tokens}/{name}/{number}") + seed
    dtype = getattr(torch, TORCH_NAMES[fmt.name])
    generator = torch.Generator(place).manual_seed(start)
    if isinstance(tensor, IntegerTensor):
        recipe = tensor.draw(case.sizes, start)
        end = recipe.high + 1
        return torch.randint(recipe.low, end, shape, generator=generator, device=place, dtype=dtype)
    if FAMILY not in tensor.accepted:
        return TensorDraw(fmt.name, shape, tensor.accepted[0], start).tensor(place)
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    return torch.randn(shape, generator=generator, device=place, dtype=wide).to(dtype)


def expected(
    claim: Claim, program: Callable[..., Any], arguments: Mapping[str, Any], place: str
) -> dict[str, Any]:
    """The outputs of the reference as tensors on the device.

    Raises:
        TypeError: the reference returned something else than the claim's outputs.
    """
    result = Hopper().run(program, arguments)
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(claim.output_names):
        raise TypeError(
            f"reference {claim.reference} returned {len(results)} results; "
            f"the claim names {', '.join(claim.output_names)}"
        )
    return {
        name: _tensor(value, place) for name, value in zip(claim.output_names, results, strict=True)
    }


def _tensor(result: Any, place: str) -> Any:
    """A result of a reference as a tensor of its own memory."""
    import torch

    if not isinstance(result, Value):
        return result.clone() if is_torch(result) else Bits.of(result).torch(place)
    if is_torch(result.payload):
        # A payload is wider or as wide; its values are those of the format already.
        return result.payload.to(getattr(torch, TORCH_NAMES[result.format.name]), copy=True)
    return from_payload(result.payload, result.format).torch(place)
