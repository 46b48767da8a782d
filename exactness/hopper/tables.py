"""Recorded results of the H200's special-function unit on the fundamental intervals.

Each table is stored as LZMA-compressed int8: the signed distance, in units of the last place,
from the correctly rounded result to the one an NVIDIA H200 gave, for every f32 of the interval
in ascending order. `patterns` rebuilds the f32 results and refuses them unless their SHA-256 is
the one of the recording, so neither a damaged file nor a platform's `exp2` can change a bit.
"""

from __future__ import annotations

import functools
import hashlib
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from exactness import arrays
from exactness.arrays import Array

if TYPE_CHECKING:
    import torch

_BLOCK = 1 << 20  # Elements rebuilt at a time; bounds the f64 temporaries to a few MiB.


class CorruptTableError(RuntimeError):
    """A special-function table does not hold the recorded bits."""


@dataclass(frozen=True, slots=True)
class MufuTable:
    """One recorded instruction.

    Attributes:
        name: stem of the file under `exactness/hopper/mufu`.
        first: bit pattern of the first input; the inputs are consecutive patterns.
        size: how many inputs.
        function: the exact function, f64 to f64, good to a few f64 ulp.
        sha256: of the recorded results as little-endian f32.
    """

    name: str
    first: int
    size: int
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    sha256: str


RSQ = MufuTable(
    "rsq",
    0x3F800000,  # [1, 4)
    1 << 24,
    lambda x: 1.0 / np.sqrt(x),
    "218fc04d271773269367dedf4cff9ff719081b1218c3d67d248d8d6126040246",
)
SQRT = MufuTable(
    "sqrt",
    0x3F800000,  # [1, 4)
    1 << 24,
    np.sqrt,
    "4e017678de306e0be8bed66193c2ebf09e9c60a9600cad56cd05bb7b6c3f266f",
)
RCP = MufuTable(
    "rcp",
    0x3F800000,  # [1, 2)
    1 << 23,
    lambda x: 1.0 / x,
    "c408381446132e07fa5581e930dc33fb790bea7ec4276ef3621e322df2492a55",
)
EX2 = MufuTable(
    "ex2",
    0x3F800000,  # [1, 2)
    1 << 23,
    np.exp2,
    "cce5df10202dbfcde720ca547d147edb3e2a406a5fed189323f419177a72a1a5",
)
TABLES = (RSQ, SQRT, RCP, EX2)


@functools.cache
def patterns(table: MufuTable) -> NDArray[np.int32]:
    """The recorded results of `table`, rebuilt and verified on first use.

    Args:
        table: one of `TABLES`.

    Returns:
        int32 bit patterns of the f32 results, shape [size], read-only; element i belongs to the
        input with bit pattern first + i.

    Raises:
        CorruptTableError: the package data is missing, damaged, or rebuilds to other bits.
    """
    result = rebuild(table, _compressed(table))
    result.flags.writeable = False
    return result


def look_up(table: MufuTable, index: Array) -> Array:
    """Elements of `patterns(table)`.

    Args:
        table: one of `TABLES`.
        index: int32, any shape, every element in [0, table.size); a NumPy array or a tensor.

    Returns:
        int32 of the shape of `index`, beside it.

    Raises:
        CorruptTableError: as `patterns`.
    """
    if arrays.is_numpy(index):
        # Not "raise", which would copy through a buffer; callers mask their indices.
        return patterns(table).take(index, mode="clip")
    return _on_device(table, index.device)[index]


def rebuild(table: MufuTable, compressed: bytes) -> NDArray[np.int32]:
    """Recorded results from the compressed distances.

    Args:
        table: which instruction they belong to.
        compressed: LZMA-compressed int8 distances.

    Returns:
        int32 bit patterns, shape [size].

    Raises:
        CorruptTableError: the data cannot be decompressed, has another size, or the results'
            SHA-256 is not the recorded one.
    """
    try:
        distance = np.frombuffer(lzma.decompress(compressed), np.int8)
    except (lzma.LZMAError, EOFError) as error:
        raise _corrupt(table, f"cannot be decompressed ({error})") from error
    if distance.size != table.size:
        raise _corrupt(table, f"holds {distance.size} results, {table.size} are accepted")
    result = np.empty(table.size, np.int32)
    digest = hashlib.sha256()
    for start in range(0, table.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        result[block] = _rounded_results(table, start) + distance[block]
        digest.update(result[block].astype("<i4").tobytes())
    if digest.hexdigest() != table.sha256:
        raise _corrupt(table, f"has SHA-256 {digest.hexdigest()}, {table.sha256} is accepted")
    return result


def _rounded_results(table: MufuTable, start: int) -> NDArray[np.int32]:
    """Patterns of the correctly rounded results of one block."""
    stop = min(start + _BLOCK, table.size)
    inputs = np.arange(table.first + start, table.first + stop, dtype=np.int32).view(np.float32)
    return table.function(inputs.astype(np.float64)).astype(np.float32).view(np.int32)


def _compressed(table: MufuTable) -> bytes:
    path = resources.files("exactness.hopper") / "mufu" / f"{table.name}.i8.xz"
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise _corrupt(table, f"is missing ({path})") from error


def _corrupt(table: MufuTable, what: str) -> CorruptTableError:
    return CorruptTableError(f"special-function table {table.name!r} {what}; reinstall exactness")


@functools.cache
def _on_device(table: MufuTable, device: torch.device) -> Array:
    import torch

    return torch.tensor(patterns(table), device=device)
