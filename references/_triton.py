"""Functions of Triton's standard library as they are compiled for sm_90.

Baseline: triton-lang/triton, tag v3.6.0: python/triton/language/math.py (exp) and standard.py
(sigmoid); the instructions are those of the PTX that Triton 3.6 emits.
"""

from __future__ import annotations

import math

from exactness.arithmetic import Value, div_full, ex2_approx

LOG2E = math.log2(math.e)


def exp(x: Value) -> Value:
    """`tl.exp` of f32: ex2.approx of the rounded product with log2(e)."""
    scaled = x * LOG2E
    return ex2_approx(scaled, ftz=False)


def sigmoid(x: Value) -> Value:
    """`tl.sigmoid` of f32: 1 / (1 + exp(−x)), the division div.full.

    Triton negates as 0 − x, which differs in the sign of a zero; its exponential is 1 all the same.
    """
    denominator = 1.0 + exp(-x)
    return div_full(1.0, denominator)
