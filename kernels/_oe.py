"""What the kernels of WeLM's OE embedding share: the n-gram hash, the copy of table rows, checks.

OE embeds a token by its n-grams: branches 0 and 1 hash the last two tokens, branches 2 and 3 the
last three, each into a table of its own. Tables are split by rows over ranks.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from exactness.formats import bf16
from exactness.inputs import Layout, Tensor

from ._host import check_tensor
from ._layout import COLUMNS, VECTOR, check_float_tensor

BRANCHES = 4

TABLE_ROWS = tuple(f"rows{branch}" for branch in range(BRANCHES))
"""Names of sizes: the rows of each table that are here."""

TABLES = {
    f"table{branch}": Tensor(bf16, (rows, "width"), layouts=tuple(Layout))
    for branch, rows in enumerate(TABLE_ROWS)
}
"""What claims draw tables from."""


def table_rows(*rows: int) -> dict[str, int]:
    """The sizes of four tables."""
    return dict(zip(TABLE_ROWS, rows, strict=True))


RANK_ROWS = table_rows(4_000_002, 4_000_004, 4_000_006, 4_000_008)
"""A quarter of WeLM's tables, which four ranks share."""

_MULTIPLIER: tl.constexpr = tl.constexpr(2654435761)


@triton.jit
def hashes(token, g2, g3, token_vocabulary):
    """The hashes of the last two and the last three tokens, uint32, wrapping."""
    vocabulary = token_vocabulary.to(tl.uint32)
    r2 = token.to(tl.uint32) + g2.to(tl.uint32) * vocabulary
    r3 = r2 + g3.to(tl.uint32) * (vocabulary * vocabulary)
    return r2 * _MULTIPLIER, r3 * _MULTIPLIER


@triton.jit
def copy_rows(
    table_ptrs,
    buckets,
    starts,
    rows,
    strides,
    out_ptr,
    width,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Copy this program's part of a row of each table, given by its number in the whole table.

    A table holds the rows from its start on; other rows are zeros. All are loaded before one is
    stored, so that they are on their way together.
    """
    first = tl.program_id(1) * BLOCK
    lane = tl.arange(0, BLOCK)
    mask = lane < tl.multiple_of(width - first, COLUMNS)
    found = ()
    for branch in tl.static_range(4):
        local = buckets[branch].to(tl.int64) - starts[branch]
        here = (local >= 0) & (local < rows[branch])
        table_row = table_ptrs[branch] + local * strides[branch][0]
        if UNIT:
            at = tl.multiple_of(table_row + first + lane, (ALIGN,))
        else:
            at = table_row + (first + lane).to(tl.int64) * strides[branch][1]
        found += (tl.load(at, mask=mask & here, other=0.0),)
    for branch in tl.static_range(4):
        out_at = tl.multiple_of(out_ptr + branch * width + first + lane, (ALIGN,))
        tl.store(out_at, found[branch], mask=mask)


def layout(tables: Sequence[torch.Tensor]) -> dict[str, int | bool]:
    """The compile-time constants of `copy_rows` for these tables."""
    width = tables[0].shape[1]
    unit = all(table.stride(1) == 1 for table in tables)
    starts = [byte for x in tables for byte in (x.data_ptr(), x.stride(0) * x.element_size())]
    aligned = unit and width % COLUMNS.value == 0 and all(byte % VECTOR == 0 for byte in starts)
    block = 512 if width > 128 else 128
    return {
        "UNIT": unit,
        "ALIGN": VECTOR if aligned else 1,
        "COLUMNS": COLUMNS.value if aligned else 1,
        "BLOCK": block,
    }


def warps(block: int) -> int:
    """Warps of a program, so that a thread has a vector of each row."""
    return max(block // 256, 1)


def check_tables(device: torch.device, *tables: object) -> list[torch.Tensor]:
    """The tables, if they are bf16 [rows, width] of one width, on `device`.

    Raises:
        TypeError: wrong dtype.
        ValueError: wrong rank, layout, width or device.
    """
    checked: list[torch.Tensor] = []
    for branch, table in enumerate(tables):
        check_tensor(f"table{branch}", table, torch.bfloat16, 2)
        checked.append(table)
        width = checked[0].shape[1]
        if table.shape[1] != width:
            raise ValueError(
                f"table{branch}: shape {tuple(table.shape)} is not accepted; [rows, {width}] is"
            )
        if table.device != device:
            raise ValueError(
                f"table{branch}: device {table.device} is not accepted; ids is on {device}"
            )
    return checked


def check_tokens(name: str, x: object, ids: torch.Tensor | None = None) -> torch.Tensor:
    """`x`, if it is an int32 or int64 [tokens], beside `ids` where that is given.

    Raises:
        TypeError: not a tensor, or of another dtype.
        ValueError: wrong rank, layout, shape or device.
    """
    tokens = check_float_tensor(name, x, (torch.int32, torch.int64))
    wanted = tokens.shape if ids is None else ids.shape
    if tokens.ndim != 1 or tokens.shape != wanted:
        accepted = "[tokens]" if ids is None else str(tuple(wanted))
        raise ValueError(f"{name}: shape {tuple(tokens.shape)} is not accepted; {accepted} is")
    if ids is not None and tokens.device != ids.device:
        raise ValueError(f"{name}: device {tokens.device} is not accepted; ids is on {ids.device}")
    return tokens


def check_integers(name: str, values: Sequence[int], low: int) -> tuple[int, ...]:
    """One integer a branch, from `low` to 2^32 − 1.

    Raises:
        TypeError: not a sequence of integers.
        ValueError: not four, or out of range.
    """
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise TypeError(f"{name}: got {type(values).__name__}; {BRANCHES} integers are accepted")
    for value in values:
        check_integer(name, value, low)
    if len(values) != BRANCHES:
        raise ValueError(f"{name}: {len(values)} values are not accepted; {BRANCHES} are")
    return tuple(values)


def check_integer(name: str, value: object, low: int) -> int:
    """An integer from `low` to 2^32 − 1.

    Raises:
        TypeError: not an int.
        ValueError: out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: got {type(value).__name__}; an int is accepted")
    if not low <= value < 2**32:
        raise ValueError(f"{name}: {value} is not accepted; {low} to 2^32 − 1 is")
    return value
