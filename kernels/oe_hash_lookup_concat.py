"""The n-gram hash and the lookup of WeLM's OE embedding in one launch in place of two.

Formulas: `oe_hash` (buckets, in 32-bit wrapping arithmetic), then `oe_lookup_concat` (rows of this
rank's parts of the tables, zeros for the rows of others).

Baseline: WeLMv4's two launches (`references/oe_hash_lookup_concat.py`).
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim
from exactness.formats import INTEGERS
from exactness.inputs import Inputs, IntegerTensor, Layout
from exactness.launching import Launch, launcher

from ._oe import (
    BRANCHES,
    RANK_ROWS,
    TABLE_ROWS,
    TABLES,
    check_integer,
    check_integers,
    check_tables,
    check_tokens,
    copy_rows,
    hashes,
    layout,
    table_rows,
    warps,
)
from ._start import options, start


@triton.jit(
    do_not_specialize=["token_vocabulary", "width"], do_not_specialize_on_alignment=["out_ptr"]
)
def _oe_hash_lookup_concat_kernel(
    token_ptrs,
    token_strides,
    token_vocabulary,
    vocabularies,
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
    number = tl.program_id(0).to(tl.int64)
    token = tl.load(token_ptrs[0] + number * token_strides[0])
    g2 = tl.load(token_ptrs[1] + number * token_strides[1])
    g3 = tl.load(token_ptrs[2] + number * token_strides[2])
    two, three = hashes(token, g2, g3, token_vocabulary)
    buckets = ()
    for branch in tl.static_range(4):
        vocabulary = tl.cast(vocabularies[branch], tl.uint32)
        buckets += ((two if branch < 2 else three) % vocabulary,)
    copy_rows(
        table_ptrs, buckets, starts, rows, strides,
        out_ptr + number * 4 * width, width, UNIT, ALIGN, COLUMNS, BLOCK,
    )  # fmt: skip


@launcher
def oe_hash_lookup_concat(
    ids: torch.Tensor,
    g2: torch.Tensor,
    g3: torch.Tensor,
    table0: torch.Tensor,
    table1: torch.Tensor,
    table2: torch.Tensor,
    table3: torch.Tensor,
    token_vocabulary: int,
    vocabularies: Sequence[int],
    starts: Sequence[int] = (0, 0, 0, 0),
) -> Launch[torch.Tensor]:
    """Look the n-grams that end in each token up; rows of other ranks are zeros.

    Args:
        ids: int32 or int64 [tokens], any stride; only the low 32 bits of a token count.
        g2: the token before each, like `ids`.
        g3: the token before that, like `ids`. (For a text, shifted views of it.)
        table0: bf16 [rows0, width], this rank's part of the table, any strides.
        table1: bf16 [rows1, width].
        table2: bf16 [rows2, width].
        table3: bf16 [rows3, width].
        token_vocabulary: 1 to 2^32 − 1.
        vocabularies: rows of the four whole tables, each 1 to 2^32 − 1.
        starts: number of the first row in each part.

    Returns:
        bf16 [tokens, 4 · width], contiguous.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong rank, layout, shape, device, vocabulary or start.
    """
    check_tokens("ids", ids)
    grams = (ids, check_tokens("g2", g2, ids), check_tokens("g3", g3, ids))
    tables = check_tables(ids.device, table0, table1, table2, table3)
    check_integer("token_vocabulary", token_vocabulary, 1)
    whole = check_integers("vocabularies", vocabularies, 1)
    first = check_integers("starts", starts, 0)
    tokens, width = ids.shape[0], table0.shape[1]
    out = torch.empty((tokens, BRANCHES * width), dtype=torch.bfloat16, device=ids.device)
    if out.numel() == 0:
        return Launch(out)
    constants = layout(tables)
    grid = (tokens, triton.cdiv(width, constants["BLOCK"]))
    return Launch(
        out,
        _oe_hash_lookup_concat_kernel,
        grid,
        grams,
        tuple(x.stride(0) for x in grams),
        token_vocabulary,
        whole,
        tuple(tables),
        first,
        tuple(table.shape[0] for table in tables),
        tuple(table.stride() for table in tables),
        out,
        width,
        **constants,
        **options(grid[0] * grid[1], ids, warps(constants["BLOCK"])),
    )


def _tokens() -> IntegerTensor:
    return IntegerTensor(INTEGERS["i64"], ("tokens",), 0, 151936, tuple(Layout))


CLAIM = Claim(
    kernel=oe_hash_lookup_concat,
    reference="oe_hash_lookup_concat:oe_hash_lookup_concat",
    inputs=Inputs(
        {"tokens": (0, 300), **dict.fromkeys(TABLE_ROWS, (0, 900)), "width": (1, 700)},
        {"ids": _tokens(), "g2": _tokens(), "g3": _tokens(), **TABLES},
        {
            "token_vocabulary": (151936, 65536, 2**32 - 1),
            # Tables of which about a half is here.
            "vocabularies": ((97, 101, 103, 107), (1000, 1008, 1016, 1024), (9, 11, 13, 15)),
            "starts": ((0, 0, 0, 0), (1, 0, 3, 2), (50, 55, 60, 65)),
        },
    ),
    cases=[
        {"tokens": 9, **table_rows(50, 52, 54, 56), "width": 512},
        {"tokens": 60, **table_rows(60, 62, 64, 66), "width": 7, "starts": (1, 0, 3, 2)},
        {"tokens": 40, **table_rows(66, 64, 62, 60), "width": 32, "token_vocabulary": 2**32 - 1},
    ],
    bench=[
        Bench(
            name="oe_hash_lookup_concat",
            # Vocabularies of all four ranks: of a token's four rows, one is here.
            sizes={
                "tokens": "tokens",
                **RANK_ROWS,
                "width": 512,
                "vocabularies": (16000008, 16000016, 16000024, 16000032),
            },
            bytes="tokens*(3*8+2*width+4*2*width)",
            against={"chain": "_torch_chains:oe_hash_lookup_concat"},
            large="16 GiB of tables",
        )
    ],
)
