"""Launch a kernel on the virtual Hopper.

Blocks run in chunks, all threads of a chunk at once as NumPy arrays. Groups of threads at the
same basic block run together; the lowest block in program order goes first, which brings
diverged threads together again as early as possible (`exactness.virtual.scheduler`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from exactness.virtual.errors import (
    LaunchError,
    UnsupportedInstructionError,
    VirtualHopperError,
)
from exactness.virtual.floats import check_host
from exactness.virtual.instructions import Entry, Param, Variable
from exactness.virtual.memory import GlobalMemory
from exactness.virtual.operation import UNSIGNED
from exactness.virtual.order import PartialOrder
from exactness.virtual.program import Program, decode_entry
from exactness.virtual.scheduler import Scheduler
from exactness.virtual.shared import SHARED_BASE, SharedMemory
from exactness.virtual.special_registers import special_value
from exactness.virtual.state import WARP, Bits, State

LANES = 1 << 15
"""Lanes that run at once: enough to drown the cost of a NumPy call, few enough for the cache."""
CHUNK_BYTES = 64 << 20
"""Shared and local memory that a chunk may take."""
PARAM_BASE = 1 << 20
"""Where parameters lie whose address is taken; PTX may keep 32 bits of it."""
SHARED_LIMIT = 232448
"""Bytes of shared memory that a block can have on the H200 (227 KiB)."""

Dimensions = tuple[int, int, int]


class Counts(Counter[str]):
    """Executed thread-instructions by opcode with modifiers.

    Attributes:
        blocks: thread blocks run.
        threads: threads run.
    """

    blocks: int = 0
    threads: int = 0


def launch(
    entry: Entry,
    *,
    grid: Dimensions,
    block: Dimensions,
    params: Sequence[bytes | int | float],
    memory: GlobalMemory,
    dynamic_shared: int = 0,
    kernel_name: str | None = None,
    program: Program | None = None,
    variables: Mapping[str, Bits] | None = None,
) -> Counts:
    """Run a kernel to its end.

    Args:
        entry: the kernel.
        grid: blocks along x, y, z.
        block: threads of a block along x, y, z.
        params: one value a parameter: an int (pointers are 64-bit addresses), a float, or the
            parameter's bytes.
        memory: what the kernel may reach.
        dynamic_shared: bytes of shared memory beyond the static variables.
        kernel_name: what to call it in messages; the entry's name if None.
        program: the kernel as it was decoded already.
        variables: bytes of the module's `.global` and `.const` variables by name (u8, contiguous,
            aligned as declared), which outlive the launch; fresh ones if None.

    Returns:
        How many thread-instructions of each kind ran.

    Raises:
        VirtualHopperError: see `exactness.virtual.errors`; names kernel, instruction, source line.
    """
    name = kernel_name or entry.name
    try:
        decoded = decode_entry(entry) if program is None else program
        if variables is None:
            variables = fresh_variables(entry.constants)
        return _launch(decoded, grid, block, params, memory, dynamic_shared, variables)
    except VirtualHopperError as error:
        error.at(name, None)
        raise


def _launch(
    program: Program, grid: Dimensions, block: Dimensions, params: Sequence[bytes | int | float],
    memory: GlobalMemory, dynamic_shared: int, variables: Mapping[str, Bits],
) -> Counts:  # fmt: skip
    entry = program.entry
    _check_dimensions(entry, grid, block)
    check_host()
    packed = _pack(entry.params, params)
    shared_addresses, shared_size = _layout(entry, "shared", dynamic_shared, SHARED_BASE)
    local_addresses, local_size = _layout(entry, "local", 0, 0)
    # Every thread's part starts aligned for the widest access.
    local_size = -(-local_size // 16) * 16
    if shared_size > SHARED_LIMIT:
        raise LaunchError(
            f"{shared_size} bytes of shared memory; at most {SHARED_LIMIT} are accepted"
        )
    constants = _place_constants(entry, memory, variables)
    readable = _place_params(program, memory, packed)
    symbols = {**shared_addresses, **local_addresses, **constants, **readable}
    memory.begin_launch(program.global_granule, _stored_addresses(program, packed))
    counts = Counts()
    total = grid[0] * grid[1] * grid[2]
    threads = -(-block[0] * block[1] * block[2] // WARP) * WARP
    per_chunk = _blocks_per_chunk(threads, shared_size + threads * local_size)
    with np.errstate(all="ignore"):
        for first in range(0, total, per_chunk):
            blocks = min(per_chunk, total - first)
            state = _state(program, grid, block, first, blocks, threads, memory, shared_size)
            _fill_registers(state, program, packed, symbols)
            if local_size:
                state.local = np.zeros((blocks, threads, local_size), np.uint8)
                state.local_valid = np.zeros((blocks, threads, local_size), np.bool_)
            Scheduler(program, state, counts).run()
    counts.blocks, counts.threads = total, total * block[0] * block[1] * block[2]
    return counts


def _check_dimensions(entry: Entry, grid: Dimensions, block: Dimensions) -> None:
    """Refuse what a CUDA launch refuses."""
    if len(grid) != 3 or min(grid) < 1 or grid[0] >= 1 << 31 or max(grid[1:]) > 65535:
        raise LaunchError(f"grid: {grid}; three positive counts within CUDA's limits are accepted")
    if len(block) != 3 or min(block) < 1 or block[0] * block[1] * block[2] > 1024:
        raise LaunchError(f"block: {block}; three positive counts, at most 1024 threads")
    if entry.reqntid is not None and tuple(block) != entry.reqntid:
        raise LaunchError(f"block: {block}; the kernel requires {entry.reqntid}")
    if entry.cluster not in (None, (1, 1, 1)):
        raise UnsupportedInstructionError(
            f".reqnctapercluster {entry.cluster} is not modelled: only clusters of one block are"
        )
    limit = entry.maxntid
    if limit is not None and block[0] * block[1] * block[2] > limit[0] * limit[1] * limit[2]:
        raise LaunchError(f"block: {block}; the kernel allows at most {limit}")


def _pack(declared: Sequence[Param], given: Sequence[bytes | int | float]) -> dict[str, bytes]:
    """Parameter values as bytes, by name."""
    if len(declared) != len(given):
        raise LaunchError(f"params: {len(given)} values; the kernel declares {len(declared)}")
    return {
        param.name: _pack_one(param, value) for param, value in zip(declared, given, strict=True)
    }


def _pack_one(param: Param, value: bytes | int | float) -> bytes:
    if isinstance(value, bytes | bytearray):
        packed = bytes(value)
    elif isinstance(value, float) or param.type in ("f32", "f64"):
        if param.size not in (4, 8):
            raise LaunchError(f"param {param.name}: a float for a {param.size}-byte parameter")
        with np.errstate(over="ignore"):
            kind = np.float32 if param.size == 4 else np.float64
            packed = kind(value).tobytes()
    else:
        packed = (int(value) % (1 << 8 * param.size)).to_bytes(param.size, "little")
    if len(packed) != param.size:
        raise LaunchError(f"param {param.name}: {len(packed)} bytes; {param.size} are accepted")
    return packed


def _layout(entry: Entry, space: str, dynamic: int, base: int) -> tuple[dict[str, int], int]:
    """Addresses of the variables of a space, and how many bytes they take.

    Extern arrays of size 0 share the dynamic part, after everything else.
    """
    addresses: dict[str, int] = {}
    used = 0
    variables = [v for v in entry.variables if v.space == space]
    for variable in sorted(variables, key=lambda v: v.size == 0):
        used = -(-used // variable.align) * variable.align
        addresses[variable.name] = base + used
        used += variable.size
    return addresses, used + dynamic


def fresh_variables(declared: Iterable[Variable]) -> dict[str, Bits]:
    """Memory for a module's variables with their initial values; `extern` arrays have none."""
    return {v.name: _aligned(v.initial or b"", v.size, v.align) for v in declared if v.size}


def _aligned(initial: bytes, size: int, align: int) -> Bits:
    """Bytes that start at a multiple of `align`, zero after the initial ones."""
    buffer = np.zeros(size + align, np.uint8)
    skip = -buffer.ctypes.data % align
    data = buffer[skip : skip + size]
    data[: len(initial)] = np.frombuffer(initial, np.uint8)
    return data


def _place_constants(
    entry: Entry, memory: GlobalMemory, variables: Mapping[str, Bits]
) -> dict[str, int]:
    """Make the module's variables reachable; their addresses are those of host arrays."""
    addresses = {}
    for variable in entry.constants:
        if variable.size:
            data = variables[variable.name]
            address = addresses[variable.name] = data.ctypes.data
            memory.register(address, data, variable.name, writable=variable.space == "global")
    return addresses


def _place_params(
    program: Program, memory: GlobalMemory, packed: Mapping[str, bytes]
) -> dict[str, int]:
    """Make parameters readable whose addresses the kernel takes (indexed structs)."""
    taken = {key.rsplit(":", maxsplit=1)[0] for key in program.builder.symbols}
    addresses, address = {}, PARAM_BASE
    for param in program.entry.params:
        if param.name in taken:
            address = -(-address // param.align) * param.align
            data = _aligned(packed[param.name], param.size, param.align)
            memory.register(address, data, f"parameter {param.name}", writable=False)
            addresses[param.name] = address
            address += param.size
    return addresses


def _stored_addresses(program: Program, packed: dict[str, bytes]) -> list[int] | None:
    """The pointers that stores start out from; None if they may come from anywhere."""
    if program.stored_params is None:
        return None
    return [int.from_bytes(packed[name][:8], "little") for name in program.stored_params]


def _blocks_per_chunk(threads: int, bytes_per_block: int) -> int:
    by_memory = CHUNK_BYTES // bytes_per_block if bytes_per_block else LANES
    return max(1, min(LANES // threads, by_memory))


def _state(
    program: Program, grid: Dimensions, block: Dimensions, first: int, blocks: int,
    threads: int, memory: GlobalMemory, shared_size: int,
) -> State:  # fmt: skip
    """Fresh registers and shared memory for a chunk."""
    real = block[0] * block[1] * block[2]
    live = np.broadcast_to(np.arange(threads) < real, (blocks, threads))
    order = PartialOrder(blocks, threads // WARP) if program.partial_barriers else None
    return State(
        grid=grid,
        block=block,
        first_block=first,
        blocks=blocks,
        threads=threads,
        registers=[None] * len(program.builder.widths),
        memory=memory,
        shared=SharedMemory(blocks, shared_size, program.shared_granule, order),
        live=live,
        epochs=np.zeros(blocks, np.int64),
    )


def _fill_registers(
    state: State, program: Program, packed: dict[str, bytes], symbols: dict[str, int]
) -> None:
    """Literals, special registers, addresses, parameters; poison where a path reads undefined."""
    builder, registers = program.builder, state.registers
    for number, array in builder.literals.items():
        registers[number] = array
    for key, number in builder.specials.items():
        name, bits = key.rsplit(":", maxsplit=1)
        value = special_value(name, state)
        registers[number] = value.astype(UNSIGNED[int(bits)])
    for key, number in builder.symbols.items():
        name, bits = key.rsplit(":", maxsplit=1)
        registers[number] = np.full((1, 1), symbols[name], UNSIGNED[int(bits)])
    for number, (name, offset, type_name) in builder.params.items():
        registers[number] = _param_value(packed[name], offset, type_name, builder.widths[number])
    for number in program.maybe_undefined:
        registers[number] = np.zeros((1, 1), UNSIGNED[builder.widths[number]])
        state.poison[number] = np.full((1, 1), 0xFF, np.uint8)


def _param_value(packed: bytes, offset: int, type_name: str, bits: int) -> Bits:
    size = int(type_name.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8
    value = int.from_bytes(
        packed[offset : offset + size], "little", signed=type_name.startswith("s")
    )
    return np.full((1, 1), value % (1 << bits), UNSIGNED[bits])
