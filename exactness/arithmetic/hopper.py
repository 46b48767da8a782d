"""Hopper's arithmetic: IEEE operations, special functions and tensor cores with the H200's bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from exactness import arrays
from exactness.arithmetic.base import Operation
from exactness.arithmetic.ieee import IEEE
from exactness.arithmetic.value import Value
from exactness.arrays import Array
from exactness.formats import f32
from exactness.hopper import cuda_math, division, special, tensor_core

SPECIAL: Mapping[str, Callable[..., Array]] = {
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
    """What an H200 computes (CONTRACTS, sections 1 to 3)."""

    name = "hopper"

    def perform(self, operation: Operation) -> Value:
        """As `IEEE`, with the special functions on f32 and tensor-core products.

        Raises:
            TypeError: a special function of another format.
        """
        function = SPECIAL.get(operation.name)
        if function is None:
            return super().perform(operation)
        if operation.format is not f32:
            raise TypeError(
                f"{operation.name}: operands are {operation.format.name}; f32 is accepted, "
                "cast before and after"
            )
        with np.errstate(all="ignore"):
            # A payload left wider than f32 meets a unit that reads f32 registers.
            operands = [arrays.astype(payload, "float32") for payload in operation.payloads]
            payload = function(*operands, **operation.attributes)
        return Value(self, payload, operation.format)

    def _dot(self, operation: Operation) -> Array:
        """A payload left wider than its format meets a unit that reads registers of the format."""
        a, b, *acc = (self.round(x.payload, x.format) for x in operation.operands)
        return tensor_core.matmul(a, b, *acc, kind=operation.attributes["kind"])
