"""The experts of each token in one launch: the largest sums score + bias, in descending order.

A NaN score counts as −∞; a NaN sum is never selected. Ties go by tie_rank = lane · (N / 32) + local
for expert e of N, lane = (e mod 128) div 4, local = (e div 128) · 4 + e mod 4. Returned are the
scores without bias. When no number is left to select, the id is N + 1 and the weight −∞.

The sums become integers that are ordered as the numbers are, both zeros the same; a selection is
the largest of them, then the smallest tie_rank that has it. Nothing is summed but score and bias.

Baseline: WeLMv4's `mmq_style_expert_bias_topk` (`references/expert_bias_topk.py`).
"""

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim
from exactness.formats import f32
from exactness.inputs import Inputs, Tensor
from exactness.launching import Launch, launcher

from ._host import check_tensor
from ._layout import VECTOR
from ._math import maximum
from ._start import options, start

_GROUP = 128
_MAX_EXPERTS = 1024
_MAX_TOPK: tl.constexpr = tl.constexpr(32)
_NEVER: tl.constexpr = tl.constexpr(-(2**31))
"""Below every number: the key of a NaN sum, and of an expert that was selected."""


@triton.jit
def _key(x):
    """An int32 that is ordered as the number is; NaN is below −∞, −0 equals +0."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)  # −0 becomes +0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return tl.where(x == x, ordered, _NEVER)


@triton.jit
def _without_nan(score):
    return maximum(score, float("-inf"))


@triton.jit(
    do_not_specialize=["groups", "topk", "stride_sm", "stride_sn", "stride_b"],
    do_not_specialize_on_alignment=["scores_ptr", "bias_ptr", "weights_ptr", "ids_ptr"],
)
def _expert_bias_topk_kernel(
    scores_ptr,
    bias_ptr,
    weights_ptr,
    ids_ptr,
    groups,
    topk,
    stride_sm,
    stride_sn,
    stride_b,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    row = tl.program_id(0).to(tl.int64)
    experts = groups * 128
    a_lane = groups * 4
    expert = tl.arange(0, BLOCK)
    scores_row = scores_ptr + row * stride_sm
    if UNIT:
        score_at = tl.multiple_of(scores_row + expert, (ALIGN,))
        bias_at = tl.multiple_of(bias_ptr + expert, (ALIGN,))
    else:
        score_at = scores_row + expert.to(tl.int64) * stride_sn
        bias_at = bias_ptr + expert.to(tl.int64) * stride_b
    exists = expert < experts
    score = _without_nan(tl.load(score_at, mask=exists, other=0.0))
    key = tl.where(exists, _key(score + tl.load(bias_at, mask=exists, other=0.0)), _NEVER)

    tie_rank = (expert % 128) // 4 * a_lane + expert // 128 * 4 + expert % 4
    place = tl.arange(0, _MAX_TOPK)
    selected = tl.full([_MAX_TOPK], -1, tl.int32)
    for k in range(topk):
        best = tl.max(key, axis=0)
        first = tl.min(tl.where(key == best, tie_rank, experts), axis=0)
        selected = tl.where((place == k) & (best > _NEVER), first, selected)
        key = tl.where(tie_rank == first, _NEVER, key)

    found = selected >= 0
    lane = selected // a_lane
    local = selected % a_lane
    index = local // 4 * 128 + lane * 4 + local % 4
    mask = place < topk
    at = scores_row + index.to(tl.int64) * stride_sn
    weight = _without_nan(tl.load(at, mask=mask & found, other=float("-inf")))
    out = row * topk + place
    tl.store(weights_ptr + out, weight, mask=mask)
    tl.store(ids_ptr + out, tl.where(found, index, experts + 1).to(tl.int64), mask=mask)


@launcher
def expert_bias_topk(
    scores: torch.Tensor, bias: torch.Tensor, topk: int
) -> Launch[tuple[torch.Tensor, torch.Tensor]]:
    """Select the experts of each row by score + bias, with WeLM's bits and order.

    Args:
        scores: f32 [rows, experts], any strides; experts a multiple of 128 up to 1024.
        bias: f32 [experts], any stride.
        topk: 1 to 32.

    Returns:
        The scores without bias, f32 [rows, topk], and the ids, int64 [rows, topk], in the order of
        selection; both contiguous.

    Raises:
        TypeError: wrong dtype or type of an argument.
        ValueError: wrong rank, layout, shape, device or `topk`.
    """
    check_tensor("scores", scores, torch.float32, 2)
    check_tensor("bias", bias, torch.float32, 1)
    rows, experts = scores.shape
    if not 0 < experts <= _MAX_EXPERTS or experts % _GROUP:
        raise ValueError(
            f"scores: shape {tuple(scores.shape)} is not accepted; "
            f"[rows, a multiple of {_GROUP} up to {_MAX_EXPERTS}] is"
        )
    if bias.shape != (experts,):
        raise ValueError(f"bias: shape {tuple(bias.shape)} is not accepted; {(experts,)} is")
    if bias.device != scores.device:
        raise ValueError(
            f"bias: device {bias.device} is not accepted; scores is on {scores.device}"
        )
    _check_topk(topk)
    weights = torch.empty((rows, topk), dtype=torch.float32, device=scores.device)
    ids = torch.empty((rows, topk), dtype=torch.int64, device=scores.device)
    if not rows:
        return Launch((weights, ids))
    unit = scores.stride(1) == bias.stride(0) == 1
    aligned = all(
        byte % VECTOR == 0 for byte in (scores.data_ptr(), bias.data_ptr(), 4 * scores.stride(0))
    )
    block = triton.next_power_of_2(experts)
    # One warp a row: both reductions of a selection stay in it.
    return Launch(
        (weights, ids),
        _expert_bias_topk_kernel,
        (rows,),
        scores,
        bias,
        weights,
        ids,
        experts // _GROUP,
        topk,
        scores.stride(0),
        scores.stride(1),
        bias.stride(0),
        UNIT=unit,
        ALIGN=VECTOR if unit and aligned else 1,
        BLOCK=block,
        **options(rows, scores, 1),
    )


def _check_topk(topk: object) -> None:
    if isinstance(topk, bool) or not isinstance(topk, int):
        raise TypeError(f"topk: got {type(topk).__name__}; an int is accepted")
    if not 1 <= topk <= _MAX_TOPK.value:
        raise ValueError(f"topk: {topk} is not accepted; 1 to {_MAX_TOPK.value} is")


# Few values: ties at the last place, and rows with fewer numbers than are selected. Tiny scores
# beside a large bias: sums that are equal only after their rounding.
_COMMON = ("few_values", "normal", "specials", "any_pattern")
_SCORES = (*_COMMON, "log_spaced", "underflowing", "subnormal")
_BIASES = (*_COMMON, "constant")

CLAIM = Claim(
    kernel=expert_bias_topk,
    reference="expert_bias_topk:expert_bias_topk",
    golden="topk",
    inputs=Inputs(
        {"rows": (0, 200), "groups": (1, 8)},
        {
            "scores": Tensor(f32, ("rows", "128*groups"), _SCORES),
            "bias": Tensor(f32, ("128*groups",), _BIASES),
        },
        {"topk": (10, 1, 2, 8, 17, 32)},
    ),
    cases=[
        {"rows": 5, "groups": 1},
        {"rows": 9, "groups": 4},
        {"rows": 3, "groups": 7, "topk": 32},
    ],
    outputs=("weights", "ids"),
    parameters={"topk": 10},
    bench=[
        Bench(
            name="expert_bias_topk",
            sizes={"rows": "tokens", "groups": 4},
            bytes="4*rows*128*groups+4*128*groups+rows*topk*12",
            flops="rows*128*groups",
            against={"chain": "_torch_chains:expert_bias_topk"},
        )
    ],
)
