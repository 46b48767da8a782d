"""Device side of `_layout.walk`: which rows and columns a program handles, and where they lie."""

import triton
import triton.language as tl


@triton.jit
def place(middle, cols, BLOCK: tl.constexpr):
    """The (outer, middle) row and the first column of this program, all int64."""
    blocks = tl.cdiv(cols, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    start = (row % blocks) * BLOCK
    row = row // blocks
    return row // middle, row % middle, start


@triton.jit
def pointers(ptr, outer, middle, start, lane, strides, UNIT: tl.constexpr, ALIGN: tl.constexpr):
    """Where the columns start + lane of a row lie; `ALIGN` bytes are promised where UNIT."""
    row = ptr + (outer * strides[0] + middle * strides[1])
    if not UNIT:
        at = row + start * strides[2] + lane.to(tl.int64) * strides[2]
    elif ALIGN > 1:
        at = tl.multiple_of(row + start + lane, (ALIGN,))
    else:
        at = row + start + lane
    return at


@triton.jit
def inside(cols, start, lane, ALIGN: tl.constexpr):
    """The mask of the columns that exist; their number is a multiple of `ALIGN`."""
    return lane < tl.multiple_of(cols - start, ALIGN)
