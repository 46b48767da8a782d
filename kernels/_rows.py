"""Device side of `_layout.Walk`: which rows and columns a program handles, and where they lie."""

import triton
import triton.language as tl

from ._layout import COLUMNS


@triton.jit
def place(
    rows,
    cols,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    SPLIT: tl.constexpr,
    ALIGN: tl.constexpr,
):
    """Rows [ROWS] and columns [BLOCK] of this program, int64, and which exist [ROWS, BLOCK]."""
    program = tl.program_id(0).to(tl.int64)
    if SPLIT == "rows":
        group, start = program, program * 0
    elif SPLIT == "columns":
        group, start = program * 0, program * BLOCK
    else:
        blocks = tl.cdiv(cols, BLOCK)
        group, start = program // blocks, program % blocks * BLOCK
    row = group * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, BLOCK)
    # Says that whole vectors are inside or outside, where ALIGN promises them.
    left = (cols - start) // COLUMNS * COLUMNS if ALIGN > 1 else cols - start
    return row, start + lane, (row < rows)[:, None] & (lane < left)[None, :]


@triton.jit
def starts(ptr, row, middle, strides, FLAT: tl.constexpr):
    """Where rows begin, [ROWS]."""
    if FLAT:
        return ptr + row * strides[1]
    else:
        row = row.to(tl.int32)
        return ptr + (row // middle * strides[0] + row % middle * strides[1])


@triton.jit
def pointers(
    ptr,
    row,
    col,
    middle,
    strides,
    FLAT: tl.constexpr,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
):
    """Where the elements [ROWS, BLOCK] lie; `ALIGN` bytes are promised where UNIT."""
    begin = starts(ptr, row, middle, strides, FLAT)
    if not UNIT:
        return begin[:, None] + (col * strides[2])[None, :]
    elif ALIGN > 1:
        return tl.multiple_of(begin[:, None] + col[None, :], (1, ALIGN))
    else:
        return begin[:, None] + col[None, :]
