"""Kernel arguments as the hardware gets them: packed parameters, and the memory behind pointers.

Addresses are made up: every storage starts at a multiple of 2^40, so that an access that strays
from one tensor never hits another one, and so that messages read the same in every run. Within a
storage the distances are the true ones. Packing follows Triton's `driver.c`.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from exactness.virtual.descriptors import MAP_TYPE
from exactness.virtual.errors import LaunchError, UnsupportedInstructionError
from exactness.virtual.memory import GlobalMemory
from exactness.virtual.ptx import Param

STORAGE_SPACING = 1 << 40
# CUDA's allocator never returns less; Triton compiles other code for less aligned pointers.
STORAGE_ALIGNMENT = 16

_INTEGERS = {f"{sign}{bits}": bits for sign in "iu" for bits in (1, 8, 16, 32, 64)}
_FLOATS: Mapping[str, np.dtype[Any]] = {
    "fp16": np.dtype(np.float16),
    "fp32": np.dtype(np.float32),
    "f32": np.dtype(np.float32),
    "fp64": np.dtype(np.float64),
}


@dataclass(frozen=True, slots=True)
class Argument:
    """A run-time argument.

    Attributes:
        name: parameter name, with the position inside a tuple (`shape[1]`).
        type: Triton's type string, "*fp32", "i32".
        value: what the caller passed.
    """

    name: str
    type: str
    value: Any


@dataclass(slots=True)
class _Span:
    """Bytes of one argument: address in the kernel, address here, owner."""

    address: int
    host: int
    size: int
    names: tuple[str, ...]
    owner: Any
    writable: bool = True

    @property
    def end(self) -> int:
        return self.address + self.size


def flatten(signature: Iterable[tuple[str, Any]], values: Iterable[Any]) -> Iterator[Argument]:
    """The run-time arguments in parameter order; compile-time constants are left out.

    Args:
        signature: name and type of each parameter; tuples nest.
        values: one for each.
    """
    for (name, kind), value in zip(signature, values, strict=True):
        if isinstance(kind, tuple | list):
            names = (f"{name}[{index}]" for index in range(len(kind)))
            yield from flatten(zip(names, kind, strict=True), value)
        elif kind != "constexpr":
            yield Argument(name, kind, value)


class ArgumentMemory:
    """The memory that the tensors of one launch make reachable.

    That of a tensor goes from its first to its last element, gaps of a strided view included. It is
    the caller's own memory: what the kernel stores is in the tensor.
    """

    def __init__(self) -> None:
        """Start without tensors."""
        self._bases: dict[int, int] = {}
        self._spans: list[_Span] = []

    def pointer(self, argument: Argument) -> int:
        """The address to pass for a pointer argument.

        Raises:
            TypeError: it is no CPU tensor.
            ValueError: its storage is less aligned than any storage on a GPU.
        """
        if argument.value is None:
            return 0
        if isinstance(argument.value, int):
            return argument.value
        tensor = _cpu_tensor(argument)
        start = tensor.untyped_storage().data_ptr()
        span = _Span(0, tensor.data_ptr(), _extent(tensor), (argument.name,), tensor)
        return self._place(span, start)

    def array(self, name: str, array: np.ndarray[Any, Any]) -> int:
        """The address to pass for a NumPy array, read-only if the array is.

        Raises:
            TypeError: its elements are Python objects, or in another byte order.
            ValueError: a stride is negative, or its storage is less aligned than on a GPU.
        """
        if array.dtype.hasobject or not array.dtype.isnative:
            raise TypeError(f"argument {name} has dtype {array.dtype!r}; native numbers do")
        if min(array.strides, default=0) < 0:
            raise ValueError(f"argument {name} has strides {array.strides}; none may be negative")
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        last = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
        size = last + array.itemsize if array.size else 0
        span = _Span(0, array.ctypes.data, size, (name,), array, array.flags.writeable)
        return self._place(span, owner.ctypes.data)

    def _place(self, span: _Span, start: int) -> int:
        """Make bytes reachable whose storage starts at `start`; their address in the kernel."""
        if start % STORAGE_ALIGNMENT:
            raise ValueError(
                f"argument {span.names[0]}: its storage starts at {start:#x}, which is no multiple"
                f" of {STORAGE_ALIGNMENT}; on a GPU every storage is aligned, and compilers rely on"
                " it. Pass a copy (x.clone() of a tensor, x.copy() of an array)"
            )
        base = self._base(start)
        span.address = base + span.host - start if span.size else base
        self._add(span)
        return span.address

    def scratch(self, name: str, size: int, alignment: int) -> int:
        """The address of `size` fresh bytes for the kernel's own use; 0 if it needs none."""
        if size == 0:
            return 0
        if STORAGE_SPACING % alignment:
            raise LaunchError(f"{name} is to be aligned to {alignment}, which is no power of two")
        data = np.zeros(size, np.uint8)
        address = self._base(data.ctypes.data)
        self._add(_Span(address, data.ctypes.data, size, (name,), data))
        return address

    def register(self, memory: GlobalMemory) -> None:
        """Make all of it reachable; overlapping arguments become one region."""
        merged: list[_Span] = []
        for span in sorted(self._spans, key=lambda s: s.address):
            last = merged[-1] if merged else None
            if last is None or span.address >= last.end:
                merged.append(span)
                continue
            end = max(last.end, span.end)
            names = (*last.names, *(n for n in span.names if n not in last.names))
            writable = last.writable and span.writable
            size = end - last.address
            merged[-1] = _Span(last.address, last.host, size, names, last.owner, writable)
        _check_disjoint(merged)
        for span in merged:
            data = _bytes_at(span.host, span.size)
            memory.register(span.address, data, "/".join(span.names), writable=span.writable)

    def _add(self, span: _Span) -> None:
        if span.size:
            self._spans.append(span)

    def _base(self, host: int) -> int:
        if host not in self._bases:
            self._bases[host] = (len(self._bases) + 1) * STORAGE_SPACING
        return self._bases[host]


def _check_disjoint(spans: Iterable[_Span]) -> None:
    """Bytes that two arguments share must have one address."""
    ordered = sorted(spans, key=lambda span: span.host)
    for span, after in itertools.pairwise(ordered):
        if after.host < span.host + span.size:
            names = "/".join((*span.names, *after.names))
            raise LaunchError(
                f"arguments {names} share memory that belongs to different objects; pass views of"
                " one tensor or of one array"
            )


def _cpu_tensor(argument: Argument) -> Any:
    """The tensor itself, out of `triton.reinterpret` if need be."""
    import torch

    value = argument.value
    while not isinstance(value, torch.Tensor) and hasattr(value, "base"):
        value = value.base
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"argument {argument.name} is a {type(argument.value).__name__}; a tensor is accepted,"
            " since the virtual Hopper must know where its memory ends"
        )
    if value.device.type != "cpu" or value.layout is not torch.strided:
        raise TypeError(
            f"argument {argument.name} is a {value.layout} tensor on {value.device}; the virtual"
            " Hopper accepts strided tensors on cpu"
        )
    return value


def _extent(tensor: Any) -> int:
    """Bytes from the first element to the end of the last one."""
    if tensor.numel() == 0:
        return 0
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(last + 1) * int(tensor.element_size())


def _bytes_at(host: int, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The caller's memory as an array; valid as long as the caller keeps the tensor."""
    buffer: Any = (ctypes.c_uint8 * size).from_address(host)
    array: np.ndarray[Any, np.dtype[np.uint8]] = np.frombuffer(buffer, np.uint8)
    return array


def pack(
    arguments: Sequence[Argument], params: Sequence[Param], memory: ArgumentMemory
) -> list[bytes]:
    """Pack arguments as the kernel's parameters.

    Args:
        arguments: in parameter order.
        params: what the PTX declares, as many.
        memory: takes the tensors behind pointers.

    Raises:
        LaunchError: a type's size is not that of the parameter.
        TypeError, ValueError, OverflowError: a value does not fit its type; the argument is named.
        UnsupportedInstructionError: a type that has no model.
    """
    packed = []
    for argument, param in zip(arguments, params, strict=True):
        data = pack_one(argument, memory)
        if len(data) != param.size:
            raise LaunchError(
                f"argument {argument.name} of type {argument.type} has {len(data)} bytes, the PTX"
                f" parameter {param.name} {param.size}"
            )
        packed.append(data)
    return packed


def pack_one(argument: Argument, memory: ArgumentMemory) -> bytes:
    """The bytes of one argument, little-endian."""
    kind = argument.type
    if kind.startswith("*"):
        return memory.pointer(argument).to_bytes(8, "little")
    if kind == MAP_TYPE:
        base = replace(argument, value=argument.value.descriptor.base)
        return bytes(argument.value.encode(memory.pointer(base)))
    if kind in _INTEGERS:
        return _integer(argument, _INTEGERS[kind])
    if kind == "bf16":
        # driver.c cuts the upper half off, without rounding.
        return _float(argument, np.dtype(np.float32))[2:]
    if kind in _FLOATS:
        return _float(argument, _FLOATS[kind])
    raise UnsupportedInstructionError(
        f"argument {argument.name} has type {kind}, which the virtual Hopper does not model"
    )


def _integer(argument: Argument, bits: int) -> bytes:
    try:
        value = operator.index(argument.value)
    except TypeError:
        raise TypeError(
            f"argument {argument.name} is {argument.value!r}; type {argument.type} takes an int"
        ) from None
    size = max(bits, 8)
    if not -(1 << (size - 1)) <= value < 1 << size:
        raise OverflowError(
            f"argument {argument.name} is {value}; it does not fit type {argument.type}"
        )
    return (value % (1 << size)).to_bytes(size // 8, "little")


def _float(argument: Argument, dtype: np.dtype[Any]) -> bytes:
    try:
        value = float(argument.value)
    except (TypeError, ValueError):
        raise TypeError(
            f"argument {argument.name} is {argument.value!r}; type {argument.type} takes a float"
        ) from None
    with np.errstate(over="ignore", under="ignore"):
        return bytes(np.float64(value).astype(dtype).tobytes())
