"""A driver that Triton takes for a GPU's; its launches are written down instead of made."""

import itertools
import zlib
from dataclasses import dataclass, field

import pytest
import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import GPUDriver
from triton.runtime import driver


@dataclass(frozen=True)
class Launched:
    """What reached the driver; addresses in place of tensors."""

    grid: tuple
    stream: int
    function: int
    arguments: tuple


def _addresses(value):
    if isinstance(value, tuple):
        return tuple(map(_addresses, value))
    return value.data_ptr() if isinstance(value, torch.Tensor) else value


class Launcher:
    """Shaped as Triton's launchers for CUDA: it prepares scratch memory, then passes on."""

    def __init__(self, src, metadata):
        self.global_scratch_size = metadata.global_scratch_size
        self.profile_scratch_size = metadata.profile_scratch_size
        self.launch = self._launch
        self.entered = 0

    def __call__(self, x, y, z, stream, function, metadata, launch_metadata, enter, exit_, *args):
        self.entered += 1
        if enter is not None:
            enter(launch_metadata)
        self.launch(x, y, z, metadata, args, function, stream)
        if exit_ is not None:
            exit_(launch_metadata)

    @staticmethod
    def _launch(x, y, z, metadata, args, function, stream):
        driver.active.launches.append(Launched((x, y, z), stream, function, _addresses(args)))


@dataclass
class Gpu(GPUDriver):
    device: int = field(default_factory=itertools.count(0x1000, 16).__next__)
    stream: int = 0
    launches: list = field(default_factory=list)
    launcher_cls: type = Launcher

    def __post_init__(self):
        self.utils = self

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    @staticmethod
    def is_active():
        return False

    def get_current_device(self):
        return self.device

    def set_current_device(self, device):
        self.device = device

    def get_current_stream(self, device):
        return self.stream

    def get_device_capability(self, device=None):
        return (9, 0)

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self):
        return torch.device("cpu")

    def get_benchmarker(self):
        def once(call, quantiles):
            call()
            return [1.0] * len(quantiles)

        return once

    def map_python_to_cpp_type(self, ty):
        raise NotImplementedError

    # What Triton calls its utilities.

    def load_binary(self, name, kernel, shared, device):
        return object(), zlib.crc32(kernel), 0, 0, 1024

    def unload_module(self, module):
        pass

    def get_device_properties(self, device):
        return {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32}


@pytest.fixture
def gpu():
    """The active driver of the test."""
    previous = driver._active
    active = Gpu()
    driver.set_active(active)
    yield active
    driver.set_active(previous)
