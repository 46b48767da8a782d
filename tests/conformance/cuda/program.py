"""What a CUDA conformance program is: a launch of a kernel, seeded inputs, outputs to compare."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from exactness import virtual

from ..draws import Draw

FOLDER = Path(__file__).parent
Bits = np.ndarray[Any, Any]


@dataclass(frozen=True, order=True)
class Build:
    """A .cu file compiled with certain flags.

    Attributes:
        source: name of the file, without suffix.
        flags: of nvcc, beyond the architecture and -O3.
    """

    source: str
    flags: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The name under which its PTX is stored."""
        return " ".join((self.source, *self.flags))

    @property
    def path(self) -> Path:
        """The .cu file."""
        return FOLDER / f"{self.source}.cu"

    @property
    def key(self) -> str:
        """A name for files that were compiled from this very text."""
        words = "-".join(re.findall(r"\w+", self.title))
        return f"{words}-{hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]}"


@dataclass(frozen=True)
class CudaProgram:
    """A launch that must give the same bits on the H200 and on the virtual Hopper.

    Attributes:
        name: unique; with an input's name it seeds that input.
        build: the file it is compiled from.
        kernel: name of the entry.
        grid: blocks.
        block: threads of a block.
        arguments: in order: the name of a tensor, a number, or a tuple for a struct: its `struct`
            format ("P" for a pointer) and its fields.
        inputs: tensors that are read, by name.
        outputs: tensors that are compared, by name, as they are before the launch.
        shared: bytes of dynamic shared memory.
        refused: the instruction by whose name the virtual Hopper must refuse the program; empty if
            it must run.
    """

    name: str
    build: Build
    kernel: str
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    arguments: tuple[Any, ...]
    inputs: Mapping[str, Draw]
    outputs: Mapping[str, Draw]
    shared: int = 0
    refused: str = ""

    def __post_init__(self) -> None:
        if both := set(self.inputs) & set(self.outputs):
            raise ValueError(f"{self.name}: {sorted(both)} are named both as input and as output")

    def draw(self) -> dict[str, Bits]:
        """Return the bit patterns of all tensors before the launch."""
        named = {**self.inputs, **self.outputs}
        return {key: draw.bits(f"{self.name}/{key}") for key, draw in named.items()}

    def dtype(self, key: str) -> str:
        """Return the type of the tensor ``key``."""
        return (self.inputs.get(key) or self.outputs[key]).dtype

    def inputs_digest(self) -> str:
        """Return the SHA-256 of all tensors before the launch, names and shapes included."""
        digest = hashlib.sha256()
        for key, bits in sorted(self.draw().items()):
            digest.update(f"{key}:{self.dtype(key)}:{bits.shape};".encode())
            digest.update(np.ascontiguousarray(bits).tobytes())
        return digest.hexdigest()

    def source_digest(self) -> str:
        """Return the SHA-256 of what runs: the .cu file, its flags and the launch."""
        launch = (self.build, self.kernel, self.grid, self.block, self.arguments, self.shared)
        return hashlib.sha256(self.build.path.read_bytes() + repr(launch).encode()).hexdigest()

    def replay(self, module: virtual.PTXModule) -> dict[str, Bits]:
        """Launch on the virtual Hopper and return the outputs' patterns.

        Raises:
            AssertionError: the launch changed an input.
        """
        drawn = self.draw()
        tensors = {key: bits.copy() for key, bits in drawn.items()}
        arguments = [_on_cpu(argument, tensors) for argument in self.arguments]
        module[self.kernel].launch(self.grid, self.block, *arguments, shared=self.shared)
        for key in self.inputs:
            assert np.array_equal(tensors[key], drawn[key]), f"{self.name} wrote to {key}"
        return {key: tensors[key] for key in self.outputs}


def _on_cpu(argument: Any, tensors: Mapping[str, Bits]) -> Any:
    if isinstance(argument, tuple):
        form, *fields = argument
        return virtual.Struct(form, *(_on_cpu(field, tensors) for field in fields))
    return tensors[argument] if isinstance(argument, str) else argument
