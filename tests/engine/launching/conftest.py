"""A driver that Triton takes for a GPU's; its launches are written down instead of made."""

import ctypes
import itertools
import zlib
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import GPUDriver
from triton.runtime import driver

from exactness.launching import direct


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


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("x", "y", "z", "block_x", "block_y", "block_z")),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(ctypes.c_uint * 16)),
        ("attribute_count", ctypes.c_uint),
    )


PROGRAMMATIC_STREAM_SERIALIZATION = 6


class Cuda:
    """A libcuda whose launches are written down; statuses are returned one after the other."""

    def __init__(self):
        self.launched = []
        self.layouts = {}
        self.statuses = []
        self.made_current = []
        name, status = ctypes.POINTER(ctypes.c_char_p), ctypes.c_int
        address, addresses = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
        launch = ctypes.CFUNCTYPE(status, ctypes.POINTER(Config), address, addresses, address)
        self.cuLaunchKernelEx = launch(self._launch)
        self.cuCtxSetCurrent = ctypes.CFUNCTYPE(status, address)(self._set_current)
        self.cuGetErrorName = ctypes.CFUNCTYPE(status, status, name)(self._error_name)

    def _launch(self, config, function, params, extra):
        config = config.contents
        attributes = config.attributes.contents if config.attribute_count else [None] * 3
        assert attributes[0] in (None, PROGRAMMATIC_STREAM_SERIALIZATION)
        sizes = [size for _, size in self.layouts[function]]
        self.launched.append(
            SimpleNamespace(
                grid=(config.x, config.y, config.z),
                block=(config.block_x, config.block_y, config.block_z),
                shared=config.shared,
                stream=config.stream or 0,
                early=attributes[2] == 1,
                function=function,
                params=[ctypes.string_at(params[i], size) for i, size in enumerate(sizes)],
                offsets=[params[i] - params[0] for i in range(len(sizes))],
            )
        )
        return self.statuses.pop(0) if self.statuses else 0

    def _set_current(self, context):
        self.made_current.append(context)
        return 0

    def _error_name(self, status, name):
        name[0] = b"CUDA_ERROR_SOMETHING"
        return 0

    def cuCtxGetCurrent(self, context):
        context._obj.value = 0x1234
        return 0

    def cuFuncGetParamInfo(self, function, index, offset, size):
        layout = self.layouts.get(function.value, ())
        if index.value >= len(layout):
            return 1
        offset._obj.value, size._obj.value = layout[index.value]
        return 0


@pytest.fixture
def cuda(monkeypatch):
    """The CUDA driver behind any driver of Triton."""
    library = Cuda()
    made = direct.Driver(library, direct.module())
    monkeypatch.setattr(direct, "driver_of", lambda active: made)
    return library
