"""Attention with sinks: causal or windowed, with one more term in each row's denominator.

Baseline: LinyuanLi0046/sglang, commit 4ca5bcf, its copy of SGLang's unified extend kernel
(`_fwd_kernel_unified`, extend_attention.py) as Triton 3.6 compiles it for sm_90: 128 rows, 64 keys
a tile, 8 warps, fusion on.
"""

from __future__ import annotations

import math

import numpy as np

from exactness import arrays
from exactness.arithmetic import (
    Order,
    Value,
    cast,
    concatenate,
    constant,
    div_full,
    dot,
    equal,
    fma,
    launch,
    max_,
    maximum,
    sum_,
    where,
    words,
)
from exactness.arithmetic.orders import columns, halving
from exactness.arrays import Array
from exactness.formats import INTEGERS, f32

from ._triton import exp

SCALE = 256**-0.5 * (0.1 * math.log(8.0) + 1.0) ** 2
"""Of WeLMv4: the head's width and YaRN's attention factor at a scaling of 8."""

_ROWS, _KEYS = 128, 64
_ALL_MASKED = -1e20


def row_order() -> Order:
    """`tl.sum` along 64 columns of an accumulator of `wgmma`.

    Of eight columns, lane l of four holds 2·l and 2·l + 1; a lane adds its elements in the order of
    its registers, then lanes at distance 2 join, then at distance 1.
    """
    lane, group, element = np.meshgrid(np.arange(4), np.arange(8), np.arange(2), indexing="ij")
    members = (8 * group + 2 * lane + element).reshape(4, 16)
    return columns(members, _KEYS, "in registers").then(halving(4), "wgmma accumulator")


def visible(like: Array, queries: range, keys: range, window: int) -> Array:
    """A plain array: which keys each query of a block sees, [queries, keys]."""
    numbers = np.arange(queries.start, queries.stop)[:, None], np.arange(keys.start, keys.stop)
    query, key = words(INTEGERS["i32"], *(arrays.index_array(like, x) for x in numbers))
    causal = key <= query
    recent = query <= key + window
    return causal & recent


def attention(q: Value, k: Value, v: Value, sinks: Value, window: int, scale: float) -> Value:
    """As `attention_sink`, but f32."""
    sink = cast(sinks, f32).reshape(-1, 1, 1)
    heads = [x.swapaxes(0, 1) for x in (q, k, v)]
    tokens = q.shape[0]
    blocks = []
    for start in range(0, max(tokens, 1), _ROWS):
        queries = range(start, min(start + _ROWS, tokens))
        rows = block(*heads, sink, queries, window, scale)
        blocks.append(rows.swapaxes(0, 1))
    return concatenate(blocks, axis=0)


def block(
    q: Value, k: Value, v: Value, sink: Value, queries: range, window: int, scale: float
) -> Value:
    """The rows of one block, [heads, rows, dim], over the tiles that any of them sees."""
    rows = q[:, queries.start : queries.stop]
    zero = constant(0.0, f32, q)
    total = zero.broadcast_to(*rows.shape)
    running = constant(-math.inf, f32, q).broadcast_to(*rows.shape[:2], 1)
    denominator = zero.broadcast_to(*rows.shape[:2], 1)
    for first in range(0, queries.stop, _KEYS):
        keys = range(first, min(first + _KEYS, k.shape[1]))
        mask = visible(q.payload, queries, keys, window)
        if not bool(mask.any()):
            continue
        tile = slice(keys.start, keys.stop)
        product = dot(rows, k[:, tile].swapaxes(1, 2))
        scores = where(mask, product * scale, -math.inf)
        scores = padded(scores, -math.inf)
        best = max_(scores, order=halving(_KEYS))
        best = where(equal(best, -math.inf), constant(_ALL_MASKED, f32, best), best)
        new = maximum(best, running)
        rescale = exp(running - new)
        weights = exp(scores - new)
        denominator = fma(denominator, rescale, sum_(weights, order=row_order()))
        narrow = cast(weights, v.format)
        total = dot(narrow[..., : len(keys)], v[:, tile], total * rescale)
        running = new
    denominator = denominator + exp(sink - running)
    return div_full(total, denominator)


def padded(x: Value, filler: float) -> Value:
    """The last dimension filled up to a whole tile."""
    missing = _KEYS - x.shape[-1]
    if not missing:
        return x
    fill = constant(filler, x.format, x).broadcast_to(*x.shape[:-1], missing)
    return concatenate([x, fill])


@launch
def attention_sink(
    q: Value, k: Value, v: Value, sinks: Value, window: int, scale: float = SCALE
) -> Value:
    """Attention of every query to the keys at most `window` before it, its own included.

    Args:
        q: bf16 or f16 [tokens, heads, dim].
        k: like `q` [tokens, 1, dim].
        v: like `q` [tokens, 1, dim].
        sinks: bf16, f16 or f32 [heads].
        window: how far back keys are visible.
        scale: factor of the scores, rounded to f32.

    Returns:
        like `q`.
    """
    out = attention(q, k, v, sinks, window, scale)
    return cast(out, q.format)


@launch
def attention_sink_f32(
    q: Value, k: Value, v: Value, sinks: Value, window: int, scale: float = SCALE
) -> Value:
    """The same stored as f32."""
    return attention(q, k, v, sinks, window, scale)
