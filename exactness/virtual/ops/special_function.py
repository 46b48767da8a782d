"""The special-function unit and what is built on it: ex2, rsqrt, rcp, sqrt, div.full, div.approx.

The bits come from `exactness.hopper`. lg2, sin, cos and tanh have no bit model and raise.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from exactness.formats import f32
from exactness.virtual import floats
from exactness.virtual.builder import Builder
from exactness.virtual.instructions import Instruction
from exactness.virtual.operation import Operation
from exactness.virtual.ops.common import (
    Decoder,
    elementwise,
    expect_operands,
    flags_of,
    single_type,
)
from exactness.virtual.state import Bits


def quotient(ins: Instruction, b: Builder, flags: frozenset[str]) -> Operation:
    """div.full and div.approx on f32."""
    from exactness.hopper import division

    single_type(ins, b, {"f32"})
    if len(flags - {"ftz"}) != 1:
        raise b.unsupported(ins, "two kinds of division at once")
    model, ftz = division.div_full if "full" in flags else div_approx, "ftz" in flags

    def function(x: Bits, y: Bits) -> Bits:
        x, y = np.broadcast_arrays(floats.load_f32(x), floats.load_f32(y))
        return floats.store_f32(np.asarray(model(x, y, ftz=ftz)))

    return elementwise(ins, b, function, 32, is_float=True)


def div_approx(x: Bits, y: Bits, *, ftz: bool) -> Bits:
    """f32(x · MUFU.RCP(y)), both first scaled by 2^24 where y is zero or subnormal.

    Unlike div.full it does not scale large divisors: above 2^126 the reciprocal is flushed.

    Source: the SASS of ptxas 13.0 for sm_90.
    """
    from exactness.hopper import flush, special

    if ftz:
        return flush.mul_ftz(x, special.rcp_approx(y, ftz=True))
    small = np.abs(y) < f32.smallest_normal
    scale = np.where(small, np.float32(2.0**24), np.float32(1))
    return np.asarray(x * scale * special.rcp_approx(y * scale, ftz=True))


def special_function(function_name: str) -> Decoder:
    """An approximate f32 function, with the bits of `exactness.hopper`."""

    def decode(ins: Instruction, b: Builder) -> Operation:
        from exactness.hopper import special

        expect_operands(ins, b, 2)
        flags = flags_of(ins, b, {"approx", "ftz"})
        if "approx" not in flags:
            raise b.unsupported(ins, "it needs .approx")
        single_type(ins, b, {"f32"})
        model, ftz = getattr(special, function_name), "ftz" in flags
        return elementwise(
            ins,
            b,
            lambda x: floats.store_f32(np.asarray(model(floats.load_f32(x), ftz=ftz))),
            32,
            is_float=True,
        )

    return decode


def _no_model(ins: Instruction, b: Builder) -> Operation:
    raise b.unsupported(ins, "no bit model of this function is known")


TABLE: Mapping[str, Decoder] = {
    "rsqrt": special_function("rsqrt_approx"),
    "ex2": special_function("ex2_approx"),
    "lg2": _no_model,
    "sin": _no_model,
    "cos": _no_model,
    "tanh": _no_model,
}
