"""A Triton driver without a GPU: launches go to the virtual Hopper.

Triton specializes, compiles and caches as it does for an H200; only the last step differs: instead
of handing the cubin to CUDA, the launcher resolves what ptxas made of the PTX (`fusion`) and
executes the outcome. The interface is that of `triton/backends/nvidia/driver.py`, which is the same
in Triton 3.6 to 3.9 as far as it is used here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exactness.virtual.autotuning import PseudoEvents, pseudo_time
from exactness.virtual.launcher import (
    DEVICE,
    MAX_THREADS,
    WARP_SIZE,
    Launcher,
    LoadedKernel,
    VirtualHopper,
)

# cudaDeviceProp of an H200 SXM; memory sizes in bytes, clocks in kHz.
PROPERTIES: Mapping[str, int] = {
    "max_shared_mem": 232448,
    "max_num_regs": 65536,
    "multiprocessor_count": 132,
    "warpSize": WARP_SIZE,
    "sm_clock_rate": 1980000,
    "mem_clock_rate": 3201000,
    "mem_bus_width": 6144,
}


class HopperDriver:
    """The driver object that Triton talks to.

    Attributes:
        hopper: receives the launches.
        utils: binary loading and device properties.
        launcher_cls: class of the object that receives grid and arguments.
    """

    def __init__(self, hopper: VirtualHopper) -> None:
        """Launches are recorded in `hopper`."""
        self.hopper = hopper
        self.utils = _Utils()
        self.launcher_cls = Launcher

    @staticmethod
    def is_active() -> bool:
        """Never chosen by Triton itself."""
        return False

    def get_current_device(self) -> int:
        """The only device."""
        return DEVICE

    def set_current_device(self, device: int) -> None:
        """Accept the only device."""
        if device != DEVICE:
            raise ValueError(f"device is {device}; the virtual Hopper is device {DEVICE}")

    def get_current_stream(self, device: int | None = None) -> int:
        """The default stream."""
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """Hopper's compute capability."""
        return (9, 0)

    def get_current_target(self) -> Any:
        """What Triton compiles for."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, WARP_SIZE)

    def get_active_torch_device(self) -> Any:
        """Where tensors live."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> PseudoEvents:
        """Events for `triton.testing.do_bench`, which count instructions."""
        return PseudoEvents(lambda: self.hopper.instructions)

    def get_benchmarker(self) -> Callable[..., Any]:
        """Times by instructions executed. Tuners keep it, so it looks the driver up each time."""
        return _benchmark

    def get_empty_cache_for_benchmark(self) -> Any:
        """A stand-in: there is no cache to fill."""
        import torch

        return torch.empty(0, dtype=torch.int32)

    def clear_cache(self, cache: Any) -> None:
        """There is no cache."""

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Only launchers written in C ask for this."""
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(ty))

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        """Pass arguments through, as Triton's own driver does."""
        return args

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        """Memory for Triton's profiler (3.9)."""
        import torch

        return torch.zeros(size, dtype=torch.int8)


def _benchmark(call: Callable[[], Any], quantiles: Sequence[float] | None = None, **_: Any) -> Any:
    from triton.runtime import driver

    active = driver.active
    if not isinstance(active, HopperDriver):
        return active.get_benchmarker()(call, quantiles=quantiles)
    return pseudo_time(call, lambda: active.hopper.instructions, quantiles)


class _Utils:
    """The part of Triton's driver that is written in C."""

    def load_binary(
        self, name: str, kernel: bytes, shared: int, device: int
    ) -> tuple[None, LoadedKernel, int, int, int]:
        """Keep the cubin. There is no module, which Triton 3.9 would unload after the block."""
        return None, LoadedKernel(name, kernel), 0, 0, MAX_THREADS

    def unload_module(self, module: object) -> None:
        """Nothing was loaded."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Those of an H200."""
        return dict(PROPERTIES)

    def set_printf_fifo_size(self, size: int) -> None:
        """Device-side printing has no model; the instruction that calls it raises."""
