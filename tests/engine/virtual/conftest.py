"""Run single PTX instructions and small kernels on the virtual Hopper."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from exactness.virtual import machine, ptx
from exactness.virtual.memory import GlobalMemory

HEADER = ".version 8.7\n.target sm_90a\n.address_size 64\n"


def kernel_text(body: str, params: Sequence[str], declarations: str = "") -> str:
    """A kernel `k` around a body; parameters are 64-bit pointers."""
    listed = ", ".join(f".param .u64 .ptr .global .align 1 {name}" for name in params)
    return f"{HEADER}{declarations}\n.visible .entry k({listed})\n{{\n{body}\n}}\n"


def launch(
    text: str,
    buffers: dict[str, np.ndarray],
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    dynamic_shared: int = 0,
) -> machine.Counts:
    """Launch the kernel `k` of a module on buffers that are written in place."""
    memory = GlobalMemory()
    params: list[bytes | int | float] = []
    for name, array in buffers.items():
        memory.register(array.ctypes.data, array.reshape(-1).view(np.uint8), name)
        params.append(array.ctypes.data)
    return machine.launch(
        ptx.parse(text).entries["k"],
        grid=grid,
        block=block,
        params=params,
        memory=memory,
        dynamic_shared=dynamic_shared,
    )


@pytest.fixture
def run_kernel() -> Callable[..., machine.Counts]:
    """`run_kernel(body, {name: array}, grid=…, block=…, declarations=…, dynamic_shared=…)`."""

    def run(body: str, buffers: dict[str, np.ndarray], declarations: str = "", **options):
        return launch(kernel_text(body, list(buffers), declarations), buffers, **options)

    return run


@pytest.fixture
def apply() -> Callable[..., np.ndarray]:
    """`apply("add.s32 {d}, {0}, {1};", x, y, out="u4")`: an instruction on arrays of patterns.

    Arrays are unsigned (their width is the register's) or bool (predicates). The text may hold
    several instructions and declare registers of its own.
    """
    return apply_instruction


def apply_instruction(text: str, *inputs: np.ndarray, out: str = "u4") -> np.ndarray:
    """See the fixture `apply`."""
    inputs = tuple(np.atleast_1d(x) for x in np.broadcast_arrays(*inputs))
    count = inputs[0].size
    is_predicate = out == "?"
    result = np.zeros(count, np.uint32 if is_predicate else out)
    lines = [*_preamble(count)]
    for index, array in enumerate(inputs):
        lines += _load(index, array)
    bits = 1 if is_predicate else 8 * result.itemsize
    lines.append(f".reg {'.pred' if is_predicate else f'.b{bits}'} %d;")
    names = {str(index): f"%a{index}" for index in range(len(inputs))}
    lines.append(re.sub(r"\{(\d+|d)\}", lambda m: names.get(m[1], "%d"), text))
    lines += _store(result.itemsize, is_predicate)
    buffers = {f"p{i}": _storage(array) for i, array in enumerate(inputs)}
    body = "\n".join([*lines, "$end:", "ret;"])
    launch(
        kernel_text(body, [*buffers, "po"]),
        {**buffers, "po": result},
        grid=(-(-count // 128), 1, 1),
        block=(128, 1, 1),
    )
    return result.astype(np.bool_) if is_predicate else result


def _storage(array: np.ndarray) -> np.ndarray:
    return array.astype(np.uint32) if array.dtype == np.bool_ else np.ascontiguousarray(array)


def _preamble(count: int) -> list[str]:
    return [
        ".reg .b32 %i, %t, %n; .reg .b64 %p, %o; .reg .pred %out, %q; .reg .b32 %w;",
        "mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x;",
        "mad.lo.s32 %i, %i, %n, %t;",
        f"setp.ge.s32 %out, %i, {count};",
        "@%out bra $end;",
    ]


def _load(index: int, array: np.ndarray) -> list[str]:
    size = _storage(array).itemsize
    address = f"ld.param.b64 %p, [p{index}]; mad.wide.s32 %p, %i, {size}, %p;"
    if array.dtype == np.bool_:
        return [
            f".reg .pred %a{index};",
            f"{address} ld.global.b32 %w, [%p]; setp.ne.b32 %a{index}, %w, 0;",
        ]
    register = max(16, 8 * size)
    return [f".reg .b{register} %a{index};", f"{address} ld.global.b{8 * size} %a{index}, [%p];"]


def _store(size: int, is_predicate: bool) -> list[str]:
    address = f"ld.param.b64 %o, [po]; mad.wide.s32 %o, %i, {size}, %o;"
    if is_predicate:
        return [f"{address} selp.b32 %w, 1, 0, %d; st.global.b32 [%o], %w;"]
    return [f"{address} st.global.b{8 * size} [%o], %d;"]
