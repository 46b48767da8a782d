"""The experts of each token: the largest biased scores, ties in an order of their own.

Baseline: LinyuanLi0046/sglang, commit 4ca5bcf, python/sglang/srt/layers/welmv4_op.py:
`mmq_style_expert_bias_topk_kernel`; one launch. `tl.max` on f32 is `max.f32`, to which a NaN gives
way.
"""

from __future__ import annotations

import math

import numpy as np

from exactness import arrays
from exactness.arithmetic import Value, Word, concatenate, equal, launch, max_, where, words
from exactness.arithmetic.orders import halving, strided
from exactness.arrays import Array
from exactness.formats import INTEGERS

_LANES = 32
_COPIED = 4
"""Neighbouring experts that a lane holds."""


def tie_ranks(expert: Word, experts: int) -> Word:
    """The place of experts among equals: by lane, then by their place in the lane.

    Args:
        expert: u32, numbers from 0 to experts − 1.
        experts: a multiple of 128.

    Returns:
        u32, a permutation of all experts.
    """
    copy = expert // (_LANES * _COPIED)
    within = expert % (_LANES * _COPIED)
    lane = within // _COPIED
    element = within % _COPIED
    first = lane * (experts // _LANES)
    local = copy * _COPIED + element
    return first + local


@launch
def expert_bias_topk(scores: Value, bias: Value, topk: int) -> tuple[Value, Array]:
    """Select by score + bias, one expert after the other; a NaN score counts as −∞.

    A sum that is NaN is never selected. When nothing else is left, the id is experts + 1 and the
    weight −∞, as often as asked for.

    Args:
        scores: f32 [rows, experts], experts a multiple of 128.
        bias: f32 [experts].
        topk: how many to select.

    Returns:
        The scores without bias, f32 [rows, topk], and the ids, int64 [rows, topk], in the order of
        selection.
    """
    rows, experts = scores.shape
    order = strided(experts, 128).then(halving(128), "any: a maximum has no order")
    row = arrays.index_array(scores.payload, np.arange(rows)[:, None])
    expert = arrays.index_array(scores.payload, np.arange(experts))
    rank = tie_ranks(words(INTEGERS["u32"], expert)[0], experts).plain()
    candidates = arrays.full(scores.payload, scores.shape, True, "bool")
    number = where(equal(scores, scores), scores, -math.inf)
    routing = number + bias
    weights, ids = [], []
    for _ in range(topk):
        best = max_(routing, order=order)
        tied = equal(routing, best) & candidates
        first = arrays.smallest(arrays.where(tied, rank, experts + 1), -1)
        chosen = tied & (rank == first)
        index = arrays.smallest(arrays.where(chosen, expert, experts + 1), -1)
        found = index < experts
        weights.append(where(found, number[row, arrays.where(found, index, 0)], -math.inf))
        ids.append(index)
        candidates = candidates & ~chosen
        routing = where(candidates, routing, -math.inf)
    return concatenate(weights), arrays.concatenate(ids, -1)
