"""The shortest way to a CUDA launch: the parameters' bytes are laid out once (`direct.c`).

What Triton compiled says which types the parameters have, and the driver where they lie; a kernel
on which the two do not agree is left to Triton's launcher.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from exactness.launching.plan import Slot

_INTEGER_BYTES = {
    f"{kind}{bits}": max(bits // 8, 1) for kind in "iu" for bits in (1, 8, 16, 32, 64)
}
_FLOATS = {"fp32": ctypes.c_float, "f32": ctypes.c_float, "fp64": ctypes.c_double}
_ADDRESS_BYTES = 8

MAX_PARAMETERS, MAX_BYTES = 256, 4096
"""What `direct.c` has room for."""


class Parameter(NamedTuple):
    """A parameter of the compiled kernel.

    Attributes:
        constant: its bytes; zeros where an address goes.
        slot: the address that goes there, if it is not constant.
    """

    constant: bytes
    slot: Slot | None = None


def launch(
    driver: Driver | None, kernel: Any, grid: tuple[int, ...], values: Sequence[Any]
) -> Direct | None:
    """How to launch a kernel.

    Args:
        driver: the CUDA driver, if there is one.
        kernel: what Triton compiled and loaded.
        grid: three sizes.
        values: of the kernel's parameters, with slots in place of tensors.

    Returns:
        None for what Triton's launcher must do: without a CUDA driver; for clusters, cooperative
        launches, scratch memory, tensor descriptors and very many parameters; for no block at all,
        where it does nothing.
    """
    metadata = kernel.metadata
    plain = {"num_ctas": 1, "launch_cooperative_grid": False}
    scratch = {"global_scratch_size": 0, "profile_scratch_size": 0}
    for name, accepted in {**plain, **scratch}.items():
        if getattr(metadata, name, accepted) != accepted:
            return None
    parameters = parameters_of(tuple(kernel.src.signature.values()), values)
    if driver is None or parameters is None or 0 in grid:
        return None
    layout = driver.layout(kernel.function)
    if layout is None or not _fits(layout, parameters):
        return None
    if len(layout) > MAX_PARAMETERS or sum(layout[-1]) > MAX_BYTES:
        return None
    return packed(
        driver,
        kernel.function,
        layout,
        parameters,
        grid=grid,
        threads=32 * metadata.num_warps,
        shared=metadata.shared,
        early=bool(getattr(metadata, "launch_pdl", False)),
    )


class Direct(NamedTuple):
    """A function of the stream and of addresses, and what these are."""

    function: Callable[..., None]
    names: tuple[str, ...]


def parameters_of(types: Sequence[Any], values: Sequence[Any]) -> list[Parameter] | None:
    """The parameters that are passed, in order; None if one has a type that is not known here.

    Args:
        types: as Triton writes them: "*bf16", "i32", "constexpr"; tuples of them.
        values: of the same structure; of another one, None is returned.
    """
    try:
        found = [_parameter(*each) for each in _flat(types, values)]
    except (TypeError, ValueError):
        return None
    return None if None in found else [each for each in found if each is not None]


def _flat(types: Any, values: Any) -> Iterator[tuple[Any, Any]]:
    for kind, value in zip(types, values, strict=True):
        if isinstance(kind, tuple):
            yield from _flat(kind, value)
        elif kind != "constexpr":
            yield kind, value


def _parameter(kind: str, value: Any) -> Parameter | None:
    if kind.startswith("*"):
        nothing = bytes(_ADDRESS_BYTES)
        return Parameter(nothing, value if isinstance(value, Slot) else None)
    if kind in _FLOATS:
        return Parameter(bytes(_FLOATS[kind](value)))
    if kind in _INTEGER_BYTES:
        size = _INTEGER_BYTES[kind]
        return Parameter((int(value) % (1 << 8 * size)).to_bytes(size, "little"))
    return None


def _fits(layout: Sequence[tuple[int, int]], parameters: Sequence[Parameter]) -> bool:
    """Whether these are the parameters of the compiled kernel; Triton adds pointers to scratch."""
    sizes = [size for _, size in layout]
    own = [len(parameter.constant) for parameter in parameters]
    return sizes[: len(own)] == own and set(sizes[len(own) :]) <= {_ADDRESS_BYTES}


def packed(
    driver: Driver,
    function: int,
    layout: Sequence[tuple[int, int]],
    parameters: Sequence[Parameter],
    *,
    grid: tuple[int, ...],
    threads: int,
    shared: int,
    early: bool,
) -> Direct:
    """Lay out the bytes.

    Args:
        driver: which functions to call.
        function: handle of the loaded kernel.
        layout: offset and size in bytes of each of its parameters.
        parameters: as many, or fewer; the others are zeros.
        grid: three sizes.
        threads: of a block.
        shared: bytes of dynamic shared memory.
        early: whether it may begin before the launch ahead of it has ended.
    """
    data = bytearray(sum(layout[-1]))
    slots: dict[str, int] = {}
    addresses = []
    for (offset, size), parameter in zip(layout, parameters, strict=False):
        data[offset : offset + size] = parameter.constant
        if parameter.slot is not None:
            name, distance = parameter.slot.name, parameter.slot.distance
            addresses.append((offset, slots.setdefault(name, len(slots)), distance))
    offsets = tuple(offset for offset, _ in layout)
    made = driver.module.Launch(
        driver.functions,
        driver.context(),
        function,
        grid,
        threads,
        shared,
        early,
        bytes(data),
        offsets,
        len(slots),
        tuple(addresses),
    )
    return Direct(made, tuple(slots))


class Driver:
    """The CUDA driver, and the compiled `direct.c`.

    Attributes:
        module: the compiled module.
        functions: addresses of cuLaunchKernelEx, cuCtxSetCurrent and cuGetErrorName.
    """

    def __init__(self, library: Any, module: Any) -> None:
        """Look up the functions.

        Raises:
            AttributeError: the driver is too old.
        """
        self.library = library
        self.module = module
        names = ("cuLaunchKernelEx", "cuCtxSetCurrent", "cuGetErrorName")
        self.functions = tuple(_address(getattr(library, name)) for name in names)
        self._param_info = library.cuFuncGetParamInfo

    def context(self) -> int:
        """The current context."""
        found = ctypes.c_void_p()
        self.library.cuCtxGetCurrent(ctypes.byref(found))
        return found.value or 0

    def layout(self, function: int) -> list[tuple[int, int]] | None:
        """Offset and size in bytes of each parameter of a kernel; None if it has none."""
        found: list[tuple[int, int]] = []
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        handle = ctypes.c_void_p(function)
        places = ctypes.byref(offset), ctypes.byref(size)
        while not self._param_info(handle, ctypes.c_size_t(len(found)), *places):
            found.append((offset.value, size.value))
        return found or None


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def driver_of(active: Any) -> Driver | None:
    """The CUDA driver behind Triton's active driver."""
    from triton.backends.nvidia.driver import CudaDriver

    return _driver() if isinstance(active, CudaDriver) else None


@functools.cache
def _driver() -> Driver | None:
    """The driver of this machine; None with a warning if it cannot be used."""
    try:
        return Driver(ctypes.CDLL("libcuda.so.1"), module())
    except Exception as error:
        warnings.warn(
            f"launches take longer, as they go through Triton's launcher: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


@functools.cache
def module() -> Any:
    """The compiled `direct.c`; Triton compiles its own launchers in the same way.

    Raises:
        Exception: there is no C compiler, or it fails.
    """
    from triton.backends import nvidia
    from triton.runtime.build import compile_module_from_src

    source = Path(__file__).with_name("direct.c").read_text(encoding="utf-8")
    include = Path(nvidia.__file__).with_name("include")
    return compile_module_from_src(src=source, name="direct", include_dirs=[str(include)])
