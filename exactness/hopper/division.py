"""Triton's `/` on f32: `div.full.f32` as ptxas expands it for sm_90.

The quotient is f32(a · MUFU.RCP(b)), two roundings. So that the reciprocal is a normal number,
both operands are first multiplied by 2^-2 where |b| > 2^126, and, in the form without `.ftz`, by
2^24 where b is subnormal.

Source: the SASS of ptxas 13.0 for sm_90; 12.3 million random pairs and 65,536 gates recorded on
an H200. ptxas may replace a division by a constant altogether: the PTX alone does not show it.
"""

from __future__ import annotations

import numpy as np

from exactness import arrays
from exactness.arrays import Array
from exactness.blocks import in_blocks
from exactness.hopper.flush import mul_ftz
from exactness.hopper.special import rcp_approx, require_f32, scale_for_reciprocal


@in_blocks
def div_full(a: Array, b: Array, *, ftz: bool) -> Array:
    """Quotient with at most 2 ulp of error: `div.full.f32` or `div.full.ftz.f32`.

    Args:
        a: dividend, f32, any shape; a NumPy array or a CUDA tensor.
        b: divisor, f32, the shape of `a` or one that broadcasts with it.
        ftz: flush subnormal operands, intermediates and results to zeros of their sign.

    Returns:
        f32 of the broadcast shape.

    Raises:
        TypeError: `a` or `b` is not f32.
    """
    require_f32(a=a, b=b)
    with np.errstate(all="ignore"):
        return _div_full_ftz(a, b) if ftz else _div_full(a, b)


def _div_full(a: Array, b: Array) -> Array:
    return scale_for_reciprocal(a, b) * rcp_approx(scale_for_reciprocal(b, b), ftz=True)


def _div_full_ftz(a: Array, b: Array) -> Array:
    # Operands that are subnormal, or become so, are flushed by the last multiplication.
    huge = abs(b) > 2.0**126
    a = arrays.where(huge, a * 0.25, a)
    return mul_ftz(a, rcp_approx(arrays.where(huge, b * 0.25, b), ftz=True))
