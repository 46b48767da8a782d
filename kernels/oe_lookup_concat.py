"""Rows of four tables side by side, in one launch: out[t] = T0[i0] | T1[i1] | T2[i2] | T3[i3].

This rank holds the rows from `starts[b]` on of table b; an id of another rank's gives zeros, so
that the sum over ranks is the whole embedding. Nothing is computed: the bits are the table's.

Baseline: WeLMv4's `_welm_oe_lookup_concat_prehashed_4x512_kernel`
(`references/oe_lookup_concat.py`).
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim
from exactness.formats import INTEGERS
from exactness.inputs import Inputs, IntegerTensor, Layout
from exactness.launching import Launch, launcher

from ._layout import check_float_tensor
from ._oe import (
    BRANCHES,
    RANK_ROWS,
    TABLE_ROWS,
    TABLES,
    check_integers,
    check_tables,
    copy_rows,
    layout,
    table_rows,
    warps,
)
from ._start import options, start


@triton.jit(
    do_not_specialize=["stride_it", "stride_ib", "width"],
    do_not_specialize_on_alignment=["ids_ptr", "out_ptr"],
)
def _oe_lookup_concat_kernel(
    ids_ptr,
    stride_it,
    stride_ib,
    table_ptrs,
    starts,
    rows,
    strides,
    out_ptr,
    width,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    token = tl.program_id(0).to(tl.int64)
    buckets = ()
    for branch in tl.static_range(4):
        buckets += (tl.load(ids_ptr + token * stride_it + branch * stride_ib.to(tl.int64)),)
    copy_rows(
        table_ptrs, buckets, starts, rows, strides,
        out_ptr + token * 4 * width, width, UNIT, ALIGN, COLUMNS, BLOCK,
    )  # fmt: skip


@launcher
def oe_lookup_concat(
    ids: torch.Tensor,
    table0: torch.Tensor,
    table1: torch.Tensor,
    table2: torch.Tensor,
    table3: torch.Tensor,
    starts: Sequence[int] = (0, 0, 0, 0),
) -> Launch[torch.Tensor]:
    """Look one row a table up for each token; rows of other ranks are zeros.

    Args:
        ids: int32 or int64 [tokens, 4], any strides: a row's number in each whole table.
        table0: bf16 [rows0, width], this rank's part of the table, any strides.
        table1: bf16 [rows1, width].
        table2: bf16 [rows2, width].
        table3: bf16 [rows3, width].
        starts: number of the first row in each part; zeros if `ids` are local to this rank.

    Returns:
        bf16 [tokens, 4 · width], contiguous.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong rank, layout, shape, device or start.
    """
    check_float_tensor("ids", ids, (torch.int32, torch.int64))
    if ids.ndim != 2 or ids.shape[1] != BRANCHES:
        raise ValueError(f"ids: shape {tuple(ids.shape)} is not accepted; [tokens, {BRANCHES}] is")
    tables = check_tables(ids.device, table0, table1, table2, table3)
    first = check_integers("starts", starts, 0)
    tokens, width = ids.shape[0], table0.shape[1]
    out = torch.empty((tokens, BRANCHES * width), dtype=torch.bfloat16, device=ids.device)
    if out.numel() == 0:
        return Launch(out)
    constants = layout(tables)
    grid = (tokens, triton.cdiv(width, constants["BLOCK"]))
    return Launch(
        out,
        _oe_lookup_concat_kernel,
        grid,
        ids,
        *ids.stride(),
        tuple(tables),
        first,
        tuple(table.shape[0] for table in tables),
        tuple(table.stride() for table in tables),
        out,
        width,
        **constants,
        **options(grid[0] * grid[1], ids, warps(constants["BLOCK"])),
    )


def _ids(low: int, times: int, more: int) -> IntegerTensor:
    ends = tuple(f"{times}*{rows}+{more}" for rows in TABLE_ROWS)
    return IntegerTensor(INTEGERS["i64"], ("tokens", BRANCHES), low, ends, tuple(Layout))


_INPUTS = Inputs(
    {"tokens": (0, 300), **dict.fromkeys(TABLE_ROWS, (0, 1500)), "width": (1, 700)},
    # Ids from one row before the tables to one behind the longest.
    {"ids": _ids(-1, 1, 1), **TABLES},
    {"starts": ((0, 0, 0, 0), (1, 0, 3, 2), (700, 702, 704, 706))},
)

CLAIM = Claim(
    kernel=oe_lookup_concat,
    reference="oe_lookup_concat:oe_lookup_concat",
    inputs=_INPUTS,
    cases=[
        {"tokens": 9, **table_rows(20, 22, 24, 26), "width": 512},
        {"tokens": 40, **table_rows(5, 7, 9, 11), "width": 33, "starts": (1, 0, 3, 2)},
        {"tokens": 20, **table_rows(8, 7, 6, 5), "width": 8},
        {"tokens": 3, **table_rows(0, 2, 0, 6), "width": 600},
    ],
    bench=[
        Bench(
            name="oe_lookup_concat",
            # Ids of all four ranks: of a token's four rows, one is here.
            inputs=replace(_INPUTS, tensors={**_INPUTS.tensors, "ids": _ids(0, 4, 0)}),
            sizes={"tokens": "tokens", **RANK_ROWS, "width": 512},
            bytes="tokens*(4*8+2*width+4*2*width)",
            against={"chain": "_torch_chains:oe_lookup_concat"},
            large="16 GiB of tables",
        )
    ],
)
