"""Hopper's arithmetic: IEEE operations, and the special functions with the H200's bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from exactness.arithmetic.base import Operation
from exactness.arithmetic.ieee import IEEE
from exactness.arithmetic.value import Value
from exactness.arrays import Array
from exactness.formats import f32
from exactness.hopper import cuda_math, division, special

_SPECIAL: Mapping[str, Callable[..., Array]] = {
    "ex2_approx": special.ex2_approx,
    "rsqrt_approx": special.rsqrt_approx,
    "sqrt_approx": special.sqrt_approx,
    "rcp_approx": special.rcp_approx,
    "div_full": division.div_full,
    "expf": cuda_math.expf,
    "tanhf": cuda_math.tanhf,
    "erff": cuda_math.erff,
}


class Hopper(IEEE):
    """What an H200 computes (CONTRACTS, sections 1 and 2)."""

    name = "hopper"

    def perform(self, operation: Operation) -> Value:
        """As `IEEE`, with the special functions on f32.

        Raises:
            TypeError: a special function of another format.
        """
        function = _SPECIAL.get(operation.name)
        if function is None:
            return super().perform(operation)
        if operation.format is not f32:
            raise TypeError(
                f"{operation.name}: operands are {operation.format.name}; f32 is accepted, "
                "cast before and after"
            )
        with np.errstate(all="ignore"):
            payload = function(*operation.payloads, **operation.attributes)
        return Value(self, payload, operation.format)
