"""A virtual Hopper: PTX for sm_90, executed on a CPU with H200 bits.

with exactness.virtual.hopper() as machine:
    kernel[grid](x, y, n)          # Triton kernels on CPU tensors
machine.counts                     # thread-instructions executed, by opcode

module = exactness.virtual.load_ptx("kernels.ptx")       # what nvcc -ptx writes
module["kernel"].launch(grid, block, x, y, n)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from exactness.virtual.errors import VirtualHopperError

if TYPE_CHECKING:
    from exactness.virtual.autotuning import Configuration, configurations
    from exactness.virtual.editing import Edit, Editing
    from exactness.virtual.fusion import FusionError, check_fusion_free, resolve
    from exactness.virtual.launcher import Launch, VirtualHopper
    from exactness.virtual.load import PTXKernel, PTXModule, load_ptx
    from exactness.virtual.values import Struct

__all__ = [
    "Configuration",
    "Editing",
    "FusionError",
    "Launch",
    "PTXKernel",
    "PTXModule",
    "Struct",
    "VirtualHopper",
    "VirtualHopperError",
    "check_fusion_free",
    "configurations",
    "hopper",
    "load_ptx",
    "resolve",
]

_LAZY = {
    "Configuration": "autotuning",
    "Editing": "editing",
    "FusionError": "fusion",
    "Launch": "launcher",
    "PTXKernel": "load",
    "PTXModule": "load",
    "Struct": "values",
    "VirtualHopper": "launcher",
    "check_fusion_free": "fusion",
    "configurations": "autotuning",
    "load_ptx": "load",
    "resolve": "fusion",
}


def __getattr__(name: str) -> Any:
    """Import the public names on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'exactness.virtual' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"exactness.virtual.{_LAZY[name]}"), name)


@contextlib.contextmanager
def hopper(
    edit: Edit | Editing | None = None, options: Mapping[str, Any] | None = None
) -> Iterator[VirtualHopper]:
    """Run every Triton kernel that is launched in this block on a virtual Hopper.

    Kernels take CPU tensors, and Triton compiles them for sm_90 as it would on an H200. Blocks
    nest; the innermost one records. The driver that was active before is active again afterwards.

    Args:
        edit: gets the PTX and the name of each kernel and returns the PTX to execute instead: the
            kernel as Triton compiled it, gone wrong. It sees PTX in which every contraction is
            decided, and what it returns is executed as written. Launches record the unedited PTX.
        options: launch options that override those of every launch, as `{"num_warps": 8}`.

    Yields:
        The machine: `launches`, `counts` of executed instructions, and the `tuned` kernels.

    Raises:
        VirtualHopperError: `TRITON_INTERPRET` is set, so that kernels would run elsewhere.
    """
    from triton import knobs
    from triton.runtime import driver

    from exactness.virtual.autotuning import isolated_tuning
    from exactness.virtual.driver import HopperDriver
    from exactness.virtual.editing import Editing, launch_options
    from exactness.virtual.launcher import VirtualHopper

    if knobs.runtime.interpret:
        raise VirtualHopperError(
            "TRITON_INTERPRET is set: kernels would run in Triton's interpreter, which has other"
            " bits. Unset it before the kernels are imported"
        )
    # `driver.active` would create a driver, which fails without a GPU.
    previous = driver._active
    machine = VirtualHopper(edit if edit is None or isinstance(edit, Editing) else Editing(edit))
    driver.set_active(HopperDriver(machine))
    try:
        with isolated_tuning(machine.note_tuned), launch_options(options or {}):
            yield machine
    finally:
        driver.set_active(previous)
