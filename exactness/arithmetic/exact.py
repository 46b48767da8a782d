"""The same program without its roundings: how far is the baseline itself from the true value?

f64 stands for the real numbers: inputs and host constants are widened, nothing is rounded to a
format, special functions are f64's own. The distance of a baseline's bits from this result is a
property of the baseline, not of a port.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from exactness import arrays
from exactness.arithmetic.base import Operation
from exactness.arithmetic.ieee import IEEE
from exactness.arithmetic.value import Value
from exactness.arrays import Array
from exactness.formats import Format
from exactness.rounding import RNE, Rounding

_ERF = np.vectorize(math.erf, otypes=[np.float64])

_FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "ex2_approx": lambda x: arrays.namespace(x).exp2(x),
    "rsqrt_approx": lambda x: 1.0 / arrays.namespace(x).sqrt(x),
    "sqrt_approx": lambda x: arrays.namespace(x).sqrt(x),
    "rcp_approx": lambda x: 1.0 / x,
    "div_full": lambda x, y: x / y,
    "expf": lambda x: arrays.namespace(x).exp(x),
    "tanhf": lambda x: arrays.namespace(x).tanh(x),
    "erff": lambda x: _ERF(x) if arrays.is_numpy(x) else x.erf(),
}


class Exact(IEEE):
    """Operations in f64, unrounded; the format of a value is only its label."""

    name = "exact"

    def enter(self, payload: Array) -> Array:
        """Inputs in f64."""
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return arrays.astype(payload, "float64")

    def round(self, payload: Array, fmt: Format, mode: Rounding = RNE) -> Array:
        """No rounding."""
        return payload

    def perform(self, operation: Operation) -> Value:
        """As `IEEE`, with true functions for the hardware's approximations."""
        if operation.name in _FUNCTIONS:
            with np.errstate(all="ignore"):
                payload = _FUNCTIONS[operation.name](*operation.payloads)
            return Value(self, payload, operation.format)
        return super().perform(operation)

    def _constant(self, operation: Operation) -> Array:
        like = operation.attributes["like"]
        return arrays.full(like, (), float(operation.attributes["number"]), "float64")

    def _fma(self, operation: Operation) -> Array:
        a, b, c = operation.payloads
        return a * b + c

    def _dot(self, operation: Operation) -> Array:
        a, b, *acc = operation.payloads
        return sum(acc, a @ b)
