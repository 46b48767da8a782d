"""Device side of RMS norms: Triton's sum of squares, its order and its contractions written out.

A row lies in `repeats` steps over `warps` · `lanes` threads that hold `size` neighbours each:
element ((r·warps + w)·lanes + l)·size + v. A thread goes through its elements in that order, the
lanes and then the warps join in halves, the largest distance first. Triton 3.6 compiles
`tl.sum(h * h)` with fusion on to this; here nothing is left to a layout or to ptxas.
"""

import triton
import triton.language as tl

from ._math import add


@triton.jit
def inverse_rms(h, inv_n, eps, SIZE: tl.constexpr, LANES: tl.constexpr, WARPS: tl.constexpr):
    """1 / √(mean(h²) + eps) of each row of [ROWS, n]: [ROWS, 1], or [ROWS, n] where it varies."""
    if h.shape[1] == 1:
        mean = tl.fma(h, h, eps)
    else:
        mean = tl.fma(_sum_of_squares(h, SIZE, LANES, WARPS), inv_n, eps)
    return _rsqrt(mean)


@triton.jit
def _rsqrt(x):
    return tl.inline_asm_elementwise(
        "rsqrt.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _sum_of_squares(h, SIZE: tl.constexpr, LANES: tl.constexpr, WARPS: tl.constexpr):
    ROWS: tl.constexpr = h.shape[0]
    THREADS: tl.constexpr = LANES * WARPS
    REPEATS: tl.constexpr = h.shape[1] // (THREADS * SIZE)
    if REPEATS * SIZE > 1:
        steps = tl.permute(tl.reshape(h, [ROWS, REPEATS, THREADS, SIZE]), (0, 2, 1, 3))
        partial = _in_thread(tl.reshape(steps, [ROWS * THREADS, REPEATS * SIZE]))
        total = _over_warps(_over_lanes(partial, LANES), WARPS)
        return tl.reshape(total, [ROWS, 1])
    else:
        return _sum_of_single(h, LANES, WARPS)


@triton.jit
def _sum_of_single(h, LANES: tl.constexpr, WARPS: tl.constexpr):
    """One element a thread: the first exchange contracts, so the halves of the lanes differ."""
    ROWS: tl.constexpr = h.shape[0]
    lower, upper = _halves(tl.reshape(h, [ROWS * WARPS, LANES]))
    low = _exchanged(lower, upper, LANES)
    if WARPS > 1:
        # Lane 0 hands its warp's sum to the others.
        return tl.reshape(_over_warps(low, WARPS), [ROWS, 1])
    else:
        high = _exchanged(upper, lower, LANES)
        is_low = tl.arange(0, LANES)[None, :] < LANES // 2
        return tl.where(is_low, tl.reshape(low, [ROWS, 1]), tl.reshape(high, [ROWS, 1]))


@triton.jit
def _halves(x):
    """The left and the right half of each row."""
    halves = tl.reshape(x, [x.shape[0], 2, x.shape[1] // 2])
    return tl.split(tl.permute(halves, (0, 2, 1)))


@triton.jit
def _elements(held):
    """The columns of [threads, elements], one by one."""
    if held.shape[1] == 1:
        return (tl.reshape(held, [held.shape[0]]),)
    else:
        left, right = _halves(held)
        return _elements(left) + _elements(right)


@triton.jit
def _in_thread(held):
    """Of elements e0, e1 …: e1² is rounded; e0, then e2, e3 … are contracted onto it."""
    e = _elements(held)
    acc = tl.fma(e[0], e[0], e[1] * e[1])
    for i in tl.static_range(2, held.shape[1]):
        acc = tl.fma(e[i], e[i], acc)
    return acc


@triton.jit
def _exchanged(own, partner, LANES: tl.constexpr):
    """One element a thread: its square is contracted onto its partner's, which was rounded."""
    pair = tl.fma(own, own, partner * partner)
    return _over_lanes(tl.reshape(pair, [pair.shape[0] * pair.shape[1]]), LANES // 2)


@triton.jit
def _over_lanes(partial, LANES: tl.constexpr):
    """[groups · LANES] to [groups], two operands at a time; a shuffle each."""
    if LANES == 1:
        return partial
    else:
        half: tl.constexpr = partial.shape[0] // 2
        pairs = tl.reshape(partial, [partial.shape[0] // LANES, 2, LANES // 2])
        return _over_lanes(tl.reshape(tl.reduce(pairs, 1, add), [half]), LANES // 2)


@triton.jit
def _over_warps(partial, WARPS: tl.constexpr):
    """[rows · WARPS] to [rows]; a split, so that all sums are exchanged at once."""
    if WARPS == 1:
        return partial
    else:
        half: tl.constexpr = partial.shape[0] // 2
        lower, upper = _halves(tl.reshape(partial, [partial.shape[0] // WARPS, WARPS]))
        return _over_warps(tl.reshape(lower + upper, [half]), WARPS // 2)
