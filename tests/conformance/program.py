"""What a conformance program is: a launch, seeded inputs and the outputs to compare."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .code import source_digest
from .draws import FLOATS, Draw, constant, itemsize, to_bits, to_tensor

if TYPE_CHECKING:
    import torch

Tensors = Mapping[str, "torch.Tensor"]
POISON = 0xA5A5A5A5A5A5A5A5


@dataclass(frozen=True)
class Program:
    """A Triton program that must give the same bits on the H200 and on the virtual Hopper.

    Attributes:
        name: unique; with an input's name it seeds that input.
        launch: runs the kernels on the named tensors, all on one device.
        inputs: tensors that are read, by name.
        outputs: tensors that are compared, by name, as they are *before* the launch.
        refused: the instruction by whose name the virtual Hopper must refuse the program
            (a strict expectation: running to the end is then a failure); empty if it must run.
        removed_in: the Triton version (major, minor) from which on it no longer compiles, or None.
    """

    name: str
    launch: Callable[[Tensors], object]
    inputs: Mapping[str, Draw]
    outputs: Mapping[str, Draw]
    refused: str = ""
    removed_in: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if both := set(self.inputs) & set(self.outputs):
            raise ValueError(f"{self.name}: {sorted(both)} are named both as input and as output")

    def draw(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the bit patterns of all tensors before the launch."""
        named = {**self.inputs, **self.outputs}
        return {key: draw.bits(f"{self.name}/{key}") for key, draw in named.items()}

    def dtype(self, key: str) -> str:
        """Return the type of the tensor ``key``."""
        return (self.inputs.get(key) or self.outputs[key]).dtype

    def digest(self) -> str:
        """Return the SHA-256 of all tensors before the launch, names and shapes included."""
        digest = hashlib.sha256()
        for key, bits in sorted(self.draw().items()):
            digest.update(f"{key}:{self.dtype(key)}:{bits.shape};".encode())
            digest.update(np.ascontiguousarray(bits).tobytes())
        return digest.hexdigest()

    def source(self) -> str:
        """Return the SHA-256 of the code that runs: the launch and all jitted functions."""
        return source_digest(self.launch)

    def run(self, device: str) -> dict[str, torch.Tensor]:
        """Launch on ``device`` ("cpu" or "cuda") and return the outputs.

        Raises:
            AssertionError: the launch changed an input.
        """
        drawn = self.draw()
        tensors = {key: to_tensor(bits, self.dtype(key)).to(device) for key, bits in drawn.items()}
        self.launch(tensors)
        for key in self.inputs:
            assert np.array_equal(to_bits(tensors[key]), drawn[key]), f"{self.name} wrote to {key}"
        return {key: tensors[key].cpu() for key in self.outputs}


def empty(shape: tuple[int, ...] | int, dtype: str) -> Draw:
    """Return an output whose bytes are all 0xA5 before the launch: what is not written shows."""
    shape = (shape,) if isinstance(shape, int) else shape
    return constant(shape, dtype, POISON >> (64 - 8 * itemsize(dtype)))


def is_nan(bits: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return where the patterns of ``dtype`` are NaNs."""
    if dtype not in FLOATS:
        return np.zeros(bits.shape, bool)
    width, fraction, _ = FLOATS[dtype]
    magnitude = bits & bits.dtype.type((1 << (width - 1)) - 1)
    if dtype == "e4m3fn":
        return magnitude == 0x7F
    return magnitude > bits.dtype.type(((1 << (width - 1)) - 1) >> fraction << fraction)


def differing(
    actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], dtype: str
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the flat indices at which two tensors' bits differ; any NaN equals any NaN."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise ValueError(f"{actual.dtype}{actual.shape} against {expected.dtype}{expected.shape}")
    both_nan = is_nan(actual, dtype) & is_nan(expected, dtype)
    return np.flatnonzero((actual != expected) & ~both_nan)


def elementwise(
    name: str,
    kernel: Any,
    inputs: Mapping[str, Draw],
    outputs: Mapping[str, str],
    *,
    block: int = 512,
    refused: str = "",
    **options: Any,
) -> Program:
    """Return the program ``kernel(inputs..., outputs..., n, BLOCK)`` over flat tensors.

    ``outputs`` maps names to types; ``options`` are further constexprs and compiler options.
    """
    n = next(iter(inputs.values())).size

    def launch(t: Tensors) -> None:
        grid = (-(-n // block),)
        kernel[grid](*(t[k] for k in inputs), *(t[k] for k in outputs), n, BLOCK=block, **options)

    made = {key: empty(n, dtype) for key, dtype in outputs.items()}
    return Program(name, launch, inputs, made, refused)
