"""Launches through the CUDA driver API, without torch: a context, modules, memory, kernels.

Source: CUDA Driver API, sections Module Management, Memory Management and Execution Control.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from exactness.virtual import values
from exactness.virtual.arguments import ArgumentMemory
from exactness.virtual.instructions import Param

from .program import Bits, CudaProgram

_MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"""


class Gpu:
    """The primary context of device 0."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver.

        Raises:
            RuntimeError: naming the function and the error.
        """
        status = getattr(self.library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'unknown error').decode()}")

    @contextlib.contextmanager
    def module(self, cubin: bytes) -> Iterator[ctypes.c_void_p]:
        """A loaded module, with its variables at their initial values."""
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        try:
            yield module
        finally:
            self.call("cuModuleUnload", module)

    @contextlib.contextmanager
    def memory(self, tensors: Mapping[str, Bits]) -> Iterator[dict[str, int]]:
        """Copies of tensors on the GPU, by address."""
        addresses: dict[str, int] = {}
        try:
            for key, bits in tensors.items():
                pointer = ctypes.c_uint64()
                self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(bits.nbytes))
                addresses[key] = pointer.value
                host = np.ascontiguousarray(bits).tobytes()
                self.call("cuMemcpyHtoD_v2", pointer, host, ctypes.c_size_t(bits.nbytes))
            yield addresses
        finally:
            for address in addresses.values():
                self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def read(self, address: int, like: Bits) -> Bits:
        """The bits at an address."""
        data = np.empty_like(like)
        size = ctypes.c_size_t(data.nbytes)
        self.call("cuMemcpyDtoH_v2", data.ctypes.data_as(ctypes.c_void_p),
                  ctypes.c_uint64(address), size)  # fmt: skip
        return data

    def run(self, program: CudaProgram, cubin: bytes, params: Sequence[Param]) -> dict[str, Bits]:
        """Launch a program once, and return its outputs' patterns.

        Raises:
            AssertionError: the launch changed an input.
        """
        drawn = program.draw()
        with self.module(cubin) as module, self.memory(drawn) as addresses:
            packed = _pack(program.arguments, params, addresses)
            self._launch(module, program, packed)
            after = {key: self.read(addresses[key], bits) for key, bits in drawn.items()}
        for key in program.inputs:
            assert np.array_equal(after[key], drawn[key]), f"{program.name} wrote to {key}"
        return {key: after[key] for key in program.outputs}

    def _launch(
        self, module: ctypes.c_void_p, program: CudaProgram, packed: Sequence[bytes]
    ) -> None:
        function = ctypes.c_void_p()
        name = program.kernel.encode()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name)
        if program.shared:
            self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, program.shared)
        buffers = [ctypes.create_string_buffer(data, len(data)) for data in packed]
        pointers = (ctypes.c_void_p * len(buffers))(*(ctypes.addressof(b) for b in buffers))
        sizes = (*_three(program.grid), *_three(program.block))
        self.call("cuLaunchKernel", function, *sizes, program.shared, None, pointers, None)
        self.call("cuCtxSynchronize")


def _three(size: int | tuple[int, ...]) -> tuple[int, ...]:
    given = (size,) if isinstance(size, int) else size
    return (*given, 1, 1)[:3]


def _pack(
    arguments: Sequence[Any], params: Sequence[Param], addresses: Mapping[str, int]
) -> list[bytes]:
    """Arguments as the driver takes them: pointers by address, the others as the PTX declares."""
    packed = []
    for argument, param in zip(arguments, params, strict=True):
        if isinstance(argument, str):
            packed.append(struct.pack("<Q", addresses[argument]))
        elif isinstance(argument, tuple):
            form, *fields = argument
            known = [addresses[f] if isinstance(f, str) else f for f in fields]
            packed.append(struct.pack(form.replace("P", "Q"), *known).ljust(param.size, b"\0"))
        else:
            packed.append(values.pack_one(param.name, param, argument, ArgumentMemory()))
    return packed
