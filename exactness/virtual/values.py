"""Arguments of CUDA kernels: the bytes that an `.entry` declares, from tensors and Python values.

PTX declares a width and a kind for each parameter and no more: a pointer is a 64-bit integer, a
struct an array of bytes.

Source: PTX ISA 9.0, section 5.1.6.2 (kernel function parameters).
"""

from __future__ import annotations

import operator
import struct
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from exactness.virtual.arguments import Argument, ArgumentMemory
from exactness.virtual.errors import LaunchError
from exactness.virtual.instructions import Param


class Struct:
    """A struct that a kernel takes by value, its pointers to tensors included.

    Attributes:
        format: as for `struct.pack`, native alignment unless it says otherwise; "P" is a pointer.
        fields: one value each; a tensor, an array or None for a pointer.
    """

    def __init__(self, format: str, *fields: Any) -> None:
        """`Struct("PPif", x, out, n, eps)` is `struct { T* x; T* out; int n; float eps; }`."""
        self.format, self.fields = format, fields

    def pack(self, name: str, memory: ArgumentMemory) -> bytes:
        """The bytes, without padding at the end.

        Raises:
            LaunchError: the fields do not fit the format.
        """
        values = [
            pointer(f"{name}[{index}]", field, memory) if _is_pointee(field) else field
            for index, field in enumerate(self.fields)
        ]
        try:
            return struct.pack(self.format.replace("P", "Q"), *values)
        except struct.error as error:
            raise LaunchError(f"argument {name}: Struct({self.format!r}): {error}") from None


def pack(params: Sequence[Param], values: Sequence[Any], memory: ArgumentMemory) -> list[bytes]:
    """Pack the arguments of a launch.

    Args:
        params: what the entry declares.
        values: one a parameter: a CPU tensor, a NumPy array or None for a pointer; an int for an
            integer; a number for a float, rounded once to its type; `bytes`, a `Struct`, a NumPy
            scalar or a ctypes structure for a struct.
        memory: takes the memory behind pointers.

    Raises:
        LaunchError: another number of arguments, or one that does not fit its parameter.
        TypeError, ValueError: a tensor whose memory the machine cannot use.
    """
    if len(params) != len(values):
        declared = ", ".join(f"{_title(i, p)} {_kind(p)}" for i, p in enumerate(params)) or "none"
        raise LaunchError(f"{len(values)} arguments; the kernel declares {len(params)}: {declared}")
    return [
        pack_one(_title(index, param), param, value, memory)
        for index, (param, value) in enumerate(zip(params, values, strict=True))
    ]


def pack_one(name: str, param: Param, value: Any, memory: ArgumentMemory) -> bytes:
    """The bytes of one argument, little-endian."""
    if param.type == "b8" or param.size != _width(param):
        return _aggregate(name, param, value, memory)
    if _is_pointee(value):
        if param.size != 8 or param.type.startswith("f"):
            raise _mismatch(name, param, value)
        return pointer(name, value, memory).to_bytes(8, "little")
    if param.is_pointer:
        raise _mismatch(name, param, value)
    if param.type.startswith("f"):
        return _float(name, param, value)
    return _integer(name, param, value)


def pointer(name: str, value: Any, memory: ArgumentMemory) -> int:
    """The address of a tensor or an array in the kernel; 0 for None."""
    if isinstance(value, np.ndarray):
        return memory.array(name, value)
    return memory.pointer(Argument(name, "pointer", value))


def _is_pointee(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return (
        value is None
        or isinstance(value, np.ndarray)
        or (torch is not None and isinstance(value, torch.Tensor))
    )


def _aggregate(name: str, param: Param, value: Any, memory: ArgumentMemory) -> bytes:
    """A struct: whatever has bytes; a `Struct` is padded at its end as C pads it."""
    padding = 0
    if isinstance(value, Struct):
        data, padding = value.pack(name, memory), param.align - 1
    elif isinstance(value, np.generic):
        data = value.tobytes()
    else:
        try:
            data = memoryview(value).tobytes()
        except TypeError:
            raise _mismatch(name, param, value) from None
    if not 0 <= param.size - len(data) <= padding:
        raise LaunchError(f"argument {name}: {len(data)} bytes; {_kind(param)} was declared")
    return data.ljust(param.size, b"\0")


def _integer(name: str, param: Param, value: Any) -> bytes:
    try:
        number = operator.index(value)
    except TypeError:
        raise _mismatch(name, param, value) from None
    bits = 8 * param.size
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise LaunchError(f"argument {name} is {number}, which does not fit .{param.type}")
    return (number % (1 << bits)).to_bytes(param.size, "little")


def _float(name: str, param: Param, value: Any) -> bytes:
    if isinstance(value, str | bytes):
        raise _mismatch(name, param, value)
    try:
        number = np.float64(value)
    except (TypeError, ValueError):
        raise _mismatch(name, param, value) from None
    with np.errstate(over="ignore", under="ignore"):
        return number.astype({2: np.float16, 4: np.float32, 8: np.float64}[param.size]).tobytes()


def _mismatch(name: str, param: Param, value: Any) -> LaunchError:
    return LaunchError(f"argument {name} is a {type(value).__name__}; {_kind(param)} was declared")


def _title(index: int, param: Param) -> str:
    return f"{index} ({param.name})"


def _width(param: Param) -> int:
    return int(param.type.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8


def _kind(param: Param) -> str:
    """What a parameter takes, in words."""
    if param.type == "b8" or param.size != _width(param):
        return f"a struct of {param.size} bytes"
    if param.is_pointer:
        return "a pointer (a CPU tensor, a NumPy array or None)"
    if param.type.startswith("f"):
        return f"a float (.{param.type})"
    if param.size == 8:
        return f"an integer or a pointer (.{param.type})"
    return f"an integer (.{param.type})"
