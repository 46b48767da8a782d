"""What a reference is a program over: values, named operations, orders, launches."""

from __future__ import annotations

from exactness.arithmetic.base import Arithmetic, Launch, Operation, launch
from exactness.arithmetic.exact import Exact
from exactness.arithmetic.functions import (
    cast,
    concatenate,
    constant,
    div_full,
    dot,
    equal,
    erff,
    ex2_approx,
    expf,
    fma,
    max_,
    maximum,
    minimum,
    rcp_approx,
    rsqrt_approx,
    side_by_side,
    sqrt,
    sqrt_approx,
    sum_,
    take,
    tanhf,
    where,
    words,
)
from exactness.arithmetic.hopper import Hopper
from exactness.arithmetic.ieee import IEEE
from exactness.arithmetic.integers import Word
from exactness.arithmetic.orders import Order
from exactness.arithmetic.value import Value

__all__ = [
    "IEEE",
    "Arithmetic",
    "Exact",
    "Hopper",
    "Launch",
    "Operation",
    "Order",
    "Value",
    "Word",
    "cast",
    "concatenate",
    "constant",
    "div_full",
    "dot",
    "equal",
    "erff",
    "ex2_approx",
    "expf",
    "fma",
    "launch",
    "max_",
    "maximum",
    "minimum",
    "rcp_approx",
    "rsqrt_approx",
    "side_by_side",
    "sqrt",
    "sqrt_approx",
    "sum_",
    "take",
    "tanhf",
    "where",
    "words",
]
