"""One launch of a Triton kernel on the virtual Hopper: resolve, pack, execute, record."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exactness.virtual import fusion
from exactness.virtual.arguments import Argument, ArgumentMemory, flatten, pack
from exactness.virtual.descriptors import expanded
from exactness.virtual.editing import Editing
from exactness.virtual.errors import LaunchError, UnsupportedInstructionError
from exactness.virtual.fusion import Resolved, Verdict
from exactness.virtual.machine import launch
from exactness.virtual.memory import GlobalMemory
from exactness.virtual.program import Program, decode_entry

DEVICE = 0x900_0000
"""Kernels are cached by device number; no GPU has this one."""

WARP_SIZE = 32
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch on the virtual Hopper.

    Attributes:
        kernel: name of the kernel.
        grid: blocks in x, y and z.
        num_warps: warps of a block.
        counts: thread-instructions executed, by opcode with modifiers.
        verdict: what ptxas made of the PTX.
        ptx: the PTX that the compiler printed, whatever an edit made of it.
        options: the ptxas options it is assembled with.
    """

    kernel: str
    grid: tuple[int, int, int]
    num_warps: int
    counts: Mapping[str, int]
    verdict: Verdict
    ptx: str
    options: tuple[str, ...]


class VirtualHopper:
    """What `hopper()` gives: the launches of its block, and their sum.

    Attributes:
        launches: one record a launch, in order; empty grids launch nothing.
        counts: thread-instructions of all launches, by opcode with modifiers.
        tuned: the autotuned kernels that were launched, each once; see `configurations`.
    """

    def __init__(self, editing: Editing | None = None) -> None:
        """Start without launches; `editing` changes kernels before they run."""
        self._editing = editing
        self.launches: list[Launch] = []
        self.counts: Counter[str] = Counter()
        self.tuned: list[Any] = []

    def record(self, entry: Launch) -> None:
        """Add a launch."""
        self.launches.append(entry)
        self.counts.update(entry.counts)

    def program(self, resolved: Resolved, kernel: str) -> Program:
        """What to execute: the resolved PTX, or what was made of it."""
        if self._editing is not None:
            return self._editing.program(resolved, kernel)
        return decode_entry(resolved.module.entries[kernel])

    def note_tuned(self, kernel: Any) -> None:
        """Remember an autotuned kernel, if this is the innermost block."""
        if active_hopper() is self and kernel not in self.tuned:
            self.tuned.append(kernel)

    @property
    def instructions(self) -> int:
        """Thread-instructions executed so far: the clock of `triton.autotune`."""
        return self.counts.total()


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """What stands for a CUfunction: the cubin, kept for `fusion`."""

    name: str
    cubin: bytes


class Launcher:
    """Receives grid and arguments of one compiled kernel; Triton keeps it with the kernel."""

    def __init__(self, src: Any, metadata: Any) -> None:
        """Called by Triton at the first launch.

        Raises:
            UnsupportedInstructionError: clusters, or another architecture than sm_90.
        """
        self.metadata = metadata
        self.source = src
        self._program: Resolved | None = None
        self.signature = list(src.signature.items())
        if metadata.num_ctas != 1:
            raise UnsupportedInstructionError(
                f"num_ctas is {metadata.num_ctas}; the virtual Hopper runs kernels with num_ctas=1"
            )
        if metadata.target.arch != 90 or getattr(metadata, "arch", "sm90") != "sm90":
            raise UnsupportedInstructionError(
                f"the kernel is compiled for {metadata.arch}; the virtual Hopper runs sm90"
                " (is TRITON_OVERRIDE_ARCH set?)"
            )

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: int,
        function: LoadedKernel,
        kernel_metadata: Any,
        launch_metadata: Any,
        enter_hook: Callable[[Any], Any] | None,
        exit_hook: Callable[[Any], Any] | None,
        *args: Any,
    ) -> None:
        """Launch, as Triton calls it.

        Raises:
            VirtualHopperError: what the kernel did wrong, or what has no model.
        """
        hopper = active_hopper()
        if hopper is None:
            raise LaunchError("this kernel was compiled inside exactness.virtual.hopper()")
        grid = _checked_grid((grid_x, grid_y, grid_z), function.name)
        if enter_hook is not None:
            enter_hook(launch_metadata)
        if 0 not in grid:
            hopper.record(self._execute(hopper, grid, function, args))
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _execute(
        self,
        hopper: VirtualHopper,
        grid: tuple[int, int, int],
        function: LoadedKernel,
        args: Sequence[Any],
    ) -> Launch:
        resolved = self._resolved(function)
        program = hopper.program(resolved, function.name)
        entry = program.entry
        memory = ArgumentMemory()
        given = expanded(flatten(self.signature, args), self._descriptors)
        arguments = [*given, *self._scratch(grid, memory)]
        if len(arguments) < len(entry.params):
            raise LaunchError(
                f"kernel {entry.name} declares {len(entry.params)} parameters,"
                f" {len(arguments)} were passed"
            )
        params = pack(arguments[: len(entry.params)], entry.params, memory)
        reachable = GlobalMemory()
        memory.register(reachable)
        warps = int(self.metadata.num_warps)
        counts = launch(
            entry,
            grid=grid,
            block=(warps * WARP_SIZE, 1, 1),
            params=params,
            memory=reachable,
            dynamic_shared=int(self.metadata.shared),
            kernel_name=function.name,
            program=program,
        )
        return Launch(
            function.name, grid, warps, counts, resolved.verdict, self._ptx, self._options
        )

    def _scratch(self, grid: tuple[int, int, int], memory: ArgumentMemory) -> list[Argument]:
        """The two pointers that Triton appends to every kernel's parameters."""
        blocks = grid[0] * grid[1] * grid[2]
        arguments = []
        for kind in ("global", "profile"):
            size = int(getattr(self.metadata, f"{kind}_scratch_size", 0) or 0)
            alignment = int(getattr(self.metadata, f"{kind}_scratch_align", 1) or 1)
            address = memory.scratch(f"{kind} scratch", size * blocks, alignment)
            arguments.append(Argument(f"{kind}_scratch", "*i8", address))
        return arguments

    def _resolved(self, function: LoadedKernel) -> Resolved:
        """The program to execute, found once for each compiled kernel."""
        if self._program is None:
            self._program = fusion.resolve(
                self._ptx, function.name, options=self._options, cubin=function.cubin
            )
        return self._program

    @property
    def _descriptors(self) -> Sequence[Mapping[str, Any] | None]:
        """What the compiler says about each tensor descriptor."""
        return getattr(self.metadata, "tensordesc_meta", None) or ()

    @functools.cached_property
    def _ptx(self) -> str:
        return _ptx_text(self.source, self.metadata)

    @functools.cached_property
    def _options(self) -> tuple[str, ...]:
        return ptxas_options(self.metadata)


def active_hopper() -> VirtualHopper | None:
    """The machine of the innermost `hopper()` block; None outside of any."""
    triton = sys.modules.get("triton.runtime.driver")
    # `driver.active` would create a driver, which fails without a GPU.
    hopper = getattr(getattr(triton, "driver", None), "_active", None)
    hopper = getattr(hopper, "hopper", None)
    return hopper if isinstance(hopper, VirtualHopper) else None


def _checked_grid(grid: tuple[Any, Any, Any], kernel: str) -> tuple[int, int, int]:
    """The grid as ints, within CUDA's limits."""
    x, y, z = (int(size) for size in grid)
    for axis, size, limit in zip("xyz", (x, y, z), MAX_GRID, strict=True):
        if not 0 <= size <= limit:
            raise LaunchError(f"grid {axis} is {size}; 0 to {limit} is accepted", kernel=kernel)
    return x, y, z


def ptxas_options(metadata: Any) -> tuple[str, ...]:
    """The options with which Triton assembled a kernel, as far as they change the code."""
    options = []
    if tuple(map(int, metadata.triton_version.split(".")[:2])) >= (3, 7):
        options.append("--regAllocOptLevel=2")
    if not metadata.enable_fp_fusion:
        options.append(fusion.NO_CONTRACTION)
    if getattr(metadata, "ptx_options", None):
        options += metadata.ptx_options.split()
    return tuple(options)


def _ptx_text(source: Any, metadata: Any) -> str:
    """The PTX of a compiled kernel, which Triton does not hand to launchers."""
    from triton.runtime.cache import get_cache_manager

    for kernel in _compiled(source):
        if getattr(kernel, "hash", None) == metadata.hash:
            return str(kernel.asm["ptx"])
    name = source.name[:150]
    group = get_cache_manager(metadata.hash).get_group(f"{name}.json") or {}
    path = group.get(f"{name}.ptx")
    if path is None or not Path(path).exists():
        raise LaunchError(
            f"the PTX of kernel {name} is not in Triton's cache (is TRITON_STORE_BINARY_ONLY set?)"
        )
    return Path(path).read_text()


def _compiled(source: Any) -> list[Any]:
    """The kernels that the JIT function has compiled for this device."""
    caches = getattr(getattr(source, "fn", None), "device_caches", {})
    return list(caches[DEVICE][0].values()) if DEVICE in caches else []
