"""CUDA kernels on the virtual Hopper: launch what `nvcc -ptx` wrote.

module = load_ptx("norm.ptx")
module["rms_norm_kernel"].launch(rows, 256, out, x, weight, n, 1e-6, shared=1024)

The kernel executes with the bits of the machine code: whatever the PTX leaves to ptxas is taken
from a cubin (`exactness.virtual.fusion`).
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from exactness.errors import UsageError
from exactness.virtual import fusion, machine, ptx, values
from exactness.virtual.arguments import ArgumentMemory
from exactness.virtual.errors import LaunchError, UnsupportedInstructionError
from exactness.virtual.fusion import Resolved
from exactness.virtual.instructions import Entry, Param
from exactness.virtual.launcher import Launch, active_hopper
from exactness.virtual.machine import Dimensions, fresh_variables
from exactness.virtual.memory import GlobalMemory
from exactness.virtual.program import Program, decode_entry
from exactness.virtual.state import WARP, Bits

Size = int | Sequence[int]
"""Blocks or threads: along x, or along up to three axes."""


def load_ptx(
    path_or_text: str | Path, *, cubin: bytes | None = None, options: Sequence[str] = ()
) -> PTXModule:
    """Load a PTX module.

    Args:
        path_or_text: a file that `nvcc -ptx` wrote, or its text.
        cubin: the machine code that runs on the GPU, if it is known (`nvcc -cubin -lineinfo`);
            the PTX is assembled with the ptxas that is found otherwise.
        options: the ptxas options that it is assembled with, such as "--fmad=false".

    Returns:
        The module: its kernels by name, and its variables.

    Raises:
        UsageError: the file cannot be read, or holds no PTX.
        PTXSyntaxError: naming the line that cannot be read.
        UnsupportedInstructionError: the PTX is for another architecture than sm_90 or older.
    """
    return PTXModule(_text(path_or_text), cubin, tuple(options))


class PTXModule(Mapping[str, "PTXKernel"]):
    """A loaded module: a mapping of its kernels by their names in the PTX.

    `module["norm"]` also finds the only kernel whose C++ name has the part `norm`, and
    `module["_Z4normIf"]` the only one whose name begins so: an instance of a template.

    Attributes:
        text: the PTX.
        cubin: the machine code, if it was given.
        options: of ptxas.
        variables: bytes of the `.global` and `.const` variables by name, u8. They keep their
            values between launches, and may be written: `module.variables["k"].view("f4")[:] = 1`.
    """

    def __init__(self, text: str, cubin: bytes | None, options: tuple[str, ...]) -> None:
        """See `load_ptx`."""
        self.text, self.cubin, self.options = text, cubin, options
        parsed = ptx.parse(text)
        _check_target(parsed.target)
        self.variables: Mapping[str, Bits] = fresh_variables(parsed.constants)
        self.entries: Mapping[str, PTXKernel] = {
            name: PTXKernel(self, entry) for name, entry in parsed.entries.items()
        }

    def __getitem__(self, name: str) -> PTXKernel:
        """The kernel of a name; a KeyError lists the others."""
        if name in self.entries:
            return self.entries[name]
        part = re.escape(name) if name.startswith("_Z") else f"_Z.*?(?<!\\d){len(name)}{name}"
        found = [entry for entry in self.entries if re.match(part, entry)]
        if len(found) != 1:
            known = ", ".join(found or self.entries) or "none"
            what = "several kernels have this name" if found else "the module has"
            raise KeyError(f"kernel {name!r}: {what}: {known}")
        return self.entries[found[0]]

    def __iter__(self) -> Iterator[str]:
        """The names in the PTX."""
        return iter(self.entries)

    def __len__(self) -> int:
        """How many kernels there are."""
        return len(self.entries)


class PTXKernel:
    """A kernel of a module.

    Attributes:
        module: where it is from.
        entry: its PTX, parsed.
    """

    def __init__(self, module: PTXModule, entry: Entry) -> None:
        """Made by `PTXModule`."""
        self.module, self.entry = module, entry

    @property
    def name(self) -> str:
        """Its name in the PTX."""
        return self.entry.name

    @property
    def params(self) -> tuple[Param, ...]:
        """What it declares."""
        return self.entry.params

    @functools.cached_property
    def resolved(self) -> Resolved:
        """The PTX to execute, with every contraction decided.

        Raises:
            FusionError: what ptxas makes of the kernel cannot be told.
            ToolError: ptxas or nvdisasm is missing.
        """
        module, options = self.module, self.module.options
        if module.cubin is None:  # ptxas need not look at the others
            options = (*options, f"--entry={self.name}")
        return fusion.resolve(module.text, self.name, options=options, cubin=module.cubin)

    def launch(self, grid: Size, block: Size, *args: Any, shared: int = 0) -> Launch:
        """Run the kernel on CPU memory, as `kernel<<<grid, block, shared>>>(args...)` would on it.

        Args:
            grid: blocks.
            block: threads of a block.
            args: one a parameter, see `exactness.virtual.values.pack`. What the kernel stores is
                in the tensors and arrays that were passed.
            shared: bytes of dynamic shared memory.

        Returns:
            What was launched, with counts of executed instructions; an enclosing
            `virtual.hopper()` block records it too, and its edits apply.

        Raises:
            LaunchError: grid, block or arguments that do not fit the kernel.
            VirtualHopperError: what the kernel did wrong, or what has no model.
        """
        blocks, threads = _dimensions("grid", grid), _dimensions("block", block)
        if shared < 0:
            raise LaunchError(f"shared: {shared} bytes; 0 and more are accepted", kernel=self.name)
        memory, reachable = ArgumentMemory(), GlobalMemory()
        try:
            packed = values.pack(self.params, args, memory)
        except LaunchError as error:
            raise error.at(self.name, None) from None
        memory.register(reachable)
        counts = machine.launch(
            self.entry,
            grid=blocks,
            block=threads,
            params=packed,
            memory=reachable,
            dynamic_shared=shared,
            program=self._program(),
            variables=self.module.variables,
        )
        return self._record(blocks, threads, counts)

    def _program(self) -> Program:
        hopper = active_hopper()
        if hopper is not None:
            return hopper.program(self.resolved, self.name)
        return decode_entry(self.resolved.module.entries[self.name])

    def _record(self, grid: Dimensions, block: Dimensions, counts: Mapping[str, int]) -> Launch:
        warps = -(-block[0] * block[1] * block[2] // WARP)
        module, verdict = self.module, self.resolved.verdict
        done = Launch(self.name, grid, warps, counts, verdict, module.text, module.options)
        if (hopper := active_hopper()) is not None:
            hopper.record(done)
        return done


def _text(path_or_text: str | Path) -> str:
    if isinstance(path_or_text, str) and "\n" in path_or_text:
        return path_or_text
    path = Path(path_or_text)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text; write PTX with `nvcc -ptx`"
        raise UsageError(f"{path} cannot be read: {reason}") from None
    if ".version" not in text:
        raise UsageError(f"{path} holds no PTX; write it with `nvcc -ptx -arch=sm_90`")
    return text


def _check_target(target: str) -> None:
    """PTX runs on its own architecture and on later ones; sm_90a is this one."""
    match = re.fullmatch(r"sm_(\d+)(a|f)?", target)
    if match is None or int(match[1]) > 90 or (match[2] and int(match[1]) != 90):
        raise UnsupportedInstructionError(
            f"the PTX is for {target or 'no target'}; the virtual Hopper runs sm_90 and older"
        )


def _dimensions(name: str, size: Size) -> Dimensions:
    """One to three counts, the missing ones 1."""
    try:
        given = [operator.index(n) for n in (size if isinstance(size, Sequence) else (size,))]
    except TypeError:
        given = []
    if not 1 <= len(given) <= 3:
        raise LaunchError(f"{name}: {size!r}; an int, or one to three of them, are accepted")
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z
