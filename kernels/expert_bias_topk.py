"""The experts of each token in one launch: the largest sums score + bias, in descending order.

A NaN score counts as −∞; a NaN sum is never selected. Ties go by tie_rank = lane · (N / 32) + local
for expert e of N, lane = (e mod 128) div 4, local = (e div 128) · 4 + e mod 4. Returned are the
scores without bias. When no number is left to select, the id is N + 1 and the weight −∞.

The sums become integers that are ordered as the numbers are, both zeros the same; a selection is
the largest of them, then the smallest tie_rank that has it. Nothing is summed but score and bias.
A warp holds a row: a lane has four experts of each 128, and knows the best of every four. After a
selection only the four of that group are compared again.

Baseline: WeLMv4's `mmq_style_expert_bias_topk` (`references/expert_bias_topk.py`).
"""

import torch
import triton
import triton.language as tl

from exactness.claim import Bench, Claim
from exactness.formats import f32
from exactness.inputs import Inputs, Layout, Tensor
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


@triton.jit
def _better(key, rank, later_key, later_rank):
    """The pair with the larger key; of equal ones the first, which has the smaller rank."""
    later = later_key > key
    return tl.where(later, later_key, key), tl.where(later, later_rank, rank)


@triton.jit
def _best_of_four(key, rank):
    """The best of each row [32, 4] of keys and ascending ranks, [32]."""
    key, later_key = tl.split(tl.reshape(key, (32, 2, 2)))
    rank, later_rank = tl.split(tl.reshape(rank, (32, 2, 2)))
    key, rank = _better(key, rank, later_key, later_rank)
    key, later_key = tl.split(key)
    rank, later_rank = tl.split(rank)
    return _better(key, rank, later_key, later_rank)


@triton.jit
def _at(ptr, expert, stride, UNIT: tl.constexpr, ALIGN: tl.constexpr):
    """Where experts' elements lie; `ALIGN` bytes are promised where UNIT."""
    if UNIT:
        return tl.multiple_of(ptr + expert, (ALIGN,))
    else:
        return ptr + expert.to(tl.int64) * stride


@triton.jit(
    do_not_specialize=["topk", "stride_sm", "stride_sn", "stride_b"],
    do_not_specialize_on_alignment=["scores_ptr", "bias_ptr", "weights_ptr", "ids_ptr"],
)
def _expert_bias_topk_kernel(
    scores_ptr,
    bias_ptr,
    weights_ptr,
    ids_ptr,
    topk,
    stride_sm,
    stride_sn,
    stride_b,
    GROUPS: tl.constexpr,
    UNIT: tl.constexpr,
    ALIGN: tl.constexpr,
    EARLY: tl.constexpr,
):
    start(EARLY)
    row = tl.program_id(0).to(tl.int64)
    scores_row = scores_ptr + row * stride_sm
    member = tl.arange(0, 128)
    a_lane: tl.constexpr = GROUPS * 4
    scores, biases = (), ()
    for group in tl.static_range(GROUPS):
        expert = group * 128 + member
        scores += (tl.load(_at(scores_row, expert, stride_sn, UNIT, ALIGN)),)
        biases += (tl.load(_at(bias_ptr, expert, stride_b, UNIT, ALIGN)),)

    # By group: the keys and tie_ranks of four experts a lane, and the best of these.
    keys, ranks, best_keys, best_ranks = (), (), (), ()
    for group in tl.static_range(GROUPS):
        key = tl.reshape(_key(_without_nan(scores[group]) + biases[group]), (32, 4))
        rank = tl.reshape(member // 4 * a_lane + group * 4 + member % 4, (32, 4))
        best_key, best_rank = _best_of_four(key, rank)
        keys += (key,)
        ranks += (rank,)
        best_keys += (best_key,)
        best_ranks += (best_rank,)

    place = tl.arange(0, _MAX_TOPK)
    selected = tl.full([_MAX_TOPK], -1, tl.int32)
    for k in range(topk):
        lane_key, lane_rank = best_keys[0], best_ranks[0]
        for group in tl.static_range(1, GROUPS):
            lane_key, lane_rank = _better(lane_key, lane_rank, best_keys[group], best_ranks[group])
        largest = tl.max(lane_key, axis=0)
        first = tl.min(tl.where(lane_key == largest, lane_rank, GROUPS * 128), axis=0)
        selected = tl.where((place == k) & (largest > _NEVER), first, selected)
        left, left_keys, left_ranks = (), (), ()
        for group in tl.static_range(GROUPS):
            key, best_key, best_rank = keys[group], best_keys[group], best_ranks[group]
            if first % a_lane // 4 == group:
                key = tl.where(ranks[group] == first, _NEVER, key)
                best_key, best_rank = _best_of_four(key, ranks[group])
            left += (key,)
            left_keys += (best_key,)
            left_ranks += (best_rank,)
        keys, best_keys, best_ranks = left, left_keys, left_ranks

    found = selected >= 0
    local = selected % a_lane
    index = local // 4 * 128 + selected // a_lane * 4 + local % 4
    mask = place < topk
    at = scores_row + index.to(tl.int64) * stride_sn
    weight = _without_nan(tl.load(at, mask=mask & found, other=float("-inf")))
    out = row * topk + place
    tl.store(weights_ptr + out, weight, mask=mask)
    tl.store(ids_ptr + out, tl.where(found, index, GROUPS * 128 + 1).to(tl.int64), mask=mask)


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
    # One warp a row: both reductions of a selection stay in it.
    return Launch(
        (weights, ids),
        _expert_bias_topk_kernel,
        (rows,),
        scores,
        bias,
        weights,
        ids,
        topk,
        scores.stride(0),
        scores.stride(1),
        bias.stride(0),
        GROUPS=experts // _GROUP,
        UNIT=unit,
        ALIGN=VECTOR if unit and aligned else 1,
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
            "scores": Tensor(f32, ("rows", "128*groups"), _SCORES, tuple(Layout)),
            "bias": Tensor(f32, ("128*groups",), _BIASES, tuple(Layout)),
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
