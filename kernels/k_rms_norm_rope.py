"""RMS norm of every key head and the rotary embedding of queries and keys, one launch for two.

Formulas: `k_rms_norm`, whose result is rounded to the format of k, then `rope_yarn_partial` on the
last dimensions of every head. Keys are normalised and turned by programs that hold whole heads,
queries are turned in place by the others.

Baseline: WeLMv4's two launches (`references/k_rms_norm_rope.py`).
"""

from dataclasses import replace

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim
from exactness.formats import INTEGERS, bf16, f16, f32
from exactness.inputs import Inputs, IntegerTensor, Layout, Tensor
from exactness.launching import Launch, launcher

from ._heads import EPS, HEADS, UNCONTRACTED_MEAN, check_heads, head_and_weight, tile
from ._host import check_number, check_tensor
from ._layout import COLUMNS, VECTOR, check_float_tensor, f32_constant
from ._norm import are_aligned, place, row_strides, unit
from ._rope import check_table, check_tokens, halves_aligned, heads_of, pairs, rotated, turned
from ._squares import inverse_rms
from ._start import options, start
from ._yarn import POSITIONS

_WARPS = 1
"""A warp holds whole heads of k, or a block of pairs of q."""

_BLOCK = 256
"""Pairs of queries that a program turns."""


@triton.jit
def _partners(col, first, half, ALIGN: tl.constexpr):
    """For columns: which are turned, which are of the lower half, their pair, their partner."""
    if ALIGN > 1:
        # Whole vectors are turned or not, and of one half.
        turns = col // COLUMNS >= first // COLUMNS
        lower = col // COLUMNS < (first + half) // COLUMNS
    else:
        turns = col >= first
        lower = col < first + half
    pair = tl.where(lower, col - first, col - first - half)
    partner = tl.where(turns, tl.where(lower, col + half, col - half), col)
    if ALIGN > 1:
        pair = tl.max_contiguous(tl.multiple_of(pair, COLUMNS), COLUMNS)
        partner = tl.max_contiguous(tl.multiple_of(partner, COLUMNS), COLUMNS)
    return turns[None, :], lower[None, :], pair, partner


@triton.jit(
    do_not_specialize=[
        "k_programs", "n_rows", "eps", "k_heads", "q_heads", "q_blocks", "k_strides",
        "weight_stride", "table_rows", "stride_row", "first", "half",
    ],
    do_not_specialize_on_alignment=[
        "q_ptr", "k_ptr", "weight_ptr", "position_ptr", "table_ptr"
    ],
)  # fmt: skip
def _k_rms_norm_rope_kernel(
    k_programs,
    q_ptr,
    k_ptr,
    weight_ptr,
    position_ptr,
    table_ptr,
    out_ptr,
    n_rows,
    eps,
    k_heads,
    q_heads,
    q_blocks,
    q_strides,
    k_strides,
    weight_stride,
    table_rows,
    stride_row,
    first,
    half,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    SIZE: tl.constexpr,
    LANES: tl.constexpr,
    WARPS: tl.constexpr,
    FLAT: tl.constexpr,
    PAIR_ALIGN: tl.constexpr,
    HALF: tl.constexpr,
    Q_ALIGN: tl.constexpr,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    if tl.program_id(0) < k_programs:
        row, token, head = place(k_heads, ROWS, FLAT)
        col = tl.arange(0, HEAD_DIM)
        mask = (row < n_rows)[:, None]
        turns, lower, pair, partner = _partners(col, first, half, PAIR_ALIGN)
        x, weight = head_and_weight(
            k_ptr, weight_ptr, token, head, col, mask, k_strides, weight_stride, UNIT, ALIGN
        )
        # The partners are loaded and normalised once more, which is quicker than exchanging them.
        x_other, weight_other = head_and_weight(
            k_ptr, weight_ptr, token, head, partner, mask, k_strides, weight_stride, UNIT,
            ALIGN if PAIR_ALIGN > 1 else 1,
        )  # fmt: skip
        position = tl.load(position_ptr + token, mask=row < n_rows, other=-1)[:, None]
        exists = mask & turns & (position >= 0) & (position < table_rows)
        cos_at = table_ptr + position * stride_row + pair[None, :]
        cos = tl.load(tl.multiple_of(cos_at, (1, PAIR_ALIGN)), mask=exists, other=float("nan"))
        sin_at = tl.multiple_of(cos_at + half, (1, PAIR_ALIGN))
        sin = tl.load(sin_at, mask=exists, other=float("nan"))

        inverse = inverse_rms(x, 1.0 / HEAD_DIM, eps, SIZE, LANES, WARPS)
        inverse_other = inverse
        if inverse.shape[1] > 1:
            at = tl.broadcast_to(partner[None, :], inverse.shape)
            inverse_other = tl.gather(inverse, at, 1)
        # What the first of the two launches stores and the second one loads.
        dtype: tl.constexpr = out_ptr.dtype.element_ty
        own = (x * inverse * weight).to(dtype).to(tl.float32)
        other = (x_other * inverse_other * weight_other).to(dtype).to(tl.float32)
        out1, out2 = rotated(tl.where(lower, own, other), tl.where(lower, other, own), cos, sin)
        out = tl.where(turns, tl.where(lower, out1, out2), own)
        out_at = out_ptr + row[:, None] * HEAD_DIM + col[None, :]
        tl.store(out_at, out.to(dtype), mask=mask)
    else:
        program = tl.program_id(0) - k_programs
        query = (program // q_blocks).to(tl.int64)
        q_row = q_ptr + query * q_strides[0]
        x1_at, x2_at, q_pair, is_pair = pairs(
            q_row, q_row, q_strides, q_strides, q_heads, 0, q_heads, program % q_blocks,
            first, half, HALF, Q_ALIGN, BLOCK,
        )  # fmt: skip
        x1 = tl.load(x1_at, mask=is_pair, other=0.0)
        x2 = tl.load(x2_at, mask=is_pair, other=0.0)
        y1, y2 = turned(
            x1, x2, q_pair, is_pair, tl.load(position_ptr + query), half,
            table_ptr, table_rows, stride_row, HALF, Q_ALIGN,
        )  # fmt: skip
        tl.store(x1_at, y1.to(q_ptr.dtype.element_ty), mask=is_pair)
        tl.store(x2_at, y2.to(q_ptr.dtype.element_ty), mask=is_pair)


@launcher(compares=("q", "k"))
def k_rms_norm_rope(
    q: torch.Tensor,
    k: torch.Tensor,
    weight: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    eps: float = 1e-5,
) -> Launch[torch.Tensor]:
    """Normalise and rotate the heads of k; rotate those of q in place.

    Args:
        q: bf16, f16 or f32 [tokens, heads, head_dim], any strides whose elements do not overlap;
            no memory of `k`.
        k: like `q`, with 1 to 8 heads, any strides; head_dim a power of two from 16 to 512.
        weight: bf16, f16 or f32 [head_dim], any stride.
        positions: int64 [tokens], contiguous. A position without a row in `cos_sin` gives NaN.
        cos_sin: f32 [rows, rope_dim], contiguous rows of cosines, then sines; rope_dim is even
            and at most head_dim.
        eps: added to the mean; rounded from f64 to f32.

    Returns:
        The new k, contiguous.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong rank, layout, shape or device.
    """
    check_heads("k", k, weight)
    check_number("eps", eps)
    heads_of("q", check_float_tensor("q", q, (k.dtype,)), None)
    check_tensor("cos_sin", cos_sin, torch.float32, 2)
    check_table(cos_sin, k.shape[2])
    check_tokens(q, k, positions, None, None)
    for name, x in (("q", q), ("positions", positions), ("cos_sin", cos_sin)):
        if x.device != k.device:
            raise ValueError(f"{name}: device {x.device} is not accepted; k is on {k.device}")
    out = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    if not k.numel():
        return Launch(out)
    return _planned(q, k, weight, positions, cos_sin, f32_constant(eps), out)


def _planned(
    q: torch.Tensor,
    k: torch.Tensor,
    weight: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    eps: float,
    out: torch.Tensor,
) -> Launch[torch.Tensor]:
    half = cos_sin.shape[1] // 2
    constants = tile(k, _WARPS)
    n_rows = k.shape[0] * k.shape[1]
    k_programs = triton.cdiv(n_rows, constants["ROWS"])
    q_blocks = triton.cdiv(q.shape[1] * half, _BLOCK)
    programs = k_programs + q.shape[0] * q_blocks
    aligned = halves_aligned(cos_sin, q)
    flat = k.shape[1] == 1  # A row is a token, which has a position.
    return Launch(
        out,
        _k_rms_norm_rope_kernel,
        (programs,),
        k_programs,
        q,
        k,
        weight,
        positions,
        cos_sin,
        out,
        n_rows,
        eps,
        k.shape[1],
        q.shape[1],
        q_blocks,
        q.stride(),
        row_strides(k, flat),
        weight.stride(0),
        cos_sin.shape[0],
        cos_sin.stride(0),
        k.shape[2] - 2 * half,
        half,
        UNIT=unit(k) and unit(weight),
        ALIGN=VECTOR if are_aligned(k, weight) else 1,
        **constants,
        FLAT=flat,
        PAIR_ALIGN=VECTOR if halves_aligned(cos_sin, k) else 1,
        HALF=half if aligned else 0,
        Q_ALIGN=VECTOR if aligned else 1,
        BLOCK=_BLOCK,
        **options(programs, k, _WARPS),
    )


def _positions(low: int, end: str) -> IntegerTensor:
    return IntegerTensor(INTEGERS["i64"], ("tokens",), low, end)


_DIM = "16*2**log_dim"
_HEADS = {"q_heads": 6, "k_heads": 1, "half": 32, "log_dim": 4}

_INPUTS = Inputs(
    {
        "tokens": (0, 40),
        "rows": (0, 80),
        "q_heads": (0, 12),
        "k_heads": HEADS,
        "half": (1, 256),
        "log_dim": (0, 5),
    },
    {
        "q": Tensor("format", ("tokens", "q_heads", _DIM), layouts=tuple(Layout)),
        "k": Tensor("format", ("tokens", "k_heads", _DIM), layouts=tuple(Layout)),
        "weight": Tensor("weight_format", (_DIM,), layouts=tuple(Layout)),
        "positions": _positions(-1, "rows+1"),  # from one row before the table to one behind it
        "cos_sin": Tensor(f32, ("rows", "2*half")),
    },
    {"eps": EPS},
    {"format": (f32, bf16, f16), "weight_format": (bf16, f32, f16)},
    at_most={"half": "8*2**log_dim"},
)

CLAIM = Claim(
    kernel=k_rms_norm_rope,
    reference="k_rms_norm_rope:k_rms_norm_rope",
    inputs=_INPUTS,
    cases=[
        {"tokens": 20, "rows": 50, **_HEADS, "format": "bf16"},
        {"tokens": 20, "rows": 20, **_HEADS, "half": 16, "log_dim": 3},
        {"tokens": 9, "rows": 5, "q_heads": 3, "k_heads": 3, "half": 6, "log_dim": 2},
        {"tokens": 5, "rows": 6, "q_heads": 8, "k_heads": 8, "half": 256, "log_dim": 5},
    ],
    outputs=("k_out",),
    mutates={"q": "q_out"},
    allows=("fma", "rsqrt.approx.ftz"),
    equivalent={"inverse_rms:mean_eps=fma(normed > normal) uncontracted": UNCONTRACTED_MEAN},
    bench=[
        Bench(
            name="k_rms_norm_rope",
            inputs=replace(
                _INPUTS, tensors={**_INPUTS.tensors, "positions": _positions(0, "rows")}
            ),
            sizes={"tokens": "tokens", "rows": POSITIONS, **_HEADS, "format": "bf16"},
            bytes="tokens*(2*256*2 + 2*6*64*2 + 64*4 + 8) + 256*2",
            against={"chain": "_torch_chains:k_rms_norm_rope"},
        )
    ],
)
