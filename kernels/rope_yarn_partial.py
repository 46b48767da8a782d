"""Partial rotary embedding in one launch, in place on the last dimensions of every head.

With x1, x2 the two halves of the last rope_dim dimensions (neox), in f32:
x1' = fma(x1, cos, −f32(x2 · sin)), x2' = fma(x1, sin, f32(x2 · cos)), each rounded once to the
format of q and k. The other dimensions are not touched; nothing is summed over elements.

Baseline: WeLMv4's `WelmV4InplaceRotaryEmbedding` (`references/rope_yarn_partial.py`), whose
contraction into these two fma is written out here. `_yarn.yarn_cos_sin` makes its table.
"""

from dataclasses import replace

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim
from exactness.formats import INTEGERS, bf16, f16, f32
from exactness.inputs import Inputs, IntegerTensor, Layout, Tensor
from exactness.launching import Launch, Part, launcher

from ._host import check_tensor
from ._layout import VECTOR, check_float_tensor
from ._rope import (
    BY_POSITION,
    BY_TOKEN,
    check_rows_by,
    check_table,
    check_tokens,
    halves_aligned,
    heads_of,
    pairs,
    turned,
)
from ._start import options, start
from ._yarn import POSITIONS

_BLOCK = 256
"""Pairs that a program rotates."""

_QUERY = "query"
_SELECTED = "selected"
"""Where a row of q finds its position: in its own list, or in that of the token it belongs to."""


@triton.jit
def _table_row(position_ptr, index_ptr, token, is_asked, k_tokens, BY: tl.constexpr):
    """The row of the table for a token, if it is asked for; −1 if it belongs to no token."""
    if BY == "token":
        row = token
    elif BY == "position":
        row = tl.load(position_ptr + token, mask=is_asked, other=-1)
    elif BY == "query":
        row = tl.load(index_ptr + token, mask=is_asked, other=-1)
    else:
        owner = tl.load(index_ptr + token, mask=is_asked, other=-1)
        exists = (owner >= 0) & (owner < k_tokens)
        row = tl.load(position_ptr + owner, mask=exists, other=-1)
    return row


@triton.jit(
    do_not_specialize=["n_rows", "stride_row", "k_tokens", "q_heads", "k_heads", "first", "half"],
    do_not_specialize_on_alignment=["q_ptr", "k_ptr", "position_ptr", "index_ptr", "table_ptr"],
)
def _rope_kernel(
    q_ptr,
    k_ptr,
    position_ptr,
    index_ptr,
    table_ptr,
    n_rows,
    stride_row,
    k_tokens,
    q_heads,
    k_heads,
    q_strides,
    k_strides,
    first,
    half,
    Q_BY: tl.constexpr,
    K_BY: tl.constexpr,
    JOINT: tl.constexpr,
    HALF: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    token = tl.program_id(0).to(tl.int64)
    of_k = token < k_tokens
    if JOINT:
        begin, end = q_heads * 0, q_heads + k_heads
    else:
        begin = tl.where(of_k, q_heads, 0)
        end = tl.where(of_k, q_heads + k_heads, q_heads)
        token = tl.where(of_k, token, token - k_tokens)
    x1_at, x2_at, pair, mask = pairs(
        q_ptr + token * q_strides[0], k_ptr + token * k_strides[0], q_strides, k_strides,
        q_heads, begin, end, tl.program_id(1), first, half, HALF, ALIGN, BLOCK,
    )  # fmt: skip
    # Before the row of the table, which is known later.
    x1 = tl.load(x1_at, mask=mask, other=0.0)
    x2 = tl.load(x2_at, mask=mask, other=0.0)
    row = _table_row(position_ptr, index_ptr, token, of_k, k_tokens, K_BY)
    if not JOINT:
        q_row = _table_row(position_ptr, index_ptr, token, not of_k, k_tokens, Q_BY)
        row = tl.where(of_k, row, q_row)
    out1, out2 = turned(x1, x2, pair, mask, row, half, table_ptr, n_rows, stride_row, HALF, ALIGN)
    tl.store(x1_at, out1.to(q_ptr.dtype.element_ty), mask=mask)
    tl.store(x2_at, out2.to(q_ptr.dtype.element_ty), mask=mask)


@launcher(compares=("q", "k"))
def rope_yarn_partial(
    q: torch.Tensor,
    k: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    *,
    head_dim: int | None = None,
    rows_by: str = BY_POSITION,
    query_positions: torch.Tensor | None = None,
    last_index: torch.Tensor | None = None,
) -> Launch[None]:
    """Rotate the last rope_dim dimensions of every head of q and k in place.

    Args:
        q: bf16, f16 or f32 [tokens, heads, head_dim], or [tokens, heads·head_dim] if `head_dim`
            is given; any strides whose elements do not overlap, not those of k either.
        k: like `q`, with a number of heads of its own.
        positions: int64 [tokens], contiguous, the tokens of k. A position without a row in
            `cos_sin` gives NaN.
        cos_sin: f32 [rows, rope_dim], contiguous rows of cosines, then sines; rope_dim is even
            and at most head_dim.
        head_dim: needed to split two-dimensional q and k.
        rows_by: `BY_POSITION`: row p is for position p. `BY_TOKEN`: row t is for token t.
        query_positions: int64 [tokens of q], if q has rows of its own (contracted queries).
        last_index: int64 [tokens of q]: the token of k that a row of q belongs to, whose position
            it takes; a token that does not exist gives NaN.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong rank, layout, shape, device or combination of arguments.
    """
    check_float_tensor("q", q)
    check_float_tensor("k", k, (q.dtype,))
    q_part, k_part = Part(q, heads_of("q", q, head_dim)), Part(k, heads_of("k", k, head_dim))
    q, k = q_part.view, k_part.view
    check_tensor("cos_sin", cos_sin, torch.float32, 2)
    check_table(cos_sin, k.shape[2])
    index = check_tokens(q, k, positions, query_positions, last_index)
    check_rows_by(rows_by, index, cos_sin, k.shape[0])
    for name, x in (("k", k), ("positions", positions), ("cos_sin", cos_sin), ("index", index)):
        if x is not None and x.device != q.device:
            raise ValueError(f"{name}: device {x.device} is not accepted; q is on {q.device}")
    if not q.numel() and not k.numel():
        return Launch(None)
    q_by = rows_by if index is None else _QUERY if last_index is None else _SELECTED
    return _planned(q_part, k_part, positions, cos_sin, index, q_by, rows_by)


def _planned(
    q_part: Part,
    k_part: Part,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    index: torch.Tensor | None,
    q_by: str,
    k_by: str,
) -> Launch[None]:
    q, k = q_part.view, k_part.view
    half = cos_sin.shape[1] // 2
    first = q.shape[2] - 2 * half
    aligned = halves_aligned(cos_sin, q, k)
    # One program turns all heads of a token where q and k have the same tokens.
    joint = index is None and q.shape[0] == k.shape[0]
    tokens = q.shape[0] if joint else q.shape[0] + k.shape[0]
    heads = q.shape[1] + k.shape[1] if joint else max(q.shape[1], k.shape[1])
    grid = (tokens, triton.cdiv(heads * half, _BLOCK))
    return Launch(
        None,
        _rope_kernel,
        grid,
        q_part,
        k_part,
        positions,
        index,
        cos_sin,
        cos_sin.shape[0],
        cos_sin.stride(0),
        k.shape[0],
        q.shape[1],
        k.shape[1],
        q.stride(),
        k.stride(),
        first,
        half,
        Q_BY=q_by,
        K_BY=k_by,
        JOINT=joint,
        HALF=half if aligned else 0,
        ALIGN=VECTOR if aligned else 1,
        BLOCK=_BLOCK,
        # A vector a thread, or a pair.
        **options(grid[0] * grid[1], q, 1 if aligned else _BLOCK // 32),
    )


_SIZES = {"q_heads": (1, 12), "k_heads": (1, 4), "nope": (0, 200), "half": (1, 64)}
_HEAD_DIM = "nope+2*half"
_FORMATS = {"format": (bf16, f16, f32)}
_HEADS = {"q_heads": 6, "k_heads": 1, "nope": 192, "half": 32}


def _rotated(tokens: str, heads: str) -> Tensor:
    return Tensor("format", (tokens, heads, _HEAD_DIM), layouts=tuple(Layout))


def _numbers(count: str, end: str, low: int = -1) -> IntegerTensor:
    """Below `end`, and what names nothing: one less than the first and one behind the last."""
    return IntegerTensor(INTEGERS["i64"], (count,), low, end if low == 0 else f"{end}+1")


_TABLE = Tensor(f32, ("rows", "2*half"))
_INPUTS = Inputs(
    {"tokens": (0, 300), "rows": (0, 340), **_SIZES},
    {
        "q": _rotated("tokens", "q_heads"),
        "k": _rotated("tokens", "k_heads"),
        "positions": _numbers("tokens", "rows"),
        "cos_sin": _TABLE,
    },
    {"rows_by": (BY_POSITION, BY_TOKEN)},
    _FORMATS,
    at_most={"tokens": "rows"},  # by token, there must be a row for each
)

CLAIM = Claim(
    kernel=rope_yarn_partial,
    allows=("fma",),
    reference="rope_yarn_partial:rope_yarn_partial",
    golden=("rope", "rope_f32"),
    parameters={"head_dim": 256, "rows_by": BY_TOKEN},
    inputs=_INPUTS,
    cases=[
        {"tokens": 9, "rows": 39, **_HEADS},
        {"tokens": 5, "rows": 40, **_HEADS, "format": "f32", "rows_by": BY_TOKEN},
        {"tokens": 3, "rows": 90, **_HEADS, "nope": 5, "half": 19, "format": "f16"},
    ],
    outputs=(),
    mutates={"q": "q_out", "k": "k_out"},
    bench=[
        Bench(
            name="rope_yarn_partial",
            inputs=replace(
                _INPUTS, tensors={**_INPUTS.tensors, "positions": _numbers("tokens", "rows", 0)}
            ),
            sizes={"tokens": "tokens", "rows": POSITIONS, **_HEADS},
            bytes="tokens*(2*2*(q_heads+k_heads)*2*half+4*2*half+8)",
            against={"chain": "_torch_chains:rope_yarn_partial"},
        )
    ],
)


def _contracted(name: str, end: str) -> Claim:
    """The claim for q with rows of its own, which `name` gives positions below `end`."""
    queries = {
        "q": _rotated("queries", "q_heads"),
        "k": _rotated("tokens", "k_heads"),
        "positions": _numbers("tokens", "rows"),
        "cos_sin": _TABLE,
        name: _numbers("queries", end),
    }
    sizes = {"queries": (0, 40), "tokens": (1, 100), "rows": (1, 60), **_SIZES}
    cases = [
        {"queries": 3, "tokens": 11, "rows": 50, **_HEADS},
        {"queries": 4, "tokens": 2, "rows": 9, **_HEADS, "nope": 0, "half": 7, "format": "f32"},
    ]
    return Claim(
        allows=("fma",),
        kernel=rope_yarn_partial,
        reference="rope_yarn_partial:rope_yarn_partial",
        name=f"rope_yarn_partial_{name}",
        inputs=Inputs(sizes, queries, formats=_FORMATS),
        cases=cases,
        outputs=(),
        mutates={"q": "q_out", "k": "k_out"},
    )


QUERY_POSITIONS_CLAIM = _contracted("query_positions", "rows")
LAST_INDEX_CLAIM = _contracted("last_index", "tokens")
