"""What the row norms share: which rows a program handles, where they lie, argument checks."""

import torch
import triton
import triton.language as tl

from ._layout import COLUMNS, VECTOR, check_float_tensor

LANES = 32
WARPS = 4
THREADS = LANES * WARPS
"""Threads of the baseline; its order of summation follows from them."""


@triton.jit
def add_f32(x, y):
    """One addition that stays f32: LLVM narrows `(bf16 + f16).to(f16)` to f16, losing bits of x."""
    return tl.inline_asm_elementwise(
        "add.rn.f32 $0, $1, $2;", "=f,f,f", [x, y], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def mul_f32(x, y):
    """One product that stays f32, as `add_f32`."""
    return tl.inline_asm_elementwise(
        "mul.rn.f32 $0, $1, $2;", "=f,f,f", [x, y], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def place(heads, ROWS: tl.constexpr, FLAT: tl.constexpr):
    """Row, token and head of the rows of this program, int64 [ROWS]; FLAT: one head a token."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    if FLAT:
        return row, row, row * 0
    else:
        return row, row // heads, row % heads


@triton.jit
def pointers(ptr, token, head, col, strides, UNIT: tl.constexpr, ALIGN: tl.constexpr):
    """Where the elements [ROWS, columns] lie; `ALIGN` bytes are promised where UNIT."""
    row = ptr + (token * strides[0] + head * strides[1])
    if UNIT:
        return tl.multiple_of(row[:, None] + col[None, :], (1, ALIGN))
    else:
        return row[:, None] + col[None, :].to(tl.int64) * strides[2]


def check_rows(name: str, x: object, ranks: tuple[int, ...]) -> torch.Tensor:
    """`x`, if it is a float tensor of an accepted rank.

    Raises:
        TypeError: not a tensor, or of another dtype.
        ValueError: of another rank or layout.
    """
    tensor = check_float_tensor(name, x)
    if tensor.ndim not in ranks:
        accepted = " or ".join(map(str, ranks))
        raise ValueError(f"{name}: shape {tuple(tensor.shape)} is not accepted; rank {accepted} is")
    return tensor


def check_beside(
    name: str, tensor: torch.Tensor, x: torch.Tensor, shape: tuple[int, ...] | None = None
) -> None:
    """Refuse a tensor on another device than `x`, or not of `shape` (that of `x` if None).

    Raises:
        ValueError: shape or device.
    """
    wanted = tuple(x.shape) if shape is None else shape
    if tuple(tensor.shape) != wanted:
        raise ValueError(f"{name}: shape {tuple(tensor.shape)} is not accepted; {wanted} is")
    if tensor.device != x.device:
        raise ValueError(f"{name}: device {tensor.device} is not accepted; x is on {x.device}")


def padded(n: int) -> int:
    """Slots of a row of n columns: few values, as zeros behind the end leave the order alone.

    Up to 32 columns are spread over a warp, up to 128 over four.
    """
    if n == 1:
        return 1
    return max(triton.next_power_of_2(n), LANES if n <= LANES else THREADS)


def row_strides(x: torch.Tensor, flat: bool) -> tuple[int, int, int]:
    """Elements from token to token, head to head, column to column; `flat` has one head a token."""
    step = x.stride(0) if x.shape[1] == 1 else x.stride(-2)
    return (step, 0, x.stride(-1)) if flat else x.stride()


def are_flat(*tensors: torch.Tensor) -> bool:
    """Whether rows are evenly spaced in every tensor: no division finds token and head."""
    return all(
        x.ndim == 2 or x.shape[1] == 1 or x.stride(0) == x.shape[1] * x.stride(1) for x in tensors
    )


def unit(x: torch.Tensor) -> bool:
    """Whether neighbouring columns are neighbours in memory."""
    return x.stride(-1) == 1


def are_aligned(*tensors: torch.Tensor) -> bool:
    """Whether every row of every tensor can be read in vectors of 16 bytes."""
    return all(
        x.shape[-1] % COLUMNS.value == 0
        and unit(x)
        and x.data_ptr() % VECTOR == 0
        and all(
            step * x.element_size() % VECTOR == 0
            for step, size in zip(x.stride()[:-1], x.shape[:-1], strict=True)
            if size > 1
        )
        for x in tensors
    )
